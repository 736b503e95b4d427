// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See set_encoder.h. Compiled twice: see lanes.h.
#include "set_encoder.h"

#include "learner/lanes.h"

#define H PV_SET_HIDDEN
#define BLOCK 4                    // objects processed together: each loaded weight is used 4 times
#define TILE (LANES == 16 ? 4 : 2) // vectors of outputs whose sums fit the registers
#define NOBODY 255

LANES_DECLARE(pv_set_encode);
LANES_DECLARE(pv_set_encode_grad);

LANES_INLINE lanes_floats relu(lanes_floats value) {
    return (lanes_floats)((lanes_ints)value & (value > 0.0f));
}

// Copies object j of a row into floats. Returns whether the slot is filled.
LANES_INLINE int read_object(const pv_set_field* field, uint64_t row, uint32_t j, float* to) {
    const uint64_t at = row * field->row_stride + (uint64_t)j * field->features;
    uint32_t any = 0;
    for (uint32_t k = 0; k < field->features; k++) {
        uint32_t bits;
        if (field->is_bf16)
            bits = (uint32_t)((const uint16_t*)field->values)[at + k] << 16;
        else
            memcpy(&bits, (const float*)field->values + at + k, sizeof bits);
        any |= bits << 1; // without the sign: minus zero is zero
        memcpy(to + k, &bits, sizeof bits);
    }
    return any != 0;
}

LANES_INLINE void hidden_layer(const float* first,
                               uint32_t features,
                               const float* object,
                               float* hidden) {
    for (uint32_t v = 0; v < H; v += LANES) {
        lanes_floats sum = load(first + features * H + v);
        for (uint32_t k = 0; k < features; k++)
            sum += object[k] * load(first + k * H + v);
        store(hidden + v, relu(sum));
    }
}

// Computes the hidden layer of BLOCK objects in parallel: their sums do not wait for each other.
LANES_INLINE void hidden_block(const float* first,
                               uint32_t features,
                               float objects[BLOCK][PV_SET_MOST_FEATURES + 1],
                               float hidden[BLOCK][H]) {
    for (uint32_t v = 0; v < H; v += LANES) {
        lanes_floats sums[BLOCK];
        for (uint32_t o = 0; o < BLOCK; o++)
            sums[o] = load(first + features * H + v);
        for (uint32_t k = 0; k < features; k++) {
            lanes_floats weight = load(first + k * H + v);
            for (uint32_t o = 0; o < BLOCK; o++)
                sums[o] += objects[o][k] * weight;
        }
        for (uint32_t o = 0; o < BLOCK; o++)
            store(hidden[o] + v, relu(sums[o]));
    }
}

// Folds the outputs of BLOCK objects, from column c on, into the running maximum of one row: as
// many as fit into `vectors` vectors, at most TILE.
LANES_INLINE void fold_tile(float hidden[BLOCK][H],
                            const int32_t numbers[BLOCK],
                            const float* second,
                            uint32_t width,
                            uint32_t vectors,
                            uint32_t c,
                            float* best,
                            int32_t* winner) {
    lanes_floats sums[BLOCK][TILE] = {0};
    for (uint32_t i = 0; i < H; i++) {
        for (uint32_t v = 0; v < vectors; v++) {
            lanes_floats weight = load(second + i * width + c + v * LANES);
            for (uint32_t o = 0; o < BLOCK; o++)
                sums[o][v] += hidden[o][i] * weight;
        }
    }
    for (uint32_t v = 0; v < vectors; v++) {
        const uint32_t at = c + v * LANES;
        lanes_floats top = load(best + at);
        lanes_ints who = *(const lanes_ints*)(const void*)(winner + at);
        for (uint32_t o = 0; o < BLOCK; o++) {
            lanes_ints higher = sums[o][v] > top;
            top = (lanes_floats)(((lanes_ints)sums[o][v] & higher) | ((lanes_ints)top & ~higher));
            who = (numbers[o] & higher) | (who & ~higher);
        }
        store(best + at, top);
        *(lanes_ints*)(void*)(winner + at) = who;
    }
}

// Folds BLOCK objects into the running maximum of one row.
LANES_INLINE void fold(float hidden[BLOCK][H],
                       const int32_t numbers[BLOCK],
                       const float* second,
                       uint32_t width,
                       float* best,
                       int32_t* winner) {
    const uint32_t vectors = width < TILE * LANES ? width / LANES : TILE;
    for (uint32_t c = 0; c < width; c += vectors * LANES)
        fold_tile(hidden, numbers, second, width, vectors, c, best, winner);
}

// Turns (rows, columns) into (columns, rows).
LANES_INLINE void transpose(const float* from, uint32_t rows, uint32_t columns, float* to) {
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t column = 0; column < columns; column++)
            to[column * rows + row] = from[row * columns + column];
    }
}

// The caller's `width` is a constant: the loops over the outputs have a fixed length.
LANES_INLINE void encode(
    const pv_set_field* field, uint32_t width, uint64_t rows, float* out, uint64_t out_stride) {
    float first[(PV_SET_MOST_FEATURES + 1) * H], second[H * PV_SET_WIDE];
    float hidden[BLOCK][H] __attribute__((aligned(64))) = {{0}};
    float objects[BLOCK][PV_SET_MOST_FEATURES + 1] = {{0}};
    transpose(field->first, H, field->features + 1, first);
    transpose(field->second, width, H, second);
    for (uint64_t row = 0; row < rows; row++) {
        float best[PV_SET_WIDE] = {0};
        int32_t winner[PV_SET_WIDE], numbers[BLOCK] = {0};
        uint32_t held = 0;
        for (uint32_t c = 0; c < width; c++)
            winner[c] = NOBODY;
        for (uint32_t j = 0; j < field->objects; j++) {
            if (!read_object(field, row, j, objects[held]))
                continue;
            numbers[held++] = (int32_t)j;
            if (held == BLOCK) {
                hidden_block(first, field->features, objects, hidden);
                fold(hidden, numbers, second, width, best, winner);
                held = 0;
            }
        }
        if (held) { // the rest of the block is set to zeros, which never win
            hidden_block(first, field->features, objects, hidden);
            memset(hidden[held], 0, (BLOCK - held) * sizeof hidden[0]);
            fold(hidden, numbers, second, width, best, winner);
        }
        memcpy(out + row * out_stride, best, width * sizeof *best);
        if (!field->winners)
            continue;
        for (uint32_t c = 0; c < width; c++)
            field->winners[row * width + c] = (uint8_t)winner[c];
    }
}

LANES_INLINE void encode_grad(const pv_set_field* field,
                              uint32_t width,
                              uint64_t rows,
                              const float* out_grad,
                              uint64_t out_stride) {
    float first[(PV_SET_MOST_FEATURES + 1) * H], first_grad[(PV_SET_MOST_FEATURES + 1) * H] = {0};
    float objects[PV_SET_MOST_OBJECTS][PV_SET_MOST_FEATURES + 1];
    float hidden[PV_SET_MOST_OBJECTS][H], hidden_grad[PV_SET_MOST_OBJECTS][H];
    const uint32_t features = field->features;
    float* second_grad = field->second_grad;
    transpose(field->first, H, features + 1, first);
    memset(second_grad, 0, width * H * sizeof *second_grad);
    for (uint64_t row = 0; row < rows; row++) {
        uint64_t known = 0; // bit j: object j won an output, and hidden[j] has its hidden layer
        for (uint32_t c = 0; c < width; c++) {
            const uint32_t j = field->winners[row * width + c];
            const float grad = out_grad[row * out_stride + c];
            if (j == NOBODY)
                continue;
            if (!(known >> j & 1)) {
                known |= 1ull << j;
                read_object(field, row, j, objects[j]);
                hidden_layer(first, features, objects[j], hidden[j]);
                memset(hidden_grad[j], 0, sizeof hidden_grad[j]);
            }
            for (uint32_t v = 0; v < H; v += LANES) {
                store(second_grad + c * H + v,
                      load(second_grad + c * H + v) + grad * load(hidden[j] + v));
                store(hidden_grad[j] + v,
                      load(hidden_grad[j] + v) + grad * load(field->second + c * H + v));
            }
        }
        for (; known; known &= known - 1) {
            const uint32_t j = (uint32_t)__builtin_ctzll(known);
            for (uint32_t v = 0; v < H; v += LANES) {
                lanes_floats grad = (lanes_floats)((lanes_ints)load(hidden_grad[j] + v) &
                                                   (load(hidden[j] + v) > 0.0f));
                for (uint32_t k = 0; k < features; k++) {
                    store(first_grad + k * H + v,
                          load(first_grad + k * H + v) + objects[j][k] * grad);
                }
                float* constant = first_grad + features * H + v;
                store(constant, load(constant) + grad);
            }
        }
    }
    transpose(first_grad, features + 1, H, field->first_grad);
}

LANES_KERNEL
void AT_WIDTH(pv_set_encode)(
    const pv_set_field* fields, uint32_t count, uint32_t width, uint64_t rows, float* out) {
    const uint64_t stride = (uint64_t)count * width;
    for (uint32_t f = 0; f < count; f++, out += width) {
        if (width == PV_SET_NARROW)
            encode(&fields[f], PV_SET_NARROW, rows, out, stride);
        else
            encode(&fields[f], PV_SET_WIDE, rows, out, stride);
    }
}

LANES_KERNEL
void AT_WIDTH(pv_set_encode_grad)(const pv_set_field* fields,
                                  uint32_t count,
                                  uint32_t width,
                                  uint64_t rows,
                                  const float* out_grad) {
    const uint64_t stride = (uint64_t)count * width;
    for (uint32_t f = 0; f < count; f++, out_grad += width) {
        if (width == PV_SET_NARROW)
            encode_grad(&fields[f], PV_SET_NARROW, rows, out_grad, stride);
        else
            encode_grad(&fields[f], PV_SET_WIDE, rows, out_grad, stride);
    }
}

#if !defined(WIDE)

void pv_set_encode(
    const pv_set_field* fields, uint32_t count, uint32_t width, uint64_t rows, float* out) {
    LANES_CHOOSE(pv_set_encode)(fields, count, width, rows, out);
}

void pv_set_encode_grad(const pv_set_field* fields,
                        uint32_t count,
                        uint32_t width,
                        uint64_t rows,
                        const float* out_grad) {
    LANES_CHOOSE(pv_set_encode_grad)(fields, count, width, rows, out_grad);
}

#endif

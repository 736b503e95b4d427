// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See set_encoder.h. Unlike in the envs, fused multiply-adds are welcome here: we do not promise
// that a policy's arithmetic gives the same bytes on all machines. Everything is written in vectors
// of 16 floats, which the compiler splits where registers are shorter.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

#include "set_encoder.h"

#include <string.h>

#define H PV_SET_HIDDEN
#define C PV_SET_WIDTH
#define LANES 16
#define BLOCK 4 // objects processed together, so that each loaded weight is used four times
#define NOBODY 255

typedef float f16 __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t i16 __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define SET_INLINE static inline __attribute__((always_inline))

#if defined(PV_HAS_CLONES)
#define SET_CLONES \
    __attribute__((target_clones("default", "arch=x86-64-v3", \
                                 "arch=x86-64-v4"))) // v3 and v4 have fused multiply-add
#else
#define SET_CLONES
#endif

SET_INLINE f16 load(const float* from) {
    return *(const f16*)(const void*)from;
}

SET_INLINE void store(float* to, f16 value) {
    *(f16*)(void*)to = value;
}

SET_INLINE f16 relu(f16 value) {
    return (f16)((i16)value & (value > 0.0f));
}

// Copies object j of a row into floats. Returns whether the slot is filled.
SET_INLINE int read_object(const pv_set_rows* rows, uint64_t row, uint32_t j, float* to) {
    const uint64_t at = row * rows->row_stride + (uint64_t)j * rows->features;
    uint32_t any = 0;
    for (uint32_t k = 0; k < rows->features; k++) {
        uint32_t bits;
        if (rows->is_bf16)
            bits = (uint32_t)((const uint16_t*)rows->values)[at + k] << 16;
        else
            memcpy(&bits, (const float*)rows->values + at + k, sizeof bits);
        any |= bits << 1; // without the sign: minus zero is zero
        memcpy(to + k, &bits, sizeof bits);
    }
    return any != 0;
}

SET_INLINE void hidden_layer(const float* first,
                             uint32_t features,
                             const float* object,
                             float* hidden) {
    for (uint32_t v = 0; v < H; v += LANES) {
        f16 sum = load(first + features * H + v);
        for (uint32_t k = 0; k < features; k++)
            sum += object[k] * load(first + k * H + v);
        store(hidden + v, relu(sum));
    }
}

// Computes the hidden layer of BLOCK objects in parallel: their sums do not wait for each other.
SET_INLINE void hidden_block(const float* first,
                             uint32_t features,
                             float objects[BLOCK][PV_SET_MOST_FEATURES + 1],
                             float hidden[BLOCK][H]) {
    for (uint32_t v = 0; v < H; v += LANES) {
        f16 sums[BLOCK];
        for (uint32_t o = 0; o < BLOCK; o++)
            sums[o] = load(first + features * H + v);
        for (uint32_t k = 0; k < features; k++) {
            f16 weight = load(first + k * H + v);
            for (uint32_t o = 0; o < BLOCK; o++)
                sums[o] += objects[o][k] * weight;
        }
        for (uint32_t o = 0; o < BLOCK; o++)
            store(hidden[o] + v, relu(sums[o]));
    }
}

// Folds BLOCK objects into the running maximum of one row.
SET_INLINE void fold(float hidden[BLOCK][H],
                     const int32_t numbers[BLOCK],
                     const float* second,
                     float* best,
                     int32_t* winner) {
    f16 sums[BLOCK][C / LANES] = {0};
    for (uint32_t i = 0; i < H; i++) {
        for (uint32_t v = 0; v < C / LANES; v++) {
            f16 weight = load(second + i * C + v * LANES);
            for (uint32_t o = 0; o < BLOCK; o++)
                sums[o][v] += hidden[o][i] * weight;
        }
    }
    for (uint32_t v = 0; v < C / LANES; v++) {
        f16 top = load(best + v * LANES);
        i16 who = *(const i16*)(const void*)(winner + v * LANES);
        for (uint32_t o = 0; o < BLOCK; o++) {
            i16 higher = sums[o][v] > top;
            top = (f16)(((i16)sums[o][v] & higher) | ((i16)top & ~higher));
            who = (numbers[o] & higher) | (who & ~higher);
        }
        store(best + v * LANES, top);
        *(i16*)(void*)(winner + v * LANES) = who;
    }
}

SET_CLONES
void pv_set_encode(const pv_set_rows* rows,
                   const float* first,
                   const float* second,
                   float* out,
                   uint8_t* winners) {
    float hidden[BLOCK][H] __attribute__((aligned(64))) = {{0}};
    float objects[BLOCK][PV_SET_MOST_FEATURES + 1] = {{0}};
    for (uint64_t row = 0; row < rows->count; row++) {
        float best[C] = {0};
        int32_t winner[C], numbers[BLOCK] = {0};
        uint32_t held = 0;
        for (uint32_t c = 0; c < C; c++)
            winner[c] = NOBODY;
        for (uint32_t j = 0; j < rows->objects; j++) {
            if (!read_object(rows, row, j, objects[held]))
                continue;
            numbers[held++] = (int32_t)j;
            if (held == BLOCK) {
                hidden_block(first, rows->features, objects, hidden);
                fold(hidden, numbers, second, best, winner);
                held = 0;
            }
        }
        if (held) { // the rest of the block is set to zeros, which never win
            hidden_block(first, rows->features, objects, hidden);
            memset(hidden[held], 0, (BLOCK - held) * sizeof hidden[0]);
            fold(hidden, numbers, second, best, winner);
        }
        memcpy(out + row * C, best, sizeof best);
        if (!winners)
            continue;
        for (uint32_t c = 0; c < C; c++)
            winners[row * C + c] = (uint8_t)winner[c];
    }
}

SET_CLONES
void pv_set_encode_grad(const pv_set_rows* rows,
                        const float* first,
                        const float* second,
                        const float* out_grad,
                        const uint8_t* winners,
                        float* first_grad,
                        float* second_grad) {
    float objects[PV_SET_MOST_OBJECTS][PV_SET_MOST_FEATURES + 1];
    float hidden[PV_SET_MOST_OBJECTS][H], hidden_grad[PV_SET_MOST_OBJECTS][H];
    for (uint64_t row = 0; row < rows->count; row++) {
        uint64_t known = 0; // bit j: object j won an output, and hidden[j] has its hidden layer
        for (uint32_t c = 0; c < C; c++) {
            const uint32_t j = winners[row * C + c];
            const float grad = out_grad[row * C + c];
            if (j == NOBODY)
                continue;
            if (!(known >> j & 1)) {
                known |= 1ull << j;
                read_object(rows, row, j, objects[j]);
                hidden_layer(first, rows->features, objects[j], hidden[j]);
                memset(hidden_grad[j], 0, sizeof hidden_grad[j]);
            }
            for (uint32_t v = 0; v < H; v += LANES) {
                store(second_grad + c * H + v,
                      load(second_grad + c * H + v) + grad * load(hidden[j] + v));
                store(hidden_grad[j] + v,
                      load(hidden_grad[j] + v) + grad * load(second + c * H + v));
            }
        }
        for (; known; known &= known - 1) {
            const uint32_t j = (uint32_t)__builtin_ctzll(known);
            for (uint32_t v = 0; v < H; v += LANES) {
                f16 grad = (f16)((i16)load(hidden_grad[j] + v) & (load(hidden[j] + v) > 0.0f));
                for (uint32_t k = 0; k < rows->features; k++) {
                    store(first_grad + k * H + v,
                          load(first_grad + k * H + v) + objects[j][k] * grad);
                }
                float* constant = first_grad + rows->features * H + v;
                store(constant, load(constant) + grad);
            }
        }
    }
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See convolution.h. Compiled twice: see lanes.h.
#include "convolution.h"

#include "learner/lanes.h"

#define BLOCK (2 * LANES)          // output channels processed together
#define TILE (LANES == 16 ? 8 : 6) // output positions, too: their sums fit the registers

LANES_DECLARE(pv_convolution_workspace);
LANES_DECLARE(pv_convolve);

// Sizes derived from those of a call, per group.
typedef struct sizes {
    uint32_t in, out, blocks; // channels, and blocks of them
    uint32_t taps;            // weights of one output channel
    uint32_t rows, columns;   // of an image with its padding
    int padded;
} sizes;

static sizes sizes_of(const pv_convolution* s) {
    sizes z;
    z.in = s->in_channels / s->groups;
    z.out = s->out_channels / s->groups;
    z.blocks = (z.out + BLOCK - 1) / BLOCK;
    z.taps = z.in * s->kernel[0] * s->kernel[1];
    z.rows = s->height + 2 * s->padding[0];
    z.columns = s->width + 2 * s->padding[1];
    z.padded = s->padding[0] || s->padding[1];
    return z;
}

static uint64_t packed_floats(const pv_convolution* s, const sizes* z) {
    return (uint64_t)s->groups * z->blocks * z->taps * BLOCK;
}

uint64_t AT_WIDTH(pv_convolution_workspace)(const pv_convolution* shape) {
    sizes z = sizes_of(shape);
    return packed_floats(shape, &z) +
           (z.padded ? (uint64_t)shape->in_channels * z.rows * z.columns : 0);
}

// Lays weights out: (groups, out, taps) -> (groups, blocks, taps, BLOCK); absent channels have
// weight 0.
static void pack(const pv_convolution* s, const sizes* z, const float* weights, float* packed) {
    for (uint32_t g = 0; g < s->groups; g++) {
        for (uint32_t b = 0; b < z->blocks; b++) {
            for (uint32_t t = 0; t < z->taps; t++) {
                for (uint32_t o = 0; o < BLOCK; o++) {
                    uint32_t channel = b * BLOCK + o;
                    const float* from = weights + ((uint64_t)g * z->out + channel) * z->taps + t;
                    *packed++ = channel < z->out ? *from : 0.0f;
                }
            }
        }
    }
}

// Copies an image with zeros around each channel.
static void pad(const pv_convolution* s, const sizes* z, const float* image, float* to) {
    memset(to, 0, sizeof(float) * s->in_channels * z->rows * z->columns);
    for (uint32_t c = 0; c < s->in_channels; c++) {
        for (uint32_t y = 0; y < s->height; y++) {
            float* row =
                to + ((uint64_t)c * z->rows + y + s->padding[0]) * z->columns + s->padding[1];
            memcpy(row, image + ((uint64_t)c * s->height + y) * s->width, sizeof(float) * s->width);
        }
    }
}

// Computes the sums of TILE output positions, which begin at image + at[i], for one block of
// channels.
LANES_INLINE void tile(const pv_convolution* s,
                       const sizes* z,
                       const float* image,
                       const uint32_t at[TILE],
                       const float* packed,
                       float sums[TILE][BLOCK]) {
    lanes_floats low[TILE] = {0}, high[TILE] = {0};
    for (uint32_t c = 0; c < z->in; c++) {
        for (uint32_t i = 0; i < s->kernel[0]; i++) {
            const float* row =
                image + ((uint64_t)c * z->rows + (uint64_t)i * s->dilation[0]) * z->columns;
            for (uint32_t j = 0; j < s->kernel[1]; j++, packed += BLOCK) {
                const float* tap = row + (uint64_t)j * s->dilation[1];
                lanes_floats first = load(packed), second = load(packed + LANES);
                for (uint32_t p = 0; p < TILE; p++) {
                    float x = tap[at[p]];
                    low[p] += x * first;
                    high[p] += x * second;
                }
            }
        }
    }
    for (uint32_t p = 0; p < TILE; p++) {
        memcpy(sums[p], &low[p], sizeof low[p]);
        memcpy(sums[p] + LANES, &high[p], sizeof high[p]);
    }
}

// Computes one block of output channels of one image; `channels` of them exist.
LANES_INLINE void block(const pv_convolution* s,
                        const sizes* z,
                        const float* image,
                        const float* packed,
                        const float* bias,
                        uint32_t channels,
                        float* out) {
    const uint32_t positions = s->out_height * s->out_width;
    for (uint32_t begin = 0; begin < positions; begin += TILE) {
        uint32_t at[TILE], count = positions - begin < TILE ? positions - begin : TILE;
        float sums[TILE][BLOCK];
        for (uint32_t p = 0; p < TILE; p++) { // behind the last position, repeat that one
            uint32_t k = begin + (p < count ? p : count - 1);
            at[p] = k / s->out_width * s->stride[0] * z->columns + k % s->out_width * s->stride[1];
        }
        tile(s, z, image, at, packed, sums);
        for (uint32_t o = 0; o < channels; o++) {
            float add = bias ? bias[o] : 0.0f;
            for (uint32_t p = 0; p < count; p++)
                out[(uint64_t)o * positions + begin + p] = sums[p][o] + add;
        }
    }
}

LANES_KERNEL
void AT_WIDTH(pv_convolve)(const pv_convolution* shape,
                           const float* images,
                           const float* weights,
                           const float* bias,
                           float* workspace,
                           float* out) {
    const sizes z = sizes_of(shape);
    const uint64_t image_floats = (uint64_t)shape->in_channels * shape->height * shape->width;
    const uint64_t positions = (uint64_t)shape->out_height * shape->out_width;
    float* padded = workspace + packed_floats(shape, &z);
    pack(shape, &z, weights, workspace);
    for (uint32_t n = 0; n < shape->images; n++) {
        const float* image = images + n * image_floats;
        if (z.padded)
            pad(shape, &z, image, padded);
        const float* whole = z.padded ? padded : image;
        for (uint32_t g = 0; g < shape->groups; g++) {
            for (uint32_t b = 0; b < z.blocks; b++) {
                const uint32_t first = b * BLOCK,
                               channels = z.out - first < BLOCK ? z.out - first : BLOCK;
                const uint64_t channel = (uint64_t)g * z.out + first;
                block(shape, &z, whole + (uint64_t)g * z.in * z.rows * z.columns,
                      workspace + ((uint64_t)g * z.blocks + b) * z.taps * BLOCK,
                      bias ? bias + channel : NULL, channels,
                      out + (n * shape->out_channels + channel) * positions);
            }
        }
    }
}

#if !defined(WIDE)

uint64_t pv_convolution_workspace(const pv_convolution* shape) {
    return LANES_CHOOSE(pv_convolution_workspace)(shape);
}

void pv_convolve(const pv_convolution* shape,
                 const float* images,
                 const float* weights,
                 const float* bias,
                 float* workspace,
                 float* out) {
    LANES_CHOOSE(pv_convolve)(shape, images, weights, bias, workspace, out);
}

#endif

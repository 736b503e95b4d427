// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for the header with which envs of PufferLib 4.0 and 5.0 write bf16 observations. A bf16
// is the upper half of a float.
#pragma once

#include <stdint.h>
#include <string.h>

typedef uint16_t bf16;

static inline float bf16_to_f32(bf16 half) {
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline bf16 f32_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bf16)(bits >> 16);
}

#ifdef __AVX2__ // only with -mavx2 or the like in PUFFERVEC_OCEAN_FLAGS
#include <immintrin.h>

static inline void store_f32x8_as_bf16(bf16* out, __m256 values) {
    float floats[8];
    _mm256_storeu_ps(floats, values);
    for (int i = 0; i < 8; i++)
        out[i] = f32_to_bf16(floats[i]);
}
#endif

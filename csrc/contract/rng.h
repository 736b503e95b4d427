// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Counter-based random numbers: a draw is a pure function of (env_seed, episode, step, draw). There
// is no generator state to save, and nothing depends on which worker ran an env or in which order.
// The env index is not in the key, so env 3 of reset(seed=10) equals a single env with seed 13.
//
// Philox-4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11,
// with the constants of the paper; tests/c/test_rng.py checks the known-answer vectors of its
// reference implementation.
#pragma once

#include "base.h"

/* [cffi] */
// Writes the four words of Philox-4x32-10 for a counter and key to `out` (for the tests).
void pv_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* [/cffi] */

static inline void pv_philox_inline(const uint32_t counter[4],
                                    const uint32_t key[2],
                                    uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u; // golden ratio
        k1 += 0xBB67AE85u; // sqrt(3) - 1
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// Returns 64 random bits.
static inline uint64_t pv_rng_u64(uint64_t env_seed,
                                  uint64_t episode,
                                  uint32_t step,
                                  uint32_t draw) {
    uint32_t counter[4] = {(uint32_t)episode, (uint32_t)(episode >> 32), step, draw};
    uint32_t key[2] = {(uint32_t)env_seed, (uint32_t)(env_seed >> 32)};
    uint32_t out[4];
    pv_philox_inline(counter, key, out);
    return (uint64_t)out[1] << 32 | out[0];
}

// Returns a uniform number in [0, 1), a multiple of 2^-24.
static inline float pv_rng_f32(uint64_t env_seed, uint64_t episode, uint32_t step, uint32_t draw) {
    return (float)(uint32_t)(pv_rng_u64(env_seed, episode, step, draw) >> 40) * 0x1p-24f;
}

// Returns a uniform number in [0, n), n > 0. The bias of the multiply-shift (at most n / 2^32)
// stays, so that a draw costs one call.
static inline uint32_t pv_rng_below(
    uint64_t env_seed, uint64_t episode, uint32_t step, uint32_t draw, uint32_t n) {
    return (uint32_t)((pv_rng_u64(env_seed, episode, step, draw) >> 32) * n >> 32);
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Distributions over the choices of an action, for sample.c and ppo_loss.c. The choices are
// processed in vectors, with our own exponential: libm's is a call per number.
#pragma once

#include "contract/base.h"

#include <math.h>
#include <string.h>

/* [cffi] */
enum {
    PV_MOST_CHOICES =
        4096, // of an action, over all its dims, each dim rounded up to PV_CHOICE_LANES
    PV_MOST_DIMS = 64,
    PV_CHOICE_LANES = 8
};

/* [/cffi] */

#define LANES PV_CHOICE_LANES
#define CHOICE_INLINE static inline __attribute__((always_inline))

typedef float fv __attribute__((vector_size(4 * LANES)));
typedef int32_t iv __attribute__((vector_size(4 * LANES)));

// The distribution over the choices of one dim; arrays are padded to whole vectors with choices of
// no weight.
typedef struct choices {
    uint32_t vectors;
    fv* logits;    // minus the largest one
    fv* shares;    // probabilities
    float log_sum; // of the shifted logits: log p = logit - log_sum
    float entropy;
} choices;

CHOICE_INLINE fv where(iv mask, fv yes, fv no) {
    return (fv)(((iv)yes & mask) | ((iv)no & ~mask));
}

// Returns e^x for x <= 0 within 2 units in the last place: 2^n times a polynomial on
// [-ln2/2, ln2/2] (Cephes' expf). x below -87 gives 0; NaN stays NaN.
CHOICE_INLINE fv exp_below_0(fv x) {
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to a whole number, which then
                                     // stands in the low bits
    iv tiny = x < -87.0f;
    x = where(tiny, (fv){0}, x);
    fv shifted = x * 1.44269504f + magic;
    fv n = shifted - magic;
    fv r = x - n * 0.693359375f + n * 2.12194440e-4f;
    fv p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return where(tiny, (fv){0}, p * (fv)(((iv)shifted + 127) << 23));
}

CHOICE_INLINE float sum_of(fv x) {
    float sum = 0.0f;
    for (int i = 0; i < LANES; i++)
        sum += x[i];
    return sum;
}

// Reads `count` logits and computes their distribution.
CHOICE_INLINE void read_choices(const float* logits, uint32_t count, choices* to) {
    fv* x = to->logits;
    to->vectors = (count + LANES - 1) / LANES;
    x[to->vectors - 1] = (fv){0} - INFINITY; // Not all of its lanes are overwritten.
    memcpy(x, logits, count * sizeof(float));
    fv largest = x[0];
    for (uint32_t v = 1; v < to->vectors; v++)
        largest = where(x[v] > largest, x[v], largest);
    float most = largest[0];
    for (int i = 1; i < LANES; i++)
        most = largest[i] > most ? largest[i] : most;
    fv sum = {0}, weighted = {0};
    for (uint32_t v = 0; v < to->vectors; v++) {
        x[v] -= most;
        x[v] = where(x[v] < -1e30f, (fv){0} - 1e30f,
                     x[v]); // An infinite one would make 0 * inf below.
        fv e = exp_below_0(x[v]);
        to->shares[v] = e;
        sum += e;
        weighted += e * x[v];
    }
    float total = sum_of(sum);
    for (uint32_t v = 0; v < to->vectors; v++)
        to->shares[v] *= 1.0f / total;
    to->log_sum = logf(total);
    to->entropy = to->log_sum - sum_of(weighted) / total;
}

// Points the distributions of `dims` dims at consecutive parts of `room`.
CHOICE_INLINE void lay_out(choices* of,
                           const uint32_t* sizes,
                           uint32_t dims,
                           fv room[2][PV_MOST_CHOICES / LANES]) {
    uint32_t used = 0;
    for (uint32_t d = 0; d < dims; d++) {
        of[d].logits = room[0] + used;
        of[d].shares = room[1] + used;
        used += (sizes[d] + LANES - 1) / LANES;
    }
}

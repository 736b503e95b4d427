// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Arithmetic that the envs' hot loops share. It uses only additions, multiplications and
// comparisons, in a fixed order (-ffp-contract=off, no reassociated sums), so that every vector
// width, every compiler and every libm gives the same bits.
#pragma once

#include "contract/base.h"

#include <string.h>

#define PV_INLINE static inline __attribute__((always_inline))

// Before a loop: none of the arrays that it writes overlaps another one, so the compiler need not
// check that at run time.
#if defined(__clang__)
#define PV_APART _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define PV_APART _Pragma("GCC ivdep")
#else
#define PV_APART
#endif

// Loops handle PV_LANES entries at a time. Where the compiler does not find the vectors, they are
// written out as PV_PIECES of PV_WIDTH. The compiler would split vectors wider than the target's
// element by element, so PV_WIDTH is the width that all machines have, or AVX2's where a variant
// for AVX2 exists (x86 machines from before 2013, without AVX2, take twice the time).
#define PV_LANES 16
#if defined(PV_HAS_CLONES) || defined(__AVX2__)
#define PV_WIDTH 8
#else
#define PV_WIDTH 4
#endif
#define PV_PIECES (PV_LANES / PV_WIDTH)
typedef int32_t pv_ints __attribute__((vector_size(4 * PV_WIDTH)));
typedef float pv_floats __attribute__((vector_size(4 * PV_WIDTH)));

PV_INLINE pv_floats pv_load(const float* at) {
    pv_floats v;
    memcpy(&v, at, sizeof v);
    return v;
}

// Returns the entries of `a` where the mask is -1, and those of `b` where it is 0.
PV_INLINE pv_floats pv_choose(pv_ints mask, pv_floats a, pv_floats b) {
    pv_ints one, other, both;
    pv_floats v;
    memcpy(&one, &a, sizeof one);
    memcpy(&other, &b, sizeof other);
    both = (one & mask) | (other & ~mask);
    memcpy(&v, &both, sizeof v);
    return v;
}

// Rounds to the nearest whole number, |v| < 2^22: adding 1.5 * 2^23 leaves no room for a fraction.
PV_INLINE float pv_round(float v) {
    return (v + 12582912.0f) - 12582912.0f;
}

// Computes sine and cosine for |angle| <= 8, with an absolute error below 2e-7. Polynomials of
// Cephes' sinf and cosf (S. Moshier) on [-pi/4, pi/4].
PV_INLINE void pv_sincos(float angle, float* sine, float* cosine) {
    float quarter = pv_round(angle * 0.636619772367581f);
    float r = ((angle - quarter * 1.5703125f) - quarter * 4.837512969970703125e-4f) -
              quarter * 7.549789948768648e-8f;
    int32_t quadrant = (int32_t)quarter;
    float z = r * r;
    float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    float c =
        ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
        0.5f * z + 1.0f;
    float a = (quadrant & 1) ? c : s, b = (quadrant & 1) ? s : c;
    *sine = (quadrant & 2) ? -a : a;
    *cosine = ((quadrant + 1) & 2) ? -b : b;
}

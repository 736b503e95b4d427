// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What the driving env's hot loops share: variants chosen at run time, vectors, sine and cosine. Only additions,
// multiplications, divisions, square roots and comparisons, in a fixed order (-ffp-contract=off, no reassociated sums), so that
// every variant, every compiler and every libm gives the same bits.
#pragma once

#include "../base.h"

#include <stdint.h>
#include <string.h>

#define DRIVE_INLINE static inline __attribute__((always_inline))

// Loops go over LANES entries at a time. Where the compiler does not see the vectors, they are written out as PIECES of WIDTH.
// Wider ones than the target has would be taken apart element by element, so WIDTH is what all machines have, or AVX2's where a
// variant for AVX2 exists (x86 machines older than that, of before 2013, take twice the time).
#define LANES 16
#if defined(PV_HAS_CLONES) || defined(__AVX2__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
#define PIECES (LANES / WIDTH)
typedef int32_t drive_vector __attribute__((vector_size(4 * WIDTH)));

#define DRIVE_PI 3.14159265358979f
#define HEADING_UNIT (DRIVE_PI / 32768.0f) // of pv_frame.heading
#define SPEED_UNIT 0.01f                   // of pv_frame.speed

// Largest multiple of 1 near v, |v| < 2^22: adding 1.5 * 2^23 leaves no room for a fraction.
DRIVE_INLINE float drive_round(float v) { return (v + 12582912.0f) - 12582912.0f; }

// Angle in [-pi, pi) for |angle| < 1e5.
DRIVE_INLINE float drive_wrap(float angle) {
    // 2 pi in two parts, the first with few digits, so that the product is exact for small turns
    float turns = drive_round(angle * 0.159154943091895f);
    float wrapped = (angle - turns * 6.28125f) - turns * 1.93530717958648e-3f;
    wrapped = wrapped >= DRIVE_PI ? wrapped - 2.0f * DRIVE_PI : wrapped;
    return wrapped < -DRIVE_PI ? -DRIVE_PI : wrapped;
}

// Sine and cosine, |angle| <= 4, absolute error below 2e-7. Polynomials of Cephes' sinf and cosf (S. Moshier) on [-pi/4, pi/4].
DRIVE_INLINE void drive_sincos(float angle, float* sine, float* cosine) {
    float quarter = drive_round(angle * 0.636619772367581f);
    float r = ((angle - quarter * 1.5703125f) - quarter * 4.837512969970703125e-4f) - quarter * 7.549789948768648e-8f;
    int32_t quadrant = (int32_t)quarter;
    float z = r * r;
    float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
    float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
    float a = (quadrant & 1) ? c : s, b = (quadrant & 1) ? s : c;
    *sine = (quadrant & 2) ? -a : a;
    *cosine = ((quadrant + 1) & 2) ? -b : b;
}

DRIVE_INLINE float drive_clamp(float v, float low, float high) {
    v = v < low ? low : v;
    return v > high ? high : v;
}

DRIVE_INLINE float drive_max(float a, float b) { return a > b ? a : b; }
DRIVE_INLINE float drive_min(float a, float b) { return a < b ? a : b; }
DRIVE_INLINE float drive_abs(float a) { return a < 0.0f ? -a : a; }
DRIVE_INLINE float drive_sqrt(float a) { return __builtin_sqrtf(a); } // exact by IEEE 754

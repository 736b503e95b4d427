// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What the driving env's hot loops share: vectors, angles, bounds. Only additions, multiplications, divisions, square roots
// and comparisons, in a fixed order, as in the header that it includes.
#pragma once

#include "../kernels.h"

#include <stdint.h>
#include <string.h>

#define DRIVE_PI 3.14159265358979f
#define HEADING_UNIT (DRIVE_PI / 32768.0f) // of pv_frame.heading
#define SPEED_UNIT 0.01f                   // of pv_frame.speed

// Angle in [-pi, pi) for |angle| < 1e5.
PV_INLINE float drive_wrap(float angle) {
    // 2 pi in two parts, the first with few digits, so that the product is exact for small turns
    float turns = pv_round(angle * 0.159154943091895f);
    float wrapped = (angle - turns * 6.28125f) - turns * 1.93530717958648e-3f;
    wrapped = wrapped >= DRIVE_PI ? wrapped - 2.0f * DRIVE_PI : wrapped;
    return wrapped < -DRIVE_PI ? -DRIVE_PI : wrapped;
}

PV_INLINE float drive_clamp(float v, float low, float high) {
    v = v < low ? low : v;
    return v > high ? high : v;
}

PV_INLINE float drive_max(float a, float b) { return a > b ? a : b; }
PV_INLINE float drive_min(float a, float b) { return a < b ? a : b; }
PV_INLINE float drive_abs(float a) { return a < 0.0f ? -a : a; }
PV_INLINE float drive_sqrt(float a) { return __builtin_sqrtf(a); } // exact by IEEE 754

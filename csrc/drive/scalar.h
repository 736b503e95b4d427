// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Scalar functions of the driving env's hot loops: angles and bounds. They use only
// additions, multiplications, divisions, square roots and comparisons, in a fixed order, as
// envs/kernels.h does.
#pragma once

#include "envs/kernels.h"

#include <stdint.h>
#include <string.h>

#define DRIVE_PI 3.14159265358979f
#define HEADING_UNIT (DRIVE_PI / 32768.0f) // of pv_frame.heading
#define SPEED_UNIT 0.01f                   // of pv_frame.speed

// Wraps an angle to [-pi, pi), for |angle| < 1e5.
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

PV_INLINE float drive_max(float a, float b) {
    return a > b ? a : b;
}

PV_INLINE float drive_min(float a, float b) {
    return a < b ? a : b;
}

PV_INLINE float drive_abs(float a) {
    return a < 0.0f ? -a : a;
}

PV_INLINE float drive_sqrt(float a) {
    return __builtin_sqrtf(a);
} // exact by IEEE 754

PV_INLINE float drive_sign(float magnitude, float of) {
    return of < 0.0f ? -drive_abs(magnitude) : drive_abs(magnitude);
}

// Returns the arc tangent, error below 3e-7. Polynomial of Cephes' atanf (S. Moshier) on
// [-tan(pi/8), tan(pi/8)].
PV_INLINE float drive_atan(float v) {
    float a = drive_abs(v);
    float base = a > 2.414213562373095f    ? 1.5707963267948966f
                 : a > 0.4142135623730950f ? 0.7853981633974483f
                                           : 0.0f;
    float r = a > 2.414213562373095f    ? -1.0f / a
              : a > 0.4142135623730950f ? (a - 1.0f) / (a + 1.0f)
                                        : a;
    float z = r * r;
    float p = ((8.05374449538e-2f * z - 1.38776856032e-1f) * z + 1.99777106478e-1f) * z -
              3.33329491539e-1f;
    return drive_sign(base + (p * z * r + r), v);
}

// Returns the angle of a direction, rad in [-pi, pi).
PV_INLINE float drive_angle(float ux, float uy) {
    float x = drive_abs(ux), y = drive_abs(uy);
    float angle =
        y <= x ? drive_atan(x > 0.0f ? y / x : 0.0f) : 0.5f * DRIVE_PI - drive_atan(x / y);
    angle = ux < 0.0f ? DRIVE_PI - angle : angle;
    return drive_wrap(uy < 0.0f ? -angle : angle);
}

// Returns the hyperbolic tangent, error below 3e-7. Polynomials of Cephes' tanhf and expf.
PV_INLINE float drive_tanh(float v) {
    float a = drive_min(drive_abs(v), 10.0f), z = a * a;
    float p = (((-5.70498872745e-3f * z + 2.06390887954e-2f) * z - 5.37397155531e-2f) * z +
               1.33314422036e-1f) *
              z;
    float small = (p - 3.33332819422e-1f) * z * a + a;
    float turns = pv_round(2.0f * a * 1.44269504088896341f); // exp(2 a) = 2^turns * exp(r)
    float r = (2.0f * a - turns * 0.693359375f) + turns * 2.12194440e-4f;
    float e = ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r +
                4.1665795894e-2f) *
                   r +
               1.6666665459e-1f) *
                  r +
              5.0000001201e-1f;
    int32_t bits = ((int32_t)turns + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    float large = 1.0f - 2.0f / ((e * r * r + r + 1.0f) * power + 1.0f);
    return drive_sign(a < 0.625f ? small : large, v);
}

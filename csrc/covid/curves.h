// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Exponential and logarithm in float64 from additions, multiplications and one division, so that
// every machine and every vector width gives the same bits, and loops over states become vectors.
// Largest relative error seen: 3e-16 (tests/c/test_covid_curves.py).
#pragma once

#include "envs/kernels.h"

#define COVID_LN2_HIGH \
    6.93147180369123816490e-01 // ln 2 in two parts; the first has 21 zeros behind it (fdlibm,
                               // e_exp.c)
#define COVID_LN2_LOW 1.90821492927058770002e-10
#define COVID_MOST_EXPONENT 700.0 // beyond it e^x is taken to be e^700 or e^-700

PV_INLINE uint64_t covid_bits(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

PV_INLINE double covid_from_bits(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// Returns e^x = 2^n e^r with |r| <= ln 2 / 2; Taylor series of e^r, whose first omitted term is
// below 5e-18.
PV_INLINE double covid_exp(double x) {
    const double round = 6755399441055744.0; // 1.5 * 2^52: adding it rounds to a whole number,
                                             // which then stands in the low bits
    x = x < -COVID_MOST_EXPONENT ? -COVID_MOST_EXPONENT : x;
    x = x > COVID_MOST_EXPONENT ? COVID_MOST_EXPONENT : x;
    const double shifted = x * 1.44269504088896340736 + round, n = shifted - round;
    const double r = (x - n * COVID_LN2_HIGH) - n * COVID_LN2_LOW;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * (r * r) + r; // e^r - 1
    const double power = covid_from_bits((covid_bits(shifted) + 1023) << 52);
    return power + power * p;
}

// Returns ln x for a normal x > 0: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and ln m = 2 artanh(s)
// with s = (m - 1) / (m + 1).
PV_INLINE double covid_log(double x) {
    const uint64_t half = 0x3FE6A09E667F3BCDull; // sqrt(1/2)
    const uint64_t bits = covid_bits(x), biased = (bits - half + (1024ull << 52)) >> 52; // e + 1024
    const double e =
        covid_from_bits(biased | 0x4330000000000000ull) - (4503599627370496.0 + 1024.0);
    const double m = covid_from_bits(bits - ((biased - 1024) << 52));
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 1.0 / 23.0;
    p = p * z + 1.0 / 21.0;
    p = p * z + 1.0 / 19.0;
    p = p * z + 1.0 / 17.0;
    p = p * z + 1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z + 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z + 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z + 1.0 / 3.0;
    return e * COVID_LN2_HIGH + (2.0 * (s + s * z * p) + e * COVID_LN2_LOW);
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The transposition of eight vectors of eight floats in registers, which turns records into columns
// and columns into records.
#pragma once

#include "kernels.h"

#define PV_EIGHT 8
typedef float pv_eight __attribute__((vector_size(4 * PV_EIGHT)));

// The elements of a (numbered 0 to 7) and b (8 to 15) that the last eight arguments name.
#if defined(__clang__) || __GNUC__ >= 12
#define PV_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t pv_eight_numbers __attribute__((vector_size(4 * PV_EIGHT)));
#define PV_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (pv_eight_numbers){__VA_ARGS__})
#endif

// Swaps v[row][column] and v[column][row]. Each of three rounds joins two vectors into two others,
// and keeps to the halves (128 bits) until the last, which is what the instructions can do. With
// the rows a to h:
//
//   before                  pairs                   fours                   after
//   a0 a1 a2 a3 | a4 ..     a0 b0 a1 b1 | a4 ..     a0 b0 c0 d0 | a4 ..     a0 b0 c0 d0 | e0 ..
//   b0 b1 b2 b3 | b4 ..     a2 b2 a3 b3 | a6 ..     a1 b1 c1 d1 | a5 ..     a1 b1 c1 d1 | e1 ..
//   c0 c1 c2 c3 | c4 ..     c0 d0 c1 d1 | c4 ..     a2 b2 c2 d2 | a6 ..     a2 b2 c2 d2 | e2 ..
//   d0 d1 d2 d3 | d4 ..     c2 d2 c3 d3 | c6 ..     a3 b3 c3 d3 | a7 ..     a3 b3 c3 d3 | e3 ..
//   e0 e1 e2 e3 | e4 ..     e0 f0 e1 f1 | e4 ..     e0 f0 g0 h0 | e4 ..     a4 b4 c4 d4 | e4 ..
//   ...
PV_INLINE void pv_transpose(pv_eight v[PV_EIGHT]) {
    pv_eight pairs[PV_EIGHT], fours[PV_EIGHT];
    for (int i = 0; i < PV_EIGHT; i += 2) {
        pairs[i] = PV_SHUFFLE(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pairs[i + 1] = PV_SHUFFLE(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < PV_EIGHT; i += 4) {
        for (int k = 0; k < 2; k++) {
            const pv_eight a = pairs[i + k], b = pairs[i + k + 2];
            fours[i + 2 * k] = PV_SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
            fours[i + 2 * k + 1] = PV_SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int i = 0; i < PV_EIGHT / 2; i++) {
        v[i] = PV_SHUFFLE(fours[i], fours[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        v[i + 4] = PV_SHUFFLE(fours[i], fours[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

// The same, element by element: what the vectors have to give (tests/c/test_transpose.py).
PV_INLINE void pv_transpose_plain(float v[PV_EIGHT][PV_EIGHT]) {
    for (int row = 0; row < PV_EIGHT; row++) {
        for (int column = 0; column < row; column++) {
            const float below = v[row][column];
            v[row][column] = v[column][row];
            v[column][row] = below;
        }
    }
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The operations of vectors.h as plain loops: what they compute, for readers and for
// tests/c/test_drive_vectors.py.
#pragma once

#include "contract/base.h"

// Writes the indices of the keys up to `limit`, of the given vectors of 16 or of the first `count`
// ones, and returns how many there are.
static inline uint32_t plain_list_up_to(
    const int32_t* keys, const uint32_t* vectors, uint32_t count, int32_t limit, uint32_t* to) {
    uint32_t listed = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t lane = 0; lane < 16; lane++) {
            const uint32_t place = 16 * (vectors ? vectors[i] : i) + lane;
            if (keys[place] <= limit)
                to[listed++] = place;
        }
    }
    return listed;
}

// Moves the squared distances up to a limit to the front, and writes where they were.
static inline uint32_t plain_keep_up_to(float* square,
                                        uint32_t vectors,
                                        float limit,
                                        uint32_t* index) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < 16 * vectors; i++) {
        if (square[i] > limit)
            continue;
        square[kept] = square[i];
        index[kept++] = i;
    }
    return kept;
}

// Turns 4 columns of 8 floats into the first 4 floats of 8 rows.
static inline void plain_transpose_half(const float (*columns)[8], float (*rows)[8]) {
    for (int c = 0; c < 4; c++) {
        for (int r = 0; r < 8; r++)
            rows[r][c] = columns[c][r];
    }
}

// Writes the first `columns` floats of `count` entries.
static inline void plain_write_row_entries(const float* origin,
                                           const float* straight,
                                           const float* crossed,
                                           const float* rows,
                                           const uint32_t* places,
                                           const uint32_t* index,
                                           uint32_t count,
                                           uint32_t columns,
                                           float* out) {
    for (uint32_t i = 0; i < count; i++) {
        const float* row = rows + 8 * (uint64_t)(index ? index[places[i]] : places[i]);
        for (uint32_t c = 0; c < columns; c++) {
            const uint32_t other = c % 2 ? c - 1 : c + 1;
            const float mine = row[c] - origin[c], others = row[other] - origin[other];
            out[i * columns + c] = mine * straight[c] + others * crossed[c];
        }
    }
}

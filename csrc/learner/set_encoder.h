// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The set encoder of the object-set policy on a CPU, fused: two layers shared by all objects of a
// field, then the maximum over the objects, forward and backward. Runs in several threads of the
// learner; owns no memory; path stop 7.
//
//   hidden_j = relu(first^T (x_j, 1))
//   out_c    = max(0, max_j second_c . hidden_j)
//
// with x_j: (K,) object j of a row. An all-zero object is an empty slot and is skipped.
//
// It is fast because no intermediate result reaches memory, empty slots cost nothing, and the
// backward pass follows only the object that won the maximum of each output, whose hidden layer it
// recomputes.
#pragma once

#include "contract/base.h"

/* [cffi] */
#define PV_SET_MOST_OBJECTS 64
#define PV_SET_MOST_FEATURES 31
#define PV_SET_HIDDEN 32 // H
#define PV_SET_WIDTH 64  // C

// Rows of one field. values: float32, or bfloat16 where is_bf16 is 1; row r begins at values + r *
// row_stride (in elements) and holds (objects, features).
typedef struct pv_set_rows {
    const void* values;
    uint64_t row_stride;
    uint64_t count;
    uint32_t objects, features;
    uint32_t is_bf16;
} pv_set_rows;

// first: (features + 1, H), the last row for the constant 1; second: (H, C). Writes out (count, C)
// and, unless it is NULL, winners (count, C): the object that gave each output, 255 where the
// output is 0.
void pv_set_encode(
    const pv_set_rows* rows, const float* first, const float* second, float* out, uint8_t* winners);
// Adds the gradients: first_grad (features + 1, H), second_grad (C, H). second: (C, H), transposed
// against pv_set_encode.
void pv_set_encode_grad(const pv_set_rows* rows,
                        const float* first,
                        const float* second,
                        const float* out_grad,
                        const uint8_t* winners,
                        float* first_grad,
                        float* second_grad);
/* [/cffi] */

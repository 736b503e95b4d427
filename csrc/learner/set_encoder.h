// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The set encoders of the object-set policy on a CPU, fused: two layers shared by all objects of a
// field, then the maximum over the objects, forward and backward, for all fields in one call. Runs
// in several threads of the learner; owns no memory. Stop 7 of an observation's path
// (ARCHITECTURE.md).
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
#define PV_SET_NARROW 32 // C: either this
#define PV_SET_WIDE 64   // or this, the same for all fields of a call

// One field of the rows, its encoder, and what a call writes for them.
typedef struct pv_set_field {
    const void* values;         // float32, or bfloat16 where is_bf16 is 1
    uint64_t row_stride;        // row r begins at values + r * row_stride (in elements)
    uint32_t objects, features; // a row holds (objects, features)
    uint32_t is_bf16;
    const float* first;  // (H, features + 1), the last column for the constant 1
    const float* second; // (C, H)
    uint8_t* winners;    // (rows, C), or NULL: the object that gave each output, 255 where it is 0
    float* first_grad;   // of the shapes of the weights; only for gradients
    float* second_grad;
} pv_set_field;

// Encodes the fields of some rows; `width` is C. Writes out (rows, fields, C), and the winners.
void pv_set_encode(
    const pv_set_field* fields, uint32_t count, uint32_t width, uint64_t rows, float* out);
// Writes the gradients of the weights. out_grad: (rows, fields, C).
void pv_set_encode_grad(const pv_set_field* fields,
                        uint32_t count,
                        uint32_t width,
                        uint64_t rows,
                        const float* out_grad);
/* [/cffi] */

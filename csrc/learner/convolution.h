// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// A CPU convolution that allocates no memory, for policies whose memory is planned in advance
// (puffervec/wings/plan/kernels.py): reordered weights and images, which oneDNN would put into
// memory of its own, go into a workspace that the caller has planned. Runs in several threads of
// the learner; owns no memory.
//
//   out[n, o, y, x] = bias[o] + sum over c, i, j of
//                     weights[o, c, i, j] * image[n, c, y * stride + i * dilation - padding, ...]
//
// It is fast because 32 output channels are two vectors, and each loaded weight is used for TILE
// output positions. The weights are laid out for that first (a small part of the work, repeated in
// each call, since an optimizer may have changed them).
#pragma once

#include "contract/base.h"

/* [cffi] */
// Channels count those of all groups. Pairs are (rows, columns).
typedef struct pv_convolution {
    uint32_t images, groups, in_channels, out_channels;
    uint32_t height, width, out_height, out_width;
    uint32_t kernel[2], stride[2], padding[2], dilation[2];
} pv_convolution;

// Returns how many floats of workspace pv_convolve needs.
uint64_t pv_convolution_workspace(const pv_convolution* shape);
// images: (images, in_channels, height, width); weights: (out_channels, in_channels / groups,
// kernel); bias: (out_channels) or NULL. Writes out (images, out_channels, out_height, out_width),
// which overlaps nothing else. All float32, in order of memory.
void pv_convolve(const pv_convolution* shape,
                 const float* images,
                 const float* weights,
                 const float* bias,
                 float* workspace,
                 float* out);
/* [/cffi] */

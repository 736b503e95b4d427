// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Draws of discrete actions from logits, in one pass (puffervec/train/policies/distributions.py).
// Runs in the learner; owns no memory.
#pragma once

#include "contract/base.h"

/* [cffi] */
// Draws for each row and dim the first choice whose cumulative probability exceeds a uniform number
// in [0, 1). A choice of probability 0 is never drawn; where logits are NaN the last choice is.
//
// logits: one array per dim, (rows, sizes[dim]); uniforms (rows, dims). Writes actions (rows, dims)
// and the log-probability of each row's action over all dims, log_probs (rows). See choices.h for
// limits.
void pv_sample(const float* const* logits,
               const uint32_t* sizes,
               uint32_t dims,
               uint32_t rows,
               const float* uniforms,
               int32_t* actions,
               float* log_probs);
/* [/cffi] */

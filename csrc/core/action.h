// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The border that actions cross: checks, casts and copies a batch into the slab's action rows in
// one pass. Runs in the learner.
#pragma once

#include "slab.h"

/* [cffi] */
// Copies (rows, D) actions of `dtype` into group `group` of `half`. Discrete kinds take any integer
// dtype; an index outside [0, size) becomes 0. Continuous takes PV_F32 or PV_F64; a non-finite
// value becomes 0, others are clipped to [low, high]. `source` may be the action rows themselves.
// Returns how many values were replaced (clipping is not counted).
uint64_t pv_actions_write(
    pv_slab* slab, uint32_t half, uint32_t group, const void* source, uint32_t dtype);
// Counts the values that pv_actions_write would replace and changes nothing; *first receives the
// flat index of the first one.
uint64_t pv_actions_check(const pv_slab* slab,
                          uint32_t half,
                          uint32_t group,
                          const void* source,
                          uint32_t dtype,
                          uint64_t* first);
/* [/cffi] */

// Worker side: turns `count` one-byte actions into the indices that envs read.
void pv_actions_widen(const uint8_t* from, int32_t* to, uint64_t count);

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Checks readable states on their way into an env (poke), as action.c checks actions. Runs in
// workers.
#pragma once

#include "contract/env.h"

/* [cffi] */
// Returns PV_OK if each number of a state, as peek writes it, is within the bounds of its field.
// Else sets the error as pv_block_error does, with the name, the number and the bounds. NaN is
// out of all bounds; PV_F16 is left to the env type.
int pv_state_check(pv_block* block, uint32_t env, const uint8_t* state);
/* [/cffi] */

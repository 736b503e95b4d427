// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Same-step autoreset around env types that only know next-step: what a worker does after their step. Types whose rows restart one
// by one set PV_OWN_AUTORESET and do it themselves.
#pragma once

#include "env.h"

// Bytes of scratch that a block needs: a mask byte per env; per row a reward and two flags, which the reset must not lose.
uint64_t pv_autoreset_scratch(const pv_block* block);
// Resets the envs that this step finished, in the same turn: their last observations go to final_observations, their rewards and
// flags stay those of the last step. Returns a result code.
int pv_autoreset_finished(const pv_env_type* type, pv_block* block, uint8_t* scratch);

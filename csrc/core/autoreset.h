// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Same-step autoreset for env types that only implement next-step autoreset: the work of a worker
// before and after their step. Types whose rows restart one by one set PV_OWN_AUTORESET and handle
// it themselves.
#pragma once

#include "contract/env.h"

// Bytes of scratch that a block needs: a mask byte per env; per row a reward and two flags, which
// the reset must not lose.
uint64_t pv_autoreset_scratch(const pv_block* block);
// Before a step: clears the flags of the last turn. An env type may write flags only where an
// episode ends and rely on its reset to clear them, but pv_autoreset_finished overwrites the flags
// of the reset with those of the last step.
void pv_autoreset_begin(const pv_block* block);
// After a step, for envs [first, first + count): keeps the last observations of rows that are done
// in final_observations, and resets the envs that this step finished, in the same turn; their
// rewards and flags stay those of the last step. Returns a result code.
int pv_autoreset_finished(
    const pv_env_type* type, pv_block* block, uint32_t first, uint32_t count, uint8_t* scratch);

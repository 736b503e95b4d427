// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The simulation limit that benchmarks compare with: one thread that calls the batch step in a
// tight loop on the same rows.
#pragma once

#include "worker.h"

/* [cffi] */
// Steps all envs of an open worker `steps` times without any channel, taking the action rows of
// turn k from `actions`, which holds `batches` batches of int32 (rows, D) each (group 0; other
// groups keep the actions in the slab). Returns the seconds it took.
double pv_bench_steps(pv_worker* worker, const int32_t* actions, uint32_t batches, uint32_t steps);
/* [/cffi] */

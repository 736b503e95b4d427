// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Debug builds (PV_DEBUG): a write outside a worker's rows is an error in the same turn. Release
// builds: nothing, at no cost.
//
// The rows of all workers lie side by side in the slab, in arrays that the learner sees as one;
// there is no room for a guard zone between two workers there, and the slab of a debug build is the
// slab of a release build. So a C env's block points at copies of its rows, each array on its own
// between two zones of a known pattern:
//
//   | zone | observations of this worker | zone |      | zone | rewards | zone |      ...
//
// Each command begins by copying the rows in and ends by checking the zones and copying the rows
// out. Under AddressSanitizer the zones are poisoned instead, so that the report has the stack of
// the write itself; and a worker process poisons the parts of the slab that it does not own. Python
// envs write through NumPy, which checks its indices, and keep their rows in the slab.
//
// The learner's side: sending a step fills the observation rows of the half with 0xFF (NaN for
// floats, the largest value or -1 for integers), so that a read before `recv` shows. The worker
// rewrites all rows from its copies, so results do not change.
#pragma once

#include "worker.h"

/* [cffi] */
// Declares that this process uses no part of the slab but this worker's; a worker process calls it
// once after pv_worker_open. Sanitized builds then report any other access; other builds do
// nothing.
void pv_worker_alone(pv_worker* worker);
// Returns 1 if this build checks for writes outside of rows.
int pv_has_guards(void);
/* [/cffi] */

#if defined(PV_DEBUG)
// Makes the copies of a block's rows and points the block at them. Returns PV_OK or
// PV_ERROR_MEMORY.
int pv_guard_open(pv_worker* worker, uint32_t half);
// Copies the rows of a block in. step: without observations, which the learner has spoiled.
void pv_guard_enter(pv_worker* worker, uint32_t half, int step);
// Copies the rows out and checks the zones. Returns `code`, or where that is PV_OK and a zone was
// written to, PV_ERROR_BOUNDS with its text in the error slot.
int pv_guard_leave(pv_worker* worker, uint32_t half, int code);
// Frees the copies of all blocks; ends the process where an env's close wrote into a zone.
void pv_guard_close(pv_worker* worker);
// Fills the observations of a half with 0xFF. Runs in the learner.
void pv_guard_spoil(pv_slab* slab, uint32_t half);
#else
static inline int pv_guard_open(pv_worker* worker, uint32_t half) {
    return (void)worker, (void)half, PV_OK;
}

static inline void pv_guard_enter(pv_worker* worker, uint32_t half, int step) {
    (void)worker, (void)half, (void)step;
}

static inline int pv_guard_leave(pv_worker* worker, uint32_t half, int code) {
    return (void)worker, (void)half, code;
}

static inline void pv_guard_close(pv_worker* worker) {
    (void)worker;
}

static inline void pv_guard_spoil(pv_slab* slab, uint32_t half) {
    (void)slab, (void)half;
}
#endif

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The worker's end of a turn, stop 2 of an observation's path: wait for a command, run it on the
// worker's envs, publish the result. The same code runs in a process, in a thread and, for the
// Serial backend, inside the learner itself. turn.h is the learner's end.
#pragma once

#include "channel.h"
#include "contract/env.h"
#include "placement.h"
#include "slab.h"

/* [cffi] */
// Actions of a group that are bytes in the slab, and the indices that the env type reads instead.
// count 0: there are none.
typedef struct pv_widened {
    const uint8_t* from;
    int32_t* to; // private to the worker
    uint64_t count;
} pv_widened;

typedef struct pv_worker {
    pv_slab* slab;
    const pv_env_type* type;
    pv_context context;
    uint32_t index;
    uint32_t ready;      // init succeeded
    uint32_t* seen;      // (num_buffers,) last command turn served, per half
    pv_block* blocks;    // (num_buffers,) env_count 0 where another worker serves the half
    pv_widened* widened; // (num_buffers, PV_MAX_GROUPS)
    uint8_t* scratch;    // reset masks, and the copies of autoreset.c, of the active block
    uint64_t scratch_bytes;
    pv_waiter waiter;
    pv_placement placement;
    void* guards; // of debug builds: see guard.h
} pv_worker;

// Makes the worker's env blocks (allocates their state) and runs init. Returns PV_OK or an error
// code with its text in the worker's error slot. data: shared read-only bytes, alive until
// pv_worker_close.
int pv_worker_open(pv_worker* worker,
                   void* slab,
                   uint32_t index,
                   const pv_env_type* type,
                   const uint8_t* data,
                   uint64_t data_bytes);
// Serves commands until PV_CLOSE. Blocks.
void pv_worker_run(pv_worker* worker);
// Serves the command in the line of `half` unless it has been served. Never waits.
void pv_worker_serve(pv_worker* worker, uint32_t half);
// For a worker that could not be opened: answers its first command with a failure, whose text is in
// the error slot.
void pv_worker_refuse(pv_worker* worker);
// Frees the env blocks. Safe after a failed open and when called twice.
void pv_worker_close(pv_worker* worker);
/* [/cffi] */

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Both ends of a turn. Worker side (stop 2 of an observation's path): wait for a command, run it on
// my envs, publish. Learner side: send a command to the workers of a half, wait for them. The same
// worker code runs in a process, in a thread and, for the Serial backend, inside the learner
// itself.
#pragma once

#include "channel.h"
#include "contract/env.h"
#include "placement.h"
#include "slab.h"

/* [cffi] */
// Actions of a group that are bytes in the slab, and the indices that the env type reads in their
// place. count 0: there are none.
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
    uint8_t* scratch;    // reset masks, and what autoreset.c keeps, of the block at work
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
// Serves the command in the line of `half` unless that was done before. Never waits.
void pv_worker_serve(pv_worker* worker, uint32_t half);
// For a worker that could not be opened: answers its first command with a failure, whose text is in
// the error slot.
void pv_worker_refuse(pv_worker* worker);
// The half whose command line carries control commands, which go to one worker alone: the first
// half that it serves.
uint32_t pv_control_half(const pv_slab* slab, uint32_t worker);
// Frees the env blocks. Safe after a failed open and when called twice.
void pv_worker_close(pv_worker* worker);

// Learner side. Sends a command to every worker of `half`.
void pv_turn_send(pv_slab* slab,
                  uint32_t half,
                  uint8_t semaphore,
                  uint8_t seeded,
                  uint32_t count,
                  pv_waiter* waiter);
// Sends a command to one worker.
void pv_turn_send_one(pv_slab* slab,
                      uint32_t worker,
                      uint32_t half,
                      uint8_t semaphore,
                      uint32_t first,
                      uint32_t count,
                      pv_waiter* waiter);
// pv_actions_write and pv_turn_send(PV_STEP) in one call, for envs with one group. Returns how many
// values were replaced.
uint64_t pv_turn_step(
    pv_slab* slab, uint32_t half, const void* actions, uint32_t dtype, pv_waiter* waiter);
// Waits for the workers of `half` up to `last_worker`, the last of them first, sleeping for at most
// slice_ns. Returns a negative number -1 - w if worker w is not done yet; else 0, plus
// PV_TURN_RECORDS if episode records stand in the slab, PV_TURN_INFOS if infos do, PV_TURN_FAILED
// if a worker reported an error, and PV_TURN_LOOK if waiter->look_ns has come.
int pv_turn_recv(pv_slab* slab,
                 uint32_t half,
                 uint32_t last_worker,
                 pv_waiter* waiter,
                 int64_t slice_ns,
                 int resume);
// What pv_turn_recv returns, for a half whose workers are all done.
int pv_turn_flags(const pv_slab* slab, uint32_t half, const pv_waiter* waiter);
// Waits until one of the halves whose byte in `pending` is 1 is done, looking from `first` on.
// Returns the half, or -1 after slice_ns of sleep. Needs a slab with any_order.
int pv_turn_recv_any(pv_slab* slab,
                     const uint8_t* pending,
                     uint32_t first,
                     pv_waiter* waiter,
                     int64_t slice_ns,
                     int resume);
// Waits for one worker; returns -1 - w, 0 or PV_TURN_FAILED.
int pv_turn_recv_one(
    pv_slab* slab, uint32_t worker, uint32_t half, pv_waiter* waiter, int64_t slice_ns, int resume);
#define PV_TURN_RECORDS 1
#define PV_TURN_FAILED 2
#define PV_TURN_INFOS 4
#define PV_TURN_LOOK 8
#define PV_ALL_WORKERS 0xFFFFFFFFu // as last_worker
/* [/cffi] */

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The learner's end of a turn: send a command to the workers of a half, wait until they are done.
// worker.h is the other end.
#pragma once

#include "channel.h"
#include "slab.h"

/* [cffi] */
// Sends a command to every worker of `half`.
void pv_turn_send(pv_slab* slab,
                  uint32_t half,
                  uint8_t semaphore,
                  uint8_t seeded,
                  uint32_t count,
                  pv_waiter* waiter);
// Sends a command to one worker. If it is the learner's own (waiter->own), it has run the
// command on return.
void pv_turn_send_one(pv_slab* slab,
                      uint32_t worker,
                      uint32_t half,
                      uint8_t semaphore,
                      uint32_t first,
                      uint32_t count,
                      pv_waiter* waiter);
// pv_actions_write and pv_turn_send(PV_STEP) in one call, for envs with one group.
void pv_turn_step(
    pv_slab* slab, uint32_t half, const void* source, uint32_t dtype, pv_waiter* waiter);
// Waits for the workers of `half` up to `last_worker`, the last of them first, sleeping for at most
// slice_ns. Returns a negative number -1 - w if worker w is not done yet; else 0, plus
// PV_TURN_RECORDS if the slab holds episode records, PV_TURN_INFOS if it holds infos,
// PV_TURN_FAILED if a worker reported an error, and PV_TURN_LOOK if waiter->look_ns has passed.
int pv_turn_recv(pv_slab* slab,
                 uint32_t half,
                 uint32_t last_worker,
                 pv_waiter* waiter,
                 int64_t slice_ns,
                 int resume);
// Returns what pv_turn_recv returns for a half whose workers are all done.
int pv_turn_flags(const pv_slab* slab, uint32_t half, const pv_waiter* waiter);
// Waits until one of the halves whose byte in `pending` is 1 is done, checking from `first` on.
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

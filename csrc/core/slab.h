// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stop 3 of an observation's path: where its bytes are. The slab is the one piece of memory that
// learner and workers share. Only this file and slab.c compute addresses in it. It holds no
// pointers, so each process may map it anywhere.
//
//   | pv_slab (head, spec) | config | params | tasks | seeds | reset masks |
//   | lines | counters | records | errors | transfers | infos | half 0 | half 1 | ... |
//
//   half (starts and ends on a page, so that it is pinned once and one copy takes it to a GPU):
//   | group 0: observations | rewards | terminals | truncations | masks | agent_types |
//   |          action_masks | final_observations |
//   | group 1: ... |
//   | actions |
//
// Each field is aligned to 64 bytes. A half holds envs [first_env, first_env + env_count) with
// their rows in env order, whatever the number of workers; a worker's rows are a contiguous range
// of them.
//
// Writers: the learner writes head, config, params, tasks, seeds, reset masks and command lines;
// a worker writes its rows, its status lines, counters, records, error slot and transfer region;
// actions are the learner's. Turns (channel.h) decide when.
#pragma once

#include "contract/base.h"
#include "contract/env.h"

/* [cffi] */
#define PV_SLAB_MAGIC 0x42414C5356465550ull // "PUFVSLAB"
#define PV_SPLIT_WORKERS 0                  // each half has its own workers
#define PV_SPLIT_ENVS 1                     // every worker serves a part of each half

// The sizes that pv_slab_layout turns into offsets.
typedef struct pv_slab_request {
    uint32_t num_envs;
    uint32_t num_workers;
    uint32_t
        num_buffers;     // halves: 1, 2 for double buffering, or more (each is still called a half)
    uint32_t split;      // PV_SPLIT_..., of several halves
    uint32_t autoreset;  // PV_NEXT_STEP...
    uint32_t any_order;  // 1: the learner takes halves as they become ready, and all workers ring
                         // one doorbell
    uint64_t info_bytes; // of one lane's info area (puffervec/core/info_area.py), 0 for C envs
    uint64_t config_bytes;
    uint64_t params_bytes;
} pv_slab_request;

// Byte offsets of one group's arrays of one half, from the slab's base. action_masks is 0 if the
// group has none, and final_observations is 0 unless the mode is same-step.
typedef struct pv_group_layout {
    uint64_t observations, rewards, terminals, truncations, masks, agent_types, action_masks,
        final_observations, actions;
    uint64_t rows;
} pv_group_layout;

typedef struct pv_half_layout {
    uint64_t offset, bytes; // of the half's block, multiples of the page
    uint32_t first_env, env_count;
    pv_group_layout groups[PV_MAX_GROUPS];
} pv_half_layout;

typedef struct pv_slab {
    uint64_t magic;
    uint32_t abi;
    uint32_t num_envs, num_workers, num_buffers, split, autoreset, any_order;
    uint32_t lanes;           // halves that one worker serves; a lane is a (worker, half) pair
    uint32_t record_capacity; // records per (worker, half)
    uint32_t transfer_envs;   // envs that fit into one transfer region
    uint32_t env_row_bytes;   // bytes of all rows of one env, as they are saved
    uint64_t bytes;           // of the whole slab
    uint64_t config_offset, config_bytes, params_offset, params_bytes;
    uint64_t tasks_offset;       // int64_t[num_envs]
    uint64_t seeds_offset;       // uint64_t[num_envs]
    uint64_t reset_masks_offset; // uint8_t[num_envs]
    uint64_t lines_offset;    // per lane: command line, status line; then one line that holds the
                              // doorbell of any_order
    uint64_t counters_offset; // uint64_t[lanes of all workers][PV_COUNTERS]
    uint64_t records_offset,
        record_area_bytes;  // per lane: uint32 count, uint32 dropped, pad to 64, records
    uint64_t errors_offset; // pv_error_slot[num_workers]
    uint64_t transfers_offset, transfer_bytes; // per worker
    uint64_t infos_offset,
        info_bytes; // per lane: a uint32 that is not 0 where there are infos, then what Python
                    // writes
    pv_half_layout halves[PV_MAX_BUFFERS];
    pv_spec spec;
} pv_slab;

typedef struct pv_error_slot {
    uint32_t code; // PV_ERROR_..., 0 none
    uint32_t
        env; // global index of the env that failed or is being worked on, PV_ALL_ENVS if unknown
    uint64_t turn;
    char text[PV_ERROR_TEXT];
} pv_error_slot;

// A contiguous range of envs.
typedef struct pv_span {
    uint32_t first_env, env_count;
} pv_span;

// Fills `slab` (head only, no memory touched behind it). Returns the bytes of the whole slab, or 0
// if the sizes overflow.
uint64_t pv_slab_layout(const pv_spec* spec, const pv_slab_request* request, pv_slab* slab);
// Returns the envs of `half` that `worker` serves; env_count 0 if none.
pv_span pv_slab_span(const pv_slab* slab, uint32_t worker, uint32_t half);
// Returns the workers that serve `half`: first_env is the first worker, env_count their number.
pv_span pv_slab_workers(const pv_slab* slab, uint32_t half);
// Returns the index of a (worker, half) pair among all lanes; the worker must serve the half.
uint64_t pv_slab_lane(const pv_slab* slab, uint32_t worker, uint32_t half);
// Return the byte offsets of a lane's record area and info area.
uint64_t pv_slab_records(const pv_slab* slab, uint32_t worker, uint32_t half);
uint64_t pv_slab_infos(const pv_slab* slab, uint32_t worker, uint32_t half);
// Fills the block of (worker, half) with addresses in this slab; context, state and spec stay as
// they are.
void pv_slab_block(pv_slab* slab, uint32_t worker, uint32_t half, pv_block* block);
/* [/cffi] */

// Returns whether the action rows of a group hold a byte per index, so that fewer cache lines move
// between cores. Env types still read int32 (worker.c widens the bytes), unless they have
// PV_BYTE_ACTIONS.
static inline int pv_has_byte_actions(const pv_group_spec* group) {
    if (group->action_kind != PV_DISCRETE && group->action_kind != PV_MULTI_DISCRETE)
        return 0;
    for (uint32_t d = 0; d < group->action_dims; d++)
        if (group->action_sizes[d] > PV_MOST_BYTE_CHOICES)
            return 0;
    return 1;
}

static inline uint64_t pv_action_bytes(const pv_group_spec* group) {
    if (group->action_kind == PV_RAW)
        return group->action_bytes;
    if (pv_has_byte_actions(group))
        return group->action_dims;
    return sizeof(int32_t) * (uint64_t)group->action_dims; // int32 and float32 are equally wide
}

static inline uint8_t* pv_slab_at(const pv_slab* slab, uint64_t offset) {
    PV_ASSERT(offset <= slab->bytes);
    return (uint8_t*)(uintptr_t)slab + offset;
}

static inline pv_error_slot* pv_slab_error(const pv_slab* slab, uint32_t worker) {
    return (pv_error_slot*)(void*)pv_slab_at(slab,
                                             slab->errors_offset + worker * sizeof(pv_error_slot));
}

static inline uint8_t* pv_slab_transfer(const pv_slab* slab, uint32_t worker) {
    return pv_slab_at(slab, slab->transfers_offset + worker * slab->transfer_bytes);
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// guard_main WHEN GROUP ARRAY PLACE DISTANCE: opens worker 0 of two on an env type whose code
// writes one byte near an array's edge, and prints the code of the turn and the text in the error
// slot. WHEN is init, reset, step, close, or never; PLACE is before, last (inside) or behind;
// DISTANCE counts from the edge, 0 being next to it. WHEN stray: the worker itself writes into the
// slab, DISTANCE bytes into the rewards of worker 1. Exits with 4 if the envs stay open.
#include "core/guard.h"
#include "core/turn.h"

#define PV_HELPER
#include "contract/env_helpers.h"

#include <stdlib.h>

static struct {
    const char *when, *array, *place;
    uint32_t group;
    int64_t distance;
} fault;

static int open_blocks;

static void write_beside(const pv_block* block, const char* when) {
    if (strcmp(when, fault.when) != 0)
        return;
    const pv_rows* rows = &block->rows[fault.group];

    const struct {
        const char* name;
        const void* start;
        uint64_t width;
    } arrays[] = {
        {"observations", rows->observations, rows->observation_bytes},
        {"rewards", rows->rewards, sizeof(float)},
        {"terminals", rows->terminals, 1},
        {"truncations", rows->truncations, 1},
        {"masks", rows->masks, 1},
        {"agent_types", rows->agent_types, 1},
        {"action_masks", rows->action_masks, block->spec->groups[fault.group].action_mask_size},
        {"final_observations", rows->final_observations, rows->observation_bytes},
        {"actions", rows->actions, sizeof(int32_t) * block->spec->groups[fault.group].action_dims},
    };

    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        if (strcmp(arrays[i].name, fault.array) != 0)
            continue;
        uint8_t* start = (uint8_t*)(uintptr_t)arrays[i].start;
        uint8_t* end = start + rows->count * arrays[i].width;
        if (strcmp(fault.place, "before") == 0)
            *(start - 1 - fault.distance) = 1;
        else if (strcmp(fault.place, "last") == 0)
            *(end - 1 - fault.distance) = 1;
        else
            *(end + fault.distance) = 1;
    }
}

static uint64_t env_bytes(const pv_context* context, uint32_t env_count) {
    return (void)context, env_count;
}

static int env_init(pv_block* block) {
    open_blocks++;
    return write_beside(block, "init"), PV_OK;
}

static int env_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    (void)mask, (void)seeds;
    for (uint32_t g = 0; g < 2; g++)
        memset(block->rows[g].masks, 1, block->rows[g].count);
    return write_beside(block, "reset"), PV_OK;
}

static int env_step(pv_block* block) {
    return write_beside(block, "step"), PV_OK;
}

static void env_close(pv_block* block) {
    open_blocks--;
    write_beside(block, "close");
}

static const pv_env_type type = {.abi = PV_ABI,
                                 .struct_bytes = sizeof(pv_env_type),
                                 .name = "broken",
                                 .bytes = env_bytes,
                                 .init = env_init,
                                 .reset = env_reset,
                                 .step = env_step,
                                 .close = env_close};

// Two groups of odd sizes: bytes with an action mask, and floats.
static pv_slab* make_slab(void) {
    static pv_spec spec = {.group_count = 2, .records_per_turn = 1};
    spec.groups[0] = (pv_group_spec){.name = "first",
                                     .agents = 3,
                                     .observation_bytes = 7,
                                     .action_kind = PV_DISCRETE,
                                     .action_dims = 1,
                                     .action_sizes = {5},
                                     .action_mask_size = 5};
    spec.groups[1] = (pv_group_spec){.name = "second",
                                     .agents = 1,
                                     .observation_bytes = 1200,
                                     .action_kind = PV_CONTINUOUS,
                                     .action_dims = 2,
                                     .action_low = {-1, -1},
                                     .action_high = {1, 1}};
    pv_slab_request request = {.num_envs = 6,
                               .num_workers = 2,
                               .num_buffers = 1,
                               .autoreset = PV_SAME_STEP,
                               .params_bytes = 16};
    pv_slab head;
    pv_slab* slab = NULL;
    if (posix_memalign((void**)&slab, 4096, pv_slab_layout(&spec, &request, &head)))
        exit(2);
    memset(slab, 0, head.bytes);
    *slab = head;
    return slab;
}

int main(int count, char** given) {
    if (count != 6)
        return 2;
    fault.when = given[1];
    fault.group = (uint32_t)atoi(given[2]);
    fault.array = given[3];
    fault.place = given[4];
    fault.distance = atoi(given[5]);
    pv_slab* slab = make_slab();
    pv_worker worker;
    pv_waiter waiter = {0};
    if (pv_worker_open(&worker, slab, 0, &type, NULL, 0) == PV_OK) {
        pv_turn_send(slab, 0, PV_RESET, 0, 0, &waiter);
        pv_worker_serve(&worker, 0);
        if (pv_turn_recv_one(slab, 0, 0, &waiter, 0, 0) == 0) {
            pv_turn_send(slab, 0, PV_STEP, 0, 0, &waiter);
            pv_worker_serve(&worker, 0);
            pv_turn_recv_one(slab, 0, 0, &waiter, 0, 0);
        }
    }
    pv_error_slot* slot = pv_slab_error(slab, 0);
    printf("%u %s\n", slot->code, slot->text);
    fflush(stdout);
    if (strcmp(fault.when, "stray") == 0) {
        pv_worker_alone(&worker);
        uint64_t own =
            pv_slab_span(slab, 0, 0).env_count * slab->spec.groups[0].agents * sizeof(float);
        pv_slab_at(slab, slab->halves[0].groups[0].rewards + own)[fault.distance] = 1;
    }
    pv_worker_close(&worker);
    free(slab);
    return open_blocks ? 4 : 0;
}

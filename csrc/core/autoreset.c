// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See autoreset.h. Owns no memory.
#include "autoreset.h"

#include <string.h>

uint64_t pv_autoreset_scratch(const pv_block* block) {
    uint64_t bytes = block->env_count;
    for (uint32_t g = 0; g < block->spec->group_count; g++)
        bytes += block->rows[g].count * (sizeof(float) + 2);
    return bytes;
}

void pv_autoreset_begin(const pv_block* block) {
    for (uint32_t g = 0; g < block->spec->group_count; g++) {
        const pv_rows* rows = &block->rows[g];
        memset(rows->terminals, 0, rows->count);
        memset(rows->truncations, 0, rows->count);
    }
}

// Returns whether no row of the env continues: each is done, or empty.
static int is_over(const pv_block* block, uint32_t env) {
    for (uint32_t g = 0; g < block->spec->group_count; g++) {
        const pv_rows* rows = &block->rows[g];
        uint64_t agents = block->spec->groups[g].agents, first = env * agents;
        for (uint64_t row = first; row < first + agents; row++) {
            if (rows->masks[row] && !rows->terminals[row] && !rows->truncations[row])
                return 0;
        }
    }
    return 1;
}

static int any_done(const pv_block* block, uint32_t env) {
    uint8_t done = 0;
    for (uint32_t g = 0; g < block->spec->group_count; g++) {
        const pv_rows* rows = &block->rows[g];
        uint64_t agents = block->spec->groups[g].agents, first = env * agents;
        for (uint64_t row = first; row < first + agents; row++)
            done |= rows->terminals[row] | rows->truncations[row];
    }
    return done;
}

// Copies rewards and flags of one env's rows into `kept`, or back. Returns the end of the used
// part.
static uint8_t* move_outcome(const pv_block* block, uint32_t env, uint8_t* kept, int back) {
    for (uint32_t g = 0; g < block->spec->group_count; g++) {
        const pv_rows* rows = &block->rows[g];
        uint8_t* const arrays[] = {(uint8_t*)rows->rewards, rows->terminals, rows->truncations};
        const uint64_t widths[] = {sizeof(float), 1, 1};
        for (int a = 0; a < 3; a++) {
            uint64_t stride = block->spec->groups[g].agents * widths[a];
            uint8_t* own = arrays[a] + env * stride;
            if (back)
                memcpy(own, kept, stride);
            else
                memcpy(kept, own, stride);
            kept += stride;
        }
    }
    return kept;
}

// Keeps the last observations of the env's rows that are done.
static void keep_observations(const pv_block* block, uint32_t env) {
    for (uint32_t g = 0; g < block->spec->group_count; g++) {
        const pv_rows* rows = &block->rows[g];
        uint64_t agents = block->spec->groups[g].agents, first = env * agents,
                 bytes = rows->observation_bytes;
        for (uint64_t row = first; row < first + agents; row++) {
            if (rows->terminals[row] || rows->truncations[row])
                memcpy(rows->final_observations + row * bytes, rows->observations + row * bytes,
                       bytes);
        }
    }
}

int pv_autoreset_finished(
    const pv_env_type* type, pv_block* block, uint32_t first, uint32_t count, uint8_t* scratch) {
    uint8_t *over = scratch, *kept = scratch + block->env_count, *end = kept;
    memset(over, 0, block->env_count);
    for (uint32_t env = first; env < first + count; env++) {
        if (!any_done(block, env))
            continue;
        keep_observations(block, env);
        if (!is_over(block, env))
            continue;
        over[env] = 1;
        end = move_outcome(block, env, end, 0);
    }
    if (end == kept)
        return PV_OK;
    int code = type->reset(block, over, NULL);
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (over[env])
            kept = move_outcome(block, env, kept, 1);
    }
    return code;
}

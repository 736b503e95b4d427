// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Observation rows.
#pragma once

#include "contract/env.h"
#include "drive/state.h"
#include "drive/tables.h"

/* [cffi] */
typedef struct pv_drive_observation_block {
    const char* name;
    const pv_drive_column* columns; // of the block, or of one of its objects; channels of a picture
    uint32_t column_count;
} pv_drive_observation_block;

// Returns the blocks of a row, in order, and sets `count` to their number.
const pv_drive_observation_block* pv_drive_blocks(uint32_t* count);
/* [/cffi] */

void drive_describe_observation(const pv_drive_config* config,
                                const drive_block* layout,
                                pv_group_spec* group);
void drive_describe_counters(pv_spec* spec);
// Prefetches for the rows after `row`.
void drive_prefetch(const drive_turn* turn, uint32_t row);
// Writes the blocks with road edges before the agent is judged, and stores the edges in `edges`.
void drive_observe_edges(const drive_turn* turn, uint32_t row, drive_near* edges);
// Writes the rest of the row.
void drive_observe(const drive_turn* turn, uint32_t row);

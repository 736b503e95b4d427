// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Which scenes fill an env's rows.
#pragma once

#include "contract/env.h"
#include "drive/state.h"

// Fills the block's tables of scenes: agents, order, sizes, waste and shares.
void drive_bundle_init(const pv_context* context, drive_block* block);
// Returns how many rows a scene needs; 0 if it needs more than an env has, or has no agents.
uint32_t drive_scene_rows(const drive_block* block, uint32_t scene_index);
// Checks a scene completely before it is driven for the first time. Returns an error code.
int drive_scene_verify(pv_block* block, uint32_t env, uint32_t scene_index);
// Draws the slots of turn->state and clears the rest of the env. goes_on: the current bundle has
// ended, and scenes in which an agent failed may stay. Returns an error code.
int drive_bundle_fill(drive_turn* turn, int goes_on);

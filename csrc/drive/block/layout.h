// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Where the parts of a block's state lie, and pointers to them.
#pragma once

#include "contract/env.h"
#include "drive/scene/scene.h"
#include "drive/state.h"

// Returns the scenes' weights, (scenes,) in `scene_weights` of the params; NULL: all are drawn
// equally often.
const float* drive_scene_weights(const pv_context* context);
// Computes the offsets and sizes of a block of `env_count` envs.
void drive_layout(const pv_context* context, uint32_t env_count, drive_block* out);
// Returns the scenes that were opened, (all scenes,).
drive_scene* drive_opened(const drive_block* layout);
drive_env* drive_env_at(const pv_block* block, uint32_t env);
// Points a turn at an env, and then at one of its slots.
void drive_turn_open(pv_block* block, uint32_t env, drive_turn* out);
void drive_turn_slot(drive_turn* turn, uint32_t slot);

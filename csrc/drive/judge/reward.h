// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Rewards of steps, and their weights.
#pragma once

#include "contract/env.h"
#include "drive/state.h"

/* [cffi] */
typedef struct pv_drive_reward {
    const char* name;
    const char* unit; // of the value that the weight reward_<name> is multiplied with
    const char* meaning;
} pv_drive_reward;

// Returns the terms of the reward; `count` receives their number.
const pv_drive_reward* pv_drive_rewards(uint32_t* count);
/* [/cffi] */

// Sets parts, paid, conditioned and ranges. Returns 0 if the ranges are wrong.
int drive_rewards_init(const pv_context* context, drive_block* out);
// Draws the agent's weights at the start of its episode.
void drive_draw_weights(const drive_turn* turn, uint32_t row);
// Writes the agent's weights scaled to [-1, 1], (DRIVE_REWARD_COUNT,).
void drive_conditions(const drive_turn* turn, uint32_t row, float* out);
// Judges one agent's step and returns its reward. *events receives what happened
// (DRIVE_EVENT_...).
float drive_judge(drive_turn* turn, uint32_t row, int offroad, uint32_t* events);

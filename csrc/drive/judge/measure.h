// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Measures what an agent did in a step.
#pragma once

#include "drive/state.h"

// Stores, before the agents move, the state against which their step is measured.
void drive_step_begin(const drive_turn* turn);
void drive_measure(const drive_turn* turn, uint32_t row, drive_outcome* step);
// Returns whether an agent has a lane and is within 15 degrees of it.
int drive_follows_lane(const drive_turn* turn, uint32_t row);

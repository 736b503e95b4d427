// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Heights of agents, in scenes that have levels.
#pragma once

#include "drive/state.h"

// Puts an agent at the height of its box's centre in the log.
void drive_place_height(const drive_turn* turn, uint32_t row, float centre_z_m);
// Updates the heights of the slot's agents after drive_dynamics.
void drive_follow_ground(drive_turn* turn);
// Returns whether a segment is near enough in height to touch the agent.
int drive_edge_on_level(const drive_turn* turn, uint32_t row, uint32_t segment);

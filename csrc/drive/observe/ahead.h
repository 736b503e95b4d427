// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What lies ahead of a car: the route to its goal, lights and signs, conflicts with other bodies.
#pragma once

#include "drive/state.h"

// Writes k points of the route to the goal.
void drive_write_route(
    const drive_turn* turn, uint32_t row, const drive_pose* at, uint32_t k, float* out);
// Writes the k nearest lights and signs. Returns how many are within the range.
uint32_t drive_write_controls(
    const drive_turn* turn, const drive_pose* at, uint32_t k, float* out, drive_near* near);
// Writes the k nearest conflicts on the agent's path.
void drive_write_conflicts(
    const drive_turn* turn, uint32_t row, const drive_pose* at, uint32_t k, float* out);

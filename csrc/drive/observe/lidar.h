// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Rays that measure distances, as a lidar does.
#pragma once

#include "drive/state.h"

// Writes an entry per ray to `out`: the distance to the first hit, and what was hit.
void drive_write_lidar(const drive_turn* turn, uint32_t row, const drive_pose* at, float* out);

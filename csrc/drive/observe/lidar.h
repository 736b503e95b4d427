// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Distances along rays.
#pragma once

#include "drive/state.h"

// Writes an entry for each ray.
void drive_write_lidar(const drive_turn* turn, uint32_t row, const drive_pose* at, float* out);

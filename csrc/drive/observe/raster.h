// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The bird's-eye view.
#pragma once

#include "drive/state.h"

// Draws the picture that the agent of `row` sees.
void drive_write_raster(const drive_turn* turn, uint32_t row, const drive_pose* pose, uint8_t* out);

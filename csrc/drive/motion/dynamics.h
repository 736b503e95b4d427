// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Moves the agents of a slot.
#pragma once

#include "drive/state.h"

// Moves the slot's agents by their actions or their log.
void drive_dynamics(drive_turn* turn);
void drive_sincos_array(const float* angle, float* sine, float* cosine, uint32_t count);

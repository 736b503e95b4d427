// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Moves followers by the intelligent driver model.
#pragma once

#include "drive/state.h"

// Moves them from the slot's clock to the next, before anything else has moved.
void drive_follow(drive_turn* turn);
// Puts agents [first, end) where their followers are, with the setting idm_agents.
void drive_follow_agents(const drive_turn* turn, uint32_t first, uint32_t end);

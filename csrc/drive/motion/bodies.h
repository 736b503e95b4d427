// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// All objects that are in the scene at a step.
#pragma once

#include "drive/scene/scene.h"
#include "drive/state.h"

// Fills scratch.bodies for the slot's clock.
void drive_collect_bodies(drive_turn* turn);
// Returns where an object that is not an agent is at time t, or NULL.
const pv_frame* drive_body_frame(const drive_turn* turn, uint32_t o, uint32_t t);

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// One scene of a bundle over its episode.
#pragma once

#include "drive/state.h"

// Starts or restarts the slot's scene and writes its rows.
void drive_slot_start(drive_turn* turn);
// Steps the slot's scene.
void drive_slot_advance(drive_turn* turn);
// Truncates the episodes that are still open.
void drive_slot_cut(drive_turn* turn);
// Begins the new rows of agents that return to their start (same-step autoreset). Returns PV_OK.
int drive_slot_respawn(drive_turn* turn);
// Writes rows without an agent.
void drive_rows_blank(const drive_turn* turn, uint32_t row, uint32_t count);
// Completes the slot after drive_take_state and writes its rows, as after a step that led there,
// except that rewards are 0. was_last: the bundle had ended before; last: it ends in this state.
void drive_slot_set(drive_turn* turn, int was_last, int last);

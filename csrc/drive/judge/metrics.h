// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Sums over an agent's episode, and the episode's record.
#pragma once

#include "contract/env.h"
#include "drive/state.h"
#include "drive/tables.h"

// Clears the sums of the agent's episode.
void drive_clear_sums(const drive_turn* turn, uint32_t row);
void drive_add_step(const drive_turn* turn, uint32_t row, const drive_outcome* step);
void drive_describe_records(const pv_drive_config* config, pv_spec* spec);
// Writes the record of the slot's episode. complete: the episode has ended by itself.
void drive_leave_record(const drive_turn* turn, int complete);

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// How an agent drives compared with its log, for the metrics.
#pragma once

#include "drive/state.h"

// Returns the distance from the path of the agent's log, m.
float drive_path_distance(const drive_turn* turn, uint32_t row);
// Returns how many steps the log takes to the goal; 0: it never gets there.
uint32_t drive_log_arrival(const drive_turn* turn, uint32_t row);

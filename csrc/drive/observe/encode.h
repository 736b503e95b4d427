// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Observations as half floats or bytes.
#pragma once

#include "drive/tables.h"

// Converts the `k` entries of a block to the number type of the row. objects: entries that are all
// zeros are missing objects.
void drive_encode(const pv_drive_config* config,
                  const pv_drive_column* columns,
                  uint32_t column_count,
                  uint32_t k,
                  int objects,
                  const float* numbers,
                  void* out);

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Simplifies dense polylines to few straight segments, within a tolerance. Runs in the learner,
// when drive_env reads a scene; the caller owns all arrays. drive_env/scenes/geometry.py describes
// the result.
#pragma once

#include "contract/base.h"

/* [cffi] */
// Simplifies `lines` polylines. Line i has sizes[i] of the points (a row of `axes` finite numbers
// each, 2 or 3: x y z in metres), which lie one line after another; `fitted` says which lines are
// fitted in addition. Writes the points kept of all lines to `out`, which has room for as many
// points and may not overlap, and the number of points of each line to `kept`. Returns how many
// there are in all; -1 - i if line i is too crooked, INT64_MIN if memory runs out.
int64_t pv_drive_simplify(const double* points,
                          uint32_t axes,
                          const uint64_t* sizes,
                          uint32_t lines,
                          const double* tolerance_m,
                          const uint8_t* fitted,
                          double* out,
                          uint64_t* kept);
/* [/cffi] */

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Builds the cell index of a scene (pv_cell and its candidates, see scene.h). Runs in the learner,
// when drive_env compiles a scene; the caller owns all arrays.
#pragma once

#include "drive/scene/scene.h"

/* [cffi] */
#define PV_INDEX_MAX_K 64 // largest k of one segment type

// Fills `cells` (nx*ny, row by row: cell (ix, iy) is cells[iy*nx + ix]) and `candidates`, so that
// for any point of a wanted cell its candidates contain the k[type] nearest segments of each type
// among those within range_m. Segments are given as in scene.h: x y ux uy half are (segments,),
// lanes before lines before edges, segment_count[] says how many of each. Cells whose byte in
// `wanted` is 0 become PV_CELL_EMPTY. It stops where candidates no longer fit in `capacity`.
// Returns the number of candidates, more than `capacity` where it has stopped, -1 on bad arguments
// (more than 65535 segments, k above PV_INDEX_MAX_K, an empty grid, a size or range that is not a
// positive number), -2 if memory is short.
int64_t pv_drive_index_build(const float* x,
                             const float* y,
                             const float* ux,
                             const float* uy,
                             const float* half,
                             const uint32_t* segment_count,
                             const uint32_t* k,
                             float range_m,
                             float x0_m,
                             float y0_m,
                             float cell_m,
                             uint32_t nx,
                             uint32_t ny,
                             const uint8_t* wanted,
                             pv_cell* cells,
                             uint16_t* candidates,
                             uint64_t capacity);
/* [/cffi] */

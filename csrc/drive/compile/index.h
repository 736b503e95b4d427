// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Builds the cell index of a scene (pv_cell and its candidates, see scene.h). Runs in the learner,
// when drive_env compiles a scene; the caller owns all arrays.
#pragma once

#include "drive/scene/scene.h"

/* [cffi] */
#define PV_INDEX_MAX_K 64 // largest k of one segment type

// The segments to index, the grid, and where the index goes.
typedef struct pv_index_build {
    const float *x, *y, *ux, *uy, *half; // (segments,) as in scene.h: lanes, then lines, then edges
    uint32_t segment_count[PV_SEGMENT_TYPES];
    uint32_t k[PV_SEGMENT_TYPES]; // how many of each type a cell has to list
    float range_m;
    float x0_m, y0_m, cell_m; // lower left corner of the grid, side of a cell
    uint32_t nx, ny;
    const uint8_t* wanted; // (nx * ny,) 0: the cell becomes PV_CELL_EMPTY
    pv_cell* cells;        // (nx * ny,) row by row: cell (ix, iy) is cells[iy * nx + ix]
    uint16_t* candidates;  // (capacity,)
    uint64_t capacity;
} pv_index_build;

// Fills `cells` and `candidates` so that for any point of a wanted cell the candidates contain the
// k nearest segments of each type among those within range_m. Stops where candidates no longer fit.
//
// Returns the number of candidates, which is above the capacity if it has stopped; -1 on bad
// arguments (more than 65535 segments, k above PV_INDEX_MAX_K, an empty grid, a size or range that
// is not a positive number); -2 if memory runs out.
int64_t pv_drive_index_build(const pv_index_build* build);
/* [/cffi] */

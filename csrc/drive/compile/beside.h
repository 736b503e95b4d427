// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Determines which lanes run next to each other, seen from points along them. Runs in the learner,
// when drive_env compiles a scene; the caller owns all arrays. drive_env/scenes/lanes.py turns the
// result into neighbours.
#pragma once

#include "contract/base.h"

/* [cffi] */
// The segments of all lanes, in the order of the lanes: arrays (count,).
typedef struct pv_lane_segments {
    const float *x, *y, *z, *ux, *uy, *half; // as in pv_scene
    const uint16_t* lane;
    uint32_t count, lanes;
    // A segment lies beside a probe if it is at most this far ahead or behind, higher or lower,
    float ahead_m, level_m;
    // ... runs in about the same direction, and is this far to the side.
    double least_cosine, nearest_m, farthest_m;
} pv_lane_segments;

// A point along a lane from which another lane is seen.
typedef struct pv_lane_sight {
    uint32_t lane, other;
    double offset_m; // positive: to the left
    double metres;   // length of the piece of lane for which this holds
} pv_lane_sight;

// Cuts segment i into pieces[i] pieces and searches to both sides of each piece's midpoint (a
// probe), in order. Writes an entry to `sights` for each other lane beside a probe, one per probe
// and side, until `sights` is full. Returns the number of entries, including those that did not
// fit; -1 if more than `most` pairs of pieces and segments lie close together; -2 if memory runs
// out.
int64_t pv_drive_lanes_beside(const pv_lane_segments* segments,
                              const uint32_t* pieces,
                              uint64_t most,
                              pv_lane_sight* sights,
                              uint64_t room);
/* [/cffi] */

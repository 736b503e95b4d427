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
    float ahead_m, level_m; // a segment that is beside a probe is not farther ahead, or higher,
    double least_cosine, nearest_m, farthest_m; // runs in its direction, and is so far to the side
} pv_lane_segments;

// A point along a lane from which another lane is seen.
typedef struct pv_lane_sight {
    uint32_t lane, other;
    double offset_m; // positive: to the left
    double metres;   // along the lane, for which this holds
} pv_lane_sight;

// Looks from the middles of pieces of the segments (segment i is cut into pieces[i]), in their
// order, and writes to `sights` each other lane that lies next to one, once for each side, as far
// as there is room. Returns how many there are; -1 if more than `most` pairs of pieces and segments
// lie close together, -2 if memory is short.
int64_t pv_drive_lanes_beside(const pv_lane_segments* segments,
                              const uint32_t* pieces,
                              uint64_t most,
                              pv_lane_sight* sights,
                              uint64_t room);
/* [/cffi] */

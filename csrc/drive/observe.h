// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The columns of a driving observation, one list for C and Python. A row is one flat array of float32:
//
//   ego (13,) | partners (k, 8) | lanes (k, 7) | lines (k, 7) | edges (k, 7)
//
// "x" is ahead of the car and "y" to its left; "cos" and "sin" are of the angle from the car's heading. Entries are sorted by
// distance; those that are not there are zeros, while a present one has cos^2 + sin^2 = 1. Blocks of size 0 are left out.
#pragma once

#include "../base.h"

/* [cffi] */
typedef struct pv_drive_column {
    char block[PV_NAME_BYTES]; // ego, partners, lanes, lines, edges
    char name[PV_NAME_BYTES];
    char unit[PV_UNIT_BYTES]; // of the value times scale
    float scale;
} pv_drive_column;

// The columns of one entry of each block, block after block; lanes, lines and edges share theirs under the block "segments".
const pv_drive_column* pv_drive_columns(uint32_t* count);
/* [/cffi] */

#define DRIVE_GOAL_NEAR_M 20.0f // goal_nearness is 1 at the goal and one half this far from it

// X(block, name, unit, scale)
#define DRIVE_EGO_COLUMNS(X)                                                                                                   \
    X(ego, speed, "m/s", 10.0f)                                                                                                \
    X(ego, width, "m", 2.0f)                                                                                                   \
    X(ego, length, "m", 5.0f)                                                                                                  \
    X(ego, goal_x, "m", 50.0f)                                                                                                 \
    X(ego, goal_y, "m", 50.0f)                                                                                                 \
    X(ego, goal_cos, "", 1.0f) /* direction to the goal; (0, 0) on it */                                                       \
    X(ego, goal_sin, "", 1.0f)                                                                                                 \
    X(ego, goal_distance, "m", 50.0f)                                                                                          \
    X(ego, goal_nearness, "", 1.0f)    /* 20 / (20 + distance in m): fine where it matters */                                  \
    X(ego, needed_speed, "m/s", 10.0f) /* distance / time left */                                                              \
    X(ego, time_left, "", 1.0f)        /* share of the episode */                                                              \
    X(ego, collided, "", 1.0f)         /* 1 while it touches an object */                                                      \
    X(ego, offroad, "", 1.0f)          /* 1 while it touches a road edge */

#define DRIVE_PARTNER_COLUMNS(X)                                                                                               \
    X(partners, x, "m", 20.0f)                                                                                                 \
    X(partners, y, "m", 20.0f)                                                                                                 \
    X(partners, cos, "", 1.0f)                                                                                                 \
    X(partners, sin, "", 1.0f)                                                                                                 \
    X(partners, velocity_x, "m/s", 10.0f) /* relative to the car */                                                            \
    X(partners, velocity_y, "m/s", 10.0f)                                                                                      \
    X(partners, width, "m", 2.0f)                                                                                              \
    X(partners, length, "m", 5.0f)

#define DRIVE_SEGMENT_COLUMNS(X)                                                                                               \
    X(segments, x, "m", 20.0f) /* midpoint */                                                                                  \
    X(segments, y, "m", 20.0f)                                                                                                 \
    X(segments, half_length, "m", 10.0f)                                                                                       \
    X(segments, cos, "", 1.0f)                                                                                                 \
    X(segments, sin, "", 1.0f)                                                                                                 \
    X(segments, distance, "m", 10.0f) /* from the car's centre to the segment */                                               \
    X(segments, lateral, "m", 5.0f)   /* of the car from the segment's line, positive left of it */

#define DRIVE_COLUMNS(X) DRIVE_EGO_COLUMNS(X) DRIVE_PARTNER_COLUMNS(X) DRIVE_SEGMENT_COLUMNS(X)

// Column numbers, DRIVE_ego_speed = 0 ..., and scales, DRIVE_SCALE_ego_speed ...
#define COLUMN(block, name, unit, scale) DRIVE_##block##_##name,
enum { DRIVE_EGO_COLUMNS(COLUMN) DRIVE_EGO };
enum { DRIVE_PARTNER_COLUMNS(COLUMN) DRIVE_PARTNER };
enum { DRIVE_SEGMENT_COLUMNS(COLUMN) DRIVE_SEGMENT };
#undef COLUMN
#define SCALE(block, name, unit, scale) static const float DRIVE_SCALE_##block##_##name __attribute__((unused)) = scale;
DRIVE_COLUMNS(SCALE)
#undef SCALE

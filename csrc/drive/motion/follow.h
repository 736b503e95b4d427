// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What an env keeps of its followers (follow.c).
#pragma once

#include <stdint.h>

// Followers (follow.c), by slot and in object order. X(type, code, name, unit, low, high): what a
// step changes.
#define DRIVE_FOLLOWER_WAITS 0 // for its log to begin
#define DRIVE_FOLLOWS_LOG 1
#define DRIVE_FOLLOWS_LANE 2
#define DRIVE_FOLLOWER_GONE 3
#define DRIVE_FOLLOWER_FIELDS(X) \
    X(uint32_t, PV_U32, phase, "", 0.0f, 3.0f) /* DRIVE_FOLLOWER_... */ \
    X(uint32_t, PV_U32, to, "", 0.0f, \
      65535.0f) /* where the piece of its path ends: a frame, or a lane segment */ \
    X(uint32_t, PV_U32, served, "", 0.0f, \
      65536.0f)                                /* 1 + the stop sign that it last stopped at */ \
    X(float, PV_F32, from_x, "m", -1e6f, 1e6f) /* where that piece starts */ \
    X(float, PV_F32, from_y, "m", -1e6f, 1e6f) \
    X(float, PV_F32, from_heading, "rad", -DRIVE_PI, DRIVE_PI) \
    X(float, PV_F32, along, "m", 0.0f, 1e5f)     /* from there */ \
    X(float, PV_F32, speed, "m/s", 0.0f, 400.0f) /* along the path */
// ... and what stays for an episode.
#define DRIVE_FOLLOWER_CONSTANTS(X) \
    X(uint32_t, object) \
    X(uint32_t, join) /* lane segment that its path goes on with behind the log */ \
    X(float, wanted)  /* m/s, where nothing is in the way */

typedef struct drive_followers {
#define FIELD(type, code, name, unit, low, high) type* name; // (layout->followers,)
    DRIVE_FOLLOWER_FIELDS(FIELD)
#undef FIELD
#define FIELD(type, name) type* name;
    DRIVE_FOLLOWER_CONSTANTS(FIELD)
#undef FIELD
} drive_followers;

// Where one of them is.
typedef struct drive_follower {
    float x, y, heading, speed, ground; // as of a body
} drive_follower;

#define FIELD(...) +1

enum {
    DRIVE_FOLLOWER_FIELD_COUNT = 0 DRIVE_FOLLOWER_FIELDS(FIELD) DRIVE_FOLLOWER_CONSTANTS(FIELD)
};

#undef FIELD

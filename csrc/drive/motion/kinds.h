// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Kinds of drivers: how vehicles that IDM drives differ from each other (setting traffic_kinds).
#pragma once

#include "contract/env.h"
#include "drive/state.h"

/* [cffi] */
// A kind of driver. Each pair is a range, lowest and highest, from which a driver's own number is
// drawn.
typedef struct pv_drive_kind {
    const char* name;
    float speed[2], headway[2], gap[2], acceleration[2], braking[2]; // factors of the idm_ settings
    float unseen[2]; // probability that the driver does not see a given partner
    float late[2];   // m/s^2: it brakes only once it has to brake harder than this; 0: as IDM does
} pv_drive_kind;

// Returns the kinds; `count` receives their number.
const pv_drive_kind* pv_drive_kinds(uint32_t* count);
/* [/cffi] */

// How the driver of one vehicle drives in an episode.
typedef struct drive_style {
    uint64_t seed;               // of the driver's draws
    float speed;                 // factor of the desired speed, and of speed limits
    float headway_s, gap_m;      // like the settings of these names
    float acceleration, braking; // m/s^2, the same
    float unseen, late;          // as in pv_drive_kind
} drive_style;

// Sets which kinds there are.
void drive_kinds_init(const pv_context* context, drive_block* out);
// Returns how follower k drives in this episode.
drive_style drive_style_of(const drive_turn* turn, uint32_t k);
// Returns whether the driver sees a partner, given by its object.
int drive_style_sees(const drive_style* style, uint32_t object);

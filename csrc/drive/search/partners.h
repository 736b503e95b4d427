// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The nearest bodies.
#pragma once

#include "drive/scene/scene.h"
#include "drive/state.h"

// Which columns an entry has.
enum { DRIVE_PLAIN, DRIVE_TYPED, DRIVE_PUFFERDRIVE, DRIVE_GPUDRIVE };

typedef struct drive_partner_search {
    const drive_bodies* bodies;
    const float* rows; // drive_scratch.body_rows
    const pv_object* objects;
    const drive_pose* at;
    int32_t row;          // of the agent, whose own body is left out
    float speed, heading; // of the agent
    uint32_t k;
    float range_m;
} drive_partner_search;

// Prepares the rows from which PufferDrive's entries are made, after the bodies were collected.
void drive_lay_out_bodies(drive_turn* turn);
// Writes k entries for the nearest bodies within the range.
void drive_write_partners(const drive_partner_search* search,
                          int columns,
                          const drive_scratch* scratch,
                          float* out,
                          drive_near* near);
uint32_t drive_body_count(const drive_bodies* bodies, float x, float y, float radius_m);

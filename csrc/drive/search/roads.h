// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The nearest segments of all types, by the groups of the scene.
#pragma once

#include "drive/scene/scene.h"
#include "drive/state.h"

#define DRIVE_REACH_SLACK_M 0.01f // covers the rounding of a distance that limits a search

typedef struct drive_roads_search {
    const drive_pose* at;
    float heading;
    uint32_t k;
    float range_m;
    float guess_m;   // about how far away the last one is, or 0
    float edges_m;   // road edges within this distance are returned
    int gpudrive;    // write the columns of GPUDrive instead of PufferDrive's
    int exact_reach; // *reach_m receives the distance of the last entry, also if there are fewer
                     // than k
} drive_roads_search;

// Writes k entries for the nearest segments of all types, in no order of distance, and returns how
// many segments there are. *reach_m: a radius within which there are k, if the caller knows one, or
// 0; receives another such radius.
uint32_t drive_write_roads(const drive_scene* scene,
                           const drive_roads_search* search,
                           const drive_scratch* scratch,
                           float* out,
                           float* reach_m,
                           drive_near* edges);
uint32_t drive_road_count(const drive_scene* scene,
                          const drive_pose* at,
                          float range_m,
                          const drive_scratch* scratch);
// Lists all segments of some types (a bit each) within a radius, in no order: their indices in
// scratch.index, their squared distances in scratch.square. Returns how many there are.
uint32_t drive_segments_within(const drive_scene* scene,
                               uint32_t types,
                               float x,
                               float y,
                               float radius_m,
                               const drive_scratch* scratch);

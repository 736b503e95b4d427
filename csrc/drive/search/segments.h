// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Finds the nearest segments of one type, with the cell index of the scene.
#pragma once

#include "drive/scene/scene.h"
#include "drive/state.h"

// Writes the entries of the k nearest segments of a type within the range to `out`, and their
// indices to `near`.
void drive_write_segments(const drive_scene* scene,
                          int type,
                          const drive_pose* at,
                          uint32_t k,
                          float range_m,
                          const drive_scratch* scratch,
                          float* out,
                          drive_near* near);
// Like drive_write_segments, but takes some segments from each of four rings around the car instead
// of the nearest ones, sorted by distance (see segments.c).
void drive_write_spread(const drive_scene* scene,
                        int type,
                        const drive_pose* at,
                        uint32_t k,
                        float range_m,
                        const drive_scratch* scratch,
                        float* out,
                        drive_near* near);
// Lists all segments of a type within a radius. Same result as drive_segments_within, but faster
// where the cell's list contains all of them.
uint32_t drive_segments_near(const drive_scene* scene,
                             int type,
                             float x,
                             float y,
                             float radius_m,
                             const drive_scratch* scratch);
uint32_t drive_segment_count(const drive_scene* scene, int type, float x, float y, float radius_m);

// Prefetch what a search around a point will read: first its cell, then, once the cell is in the
// cache, the cell's lists.
void drive_prefetch_cell(const drive_scene* scene, float x, float y);
void drive_prefetch_lists(const drive_scene* scene, float x, float y);

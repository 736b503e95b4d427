// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The nearest segments of one type, by the cell index of the scene.
#pragma once

#include "drive/scene/scene.h"
#include "drive/state.h"

// Writes k entries for the nearest segments of a type within the range to `out`, and which they are
// to `near`.
void drive_write_segments(const drive_scene* scene,
                          int type,
                          const drive_pose* at,
                          uint32_t k,
                          float range_m,
                          const drive_scratch* scratch,
                          float* out,
                          drive_near* near);
// Does the same with some segments of each of four rings instead of the nearest, sorted by distance
// (see segments.c).
void drive_write_spread(const drive_scene* scene,
                        int type,
                        const drive_pose* at,
                        uint32_t k,
                        float range_m,
                        const drive_scratch* scratch,
                        float* out,
                        drive_near* near);
// Lists all segments of a type within a radius, as drive_segments_within does, but from the cell's
// list where that holds them all.
uint32_t drive_segments_near(const drive_scene* scene,
                             int type,
                             float x,
                             float y,
                             float radius_m,
                             const drive_scratch* scratch);
uint32_t drive_segment_count(const drive_scene* scene, int type, float x, float y, float radius_m);

// Prefetch what a search around a point will read: first its cell, then, once that has arrived, the
// cell's lists.
void drive_prefetch_cell(const drive_scene* scene, float x, float y);
void drive_prefetch_lists(const drive_scene* scene, float x, float y);

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Casts rays from the car's centre to the first thing that they hit: a road edge, or the side of
// another object's box. The rays are spaced evenly over the field of view, the first one farthest
// to the right; if the field of view is 360 degrees, the first one points backwards.
//
// All rays are stored in arrays, and each segment (an edge, or one of the four sides of a box) is
// tested against all of them. A ray that starts inside a box hits its far side. If two things are
// equally far away, the first one counts: edges in the order of their groups, then objects.
#include "drive/observe/lidar.h"

#include "contract/base.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/roads.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "envs/kernels.h"

#include <string.h>

#define NOTHING -1

typedef struct rays {
    _Alignas(64) float x[DRIVE_MAX_RAYS], y[DRIVE_MAX_RAYS],
        distance[DRIVE_MAX_RAYS];              // direction, scene frame
    _Alignas(64) int32_t kind[DRIVE_MAX_RAYS]; // a column of the block
    uint32_t count; // a multiple of PV_LANES; those behind the last one are copies of the first
} rays;

PV_INLINE void aim(rays* all, uint32_t count, float fov_deg, float range_m, const drive_pose* at) {
    const float fov = fov_deg * (DRIVE_PI / 180.0f),
                gaps = fov_deg < 360.0f ? (float)count - 1.0f : (float)count;
    const float first = count > 1 ? -0.5f * fov : 0.0f, step = count > 1 ? fov / gaps : 0.0f;
    all->count = (count + PV_LANES - 1) / PV_LANES * PV_LANES;
    for (uint32_t i = 0; i < all->count; i++) {
        float sine, cosine;
        pv_sincos(first + (float)(i < count ? i : 0) * step, &sine, &cosine);
        all->x[i] = cosine * at->cosine - sine * at->sine;
        all->y[i] = sine * at->cosine + cosine * at->sine;
        all->distance[i] = range_m;
        all->kind[i] = NOTHING;
    }
}

// Tests the segment around (dx, dy), relative to the car, along the unit vector (ux, uy). For a ray
// r: t r = d + s u, so that t = (d x u) / (r x u) and s = (d x r) / (r x u).
PV_INLINE void try_segment(
    rays* all, float dx, float dy, float ux, float uy, float half, int32_t kind) {
    const float across = dx * uy - dy * ux;
    for (uint32_t i = 0; i < all->count; i++) {
        float slope = all->x[i] * uy - all->y[i] * ux;
        float inverse =
            1.0f / slope; // parallel: infinite, or with across 0 not a number; neither is a hit
        float t = across * inverse, s = (dx * all->y[i] - dy * all->x[i]) * inverse;
        int32_t hit = (t >= 0.0f) & (t < all->distance[i]) & (drive_abs(s) <= half);
        all->distance[i] = hit ? t : all->distance[i];
        all->kind[i] = hit ? kind : all->kind[i];
    }
}

PV_CLONES static void meet_edges(const drive_scene* scene,
                                 const drive_scratch* scratch,
                                 const drive_pose* at,
                                 float range_m,
                                 rays* all) {
    uint32_t count = drive_segments_within(scene, 1u << PV_EDGE, at->x, at->y, range_m, scratch);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = scratch->index[i];
        try_segment(all, scene->x[s] - at->x, scene->y[s] - at->y, scene->ux[s], scene->uy[s],
                    scene->half[s], DRIVE_ray_edge);
    }
}

PV_CLONES static void meet_bodies(
    const drive_turn* turn, uint32_t row, const drive_pose* at, float range_m, rays* all) {
    static const int32_t kinds[] = {[PV_VEHICLE] = DRIVE_ray_vehicle,
                                    [PV_PEDESTRIAN] = DRIVE_ray_pedestrian,
                                    [PV_CYCLIST] = DRIVE_ray_cyclist,
                                    [PV_OTHER] = DRIVE_ray_vehicle};
    const drive_bodies* bodies = &turn->scratch.bodies;
    for (uint32_t b = 0; b < bodies->count; b++) {
        float dx = bodies->x[b] - at->x, dy = bodies->y[b] - at->y,
              reach = range_m + bodies->radius[b];
        if (bodies->row[b] == (int32_t)row || dx * dx + dy * dy > reach * reach)
            continue;
        const float c = bodies->cosine[b], s = bodies->sine[b], length = bodies->half_length[b],
                    width = bodies->half_width[b];
        const int32_t kind = kinds[turn->scene.objects[bodies->object[b]].type];
        try_segment(all, dx + c * length, dy + s * length, -s, c, width, kind); // front
        try_segment(all, dx - c * length, dy - s * length, -s, c, width, kind);
        try_segment(all, dx - s * width, dy + c * width, c, s, length, kind); // left side
        try_segment(all, dx + s * width, dy - c * width, c, s, length, kind);
    }
}

void drive_write_lidar(const drive_turn* turn, uint32_t row, const drive_pose* at, float* out) {
    const pv_drive_config* config = turn->config;
    const uint32_t count = (uint32_t)config->lidar_rays;
    rays all;
    aim(&all, count, config->lidar_fov_deg, config->lidar_range_m, at);
    meet_edges(&turn->scene, &turn->scratch, at, config->lidar_range_m, &all);
    if (!(turn->agents.flags[row] & DRIVE_ALONE))
        meet_bodies(turn, row, at, config->lidar_range_m, &all);
    memset(out, 0, count * DRIVE_COUNT_ray * sizeof(float));
    for (uint32_t i = 0; i < count; i++) {
        float* ray = out + i * DRIVE_COUNT_ray;
        if (all.kind[i] == NOTHING)
            continue;
        ray[DRIVE_ray_distance] = all.distance[i] * (1.0f / DRIVE_SCALE_ray_distance);
        ray[all.kind[i]] = 1.0f;
    }
}

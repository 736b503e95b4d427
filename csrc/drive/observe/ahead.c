// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Observes what lies ahead of an agent apart from cars and roads: points of the route to its goal,
// the nearest lights and signs, and conflicts with other bodies.
//
// The route starts at the lane segment that the car is on (drive_lane_segment_at) and follows the
// lane graph. Where lanes split, it takes the exit whose end is nearest to the goal, on ties the
// first one. There is a point every route_step_m, the first one at that distance ahead of the car.
// The route ends at the end of the lane, or at the goal once that is nearer than a step.
#include "drive/observe/ahead.h"

#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/conflicts.h"
#include "drive/search/lanes.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"
#include "envs/kernels.h"

#include <string.h>

#define MOST_PIECES 4096 // stops a route that goes round a ring of very short lanes

typedef struct place {
    float x, y, ux, uy;
} place;

PV_INLINE float square_to(float x, float y, float to_x, float to_y) {
    return (to_x - x) * (to_x - x) + (to_y - y) * (to_y - y);
}

static void put_point(const drive_pose* at, place p, float* out) {
    float dx = p.x - at->x, dy = p.y - at->y;
#define PUT(column, value) \
    out[DRIVE_route_##column] = \
        drive_clamp((value) * (1.0f / DRIVE_SCALE_route_##column), -at->bound, at->bound)
    PUT(x, dx * at->cosine + dy * at->sine);
    PUT(y, dy * at->cosine - dx * at->sine);
    PUT(cos, p.ux * at->cosine + p.uy * at->sine);
    PUT(sin, p.uy * at->cosine - p.ux * at->sine);
#undef PUT
}

void drive_write_route(
    const drive_turn* turn, uint32_t row, const drive_pose* at, uint32_t k, float* out) {
    const drive_scene* scene = &turn->scene;
    const float goal_x = turn->agents.goal_x[row], goal_y = turn->agents.goal_y[row],
                step = turn->config->route_step_m;
    const float ground = turn->agents.ground[row];
    uint32_t s = drive_lane_segment_at(turn, at->x, at->y, at->cosine, at->sine, ground,
                                       DRIVE_JOIN_M),
             count = 0;
    memset(out, 0, k * DRIVE_COUNT_route * sizeof(float));
    if (s == DRIVE_NO_SEGMENT)
        return;
    float along = (at->x - scene->x[s]) * scene->ux[s] +
                  (at->y - scene->y[s]) * scene->uy[s]; // from the segment's middle
    along = drive_clamp(along, -scene->half[s], scene->half[s]);
    float ahead = step; // to the next point
    for (uint32_t pieces = 0; count < k && pieces < MOST_PIECES;) {
        if (along + ahead > scene->half[s]) {
            ahead -= scene->half[s] - along;
            s = drive_lane_segment_towards(scene, s, goal_x, goal_y);
            if (s == DRIVE_NO_SEGMENT)
                return;
            along = -scene->half[s];
            pieces++;
            continue;
        }
        along += ahead;
        ahead = step;
        place p = {scene->x[s] + along * scene->ux[s], scene->y[s] + along * scene->uy[s],
                   scene->ux[s], scene->uy[s]};
        const int arrives = square_to(p.x, p.y, goal_x, goal_y) < step * step;
        if (arrives)
            p.x = goal_x, p.y = goal_y;
        put_point(at, p, out + DRIVE_COUNT_route * count++);
        if (arrives)
            return;
    }
}

// ---- lights and signs ----

static void put_control(const drive_turn* turn,
                        const pv_control* control,
                        const drive_pose* at,
                        float* out) {
    const int state = drive_state(&turn->scene, control, drive_log_frame(turn)),
              sign = control->kind != PV_TRAFFIC_LIGHT;
    const int line =
        control->line_x0_m != control->line_x1_m || control->line_y0_m != control->line_y1_m;
    float sine, cosine, x[3] = {control->x_m, control->x_m, control->x_m},
                        y[3] = {control->y_m, control->y_m, control->y_m};
    if (line)
        x[1] = control->line_x0_m, y[1] = control->line_y0_m, x[2] = control->line_x1_m,
        y[2] = control->line_y1_m;
    pv_sincos(control->heading, &sine, &cosine);
#define PUT(column, value) \
    out[DRIVE_control_##column] = \
        drive_clamp((value) * (1.0f / DRIVE_SCALE_control_##column), -at->bound, at->bound)
#define PLACE(prefix, i) \
    PUT(prefix##x, (x[i] - at->x) * at->cosine + (y[i] - at->y) * at->sine); \
    PUT(prefix##y, (y[i] - at->y) * at->cosine - (x[i] - at->x) * at->sine)
    PLACE(, 0);
    PLACE(left_, 1);
    PLACE(right_, 2);
    PUT(cos, cosine * at->cosine + sine * at->sine);
    PUT(sin, sine * at->cosine - cosine * at->sine);
    PUT(sign, sign ? 1.0f : 0.0f);
    PUT(red, !sign && state == PV_STATE_RED ? 1.0f : 0.0f);
    PUT(yellow, !sign && state == PV_STATE_YELLOW ? 1.0f : 0.0f);
    PUT(green, !sign && state == PV_STATE_GREEN ? 1.0f : 0.0f);
#undef PLACE
#undef PUT
}

uint32_t drive_write_controls(
    const drive_turn* turn, const drive_pose* at, uint32_t k, float* out, drive_near* near) {
    const drive_scene* scene = &turn->scene;
    const uint32_t all = (uint32_t)scene->head->sections[DRIVE_SECTION_controls].count;
    const float range_m = turn->config->range_m;
    uint32_t count = 0, in_range = 0;
    for (uint32_t i = 0; i < all; i++) { // the k nearest so far, sorted; ties to the smaller index
        float square = square_to(at->x, at->y, scene->controls[i].x_m, scene->controls[i].y_m);
        if (square > range_m * range_m)
            continue;
        in_range++;
        if (count == k && square >= near->square[k - 1])
            continue;
        uint32_t rank = count < k ? count++ : k - 1;
        for (; rank && near->square[rank - 1] > square; rank--) {
            near->square[rank] = near->square[rank - 1];
            near->index[rank] = near->index[rank - 1];
        }
        near->square[rank] = square;
        near->index[rank] = i;
    }
    near->count = count;
    for (uint32_t i = 0; i < count; i++)
        put_control(turn, &scene->controls[near->index[i]], at, out + i * DRIVE_COUNT_control);
    memset(out + count * DRIVE_COUNT_control, 0, (k - count) * DRIVE_COUNT_control * sizeof(float));
    return in_range;
}

// ---- conflicts ----

static void put_conflict(const drive_turn* turn,
                         const drive_conflict* conflict,
                         const drive_pose* at,
                         float* out) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    const drive_way_piece* way =
        turn->scratch.pieces + (uint64_t)conflict->other * DRIVE_WAY_PIECES + conflict->other_piece;
    const int first = drive_goes_first(turn, conflict, 0);
    const int walks = turn->scene.objects[bodies->object[conflict->other]].type == PV_PEDESTRIAN;
    const float dx = conflict->x - at->x, dy = conflict->y - at->y;
#define PUT(column, value) \
    out[DRIVE_conflict_##column] = \
        drive_clamp((value) * (1.0f / DRIVE_SCALE_conflict_##column), -at->bound, at->bound)
    PUT(distance, conflict->distance);
    PUT(time, conflict->time);
    PUT(other_distance, conflict->other_distance);
    PUT(other_time, conflict->other_time);
    PUT(x, dx * at->cosine + dy * at->sine);
    PUT(y, dy * at->cosine - dx * at->sine);
    PUT(cos, way->ux * at->cosine + way->uy * at->sine);
    PUT(sin, way->uy * at->cosine - way->ux * at->sine);
    PUT(joins, conflict->joins ? 1.0f : 0.0f);
    PUT(walks, walks ? 1.0f : 0.0f);
    PUT(goes, first > 0 ? 1.0f : 0.0f);
    PUT(yields, first < 0 ? 1.0f : 0.0f);
    PUT(unknown, first == 0 ? 1.0f : 0.0f);
#undef PUT
}

void drive_write_conflicts(
    const drive_turn* turn, uint32_t row, const drive_pose* at, uint32_t k, float* out) {
    drive_conflict conflicts[DRIVE_MAX_K];
    const uint32_t count = drive_find_conflicts(turn, row, k, conflicts);
    for (uint32_t i = 0; i < count; i++)
        put_conflict(turn, &conflicts[i], at, out + i * DRIVE_COUNT_conflict);
    memset(out + count * DRIVE_COUNT_conflict, 0,
           (k - count) * DRIVE_COUNT_conflict * sizeof(float));
}

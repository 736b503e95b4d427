// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Measures those parts of an agent's step that terms of the reward or metrics need: accelerations,
// the lane, the log, the object ahead, bodies that have the right of way.
#include "drive/judge/measure.h"

#include "drive/motion/height.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/conflicts.h"
#include "drive/search/segments.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"

#include <string.h>

#define LANE_TURN_COST_M \
    3.0f // a lane that leads elsewhere is chosen only if no other lane is this much nearer
#define LANE_TURN_COSINE 0.8660254f // a lane more than 30 degrees off leads elsewhere
#define FOLLOWED_COSINE 0.2588190f  // 75 degrees: the object ahead drives the same way
#define ALIGNED_COSINE 0.9848078f   // 10 degrees
#define SMALL_OVERLAP_M 0.5f
#define LEVEL_M 3.0f // objects farther above or below are on another level

void drive_step_begin(const drive_turn* turn) {
    if (!(turn->layout->parts & DRIVE_PART_MOTION))
        return;
    uint32_t first = turn->slot->row;
    memcpy(turn->scratch.old_speed + first, turn->agents.speed + first,
           turn->slot->count * sizeof(float));
    memcpy(turn->scratch.old_heading + first, turn->agents.heading + first,
           turn->slot->count * sizeof(float));
}

// Measures by differences of speed and heading, which work for every model of motion. The path's
// lateral acceleration is speed * yaw rate; jerk is the change of the acceleration along the
// heading, known from the second step on.
static void measure_motion(const drive_turn* turn, uint32_t row, drive_outcome* step) {
    const drive_agents* agents = &turn->agents;
    float per_s = 1.0f / turn->scene.head->dt_s;
    step->acceleration = (agents->speed[row] - turn->scratch.old_speed[row]) * per_s;
    step->yaw_rate = drive_wrap(agents->heading[row] - turn->scratch.old_heading[row]) * per_s;
    step->lateral = agents->speed[row] * step->yaw_rate;
    step->jerk = turn->judged.judged_steps[row]
                     ? (step->acceleration - turn->judged.acceleration[row]) * per_s
                     : 0.0f;
}

// Measures the car's lane: the segment of a lane within reach with the least distance, to which 3 m
// are added if the lane leads more than 30 degrees away from the car's direction (its heading, or
// the opposite while it backs up). So a crossing lane is not taken for the car's own, and the
// oncoming lane only if no other is near (the rule of PufferDrive's lane metric).
static void measure_lane(const drive_turn* turn, uint32_t row, drive_outcome* step) {
    const drive_agents* agents = &turn->agents;
    const drive_scene* scene = &turn->scene;
    float forward = agents->speed[row] < 0.0f ? -1.0f : 1.0f;
    float c = forward * agents->cosine[row], s = forward * agents->sine[row],
          best = __builtin_inff();
    uint32_t lane = 0;
    uint32_t count = drive_segments_near(scene, PV_LANE, agents->x[row], agents->y[row],
                                         DRIVE_LANE_REACH_M, &turn->scratch);
    step->lane_offset = DRIVE_LANE_REACH_M;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t segment = turn->scratch.index[i];
        float cosine = scene->ux[segment] * c + scene->uy[segment] * s,
              distance = drive_sqrt(turn->scratch.square[i]);
        float cost = distance + (cosine < LANE_TURN_COSINE ? LANE_TURN_COST_M : 0.0f);
        if (cost > best || (cost == best && segment > lane))
            continue;
        if (drive_has_levels(scene) && !drive_edge_on_level(turn, row, segment))
            continue;
        best = cost;
        step->in_lane = 1;
        step->lane_cos = cosine;
        step->lane_offset = distance;
        lane = segment;
    }
    if (!step->in_lane)
        return;
    float limit = scene->lanes[scene->polyline[lane]].speed_limit_mps;
    if (limit <= 0.0f)
        limit = turn->config->unknown_speed_limit_mps;
    step->has_limit = limit > 0.0f;
    if (step->has_limit)
        step->over_limit = drive_max(drive_abs(agents->speed[row]) - limit, 0.0f);
}

int drive_follows_lane(const drive_turn* turn, uint32_t row) {
    drive_outcome found = {0};
    measure_lane(turn, row, &found);
    return found.in_lane && found.lane_cos >= DRIVE_ALIGNED;
}

// ---- red lights ----

// Returns whether the path from (x0, y0) to (x1, y1) crosses the control's stop line in the
// direction of its traffic.
static int crosses_line(const pv_control* control, float x0, float y0, float x1, float y1) {
    float lx = control->line_x1_m - control->line_x0_m,
          ly = control->line_y1_m - control->line_y0_m; // to the right
    float before = (x0 - control->line_x0_m) * ly - (y0 - control->line_y0_m) * lx;
    float after = (x1 - control->line_x0_m) * ly - (y1 - control->line_y0_m) * lx;
    if (!(before >= 0.0f && after < 0.0f) || (lx == 0.0f && ly == 0.0f))
        return 0;
    float t = before / (before - after);
    float px = x0 + t * (x1 - x0) - control->line_x0_m,
          py = y0 + t * (y1 - y0) - control->line_y0_m;
    float along = px * lx + py * ly;
    return along >= 0.0f && along <= lx * lx + ly * ly;
}

// A car runs a red light where the middle of its front crosses the stop line of a light that was
// red when the step began. A light that flashes red asks for a stop, as a stop sign does.
static void measure_lights(const drive_turn* turn, uint32_t row, drive_outcome* step) {
    const drive_agents* agents = &turn->agents;
    const drive_scene* scene = &turn->scene;
    float front = 0.5f * agents->length[row];
    float x0 = turn->scratch.old_x[row] + front * turn->scratch.old_cosine[row];
    float y0 = turn->scratch.old_y[row] + front * turn->scratch.old_sine[row];
    float x1 = agents->x[row] + front * agents->cosine[row],
          y1 = agents->y[row] + front * agents->sine[row];
    for (uint64_t i = 0; i < scene->head->sections[DRIVE_SECTION_controls].count; i++) {
        const pv_control* control = &scene->controls[i];
        if (control->kind != PV_TRAFFIC_LIGHT && control->kind != PV_STOP_SIGN)
            continue;
        if (!crosses_line(control, x0, y0, x1, y1))
            continue;
        if (drive_has_levels(scene) && drive_abs(control->z_m - agents->ground[row]) > LEVEL_M)
            continue;
        uint32_t last = control->state_count - 1, frame = drive_log_frame(turn) - 1;
        uint8_t state = scene->states[control->states + (frame < last ? frame : last)];
        int red = control->kind == PV_TRAFFIC_LIGHT && (state & PV_STATE_COLOUR) == PV_STATE_RED;
        if (red && !(state & PV_STATE_FLASHING))
            step->red_light = 1;
        if (red ? state & PV_STATE_FLASHING : control->kind == PV_STOP_SIGN)
            step->must_stop = 1;
    }
}

static void measure_log(const drive_turn* turn, uint32_t row, drive_outcome* step) {
    const drive_agents* agents = &turn->agents;
    const pv_frame* frame =
        drive_frame(&turn->scene, &turn->scene.objects[agents->object[row]], drive_log_frame(turn));
    if (!frame)
        return;
    float dx = agents->x[row] - frame->x_m, dy = agents->y[row] - frame->y_m;
    step->logged = 1;
    step->log_distance = drive_sqrt(dx * dx + dy * dy);
}

// Returns the time to collision with the nearest object that the car follows, at constant speeds
// (Montali et al., "The Waymo Open Sim Agents Challenge", NeurIPS 2023, appendix): its box lies
// ahead, overlaps the strip that the car's box sweeps straight on, and heads the same way: within
// 75 degrees, or within 10 if it overlaps the strip by less than half a metre.
static float time_to_collision(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    const drive_bodies* bodies = &turn->scratch.bodies;
    float c = agents->cosine[row], s = agents->sine[row], nearest = __builtin_inff(),
          closing = 0.0f;
    if (agents->flags[row] & DRIVE_ALONE)
        return DRIVE_MOST_TTC_S;
    for (uint32_t j = 0; j < bodies->count; j++) {
        float cosine = c * bodies->cosine[j] + s * bodies->sine[j],
              dx = bodies->x[j] - agents->x[row];
        if (bodies->row[j] == (int32_t)row || cosine < FOLLOWED_COSINE)
            continue;
        float sine = drive_abs(c * bodies->sine[j] - s * bodies->cosine[j]),
              dy = bodies->y[j] - agents->y[row];
        float gap = dx * c + dy * s - 0.5f * agents->length[row] -
                    (bodies->half_length[j] * cosine + bodies->half_width[j] * sine);
        float beside = drive_abs(dy * c - dx * s) - 0.5f * agents->width[row] -
                       (bodies->half_length[j] * sine + bodies->half_width[j] * cosine);
        if (gap <= 0.0f || gap >= nearest || beside >= 0.0f)
            continue;
        if (drive_has_levels(&turn->scene) &&
            drive_abs(bodies->ground[j] - agents->ground[row]) > LEVEL_M)
            continue;
        if (beside > -SMALL_OVERLAP_M && cosine < ALIGNED_COSINE)
            continue;
        nearest = gap;
        closing = agents->speed[row] - bodies->speed[j] * cosine;
    }
    return closing > 0.0f ? drive_min(nearest / closing, DRIVE_MOST_TTC_S) : DRIVE_MOST_TTC_S;
}

// A car fails to yield where its front enters a shared area less than DRIVE_YIELD_S before a body
// that goes first and has not passed yet.
static void measure_yield(const drive_turn* turn, uint32_t row, drive_outcome* step) {
    const drive_agents* agents = &turn->agents;
    const float dx = agents->x[row] - turn->scratch.old_x[row],
                dy = agents->y[row] - turn->scratch.old_y[row];
    const float moved = drive_sqrt(dx * dx + dy * dy);
    drive_conflict conflicts[DRIVE_MAX_K];
    if (agents->speed[row] <= 0.0f)
        return;
    const uint32_t count = drive_find_conflicts(turn, row, DRIVE_MAX_K, conflicts);
    for (uint32_t i = 0; i < count; i++) {
        const drive_conflict* conflict = &conflicts[i];
        const int enters = conflict->distance <= 0.0f && conflict->distance + moved > 0.0f;
        if (enters && conflict->other_time < DRIVE_YIELD_S && !drive_has_passed(turn, conflict) &&
            drive_goes_first(turn, conflict, 1) < 0)
            step->failed_to_yield = 1;
    }
}

void drive_measure(const drive_turn* turn, uint32_t row, drive_outcome* step) {
    const uint32_t parts = turn->layout->parts;
    if (parts & DRIVE_PART_MOTION)
        measure_motion(turn, row, step);
    if (parts & DRIVE_PART_LANE)
        measure_lane(turn, row, step);
    if (parts & DRIVE_PART_LIGHT)
        measure_lights(turn, row, step);
    if (parts & DRIVE_PART_LOG)
        measure_log(turn, row, step);
    if (parts & DRIVE_PART_AHEAD)
        step->ttc = time_to_collision(turn, row);
    if (parts & DRIVE_PART_YIELD)
        measure_yield(turn, row, step);
}

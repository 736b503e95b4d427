// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Ways along the lane graph: where a car joins it, which way it takes where lanes part, and the next goal of an agent.
#include "../rng.h"
#include "kernels.h"
#include "state.h"

#define AHEAD_COSINE 0.70710678f // 45 degrees
#define LEVEL_M 2.0f             // a lane higher above or deeper below is on another level
#define MOST_PIECES 4096         // of one way; lanes of hardly any length may form a ring
#define GOAL_DRAWS 0x80000000u   // draws below are the bundle's and the rewards'

uint32_t drive_lane_segment_at(const drive_turn* turn, float x, float y, float cosine, float sine, float ground, float reach_m) {
    const drive_scene* scene = &turn->scene;
    uint32_t count = drive_segments_within(scene, PV_LANE, x, y, reach_m, &turn->scratch), best = DRIVE_NO_SEGMENT;
    float least = __builtin_inff();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = turn->scratch.index[i];
        if (turn->scratch.square[i] >= least || scene->ux[s] * cosine + scene->uy[s] * sine < AHEAD_COSINE) continue;
        float rise = drive_abs(scene->z[s] - ground) - drive_abs(scene->slope[s]) * scene->half[s];
        if (drive_has_levels(scene) && rise > LEVEL_M) continue;
        least = turn->scratch.square[i];
        best = s;
    }
    return best;
}

uint32_t drive_lane_segment_after(const drive_turn* turn, uint32_t segment, uint32_t step, uint32_t draws) {
    const drive_scene* scene = &turn->scene;
    const uint32_t number = scene->polyline[segment];
    const pv_lane* lane = &scene->lanes[number];
    if (segment + 1 < lane->first_segment + lane->segment_count) return segment + 1;
    if (!lane->exit_count) return DRIVE_NO_SEGMENT;
    uint32_t exit = 0;
    if (lane->exit_count > 1)
        exit = pv_rng_below(turn->state->seed, turn->state->episode, step, draws + number, lane->exit_count);
    return scene->lanes[scene->links[lane->exits + exit]].first_segment;
}

int drive_next_goal(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    const drive_scene* scene = &turn->scene;
    const float x = agents->x[row], y = agents->y[row];
    float ahead = turn->config->next_goal_m;
    uint32_t s = drive_lane_segment_at(turn, x, y, agents->cosine[row], agents->sine[row], agents->ground[row], DRIVE_JOIN_M);
    if (s == DRIVE_NO_SEGMENT) return 0;
    float at = drive_clamp((x - scene->x[s]) * scene->ux[s] + (y - scene->y[s]) * scene->uy[s], -scene->half[s], scene->half[s]);
    for (uint32_t n = 0; n < MOST_PIECES && at + ahead > scene->half[s]; n++) {
        uint32_t next = drive_lane_segment_after(turn, s, turn->state->step, GOAL_DRAWS + (row << 16));
        ahead -= scene->half[s] - at;
        at = scene->half[s];
        if (next == DRIVE_NO_SEGMENT) break;
        s = next;
        at = -scene->half[s];
    }
    if (turn->config->next_goal_m - ahead <= 2.0f * turn->config->goal_radius_m && at >= scene->half[s]) return 0; // a dead end
    at = drive_min(at + ahead, scene->half[s]);
    agents->goal_x[row] = scene->x[s] + at * scene->ux[s];
    agents->goal_y[row] = scene->y[s] + at * scene->uy[s];
    agents->goal_distance[row] = drive_goal_distance(agents, row);
    return 1;
}

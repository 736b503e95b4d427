// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Routes along the lane graph: where a car enters it, which exit it takes where lanes split, the
// next goal of an agent, and how far it has come on the shortest route to its goal.
#include "drive/search/lanes.h"

#include "contract/rng.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/roads.h"
#include "drive/state.h"
#include "drive/turn.h"
#include "envs/kernels.h"

#define AHEAD_COSINE 0.70710678f // 45 degrees
#define LEVEL_M 2.0f             // lanes higher above or deeper below are on another level
#define MOST_PIECES 4096         // stops a route that goes round a ring of very short lanes
#define AT_GOAL_M 4.0f           // a lane this near to a goal leads to it
#define MOST_ENDS 32             // lanes near a goal that are looked at
#define GOAL_DRAWS 0x80000000u   // lower draw numbers are the bundle's and the rewards'

uint32_t drive_lane_segment_at(const drive_turn* turn,
                               float x,
                               float y,
                               float cosine,
                               float sine,
                               float ground,
                               float reach_m) {
    const drive_scene* scene = &turn->scene;
    uint32_t count = drive_segments_within(scene, 1u << PV_LANE, x, y, reach_m, &turn->scratch),
             best = DRIVE_NO_SEGMENT;
    float least = __builtin_inff();
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t s = turn->scratch.index[i];
        const float square = turn->scratch.square[i];
        if (square > least || (square == least && s > best))
            continue; // on ties the first segment of the scene is taken
        if (scene->ux[s] * cosine + scene->uy[s] * sine < AHEAD_COSINE)
            continue;
        float rise = drive_abs(scene->z[s] - ground) - drive_abs(scene->slope[s]) * scene->half[s];
        if (drive_has_levels(scene) && rise > LEVEL_M)
            continue;
        least = square;
        best = s;
    }
    return best;
}

uint32_t drive_lane_segment_after(const drive_turn* turn,
                                  uint32_t segment,
                                  uint32_t step,
                                  uint32_t draws) {
    const drive_scene* scene = &turn->scene;
    const uint32_t number = scene->polyline[segment];
    const pv_lane* lane = &scene->lanes[number];
    if (segment + 1 < lane->first_segment + lane->segment_count)
        return segment + 1;
    if (!lane->exit_count)
        return DRIVE_NO_SEGMENT;
    uint32_t exit = 0;
    if (lane->exit_count > 1)
        exit = pv_rng_below(drive_bundle_seed(turn->state), turn->state->episode, step,
                            draws + number, lane->exit_count);
    return scene->lanes[scene->links[lane->exits + exit]].first_segment;
}

uint32_t drive_lane_segment_towards(const drive_scene* scene,
                                    uint32_t segment,
                                    float goal_x,
                                    float goal_y) {
    const pv_lane* lane = &scene->lanes[scene->polyline[segment]];
    uint32_t next = DRIVE_NO_SEGMENT;
    float least = __builtin_inff();
    if (segment + 1 < lane->first_segment + lane->segment_count)
        return segment + 1;
    for (uint32_t i = 0; i < lane->exit_count; i++) {
        const pv_lane* exit = &scene->lanes[scene->links[lane->exits + i]];
        const uint32_t last = exit->first_segment + exit->segment_count - 1;
        const float x = scene->x[last] + scene->half[last] * scene->ux[last],
                    y = scene->y[last] + scene->half[last] * scene->uy[last];
        const float square = (goal_x - x) * (goal_x - x) + (goal_y - y) * (goal_y - y);
        if (square >= least)
            continue;
        least = square;
        next = exit->first_segment;
    }
    return next;
}

int drive_next_goal(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    const drive_scene* scene = &turn->scene;
    const float x = agents->x[row], y = agents->y[row];
    float ahead = turn->config->next_goal_m;
    uint32_t s = drive_lane_segment_at(turn, x, y, agents->cosine[row], agents->sine[row],
                                       agents->ground[row], DRIVE_JOIN_M);
    if (s == DRIVE_NO_SEGMENT)
        return 0;
    float at = drive_clamp((x - scene->x[s]) * scene->ux[s] + (y - scene->y[s]) * scene->uy[s],
                           -scene->half[s], scene->half[s]);
    for (uint32_t n = 0; n < MOST_PIECES && at + ahead > scene->half[s]; n++) {
        uint32_t next =
            drive_lane_segment_after(turn, s, turn->state->step, GOAL_DRAWS + (row << 16));
        ahead -= scene->half[s] - at;
        at = scene->half[s];
        if (next == DRIVE_NO_SEGMENT)
            break;
        s = next;
        at = -scene->half[s];
    }
    if (turn->config->next_goal_m - ahead <= 2.0f * turn->config->goal_radius_m &&
        at >= scene->half[s])
        return 0; // a dead end
    at = drive_min(at + ahead, scene->half[s]);
    agents->goal_x[row] = scene->x[s] + at * scene->ux[s];
    agents->goal_y[row] = scene->y[s] + at * scene->uy[s];
    agents->goal_distance[row] = drive_goal_distance(agents, row);
    return 1;
}

// ---- the shortest way to a goal ----

typedef struct lane_way {
    const drive_scene* scene;
    const float* ahead; // per lane: from the start to the lane's first point, infinite where it is
                        // not reached
    const uint32_t* before; // per lane: the one that leads to it
    uint32_t lane;          // the last one
    float length_m;
} lane_way;

// Returns the metres along its lane to a segment's first point.
static float along_lane(const drive_scene* scene, uint32_t segment) {
    float metres = 0.0f;
    for (uint32_t s = scene->lanes[scene->polyline[segment]].first_segment; s < segment; s++)
        metres += 2.0f * scene->half[s];
    return metres;
}

// Returns the metres from a segment's first point to its point nearest to (x, y).
static float along_segment(const drive_scene* scene, uint32_t s, float x, float y) {
    float along = (x - scene->x[s]) * scene->ux[s] + (y - scene->y[s]) * scene->uy[s];
    return drive_clamp(along, -scene->half[s], scene->half[s]) + scene->half[s];
}

// Fills `ahead` and `before` from a start on a lane (Bellman and Ford).
static void spread(
    const drive_scene* scene, uint32_t lane, float along, float* ahead, uint32_t* before) {
    const uint32_t lanes = (uint32_t)scene->head->sections[DRIVE_SECTION_lanes].count;
    int changed = 1;
    for (uint32_t i = 0; i < lanes; i++)
        ahead[i] = __builtin_inff(), before[i] = i;
    ahead[lane] = -along;
    for (uint32_t round = 0; changed && round < lanes; round++) {
        changed = 0;
        for (uint32_t i = 0; i < lanes; i++) {
            float end = ahead[i] + scene->lanes[i].length_m;
            for (uint32_t k = 0; end < __builtin_inff() && k < scene->lanes[i].exit_count; k++) {
                uint32_t next = scene->links[scene->lanes[i].exits + k];
                if (end >= ahead[next])
                    continue;
                ahead[next] = end;
                before[next] = i;
                changed = 1;
            }
        }
    }
}

// Lists, for each lane near a goal, the segment nearest to it. Returns how many there are.
static uint32_t find_ends(const drive_turn* turn, float x, float y, uint32_t* ends) {
    const drive_scratch* scratch = &turn->scratch;
    const uint16_t* lane_of = turn->scene.polyline;
    uint32_t found = drive_segments_within(&turn->scene, 1u << PV_LANE, x, y, AT_GOAL_M, scratch),
             count = 0;
    float square[MOST_ENDS];
    for (uint32_t i = 0; i < found; i++) {
        const uint32_t s = scratch->index[i];
        uint32_t at = 0;
        while (at < count && lane_of[ends[at]] != lane_of[s])
            at++;
        if (at == MOST_ENDS)
            continue;
        const int nearer = at == count || scratch->square[i] < square[at] ||
                           (scratch->square[i] == square[at] && s < ends[at]);
        if (nearer)
            ends[at] = s, square[at] = scratch->square[i];
        count += (uint32_t)(at == count);
    }
    return count;
}

// Finds the shortest route from a segment to a lane at the agent's goal. Returns 0 if there is
// none.
static int find_way(
    const drive_turn* turn, uint32_t row, uint32_t start, float x, float y, lane_way* out) {
    const drive_scene* scene = &turn->scene;
    const float goal_x = turn->agents.goal_x[row], goal_y = turn->agents.goal_y[row];
    uint32_t ends[MOST_ENDS], count = find_ends(turn, goal_x, goal_y, ends);
    if (!count)
        return 0;
    spread(scene, scene->polyline[start],
           along_lane(scene, start) + along_segment(scene, start, x, y), turn->scratch.square,
           turn->scratch.index);
    *out = (lane_way){.scene = scene,
                      .ahead = turn->scratch.square,
                      .before = turn->scratch.index,
                      .length_m = __builtin_inff()};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t lane = scene->polyline[ends[i]];
        float length = out->ahead[lane] + along_lane(scene, ends[i]) +
                       along_segment(scene, ends[i], goal_x, goal_y);
        if (length <= 0.0f || length > out->length_m ||
            (length == out->length_m && lane > out->lane))
            continue;
        out->length_m = length;
        out->lane = lane;
    }
    return out->length_m < __builtin_inff();
}

// Returns the metres from the start of a route to its point nearest to (x, y).
static float along_way(const lane_way* way, float x, float y) {
    const drive_scene* scene = way->scene;
    const uint32_t lanes = (uint32_t)scene->head->sections[DRIVE_SECTION_lanes].count;
    float least = __builtin_inff(), found = 0.0f;
    uint32_t lane = way->lane;
    for (uint32_t n = 0; n < lanes; n++, lane = way->before[lane]) {
        float at = way->ahead[lane];
        for (uint32_t i = 0; i < scene->lanes[lane].segment_count; i++) {
            uint32_t s = scene->lanes[lane].first_segment + i;
            float length = 2.0f * scene->half[s], from = drive_max(0.0f, -at),
                  to = drive_min(length, way->length_m - at);
            if (from <= to) {
                float along = drive_clamp(along_segment(scene, s, x, y), from, to),
                      middle = along - scene->half[s];
                float dx = scene->x[s] + middle * scene->ux[s] - x,
                      dy = scene->y[s] + middle * scene->uy[s] - y;
                if (dx * dx + dy * dy < least) {
                    least = dx * dx + dy * dy;
                    found = at + along;
                }
            }
            at += length;
        }
        if (way->before[lane] == lane)
            break;
    }
    return found;
}

float drive_way_share(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    const pv_object* object = &turn->scene.objects[agents->object[row]];
    const pv_frame* frame = drive_frame(&turn->scene, object, (uint32_t)turn->config->init_step);
    float sine, cosine;
    lane_way way;
    if (!frame)
        return -1.0f;
    pv_sincos((float)frame->heading * HEADING_UNIT, &sine, &cosine);
    const float ground = frame->z_m - 0.5f * object->height_m;
    uint32_t start =
        drive_lane_segment_at(turn, frame->x_m, frame->y_m, cosine, sine, ground, DRIVE_JOIN_M);
    if (start == DRIVE_NO_SEGMENT || !find_way(turn, row, start, frame->x_m, frame->y_m, &way))
        return -1.0f;
    return along_way(&way, agents->x[row], agents->y[row]) / way.length_m;
}

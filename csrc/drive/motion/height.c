// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Heights, in scenes with places where two grounds lie more than a metre apart (PV_SCENE_LEVELS).
// Elsewhere, on hills too, objects that overlap in the plane are on one level, and nothing here
// runs.
//
// Objects that follow their log have its heights. A car that a policy drives starts at the height
// of its log and then stands on the road: on the segment of a lane or edge nearest to its centre,
// among those whose height there is within CLIMB_M of its own, at most SEARCH_M away. It keeps a
// lane's segment as long as it is next to it, so most steps need no search; a car that was next to
// none looks for one in every SEARCH_STEPS-th step. Its height follows that of the segment by at
// most RISE_M per step, and stays as it is if there is no such segment.
#include "drive/motion/height.h"

#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/roads.h"
#include "drive/state.h"
#include "drive/turn.h"

#include <string.h>

#define CLIMB_M 2.0f
#define SEARCH_M 20.0f
#define CLOSE_M 5.0f // searched first
#define RISE_M 0.5f  // at 30 m/s a slope of 16 %
#define SEARCH_STEPS 4
#define BESIDE_M 3.0f // of a lane's centre line
#define EDGE_M 2.0f   // an edge higher above or deeper below a car's ground is on another level

typedef struct surface {
    uint32_t segment; // or DRIVE_NO_SEGMENT
    float height;     // of the segment where it is nearest, m
    float square;     // squared distance in the plane, m^2
} surface;

static surface surface_of(const drive_scene* scene, uint32_t s, float x, float y) {
    float dx = x - scene->x[s], dy = y - scene->y[s], half = scene->half[s];
    float along = drive_clamp(dx * scene->ux[s] + dy * scene->uy[s], -half, half);
    float rest_x = dx - along * scene->ux[s], rest_y = dy - along * scene->uy[s];
    return (surface){s, scene->z[s] + along * scene->slope[s], rest_x * rest_x + rest_y * rest_y};
}

static int is_plausible(const surface* found, float ground) {
    return drive_abs(found->height - ground) <= CLIMB_M;
}

// Finds the plausible segment of a lane or edge that is nearest, and nearer than *best; the first
// one of the scene if several are equally near. Most are close by, so few groups of segments are
// looked at.
static void search(const drive_turn* turn, float x, float y, float ground, surface* best) {
    static const float radii[] = {CLOSE_M, SEARCH_M};
    const drive_scratch* scratch = &turn->scratch;
    for (int r = 0; r < 2; r++) {
        float limit = drive_sqrt(best->square) + DRIVE_REACH_SLACK_M,
              reach = drive_min(radii[r], limit);
        uint32_t count = drive_segments_within(&turn->scene, 1u << PV_LANE | 1u << PV_EDGE, x, y,
                                               reach, scratch);
        for (uint32_t i = 0; i < count; i++) {
            if (scratch->square[i] > limit * limit)
                continue;
            surface it = surface_of(&turn->scene, scratch->index[i], x, y);
            int nearer = it.square < best->square ||
                         (it.square == best->square && it.segment < best->segment);
            if (!nearer || !is_plausible(&it, ground))
                continue;
            *best = it;
            limit = drive_sqrt(it.square) + DRIVE_REACH_SLACK_M;
        }
        if (best->square <= radii[r] * radii[r])
            return;
    }
}

static void follow_ground(drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    const drive_scene* scene = &turn->scene;
    float x = agents->x[row], y = agents->y[row], ground = agents->ground[row];
    surface best = {DRIVE_NO_SEGMENT, ground, SEARCH_M * SEARCH_M};
    uint32_t kept = agents->surface[row];
    int beside = 0;
    const int is_lane = kept < scene->first[PV_LANE + 1];
    if (is_lane || (kept >= scene->first[PV_EDGE] && kept < scene->first[PV_SEGMENT_TYPES])) {
        float along =
            (x - scene->x[kept]) * scene->ux[kept] + (y - scene->y[kept]) * scene->uy[kept];
        surface under = surface_of(scene, kept, x, y);
        beside =
            is_lane && drive_abs(along) <= scene->half[kept] && under.square <= BESIDE_M * BESIDE_M;
        if (is_plausible(&under, ground) && under.square <= best.square)
            best = under; // the search looks for a nearer one
        else
            beside = 0;
    }
    float rise = RISE_M;
    if (!beside) {
        if (kept == DRIVE_NO_SEGMENT && (turn->slot->clock + agents->object[row]) % SEARCH_STEPS)
            return;
        search(turn, x, y, ground, &best);
        rise = RISE_M * SEARCH_STEPS;
    }
    agents->surface[row] = best.square <= BESIDE_M * BESIDE_M ? best.segment : DRIVE_NO_SEGMENT;
    agents->ground[row] = ground + drive_clamp(best.height - ground, -rise, rise);
}

void drive_place_height(const drive_turn* turn, uint32_t row, float centre_z_m) {
    turn->agents.ground[row] =
        centre_z_m - 0.5f * turn->scene.objects[turn->agents.object[row]].height_m;
    turn->agents.surface[row] = DRIVE_NO_SEGMENT;
}

void drive_follow_ground(drive_turn* turn) {
    if (!drive_has_levels(&turn->scene))
        return;
    uint32_t first = turn->slot->row, end = first + turn->slot->count;
    memcpy(turn->scratch.old_ground + first, turn->agents.ground + first,
           turn->slot->count * sizeof(float));
    for (uint32_t row = first; row < end; row++) {
        if (!(turn->agents.flags[row] & DRIVE_ACTIVE))
            continue;
        const pv_object* object = &turn->scene.objects[turn->agents.object[row]];
        const pv_frame* frame = turn->config->replay_log
                                    ? drive_frame(&turn->scene, object, drive_log_frame(turn))
                                    : NULL;
        if (frame)
            drive_place_height(turn, row, frame->z_m);
        if (!turn->config->replay_log)
            follow_ground(turn, row);
    }
}

int drive_edge_on_level(const drive_turn* turn, uint32_t row, uint32_t s) {
    surface edge = surface_of(&turn->scene, s, turn->agents.x[row], turn->agents.y[row]);
    return drive_abs(edge.height - turn->agents.ground[row]) <= EDGE_M;
}

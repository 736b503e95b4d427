// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Contacts of oriented boxes: of agents with other objects and with road edges. The boxes have
// box_scale of the objects' length and width, around the same centre. Each pair is checked once,
// and only if the circles around the two boxes touch, which is rare. In scenes with levels
// (height.c) boxes touch only if their heights overlap too; for that each counts as at least
// LEAST_HEIGHT_M tall, so that objects on one level stay in contact.
//
// A contact counts in the step in which it begins. Whether a pair touched before is computed again
// from the poses before the step. So nothing has to be saved, and hitting a second car counts while
// the first one still touches.
#include "drive/judge/collide.h"

#include "contract/base.h"
#include "drive/judge/measure.h"
#include "drive/motion/bodies.h"
#include "drive/motion/height.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/roads.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"
#include "envs/kernels.h"

#include <string.h>

#define REACH_MARGIN_M 1e-3f
#define LEAST_HEIGHT_M 1.0f // SAME_LEVEL_M in drive_env/scenes/levels.py must not be more

typedef struct box {
    float x, y, cosine, sine, half_length, half_width, ground;
} box;

// Returns whether two boxes overlap or touch: no side of one separates them (separating axis
// theorem).
PV_INLINE int boxes_touch(box a, box b) {
    float dx = b.x - a.x, dy = b.y - a.y;
    float c = drive_abs(a.cosine * b.cosine + a.sine * b.sine),
          s = drive_abs(a.cosine * b.sine - a.sine * b.cosine);
    return drive_abs(dx * a.cosine + dy * a.sine) <=
               a.half_length + b.half_length * c + b.half_width * s &&
           drive_abs(dy * a.cosine - dx * a.sine) <=
               a.half_width + b.half_length * s + b.half_width * c &&
           drive_abs(dx * b.cosine + dy * b.sine) <=
               b.half_length + a.half_length * c + a.half_width * s &&
           drive_abs(dy * b.cosine - dx * b.sine) <=
               b.half_width + a.half_length * s + a.half_width * c;
}

static box box_now(const drive_turn* turn, uint32_t i) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    const float scale = turn->config->box_scale;
    return (box){.x = bodies->x[i],
                 .y = bodies->y[i],
                 .cosine = bodies->cosine[i],
                 .sine = bodies->sine[i],
                 .half_length = scale * bodies->half_length[i],
                 .half_width = scale * bodies->half_width[i],
                 .ground = bodies->ground[i]};
}

// Returns whether the heights of bodies i and j overlap; always so in scenes with one level.
static int levels_touch(
    const drive_turn* turn, uint32_t i, uint32_t j, float ground_i, float ground_j) {
    const uint32_t* object = turn->scratch.bodies.object;
    if (!drive_has_levels(&turn->scene))
        return 1;
    float height_i = drive_max(turn->scene.objects[object[i]].height_m, LEAST_HEIGHT_M);
    float height_j = drive_max(turn->scene.objects[object[j]].height_m, LEAST_HEIGHT_M);
    return ground_i <= ground_j + height_j && ground_j <= ground_i + height_i;
}

// Computes the body's box before this step. Returns 0 if it was not in the scene.
static int box_before(const drive_turn* turn, uint32_t i, box* out) {
    *out = box_now(turn, i);
    int32_t row = turn->scratch.bodies.row[i];
    if (row >= 0) {
        out->x = turn->scratch.old_x[row];
        out->y = turn->scratch.old_y[row];
        out->cosine = turn->scratch.old_cosine[row];
        out->sine = turn->scratch.old_sine[row];
        out->ground = turn->scratch.old_ground[row];
        return 1;
    }
    if (row == DRIVE_STANDING_ROW)
        return 1;
    if (row <= DRIVE_FOLLOWER_ROW) {
        const uint32_t k = (uint32_t)(DRIVE_FOLLOWER_ROW - row);
        out->x = turn->scratch.was_x[k];
        out->y = turn->scratch.was_y[k];
        out->ground = turn->scratch.was_ground[k];
        if (out->x == DRIVE_NOWHERE_M)
            return 0;
        pv_sincos(turn->scratch.was_heading[k], &out->sine, &out->cosine);
        return 1;
    }
    const pv_frame* frame =
        drive_body_frame(turn, turn->scratch.bodies.object[i], drive_log_frame(turn) - 1);
    if (!frame)
        return 0;
    out->x = frame->x_m;
    out->y = frame->y_m;
    out->ground = frame->z_m - 0.5f * turn->scene.objects[turn->scratch.bodies.object[i]].height_m;
    pv_sincos((float)frame->heading * HEADING_UNIT, &out->sine, &out->cosine);
    return 1;
}

// ---- faults ----

#define STANDS_MPS 0.1f // slower is standing
#define STRIP_M 0.1f

// Returns the end of body i's box at its front (way 1) or rear (way -1), `deep` metres long.
static box strip_of(const drive_turn* turn, uint32_t i, float way, float deep) {
    box strip = box_now(turn, i);
    float half = drive_min(0.5f * deep, strip.half_length),
          ahead = way * (strip.half_length - half);
    strip.x += ahead * strip.cosine;
    strip.y += ahead * strip.sine;
    strip.half_length = half;
    return strip;
}

// Returns whether a contact that begins is the fault of agent i, by the rules of nuPlan's metric
// "no at-fault collisions". A moving agent is at fault if the other body stands or if the agent's
// leading end touches it; if the two touch side by side (not at the agent's other end), the agent
// is at fault if it does not follow a lane. The ends are as deep as the cars move in a step, plus
// 10 cm.
static int is_at_fault(const drive_turn* turn, uint32_t i, uint32_t j) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    float speed = bodies->speed[i], other = drive_abs(bodies->speed[j]),
          dt_s = turn->scene.head->dt_s;
    float way = speed < 0.0f ? -1.0f : 1.0f;
    if (drive_abs(speed) <= STANDS_MPS)
        return 0;
    if (other <= STANDS_MPS)
        return 1;
    if (boxes_touch(strip_of(turn, i, way, drive_abs(speed) * dt_s + STRIP_M), box_now(turn, j)))
        return 1;
    if (boxes_touch(strip_of(turn, i, -way, other * dt_s + STRIP_M), box_now(turn, j)))
        return 0;
    return !drive_follows_lane(turn, (uint32_t)bodies->row[i]);
}

// Records an agent's first contact, so that one can tell who hit whom. The poses are those before
// the step, when a side of one box still separated the two; if one of them was not in the scene
// then, they are those after the step.
static void keep_contact(const drive_turn* turn, uint32_t i, uint32_t j, int fault) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    const drive_judged* judged = &turn->judged;
    const int32_t row = bodies->row[i], other = bodies->row[j];
    box a, b;
    if (judged->contact_object[row])
        return;
    if (!box_before(turn, i, &a) || !box_before(turn, j, &b)) {
        a = box_now(turn, i);
        b = box_now(turn, j);
    }
    judged->contact_object[row] = bodies->object[j] + 1;
    judged->contact_driver[row] = other >= 0 || other == DRIVE_STANDING_ROW ? PV_DRIVE_BY_POLICY
                                  : other <= DRIVE_FOLLOWER_ROW             ? PV_DRIVE_BY_IDM
                                                                            : PV_DRIVE_BY_LOG;
    judged->contact_fault[row] = (uint32_t)fault;
    judged->contact_x[row] = a.x;
    judged->contact_y[row] = a.y;
    judged->contact_heading[row] = drive_angle(a.cosine, a.sine);
    judged->contact_speed[row] = bodies->speed[i];
    judged->other_x[row] = b.x;
    judged->other_y[row] = b.y;
    judged->other_heading[row] = drive_angle(b.cosine, b.sine);
    judged->other_speed[row] = bodies->speed[j];
}

static void check_pair(drive_turn* turn, uint32_t i, uint32_t j, int moved) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    box a = box_now(turn, i), b = box_now(turn, j);
    if (!boxes_touch(a, b) || !levels_touch(turn, i, j, a.ground, b.ground))
        return;
    int begins = moved && !(box_before(turn, i, &a) && box_before(turn, j, &b) &&
                            boxes_touch(a, b) && levels_touch(turn, i, j, a.ground, b.ground));
    for (int side = 0; side < 2; side++) {
        const uint32_t me = side ? j : i, other = side ? i : j;
        int32_t row = bodies->row[me];
        if (row < 0)
            continue;
        turn->agents.flags[row] |= DRIVE_COLLIDED;
        turn->scratch.new_contacts[row] += (uint32_t)begins;
        if (!begins || !turn->config->metrics)
            continue;
        const int fault = is_at_fault(turn, me, other);
        turn->judged.faults[row] += (uint32_t)fault;
        keep_contact(turn, me, other, fault);
    }
}

// Sets touch[j] to 1 for the bodies whose circle touches that of body i, 0 for others, up to a
// multiple of 16.
PV_CLONES static void circles_touch(const drive_bodies* bodies,
                                    uint32_t i,
                                    uint8_t* restrict touch) {
    float x = bodies->x[i], y = bodies->y[i], radius = bodies->radius[i];
    uint32_t end = (bodies->count + PV_LANES - 1) / PV_LANES *
                   PV_LANES; // the points behind the bodies are far away
    for (uint32_t j = 0; j < end; j++) {
        float dx = bodies->x[j] - x, dy = bodies->y[j] - y, reach = radius + bodies->radius[j];
        touch[j] = dx * dx + dy * dy <= reach * reach;
    }
}

// Checks agent i against all bodies except the agents before it: those pairs are already checked.
static void check_agent(drive_turn* turn, uint32_t i, int moved) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    uint8_t* touch = turn->scratch.touch;
    circles_touch(bodies, i, touch);
    for (uint32_t base = 0; base < bodies->count; base += 8) {
        uint64_t eight;
        memcpy(&eight, touch + base, sizeof eight);
        if (!eight)
            continue;
        uint32_t end = base + 8 < bodies->count ? base + 8 : bodies->count;
        for (uint32_t j = base; j < end; j++) {
            if (touch[j] && j != i && (bodies->row[j] < 0 || j > i))
                check_pair(turn, i, j, moved);
        }
    }
}

void drive_collisions(drive_turn* turn, int moved) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    uint32_t first = turn->slot->row;
    for (uint32_t row = first; row < first + turn->slot->count; row++)
        turn->agents.flags[row] &= ~DRIVE_COLLIDED;
    memset(turn->scratch.new_contacts + first, 0, turn->slot->count * sizeof(uint32_t));
    for (uint32_t n = 0; n < bodies->driven_count; n++) {
        if (bodies->row[bodies->driven[n]] >= 0)
            check_agent(turn, bodies->driven[n], moved);
    }
}

// ---- road edges ----

// Returns whether a segment touches the box of agent `row` (separating axis theorem: the box's two
// axes and the segment's normal).
static int edge_meets_box(const drive_turn* turn, uint32_t row, uint32_t s) {
    const drive_agents* agents = &turn->agents;
    const drive_scene* scene = &turn->scene;
    float c = agents->cosine[row], sn = agents->sine[row], half = scene->half[s];
    const float half_scale = 0.5f * turn->config->box_scale;
    float half_length = half_scale * agents->length[row],
          half_width = half_scale * agents->width[row];
    float dx = scene->x[s] - agents->x[row], dy = scene->y[s] - agents->y[row];
    float ux = drive_abs(scene->ux[s] * c + scene->uy[s] * sn),
          uy = drive_abs(scene->uy[s] * c - scene->ux[s] * sn);
    return drive_abs(dx * c + dy * sn) <= half_length + half * ux &&
           drive_abs(dy * c - dx * sn) <= half_width + half * uy &&
           drive_abs(dx * scene->uy[s] - dy * scene->ux[s]) <= half_length * uy + half_width * ux;
}

// Returns whether the centre's path of this step crosses a segment. At 30 m/s a car moves three
// metres per step: more than its width.
static int path_crosses(const drive_turn* turn, uint32_t row, uint32_t s) {
    const drive_scene* scene = &turn->scene;
    float ux = scene->ux[s], uy = scene->uy[s];
    float x0 = turn->scratch.old_x[row] - scene->x[s], y0 = turn->scratch.old_y[row] - scene->y[s];
    float x1 = turn->agents.x[row] - scene->x[s], y1 = turn->agents.y[row] - scene->y[s];
    float across0 = x0 * uy - y0 * ux, across1 = x1 * uy - y1 * ux;
    if ((across0 > 0.0f) == (across1 > 0.0f))
        return 0;
    float t = across0 / (across0 - across1);
    float along0 = x0 * ux + y0 * uy, along1 = x1 * ux + y1 * uy;
    return drive_abs(along0 + t * (along1 - along0)) <= scene->half[s] + REACH_MARGIN_M;
}

int drive_touches_edge(const drive_turn* turn, uint32_t row, const drive_near* edges, int moved) {
    const drive_agents* agents = &turn->agents;
    float x = agents->x[row], y = agents->y[row];
    float reach = drive_circle_of(agents, row);
    if (moved) {
        float dx = x - turn->scratch.old_x[row], dy = y - turn->scratch.old_y[row];
        reach = drive_max(reach, drive_sqrt(dx * dx + dy * dy));
    }
    reach += REACH_MARGIN_M;
    const uint32_t* index = edges->index;
    uint32_t count = edges->count;
    uint32_t k = edges->most;
    // The observed edges include all within reach, unless the block is full of nearer ones.
    int complete = reach <= edges->within_m;
    if (k)
        complete = reach <= turn->config->range_m &&
                   (count < k || edges->square[count - 1] > reach * reach);
    if (!complete) {
        count = drive_segments_within(&turn->scene, 1u << PV_EDGE, x, y, reach, &turn->scratch);
        index = turn->scratch.index;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (complete && edges->square[i] > reach * reach) {
            if (k)
                break; // sorted
            continue;
        }
        if (!edge_meets_box(turn, row, index[i]) && !(moved && path_crosses(turn, row, index[i])))
            continue;
        if (!drive_has_levels(&turn->scene) || drive_edge_on_level(turn, row, index[i]))
            return 1;
    }
    return 0;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Which vehicles are followers, and where they are on their paths. A path consists of the points of
// the vehicle's log, then the lane that it is on when the log ends, and then lanes along the lane
// graph.
//
//     from ----along----> car . . . . end
//
// A piece is straight; it ends at the point of the log, or at the end of the lane segment, that
// `to` names.
#include "drive/motion/followers.h"

#include "contract/env.h"
#include "drive/scalar.h"
#include "drive/scene/control.h"
#include "drive/scene/scene.h"
#include "drive/search/lanes.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"
#include "envs/kernels.h"

#define POINT_M \
    0.5f // points of the log closer to the previous one are left out: the positions of standing
         // cars jitter
#define MOVES_M 2.0f // a car whose log is shorter stays parked
#define JOIN_M 3.0f  // a lane farther from the end of its log is not the car's own

static const pv_frame* first_frame(const drive_scene* scene,
                                   const pv_object* object,
                                   uint32_t from,
                                   uint32_t* at) {
    const uint32_t end = (uint32_t)object->frame_first + object->frame_count;
    for (*at = from > object->frame_first ? from : object->frame_first; *at < end; ++*at) {
        const pv_frame* frame = drive_frame(scene, object, *at);
        if (frame)
            return frame;
    }
    return NULL;
}

static int others_follow(const pv_drive_config* config) {
    return config->others == DRIVE_IS_others_idm;
}

static int agents_follow(const pv_drive_config* config) {
    return config->idm_agents || config->traffic_idm > 0.0f;
}

static int has_followers(const pv_drive_config* config) {
    return others_follow(config) || agents_follow(config);
}

int drive_is_follower(const pv_context* context,
                      const drive_scene* scene,
                      const pv_object* object) {
    const pv_drive_config* config = drive_config_of(context);
    uint32_t at, last = (uint32_t)object->frame_first + object->frame_count;
    if (object->type != PV_VEHICLE || !has_followers(config))
        return 0;
    if (drive_object_controlled(context, scene, object) ? !agents_follow(config)
                                                        : !others_follow(config))
        return 0;
    const pv_frame* first = first_frame(scene, object, (uint32_t)config->init_step, &at);
    if (!first)
        return 0;
    const pv_frame* end = first;
    while (last-- > at && !(end = drive_frame(scene, object, last))) {}
    float dx = end->x_m - first->x_m, dy = end->y_m - first->y_m;
    return dx * dx + dy * dy >= MOVES_M * MOVES_M;
}

uint32_t drive_scene_followers(const pv_context* context, uint32_t scene_index) {
    drive_scene scene;
    uint32_t count = 0;
    if (!has_followers(drive_config_of(context)))
        return 0;
    drive_scene_open(context->data, scene_index, &scene);
    for (uint32_t o = 0; o < scene.head->object_count; o++)
        count += (uint32_t)drive_is_follower(context, &scene, &scene.objects[o]);
    return count;
}

// ---- paths ----

// Returns the frame of the next point of the log after frame `at`, at least POINT_M from (x, y);
// the end of the log if there is none.
static uint32_t next_point(
    const drive_scene* scene, const pv_object* object, uint32_t at, float x, float y) {
    const uint32_t end = (uint32_t)object->frame_first + object->frame_count;
    while (++at < end) {
        const pv_frame* frame = drive_frame(scene, object, at);
        if (!frame)
            continue;
        float dx = frame->x_m - x, dy = frame->y_m - y;
        if (dx * dx + dy * dy >= POINT_M * POINT_M)
            return at;
    }
    return end;
}

// Returns the segment after a segment of the path. Where lanes fork, the exit is a function of the
// episode, the vehicle and the lane, so that a follower takes the exit that it has looked into, and
// nothing has to be stored. An agent that IDM drives therefore takes the same exits again after it
// has returned to its start, and a car that comes back to a fork, as on a roundabout, leaves it as
// it did before. The length of the episode does not matter.
static uint32_t segment_after(const drive_turn* turn, uint32_t k, uint32_t segment) {
    const uint32_t slot = (uint32_t)(turn->slot - turn->slots);
    const uint32_t step =
        0x80000000u | (slot & 0x7FF) << 20 | (turn->start & 0xFFFFF); // not used by any other draw
    return drive_lane_segment_after(turn, segment, step,
                                    turn->followers.object[turn->slot->follower + k] << 16);
}

drive_piece drive_follower_piece(const drive_turn* turn, uint32_t k, const drive_place* at) {
    const drive_scene* scene = &turn->scene;
    drive_piece out;
    if (at->phase == DRIVE_FOLLOWS_LOG) {
        const pv_frame* frame = drive_frame(scene, drive_follower_object(turn, k), at->to);
        out.x1 = frame->x_m;
        out.y1 = frame->y_m;
        out.heading1 = (float)frame->heading * HEADING_UNIT;
        out.ground1 = frame->z_m - 0.5f * drive_follower_object(turn, k)->height_m;
    } else {
        const uint32_t s = at->to;
        out.x1 = scene->x[s] + scene->half[s] * scene->ux[s];
        out.y1 = scene->y[s] + scene->half[s] * scene->uy[s];
        out.heading1 = drive_angle(scene->ux[s], scene->uy[s]);
        out.ground1 = scene->z[s] + scene->half[s] * scene->slope[s];
    }
    float dx = out.x1 - at->x, dy = out.y1 - at->y;
    out.length = drive_sqrt(dx * dx + dy * dy);
    float inverse = out.length > 0.0f ? 1.0f / out.length : 0.0f;
    out.ux = dx * inverse;
    out.uy = dy * inverse;
    return out;
}

int drive_follower_next(const drive_turn* turn,
                        uint32_t k,
                        drive_place* at,
                        const drive_piece* done) {
    at->x = done->x1;
    at->y = done->y1;
    at->heading = done->heading1;
    if (at->phase == DRIVE_FOLLOWS_LANE) {
        at->to = segment_after(turn, k, at->to);
        return at->to != DRIVE_NO_SEGMENT;
    }
    const pv_object* object = drive_follower_object(turn, k);
    at->to = next_point(&turn->scene, object, at->to, at->x, at->y);
    if (at->to < (uint32_t)object->frame_first + object->frame_count)
        return 1;
    at->phase = DRIVE_FOLLOWS_LANE;
    at->to = turn->followers.join[turn->slot->follower + k];
    return at->to != DRIVE_NO_SEGMENT;
}

void drive_follower_set_place(const drive_turn* turn, uint32_t k, const drive_place* at) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    all->phase[f] = at->phase;
    all->to[f] = at->to;
    all->from_x[f] = at->x;
    all->from_y[f] = at->y;
    all->from_heading[f] = at->heading;
}

int drive_follower_there(const drive_turn* turn, uint32_t k) {
    const uint32_t phase = turn->followers.phase[turn->slot->follower + k];
    return phase == DRIVE_FOLLOWS_LOG || phase == DRIVE_FOLLOWS_LANE;
}

drive_follower drive_follower_now(const drive_turn* turn, uint32_t k) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    const drive_place at = drive_follower_place(turn, k);
    const drive_piece now = drive_follower_piece(turn, k, &at);
    const float share = now.length > 0.0f ? drive_min(all->along[f] / now.length, 1.0f) : 0.0f;
    const float heading = drive_wrap(at.heading + share * drive_wrap(now.heading1 - at.heading));
    float sine, cosine;
    pv_sincos(heading, &sine, &cosine);
    const float speed = now.ux * cosine + now.uy * sine < 0.0f
                            ? -all->speed[f]
                            : all->speed[f]; // its log may lead backward
    return (drive_follower){at.x + share * (now.x1 - at.x), at.y + share * (now.y1 - at.y), heading,
                            speed, now.ground1};
}

// ---- start ----

// Returns the lane segment on which the path continues after the log.
static uint32_t join_of(const drive_turn* turn, uint32_t k, uint32_t first) {
    const drive_scene* scene = &turn->scene;
    const pv_object* object = drive_follower_object(turn, k);
    const pv_frame* frame = drive_frame(scene, object, first);
    for (uint32_t next; (next = next_point(scene, object, first, frame->x_m, frame->y_m)) <
                        (uint32_t)object->frame_first + object->frame_count;
         first = next)
        frame = drive_frame(scene, object, next);
    const float ground = frame->z_m - 0.5f * object->height_m;
    float sine, cosine;
    pv_sincos((float)frame->heading * HEADING_UNIT, &sine, &cosine);
    uint32_t s = drive_lane_segment_at(turn, frame->x_m, frame->y_m, cosine, sine, ground, JOIN_M);
    if (s == DRIVE_NO_SEGMENT)
        return s;
    float at =
        (frame->x_m - scene->x[s]) * scene->ux[s] + (frame->y_m - scene->y[s]) * scene->uy[s];
    return at > scene->half[s] - POINT_M ? segment_after(turn, k, s) : s;
}

// Puts a follower on its path in a frame of its log.
static void enter(const drive_turn* turn, uint32_t k, const pv_frame* frame, uint32_t at) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    const drive_piece start = {
        .x1 = frame->x_m, .y1 = frame->y_m, .heading1 = (float)frame->heading * HEADING_UNIT};
    drive_place here = {.phase = DRIVE_FOLLOWS_LOG, .to = at};
    if (!drive_follower_next(turn, k, &here, &start))
        here.phase = DRIVE_FOLLOWER_GONE, here.to = 0;
    drive_follower_set_place(turn, k, &here);
    all->along[f] = 0.0f;
    all->speed[f] = drive_abs((float)frame->speed * SPEED_UNIT);
    all->served[f] = 0;
}

static float largest_speed(const drive_scene* scene, const pv_object* object, uint32_t from) {
    float most = 1.0f;
    for (uint32_t t = from; t < (uint32_t)object->frame_first + object->frame_count; t++) {
        const pv_frame* frame = drive_frame(scene, object, t);
        if (frame)
            most = drive_max(most, drive_abs((float)frame->speed * SPEED_UNIT));
    }
    return most;
}

void drive_follower_enter(const drive_turn* turn, uint32_t k, uint32_t frame_now) {
    uint32_t at;
    if (turn->followers.phase[turn->slot->follower + k] != DRIVE_FOLLOWER_WAITS)
        return;
    const pv_frame* frame = first_frame(&turn->scene, drive_follower_object(turn, k),
                                        (uint32_t)turn->config->init_step, &at);
    if (frame && at == frame_now)
        enter(turn, k, frame, at);
}

void drive_followers_prepare(const drive_turn* turn) {
    const drive_followers* all = &turn->followers;
    for (uint32_t o = 0, k = 0;
         o < turn->scene.head->object_count && k < turn->slot->follower_count; o++) {
        const pv_object* object = &turn->scene.objects[o];
        if (!drive_is_follower(turn->block->context, &turn->scene, object))
            continue;
        const uint32_t f = turn->slot->follower + k;
        uint32_t first;
        first_frame(&turn->scene, object, (uint32_t)turn->config->init_step, &first);
        all->object[f] = o;
        all->wanted[f] = turn->config->idm_speed_mps > 0.0f
                             ? turn->config->idm_speed_mps
                             : largest_speed(&turn->scene, object, first);
        all->join[f] = join_of(turn, k++, first);
    }
}

// Returns whether IDM does not drive the agent in this episode.
static int is_anothers(const drive_turn* turn, uint32_t row) {
    const uint32_t flags = turn->agents.flags[row];
    return flags & DRIVE_TRAFFIC ? !(flags & DRIVE_BY_IDM) : !turn->config->idm_agents;
}

void drive_followers_start(const drive_turn* turn) {
    const drive_followers* all = &turn->followers;
    const uint32_t* object = turn->agents.object; // ascending, as those of followers
    uint32_t row = turn->slot->row, end = row + turn->slot->count;
    drive_followers_prepare(turn);
    for (uint32_t k = 0; k < turn->slot->follower_count; k++) {
        const uint32_t f = turn->slot->follower + k;
#define CLEAR(type, code, name, unit, low, high) all->name[f] = 0;
        DRIVE_FOLLOWER_FIELDS(CLEAR)
#undef CLEAR
        while (row < end && object[row] < all->object[f])
            row++;
        if (row < end && object[row] == all->object[f] && is_anothers(turn, row))
            all->phase[f] = DRIVE_FOLLOWER_GONE;
        else
            drive_follower_enter(turn, k, drive_log_frame(turn));
    }
}

void drive_follower_respawn(const drive_turn* turn, uint32_t row) {
    const uint32_t start = (uint32_t)turn->config->init_step;
    for (uint32_t k = 0; k < turn->slot->follower_count; k++) {
        if (turn->followers.object[turn->slot->follower + k] != turn->agents.object[row])
            continue;
        enter(turn, k, drive_frame(&turn->scene, drive_follower_object(turn, k), start), start);
    }
}

// ---- states from outside ----

int drive_follower_can_be(const drive_turn* turn, uint32_t k, uint32_t phase, uint32_t to) {
    if (phase == DRIVE_FOLLOWS_LOG)
        return drive_frame(&turn->scene, drive_follower_object(turn, k), to) != NULL;
    return phase == DRIVE_FOLLOWS_LANE ? to < turn->scene.first[PV_LANE + 1]
                                       : phase <= DRIVE_FOLLOWER_GONE && !to;
}

// Returns whether a step can continue from these numbers.
static int follower_sound(const drive_turn* turn, uint32_t k, uint32_t o) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k, lanes = turn->scene.first[PV_LANE + 1];
    const float places[] = {all->from_x[f], all->from_y[f], all->from_heading[f]},
                sizes[] = {all->along[f], all->speed[f], all->wanted[f]};
    for (int i = 0; i < 3; i++) {
        if (!(drive_abs(places[i]) <= 1e7f) || !(sizes[i] >= 0.0f && sizes[i] <= 1e5f))
            return 0;
    }
    if (!(drive_abs(all->from_heading[f]) <= 3.2f) || !(all->wanted[f] >= 0.1f) ||
        all->object[f] != o)
        return 0;
    if (all->join[f] != DRIVE_NO_SEGMENT && all->join[f] >= lanes)
        return 0;
    return drive_follower_can_be(turn, k, all->phase[f], all->to[f]);
}

int drive_followers_sound(const drive_turn* turn) {
    uint32_t k = 0;
    if (!turn->slot->follower_count)
        return 1;
    for (uint32_t o = 0; o < turn->scene.head->object_count && k < turn->slot->follower_count;
         o++) {
        if (!drive_is_follower(turn->block->context, &turn->scene, &turn->scene.objects[o]))
            continue;
        if (!follower_sound(turn, k++, o))
            return 0;
    }
    return k == turn->slot->follower_count;
}

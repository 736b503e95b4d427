// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Bodies: all objects that are in the scene at this step, agents and others, in object order.
// Other objects follow their log, and exist from its beginning to its end; or they stay where they
// are when the scene starts, or are driven by IDM (follow.c).
#include "drive/motion/bodies.h"

#include "contract/base.h"
#include "drive/motion/followers.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/conflicts.h"
#include "drive/search/partners.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"
#include "envs/kernels.h"

#include <stddef.h>
#include <string.h>

#define NO_FOLLOWER UINT32_MAX

// Lists objects [from, end) that follow their log or stand, from body i on: their numbers and
// frames. A branch on whether an object is in the scene would be hard to predict, so each is
// written, but only counted if it is. Absent ones get frame 0, which exists, since a scene that is
// driven has an agent with frames. Returns the next body.
static uint32_t list_logged(const drive_turn* turn, uint32_t from, uint32_t end, uint32_t i) {
    const pv_object* objects = turn->scene.objects;
    const pv_frame* frames = turn->scene.frames;
    uint32_t *object = turn->scratch.bodies.object, *frame = turn->scratch.body_frames;
    int32_t* row = turn->scratch.bodies.row;
    const int stands = turn->config->others == DRIVE_IS_others_static;
    const uint32_t t = stands ? (uint32_t)turn->config->init_step : drive_log_frame(turn);
    for (uint32_t o = from; o < end; o++) {
        const uint32_t since = t - objects[o].frame_first;
        const uint32_t logged = since < objects[o].frame_count;
        const uint32_t at = (objects[o].frames_index + since) & (0u - logged); // without a branch
        object[i] = o;
        frame[i] = at;
        row[i] = DRIVE_LOGGED_ROW;
        i += logged & (uint32_t)(frames[at].speed != PV_FRAME_INVALID);
    }
    return i;
}

// Lists a body that no log moves: an agent by its row, or a follower. Its pose is filled in later.
static uint32_t list_driven(drive_turn* turn, uint32_t o, int32_t row, uint32_t i) {
    drive_bodies* bodies = &turn->scratch.bodies;
    bodies->object[i] = o;
    bodies->row[i] = row;
    turn->scratch.body_frames[i] = 0;
    bodies->driven[bodies->driven_count++] = i;
    return i + 1;
}

// Lists the vehicle of follower k, or one that its log moves if that is NO_FOLLOWER. It is kept out
// of line: within list_bodies the compiler would no longer inline the loop over logs, and a step of
// real scenes would take 2 to 5 % longer.
__attribute__((noinline, cold)) static uint32_t list_traffic(drive_turn* turn,
                                                             uint32_t o,
                                                             uint32_t k,
                                                             uint32_t i) {
    if (k == NO_FOLLOWER)
        return list_logged(turn, o, o + 1, i);
    return drive_follower_there(turn, k) ? list_driven(turn, o, DRIVE_FOLLOWER_ROW - (int32_t)k, i)
                                         : i;
}

typedef float four __attribute__((vector_size(16)));
typedef int32_t four_ints __attribute__((vector_size(16)));
typedef uint32_t four_bits __attribute__((vector_size(16)));
#if defined(__clang__) || __GNUC__ >= 12
#define FOUR(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define FOUR(a, b, ...) __builtin_shuffle(a, b, (four_ints){__VA_ARGS__})
#endif

// Transposes the first four numbers of four records into an array per number.
PV_INLINE void four_of(const void* a, const void* b, const void* c, const void* d, four* of) {
    four row[4];
    memcpy(&row[0], a, sizeof row[0]);
    memcpy(&row[1], b, sizeof row[1]);
    memcpy(&row[2], c, sizeof row[2]);
    memcpy(&row[3], d, sizeof row[3]);
    const four low_ab = FOUR(row[0], row[1], 0, 4, 1, 5), low_cd = FOUR(row[2], row[3], 0, 4, 1, 5);
    const four high_ab = FOUR(row[0], row[1], 2, 6, 3, 7),
               high_cd = FOUR(row[2], row[3], 2, 6, 3, 7);
    of[0] = FOUR(low_ab, low_cd, 0, 1, 4, 5);
    of[1] = FOUR(low_ab, low_cd, 2, 3, 6, 7);
    of[2] = FOUR(high_ab, high_cd, 0, 1, 4, 5);
    of[3] = FOUR(high_ab, high_cd, 2, 3, 6, 7);
}

_Static_assert(offsetof(pv_frame, heading) == 12 && offsetof(pv_frame, speed) == 14,
               "they are the last of four numbers");
_Static_assert(offsetof(pv_object, length_m) == 4 && offsetof(pv_object, height_m) == 8,
               "sizes are the first numbers");

// Sets poses and sizes of the listed bodies from their frames, four at a time.
PV_CLONES static void place_listed(const drive_bodies* bodies,
                                   const pv_object* objects,
                                   const pv_frame* frames,
                                   const uint32_t* frame) {
    for (uint32_t i = 0; i < bodies->count; i += 4) {
        const uint32_t *at = frame + i, *o = bodies->object + i;
        four pose[4], size[4];
        four_ints turns;
        four_of(&frames[at[0]], &frames[at[1]], &frames[at[2]], &frames[at[3]], pose);
        four_of(&objects[o[0]], &objects[o[1]], &objects[o[2]], &objects[o[3]], size);
        memcpy(&turns, &pose[3], sizeof turns);
        const four ground = pose[2] - 0.5f * size[2], half_width = 0.5f * size[0],
                   half_length = 0.5f * size[1];
        const four heading =
            __builtin_convertvector((four_ints)((four_bits)turns << 16) >> 16, four) * HEADING_UNIT;
        const four speed = __builtin_convertvector(turns >> 16, four) * SPEED_UNIT;
        memcpy(bodies->x + i, &pose[0], sizeof pose[0]);
        memcpy(bodies->y + i, &pose[1], sizeof pose[1]);
        memcpy(bodies->ground + i, &ground, sizeof ground);
        memcpy(bodies->heading + i, &heading, sizeof heading);
        memcpy(bodies->speed + i, &speed, sizeof speed);
        memcpy(bodies->half_length + i, &half_length, sizeof half_length);
        memcpy(bodies->half_width + i, &half_width, sizeof half_width);
    }
}

static void place_agent(const drive_turn* turn, uint32_t i, uint32_t row) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    const drive_agents* agents = &turn->agents;
    const int active = (agents->flags[row] & DRIVE_ACTIVE) != 0;
    bodies->x[i] = agents->x[row];
    bodies->y[i] = agents->y[row];
    bodies->heading[i] = agents->heading[row];
    bodies->speed[i] = active ? agents->speed[row] : 0.0f;
    bodies->ground[i] = agents->ground[row];
    if (!active)
        bodies->row[i] = DRIVE_STANDING_ROW;
}

static void place_follower(const drive_turn* turn, uint32_t i, uint32_t k) {
    const drive_bodies* bodies = &turn->scratch.bodies;
    const drive_follower now = drive_follower_now(turn, k);
    bodies->x[i] = now.x;
    bodies->y[i] = now.y;
    bodies->heading[i] = now.heading;
    bodies->speed[i] = now.speed;
    bodies->ground[i] = now.ground;
}

// Fills in sines, cosines and radii. The list is padded to a multiple of 16 with points far away,
// so that searches need no special case for its end.
PV_CLONES static void complete_bodies(drive_bodies* bodies) {
    for (uint32_t i = bodies->count; i % PV_LANES; i++) {
        bodies->x[i] = bodies->y[i] = 1e9f;
        bodies->half_length[i] = bodies->half_width[i] = bodies->radius[i] = 0.0f;
        bodies->row[i] = DRIVE_LOGGED_ROW;
    }
    PV_APART
    for (uint32_t i = 0; i < bodies->count; i++) {
        const float half_length = bodies->half_length[i], half_width = bodies->half_width[i];
        pv_sincos(bodies->heading[i], &bodies->sine[i], &bodies->cosine[i]);
        bodies->radius[i] = drive_sqrt(half_length * half_length + half_width * half_width);
    }
}

const pv_frame* drive_body_frame(const drive_turn* turn, uint32_t o, uint32_t t) {
    if (turn->config->others == DRIVE_IS_others_static)
        t = (uint32_t)turn->config->init_step;
    return drive_frame(&turn->scene, &turn->scene.objects[o], t);
}

static void list_bodies(drive_turn* turn) {
    drive_bodies* bodies = &turn->scratch.bodies;
    const drive_agents* agents = &turn->agents;
    uint32_t row = turn->slot->row, end = row + turn->slot->count, i = 0;
    uint32_t k = 0, followers = turn->slot->follower_count;
    const uint32_t* follower = turn->followers.object + turn->slot->follower; // (followers,)
    bodies->driven_count = 0;
    for (uint32_t o = 0, objects = turn->scene.head->object_count; o < objects; o++) {
        const uint32_t agent = row < end ? agents->object[row] : objects,
                       driver = k < followers ? follower[k] : objects;
        const uint32_t next = agent < driver ? agent : driver;
        i = list_logged(turn, o, next, i);
        o = next;
        if (o == agent && row < end) {
            const uint32_t flags = agents->flags[row];
            if (flags & DRIVE_TRAFFIC)
                i = list_traffic(turn, o, flags & DRIVE_BY_IDM && o == driver ? k : NO_FOLLOWER, i);
            else if (flags & DRIVE_ACTIVE ? !(flags & DRIVE_ALONE)
                                          : drive_end_of(flags) == DRIVE_END_STAYS)
                i = list_driven(turn, o, (int32_t)row, i);
            row++;
            k += (uint32_t)(o == driver); // with idm_agents or traffic_idm
        } else if (k < followers) {
            i = list_traffic(turn, o, k++, i);
        }
    }
    PV_ASSERT(row == end && i <= turn->layout->bodies);
    bodies->count = i;
}

void drive_collect_bodies(drive_turn* turn) {
    drive_bodies* bodies = &turn->scratch.bodies;
    uint32_t* frames = turn->scratch.body_frames;
    list_bodies(turn);
    for (uint32_t i = bodies->count; i % 4; i++)
        bodies->object[i] = frames[i] = 0; // read, and not used
    place_listed(bodies, turn->scene.objects, turn->scene.frames, frames);
    if (turn->config->others == DRIVE_IS_others_static)
        memset(bodies->speed, 0, bodies->count * sizeof(float));
    for (uint32_t n = 0; n < bodies->driven_count; n++) {
        const uint32_t i = bodies->driven[n];
        if (bodies->row[i] >= 0)
            place_agent(turn, i, (uint32_t)bodies->row[i]);
        else
            place_follower(turn, i, (uint32_t)(DRIVE_FOLLOWER_ROW - bodies->row[i]));
    }
    complete_bodies(bodies);
    drive_lay_out_bodies(turn);
    if (turn->layout->ways)
        drive_lay_out_ways(turn);
}

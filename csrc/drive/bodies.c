// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Bodies: all objects that are in the scene at this step, agents and others, in object order. Others follow their log, and are
// gone before it begins and after it has ended; or they stay where they are when the scene starts, or drive (follow.c).
#include "state.h"
#include "vectors.h"

// Lists objects [from, end) that follow their log or stand, from body i on: their numbers and frames. Who is there is not
// foreseen, so each is listed, and only counted if it is. Frame 0 stands for those that are not: a scene that is driven has an agent,
// and it has frames. Returns the next body.
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

// Lists what the log does not move: an agent by its row, or a follower. Its pose is filled in later.
static uint32_t list_driven(const drive_turn* turn, uint32_t o, int32_t row, uint32_t i, uint32_t* driven) {
    turn->scratch.bodies.object[i] = o;
    turn->scratch.bodies.row[i] = row;
    turn->scratch.body_frames[i] = 0;
    turn->scratch.index[(*driven)++] = i;
    return i + 1;
}

#define EIGHT_OF(of, index, member)                                                                                            \
    {of[index[0]].member, of[index[1]].member, of[index[2]].member, of[index[3]].member,                                       \
     of[index[4]].member, of[index[5]].member, of[index[6]].member, of[index[7]].member}

// Poses and sizes of the bodies listed, as their frames have them: eight at a time, put together in registers.
PV_CLONES static void place_listed(const drive_bodies* bodies, const pv_object* objects, const pv_frame* frames,
                                   const uint32_t* frame) {
    for (uint32_t i = 0; i < bodies->count; i += EIGHT) {
        const uint32_t *at = frame + i, *o = bodies->object + i;
        const numbers x = EIGHT_OF(frames, at, x_m), y = EIGHT_OF(frames, at, y_m), z = EIGHT_OF(frames, at, z_m);
        const numbers length = EIGHT_OF(objects, o, length_m), width = EIGHT_OF(objects, o, width_m);
        const numbers height = EIGHT_OF(objects, o, height_m);
        const integers heading = EIGHT_OF(frames, at, heading), speed = EIGHT_OF(frames, at, speed);
        const numbers half_length = 0.5f * length, half_width = 0.5f * width, ground = z - 0.5f * height;
        const numbers radians = __builtin_convertvector(heading, numbers) * HEADING_UNIT;
        const numbers metres = __builtin_convertvector(speed, numbers) * SPEED_UNIT;
        memcpy(bodies->x + i, &x, sizeof x);
        memcpy(bodies->y + i, &y, sizeof y);
        memcpy(bodies->ground + i, &ground, sizeof ground);
        memcpy(bodies->heading + i, &radians, sizeof radians);
        memcpy(bodies->speed + i, &metres, sizeof metres);
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
    if (!active) bodies->row[i] = DRIVE_STANDING_ROW;
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

// Fills in sines, cosines and radii. The list is padded to a multiple of 16 with points far away, so that searches need no
// special case for its end.
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
    if (turn->config->others == DRIVE_IS_others_static) t = (uint32_t)turn->config->init_step;
    return drive_frame(&turn->scene, &turn->scene.objects[o], t);
}

// Lists all bodies. Returns how many of them are driven.
static uint32_t list_bodies(const drive_turn* turn, drive_bodies* bodies) {
    const drive_agents* agents = &turn->agents;
    uint32_t row = turn->slot->row, end = row + turn->slot->count, i = 0, driven = 0;
    uint32_t k = 0, followers = turn->slot->follower_count;
    const uint32_t* follower = turn->followers.object + turn->slot->follower; // (followers,)
    for (uint32_t o = 0, objects = turn->scene.head->object_count; o < objects; o++) {
        const uint32_t agent = row < end ? agents->object[row] : objects, driver = k < followers ? follower[k] : objects;
        const uint32_t next = agent < driver ? agent : driver;
        i = list_logged(turn, o, next, i);
        o = next;
        if (o == agent && row < end) {
            const uint32_t flags = agents->flags[row];
            if (flags & DRIVE_ACTIVE ? !(flags & DRIVE_ALONE) : drive_end_of(flags) == DRIVE_END_STAYS)
                i = list_driven(turn, o, (int32_t)row, i, &driven);
            row++;
            k += (uint32_t)(o == driver); // under idm_agents
        } else if (k < followers) {
            if (drive_follower_there(turn, k)) i = list_driven(turn, o, DRIVE_FOLLOWER_ROW - (int32_t)k, i, &driven);
            k++;
        }
    }
    PV_ASSERT(row == end && i <= turn->layout->bodies);
    bodies->count = i;
    return driven;
}

void drive_collect_bodies(drive_turn* turn) {
    drive_bodies* bodies = &turn->scratch.bodies;
    const drive_scratch* scratch = &turn->scratch;
    const uint32_t driven = list_bodies(turn, bodies);
    for (uint32_t i = bodies->count; i % EIGHT; i++) bodies->object[i] = scratch->body_frames[i] = 0; // read, and not used
    place_listed(bodies, turn->scene.objects, turn->scene.frames, scratch->body_frames);
    if (turn->config->others == DRIVE_IS_others_static) memset(bodies->speed, 0, bodies->count * sizeof(float));
    for (uint32_t n = 0; n < driven; n++) {
        const int32_t row = bodies->row[scratch->index[n]];
        if (row >= 0)
            place_agent(turn, scratch->index[n], (uint32_t)row);
        else
            place_follower(turn, scratch->index[n], (uint32_t)(DRIVE_FOLLOWER_ROW - row));
    }
    complete_bodies(bodies);
    drive_lay_out_bodies(turn);
}

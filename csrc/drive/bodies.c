// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Bodies: all objects that are in the scene at this step, agents and others, in object order. Others follow their log, and are
// gone before it begins and after it has ended; or they stay where they are when the scene starts, or drive (follow.c).
#include "kernels.h"
#include "state.h"

// `as` is the agent's row, or DRIVE_STANDING_ROW where its row has ended.
static void add_agent(drive_bodies* bodies, const drive_agents* agents, uint32_t row, int32_t as) {
    uint32_t i = bodies->count++;
    bodies->x[i] = agents->x[row];
    bodies->y[i] = agents->y[row];
    bodies->heading[i] = agents->heading[row];
    bodies->speed[i] = as < 0 ? 0.0f : agents->speed[row];
    bodies->half_length[i] = 0.5f * agents->length[row];
    bodies->half_width[i] = 0.5f * agents->width[row];
    bodies->ground[i] = agents->ground[row];
    bodies->object[i] = agents->object[row];
    bodies->row[i] = as;
}

// Objects [from, end) that follow their log or stand. Who is there is not foreseen, so each is written, and only counted if it is.
static void add_logged(drive_bodies* to, const drive_turn* turn, uint32_t from, uint32_t end) {
    const drive_bodies bodies = *to;
    const pv_frame* frames = turn->scene.frames;
    const int stands = turn->config->others == DRIVE_IS_others_static;
    const uint32_t t = stands ? (uint32_t)turn->config->init_step : drive_log_frame(turn);
    uint32_t i = bodies.count;
    for (uint32_t o = from; o < end; o++) {
        const pv_object* object = &turn->scene.objects[o];
        const uint32_t since = t - object->frame_first;
        const int logged = since < object->frame_count;
        const pv_frame* frame = &frames[logged ? object->frames_index + since : 0];
        bodies.x[i] = frame->x_m;
        bodies.y[i] = frame->y_m;
        bodies.heading[i] = (float)frame->heading * HEADING_UNIT;
        bodies.speed[i] = stands ? 0.0f : (float)frame->speed * SPEED_UNIT;
        bodies.half_length[i] = 0.5f * object->length_m;
        bodies.half_width[i] = 0.5f * object->width_m;
        bodies.ground[i] = frame->z_m - 0.5f * object->height_m;
        bodies.object[i] = o;
        bodies.row[i] = DRIVE_LOGGED_ROW;
        i += (uint32_t)(logged & (frame->speed != PV_FRAME_INVALID));
    }
    to->count = i;
}

static void add_follower(drive_bodies* bodies, const drive_turn* turn, uint32_t k, uint32_t o) {
    uint32_t i = bodies->count++;
    const drive_follower now = drive_follower_now(turn, k);
    bodies->x[i] = now.x;
    bodies->y[i] = now.y;
    bodies->heading[i] = now.heading;
    bodies->speed[i] = now.speed;
    bodies->ground[i] = now.ground;
    bodies->half_length[i] = 0.5f * turn->scene.objects[o].length_m;
    bodies->half_width[i] = 0.5f * turn->scene.objects[o].width_m;
    bodies->object[i] = o;
    bodies->row[i] = DRIVE_FOLLOWER_ROW - (int32_t)k;
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

void drive_collect_bodies(drive_turn* turn) {
    drive_bodies* bodies = &turn->scratch.bodies;
    const drive_agents* agents = &turn->agents;
    uint32_t row = turn->slot->row, end = row + turn->slot->count;
    uint32_t k = 0, followers = turn->slot->follower_count;
    const uint32_t* follower = turn->followers.object + turn->slot->follower; // (followers,)
    bodies->count = 0;
    for (uint32_t o = 0, objects = turn->scene.head->object_count; o < objects; o++) {
        const uint32_t agent = row < end ? agents->object[row] : objects, driver = k < followers ? follower[k] : objects;
        const uint32_t next = agent < driver ? agent : driver;
        add_logged(bodies, turn, o, next);
        o = next;
        if (o == agent && row < end) {
            const uint32_t flags = agents->flags[row];
            if ((flags & DRIVE_ACTIVE) && !(flags & DRIVE_ALONE))
                add_agent(bodies, agents, row, (int32_t)row);
            else if (!(flags & DRIVE_ACTIVE) && drive_end_of(flags) == DRIVE_END_STAYS)
                add_agent(bodies, agents, row, DRIVE_STANDING_ROW);
            row++;
        } else if (k < followers) {
            if (drive_follower_there(turn, k)) add_follower(bodies, turn, k, o);
            k++;
        }
    }
    PV_ASSERT(row == end && bodies->count <= turn->layout->bodies);
    complete_bodies(bodies);
    drive_lay_out_bodies(turn);
}

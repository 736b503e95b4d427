// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Moves agents by their actions or by the log. models.h has the models of motion. Cars with the
// models bicycle and car are moved as arrays, all others row by row.
#include "drive/motion/dynamics.h"

#include "contract/base.h"
#include "drive/motion/actions.h"
#include "drive/motion/bicycle.h"
#include "drive/motion/expert.h"
#include "drive/motion/follow.h"
#include "drive/motion/models.h"
#include "drive/motion/walkers.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"
#include "envs/kernels.h"

#include <string.h>

PV_CLONES void drive_sincos_array(const float* angle, float* sine, float* cosine, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        pv_sincos(angle[i], &sine[i], &cosine[i]);
}

enum { BATCH = 64 };

// The values that limits keep from step to step; without limits they are not read.
typedef struct drive_kept {
    float *acceleration, *lateral, *steering; // of the first row of a batch
} drive_kept;

// Moves `count` rows by the bicycle, PV_LANES at a time. The rows behind them, which exist
// (layout.c), keep their values.
PV_CLONES static void move_bicycles(const drive_mover* mover,
                                    const drive_agents* agents,
                                    drive_kept motion,
                                    uint32_t first,
                                    uint32_t count,
                                    const float* wanted,
                                    const float* steered) {
    float *x = agents->x + first, *y = agents->y + first, *heading = agents->heading + first,
          *speed = agents->speed + first;
    float *acceleration = motion.acceleration, *lateral = motion.lateral,
          *steering = motion.steering;
    const float *c = agents->cosine + first, *s = agents->sine + first,
                *length = agents->length + first;
    const uint32_t* flags = agents->flags + first;
    const drive_mover by = *mover;
    const uint32_t end = (count + PV_LANES - 1) / PV_LANES * PV_LANES;
    PV_APART
    for (uint32_t i = 0; i < end; i++) {
        drive_motion body = {x[i],        y[i],     heading[i],      c[i],
                             s[i],        speed[i], acceleration[i], lateral[i],
                             steering[i], length[i]};
        drive_bicycle(&by, &body, wanted[i], steered[i]);
        const int ours = i < count, moves = ours && (flags[i] & DRIVE_ACTIVE);
        x[i] = moves ? body.x : x[i];
        y[i] = moves ? body.y : y[i];
        heading[i] = moves ? body.heading : heading[i];
        speed[i] = moves ? body.speed : ours ? 0.0f : speed[i];
        acceleration[i] = moves ? body.acceleration : acceleration[i];
        lateral[i] = moves ? body.lateral : lateral[i];
        steering[i] = moves ? body.steering : steering[i];
    }
}

// Moves rows [first, end), all of them cars, by the bicycle. Agents that are done stay where they
// are.
static void move_cars(drive_turn* turn, uint32_t first, uint32_t end) {
    const drive_mover mover = drive_mover_of(turn->config, turn->scene.head->dt_s);
    const drive_agents* agents = &turn->agents;
    float action[DRIVE_MAX_AXES], wanted[BATCH], steered[BATCH], unread[BATCH];
    drive_kept motion = {unread, unread, unread};
    memset(unread, 0, sizeof unread);
    for (; first < end; first += BATCH) {
        uint32_t n = end - first < BATCH ? end - first : BATCH;
        for (uint32_t i = 0; i < n; i++) {
            drive_action_read(turn, first + i, action);
            wanted[i] = action[0];
            steered[i] = action[1];
        }
        for (uint32_t i = n; i % PV_LANES; i++)
            wanted[i] = steered[i] = 0.0f;
        if (agents->steering)
            motion = (drive_kept){agents->acceleration + first, agents->lateral + first,
                                  agents->steering + first};
        move_bicycles(&mover, agents, motion, first, n, wanted, steered);
    }
}

static drive_motion motion_of(const drive_agents* agents, uint32_t row) {
    drive_motion body = {.x = agents->x[row],
                         .y = agents->y[row],
                         .heading = agents->heading[row],
                         .cosine = agents->cosine[row],
                         .sine = agents->sine[row],
                         .speed = agents->speed[row],
                         .length = agents->length[row]};
    if (agents->steering) {
        body.acceleration = agents->acceleration[row];
        body.lateral = agents->lateral[row];
        body.steering = agents->steering[row];
    }
    return body;
}

static void put_motion(const drive_agents* agents, uint32_t row, const drive_motion* body) {
    agents->x[row] = body->x;
    agents->y[row] = body->y;
    agents->heading[row] = body->heading;
    agents->speed[row] = body->speed;
    if (!agents->steering)
        return;
    agents->acceleration[row] = body->acceleration;
    agents->lateral[row] = body->lateral;
    agents->steering[row] = body->steering;
}

// Moves rows [first, end) by any model. Agents that are done stay where they are.
static void move_by_models(drive_turn* turn, uint32_t first, uint32_t end) {
    const drive_mover mover = drive_mover_of(turn->config, turn->scene.head->dt_s);
    const drive_agents* agents = &turn->agents;
    const uint32_t axes = turn->layout->axes.count;
    float action[DRIVE_MAX_AXES];
    for (uint32_t row = first; row < end; row++) {
        const pv_object* object = &turn->scene.objects[agents->object[row]];
        drive_motion body = motion_of(agents, row);
        if (!(agents->flags[row] & DRIVE_ACTIVE)) {
            agents->speed[row] = 0.0f;
            continue;
        }
        if (turn->played) {
            drive_expert_action(&mover, &turn->scene, object, drive_log_frame(turn), &body, action);
            drive_action_fit(turn->config, &turn->layout->axes, action);
            memcpy(turn->played + (size_t)axes * row, action, axes * sizeof(float));
        } else {
            drive_action_read(turn, row, action);
        }
        drive_move_any(&mover, object->type, &body, action);
        put_motion(agents, row, &body);
    }
}

// Returns whether every agent is a vehicle, whatever the scene.
static int only_vehicles(const pv_drive_config* config) {
    return config->control <= DRIVE_IS_control_valid;
}

// Puts rows [first, end) where the log has them. In a gap of the log they stand still.
static void move_by_log(drive_turn* turn, uint32_t first, uint32_t end) {
    drive_agents* agents = &turn->agents;
    for (uint32_t row = first; row < end; row++) {
        const pv_frame* frame = drive_frame(&turn->scene, &turn->scene.objects[agents->object[row]],
                                            drive_log_frame(turn));
        agents->speed[row] = 0.0f;
        if (!frame || !(agents->flags[row] & DRIVE_ACTIVE))
            continue;
        agents->x[row] = frame->x_m;
        agents->y[row] = frame->y_m;
        agents->heading[row] = (float)frame->heading * HEADING_UNIT;
        agents->speed[row] = (float)frame->speed * SPEED_UNIT;
    }
}

static int is_bicycle(int32_t model) {
    return model == DRIVE_IS_dynamics_bicycle || model == DRIVE_IS_dynamics_car;
}

void drive_dynamics(drive_turn* turn) {
    drive_agents* agents = &turn->agents;
    uint32_t first = turn->slot->row, end = first + turn->slot->count;
    size_t bytes = turn->slot->count * sizeof(float);
    memcpy(turn->scratch.old_x + first, agents->x + first, bytes);
    memcpy(turn->scratch.old_y + first, agents->y + first, bytes);
    memcpy(turn->scratch.old_cosine + first, agents->cosine + first, bytes);
    memcpy(turn->scratch.old_sine + first, agents->sine + first, bytes);
    if (turn->config->replay_log) {
        move_by_log(turn, first, end);
    } else if (turn->config->idm_agents) {
        drive_follow_agents(turn, first, end);
    } else if (is_bicycle(turn->config->dynamics) && only_vehicles(turn->config) && !turn->played) {
        move_cars(turn, first, end);
    } else {
        move_by_models(turn, first, end);
    }
    drive_sincos_array(agents->heading + first, agents->sine + first, agents->cosine + first,
                       turn->slot->count);
}

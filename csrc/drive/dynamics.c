// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Moves agents, by their actions or by the log. models.h has the models of motion. The default one, the bicycle with its own values,
// runs over a table of what each action does; all others run over the rows one by one.
#include "kernels.h"
#include "state.h"

#include <math.h>

static const double accelerations[DRIVE_ACCELERATIONS] = {-4.0, -2.667, -1.333, 0.0, 1.333, 2.667, 4.0};
static const double steerings[DRIVE_STEERINGS] = {-1.0,  -0.833, -0.667, -0.5,  -0.333, -0.167, 0.0,
                                                  0.167, 0.333,  0.5,    0.667, 0.833,  1.0};

void drive_actions_init(drive_action* actions) {
    for (int i = 0; i < DRIVE_ACTIONS; i++) {
        double tangent = tan(steerings[i % DRIVE_STEERINGS]);
        double slip = atan(0.5 * tangent);
        actions[i].acceleration = (float)accelerations[i / DRIVE_STEERINGS];
        actions[i].cosine = (float)cos(slip);
        actions[i].sine = (float)sin(slip);
        actions[i].turn = (float)(cos(slip) * tangent);
    }
}

PV_CLONES void drive_sincos_array(const float* angle, float* sine, float* cosine, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) pv_sincos(angle[i], &sine[i], &cosine[i]);
}

// Moves rows [first, end). Agents that are done stay where they are.
PV_CLONES static void move_by_actions(const drive_agents* agents, const drive_action* table, const int32_t* actions,
                                      uint32_t first, uint32_t end, float dt_s, float max_speed_mps, float max_reverse_mps) {
    enum { BATCH = 64 };
    float acceleration[BATCH], slip_cosine[BATCH], slip_sine[BATCH], turn[BATCH];
    for (; first < end; first += BATCH) {
        uint32_t n = end - first < BATCH ? end - first : BATCH;
        for (uint32_t i = 0; i < n; i++) {
            const drive_action* action = &table[actions[first + i]];
            acceleration[i] = action->acceleration;
            slip_cosine[i] = action->cosine;
            slip_sine[i] = action->sine;
            turn[i] = action->turn;
        }
        float *x = agents->x + first, *y = agents->y + first, *heading = agents->heading + first,
              *speed = agents->speed + first;
        const uint32_t* flags = agents->flags + first;
        const float *c = agents->cosine + first, *s = agents->sine + first, *inverse = agents->inverse_wheelbase + first;
        for (uint32_t i = 0; i < n; i++) {
            float v = drive_clamp(speed[i] + acceleration[i] * dt_s, -max_reverse_mps, max_speed_mps);
            v = flags[i] & DRIVE_ACTIVE ? v : 0.0f;
            x[i] += v * dt_s * (c[i] * slip_cosine[i] - s[i] * slip_sine[i]);
            y[i] += v * dt_s * (s[i] * slip_cosine[i] + c[i] * slip_sine[i]);
            heading[i] = drive_wrap(heading[i] + v * dt_s * turn[i] * inverse[i]);
            speed[i] = v;
        }
    }
}

static drive_motion motion_of(const drive_agents* agents, uint32_t row) {
    drive_motion body = {.x = agents->x[row], .y = agents->y[row], .heading = agents->heading[row],
                         .cosine = agents->cosine[row], .sine = agents->sine[row], .speed = agents->speed[row],
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
    if (!agents->steering) return;
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

// True if every agent is a vehicle, whatever the scene.
static int only_vehicles(const pv_drive_config* config) { return config->control <= DRIVE_IS_control_valid; }

// Puts rows [first, end) where the log has them. Where the log has a gap they stand still.
static void move_by_log(drive_turn* turn, uint32_t first, uint32_t end) {
    drive_agents* agents = &turn->agents;
    for (uint32_t row = first; row < end; row++) {
        const pv_frame* frame = drive_frame(&turn->scene, &turn->scene.objects[agents->object[row]], drive_log_frame(turn));
        agents->speed[row] = 0.0f;
        if (!frame || !(agents->flags[row] & DRIVE_ACTIVE)) continue;
        agents->x[row] = frame->x_m;
        agents->y[row] = frame->y_m;
        agents->heading[row] = (float)frame->heading * HEADING_UNIT;
        agents->speed[row] = (float)frame->speed * SPEED_UNIT;
    }
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
    } else if (!turn->layout->plain || !only_vehicles(turn->config)) {
        move_by_models(turn, first, end);
    } else {
        move_by_actions(agents, turn->layout->actions, turn->block->rows[0].indices + turn->first_row, first, end,
                        turn->scene.head->dt_s, turn->config->max_speed_mps, turn->config->max_reverse_mps);
    }
    drive_sincos_array(agents->heading + first, agents->sine + first, agents->cosine + first, turn->slot->count);
}

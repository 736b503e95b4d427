// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Moves agents, by their actions or by the log.
//
// Classic kinematic bicycle with the reference point at the centre (Rajamani, Vehicle Dynamics and Control, 2nd ed.,
// section 2.2, with l_f = l_r):
//     v'    = clip(v + a dt)                          signed: backward is negative
//     slip  = atan(tan(steering) / 2)
//     x'    = x + v' cos(heading + slip) dt           y' likewise with sin
//     turn  = v' cos(slip) tan(steering) / wheelbase  heading' = wrap(heading + turn dt)
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

void drive_action_values(int32_t action, float* acceleration_mps2, float* steering_rad) {
    *acceleration_mps2 = (float)accelerations[action / DRIVE_STEERINGS];
    *steering_rad = (float)steerings[action % DRIVE_STEERINGS];
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
    } else {
        move_by_actions(agents, turn->layout->actions, turn->block->rows[0].indices + turn->first_row, first, end,
                        turn->scene.head->dt_s, turn->config->max_speed_mps, turn->config->max_reverse_mps);
    }
    drive_sincos_array(agents->heading + first, agents->sine + first, agents->cosine + first, turn->slot->count);
}

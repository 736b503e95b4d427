// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Short answers about a turn, its config and its agents that several files need.
#pragma once

#include "contract/env.h"
#include "drive/scalar.h"
#include "drive/state.h"
#include "drive/tables.h"

static inline const pv_drive_config* drive_config_of(const pv_context* context) {
    return (const pv_drive_config*)context->config;
}

static inline uint32_t drive_number_bytes(const pv_drive_config* config) {
    static const uint32_t bytes[] = {[DRIVE_IS_row_dtype_float32] = 4,
                                     [DRIVE_IS_row_dtype_float16] = 2,
                                     [DRIVE_IS_row_dtype_uint8] = 1};
    return bytes[config->row_dtype];
}

// Returns the seed of the draws made while a bundle stays: traffic, weights of rewards, kinds of
// drivers, exits of lanes and next goals. It is the env's own seed until a state is poked, and
// again from the next bundle on.
static inline uint64_t drive_bundle_seed(const drive_env* env) {
    return env->seed ^ env->poked;
}

// Returns the frame of the log that belongs to the slot's clock. Beyond the end of the log no
// object has a frame.
static inline uint32_t drive_log_frame(const drive_turn* turn) {
    return turn->slot->clock + (uint32_t)turn->config->init_step;
}

// Returns whether the agent still has to reach its goal, or has to reach it again.
static inline int drive_seeks_goal(const pv_drive_config* config, uint32_t flags) {
    if (flags & DRIVE_NO_GOAL)
        return 0;
    return !(flags & DRIVE_REACHED) || config->goal_behavior >= DRIVE_IS_goal_behavior_respawn;
}

// Returns how the row of an agent that reaches its goal ends; 0: it does not end.
static inline uint32_t drive_end_at_goal(const pv_drive_config* config) {
    static const uint32_t ends[] = {[DRIVE_IS_goal_behavior_drive_on] = 0,
                                    [DRIVE_IS_goal_behavior_remove] = DRIVE_END_GONE,
                                    [DRIVE_IS_goal_behavior_stop] = DRIVE_END_STAYS,
                                    [DRIVE_IS_goal_behavior_respawn] = DRIVE_END_RETURNS,
                                    [DRIVE_IS_goal_behavior_next] = 0};
    return ends[config->goal_behavior];
}

static inline uint32_t drive_episode_steps(const drive_turn* turn) {
    const uint32_t frames = turn->scene.head->frame_count,
                   first = (uint32_t)turn->config->init_step;
    return turn->config->max_steps ? (uint32_t)turn->config->max_steps
           : frames > first + 1    ? frames - first - 1
                                   : 1;
}

static inline uint32_t drive_left_steps(const drive_turn* turn) {
    const uint32_t limit = drive_episode_steps(turn), clock = turn->slot->clock;
    return limit > clock ? limit - clock : 0;
}

// Returns the time left to reach the goal, at least one step, s.
static inline float drive_left_s(const drive_turn* turn) {
    return drive_max((float)drive_left_steps(turn), 1.0f) * turn->scene.head->dt_s;
}

// Returns the radius of the circle around an agent's box, m.
static inline float drive_circle_of(const drive_agents* agents, uint32_t row) {
    return 0.5f * __builtin_sqrtf(agents->length[row] * agents->length[row] +
                                  agents->width[row] * agents->width[row]);
}

static inline uint32_t drive_end_of(uint32_t flags) {
    return (flags & DRIVE_ENDED) >> DRIVE_END_SHIFT;
}

// Returns the distance from the agent's centre to its goal, m.
static inline float drive_goal_distance(const drive_agents* agents, uint32_t row) {
    float dx = agents->goal_x[row] - agents->x[row], dy = agents->goal_y[row] - agents->y[row];
    return drive_sqrt(dx * dx + dy * dy);
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Judges an agent's step: whether it left the road or reached its goal, and its reward.
//
// The reward is the sum of weight * value over the terms of DRIVE_REWARDS. Weights are the settings
// reward_<name>, the same for all; or, for terms that have a range, they are drawn uniformly from
// it for each agent and episode, and shown to the agent ("conditioned" rewards: Cusumano-Towner et
// al., "Robust Autonomy Emerges from Self-Play", 2025, section 3). Draws are keyed by the bundle's
// seed, its number, the turn in which the episode starts, and the row.
#include "drive/judge/reward.h"

#include "contract/base.h"
#include "contract/env.h"
#include "contract/rng.h"
#include "drive/judge/measure.h"
#include "drive/judge/metrics.h"
#include "drive/scalar.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"

#define FIRST_DRAW 0x40000000u // lower draw numbers are the bundle's
#define HASTE \
    2.0f // speeds above this times distance / time left are haste: a car 45 m away that keeps to it
         // arrives with a fifth of the time left

const pv_drive_reward* pv_drive_rewards(uint32_t* count) {
    static const pv_drive_reward rewards[] = {
#define REWARD(X, name, part, unit, meaning) {#name, unit, meaning},
        DRIVE_REWARDS(, REWARD)
#undef REWARD
    };
    *count = DRIVE_REWARD_COUNT;
    return rewards;
}

// ---- weights ----

// The ranges come as params: "reward_ranges" (terms, 2) float32; the highest is below the lowest
// where a term has none.
int drive_rewards_init(const pv_context* context, drive_block* out) {
    const pv_drive_config* config = drive_config_of(context);
    const float* fixed = &config->reward_step;
    uint64_t count = 0;
    const float* ranges = pv_params_find(context->params, "reward_ranges", PV_F32, &count);
    static const uint32_t parts[] = {
#define PART(X, name, part, unit, meaning) part,
        DRIVE_REWARDS(, PART)
#undef PART
    };
    out->parts = config->metrics ? DRIVE_PARTS : 0;
    for (uint32_t t = 0; t < DRIVE_REWARD_COUNT; t++) {
        int has_range = count == 2 * DRIVE_REWARD_COUNT && ranges[2 * t] <= ranges[2 * t + 1];
        if (has_range) {
            out->conditioned |= 1u << t;
            out->ranges[t][0] = ranges[2 * t];
            out->ranges[t][1] = ranges[2 * t + 1];
        }
        if (!has_range && fixed[t] == 0.0f)
            continue;
        out->paid |= 1u << t;
        out->parts |= parts[t];
    }
    return !ranges || count == 2 * DRIVE_REWARD_COUNT;
}

void drive_draw_weights(const drive_turn* turn, uint32_t row) {
    const drive_block* layout = turn->layout;
    const drive_env* env = turn->state;
    const float* fixed = &turn->config->reward_step;
    float* weights = turn->weights + (uint64_t)row * DRIVE_REWARD_COUNT;
    if (!layout->conditioned)
        return;
    for (uint32_t t = 0; t < DRIVE_REWARD_COUNT; t++) {
        weights[t] = fixed[t];
        if (!(layout->conditioned >> t & 1) || !turn->config->draw_rewards)
            continue;
        float share = pv_rng_f32(drive_bundle_seed(env), env->episode, env->step,
                                 FIRST_DRAW + row * DRIVE_REWARD_COUNT + t);
        weights[t] = layout->ranges[t][0] + share * (layout->ranges[t][1] - layout->ranges[t][0]);
    }
}

static const float* weights_of(const drive_turn* turn, uint32_t row) {
    return turn->layout->conditioned ? turn->weights + (uint64_t)row * DRIVE_REWARD_COUNT
                                     : &turn->config->reward_step;
}

void drive_conditions(const drive_turn* turn, uint32_t row, float* out) {
    const drive_block* layout = turn->layout;
    const float* weights = weights_of(turn, row);
    for (uint32_t t = 0; t < DRIVE_REWARD_COUNT; t++) {
        float low = layout->ranges[t][0], high = layout->ranges[t][1];
        int has_range = (layout->conditioned >> t & 1) && high > low;
        out[t] = has_range
                     ? drive_clamp(2.0f * (weights[t] - low) / (high - low) - 1.0f, -1.0f, 1.0f)
                     : 0.0f;
    }
}

// ---- values of the terms ----

static float value_step(const drive_outcome* step) {
    return (void)step, 1.0f;
}

static float value_collision(const drive_outcome* step) {
    return (float)step->begun;
}

static float value_offroad(const drive_outcome* step) {
    return (float)step->departed;
}

static float value_progress(const drive_outcome* step) {
    return step->nearer;
}

static float value_goal(const drive_outcome* step) {
    return step->goal_share;
}

static float value_acceleration(const drive_outcome* step) {
    return drive_abs(step->acceleration);
}

static float value_jerk(const drive_outcome* step) {
    return drive_abs(step->jerk);
}

static float value_lateral(const drive_outcome* step) {
    return drive_abs(step->lateral);
}

static float value_lane_align(const drive_outcome* step) {
    return step->lane_cos;
}

static float value_lane_center(const drive_outcome* step) {
    return step->lane_offset;
}

static float value_speed_limit(const drive_outcome* step) {
    return step->over_limit;
}

static float value_red_light(const drive_outcome* step) {
    return (float)step->red_light;
}

static float value_log(const drive_outcome* step) {
    return step->log_distance;
}

static float value_haste(const drive_outcome* step) {
    return step->haste;
}

static float value_yield(const drive_outcome* step) {
    return (float)step->failed_to_yield;
}

static float pay(const drive_turn* turn, uint32_t row, const drive_outcome* step) {
    const float* weights = weights_of(turn, row);
    const uint32_t paid = turn->layout->paid;
    float reward = 0.0f;
#define PAY(X, name, part, unit, meaning) \
    reward += weights[DRIVE_REWARD_##name] * value_##name(step);
#define PAY_IF(X, name, part, unit, meaning) \
    if (paid >> DRIVE_REWARD_##name & 1) \
        reward += weights[DRIVE_REWARD_##name] * value_##name(step);
    DRIVE_REWARDS_ALWAYS(, PAY)
    if (paid >> DRIVE_REWARD_acceleration) { // the first term of DRIVE_REWARDS_ASKED
        DRIVE_REWARDS_ASKED(, PAY_IF)
    }
#undef PAY_IF
#undef PAY
    return reward;
}

// ---- a step ----

// Returns whether this step's path of the centre comes within the goal radius.
static int path_meets_goal(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    float x0 = turn->scratch.old_x[row], y0 = turn->scratch.old_y[row];
    float px = agents->x[row] - x0, py = agents->y[row] - y0;
    float gx = agents->goal_x[row] - x0, gy = agents->goal_y[row] - y0;
    float square = px * px + py * py;
    float t = square > 0.0f ? drive_clamp((gx * px + gy * py) / square, 0.0f, 1.0f) : 0.0f;
    float dx = gx - t * px, dy = gy - t * py;
    return dx * dx + dy * dy <= turn->config->goal_radius_m * turn->config->goal_radius_m;
}

// The first goal alone decides whether the agent scores. Later ones are counted.
static void reach_goal(drive_turn* turn, uint32_t row, drive_outcome* step) {
    const drive_agents* agents = &turn->agents;
    uint32_t* flags = &agents->flags[row];
    step->goal_share = *flags & DRIVE_ALONE ? turn->config->respawn_goal_share : 1.0f;
    if (*flags & DRIVE_REACHED) {
        *flags += *flags >> DRIVE_AGAIN_SHIFT < UINT16_MAX ? 1u << DRIVE_AGAIN_SHIFT : 0;
        return;
    }
    int clean = !agents->contacts[row] && !agents->departures[row];
    *flags |= DRIVE_REACHED | (clean ? DRIVE_SCORED : 0);
    agents->goal_step[row] = turn->slot->clock;
}

// Determines whether the agent came nearer to its goal, and reached it.
static void judge_goal(drive_turn* turn, uint32_t row, drive_outcome* step) {
    drive_agents* agents = &turn->agents;
    float distance = drive_goal_distance(agents, row);
    if (drive_seeks_goal(turn->config, agents->flags[row])) {
        step->nearer = agents->goal_distance[row] - distance;
        agents->progress[row] += step->nearer;
        step->arrived = path_meets_goal(turn, row);
        if (step->arrived)
            reach_goal(turn, row, step);
        else if (turn->layout->paid >> DRIVE_REWARD_haste & 1)
            step->haste = drive_max(
                drive_abs(agents->speed[row]) - HASTE * distance / drive_left_s(turn), 0.0f);
    }
    agents->goal_distance[row] = distance;
}

float drive_judge(drive_turn* turn, uint32_t row, int offroad, uint32_t* events) {
    drive_agents* agents = &turn->agents;
    uint32_t flags = agents->flags[row];
    drive_outcome step = {.begun = turn->scratch.new_contacts[row],
                          .departed = offroad && !(flags & DRIVE_OFFROAD)};
    agents->flags[row] = offroad ? flags | DRIVE_OFFROAD : flags & ~DRIVE_OFFROAD;
    agents->contacts[row] += step.begun;
    agents->departures[row] += (uint32_t)step.departed;
    judge_goal(turn, row, &step);
    *events = (step.begun ? DRIVE_EVENT_CONTACT : 0) | (step.departed ? DRIVE_EVENT_DEPARTURE : 0) |
              (step.arrived ? DRIVE_EVENT_GOAL : 0);
    if (turn->layout->parts) {
        drive_measure(turn, row, &step);
        drive_add_step(turn, row, &step);
    }
    float reward = pay(turn, row, &step);
    agents->episode_return[row] += reward;
    return reward;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `drive`: the driving env's table of functions (env.h). An env is a bundle of scenes that fills
// num_agents rows. Each scene has its own clock and restarts in place; every resample_steps turns
// another bundle is drawn. Runs in workers; describe runs in the learner.
//
// The folders, each of which calls only those above it:
//
//   compile/   index, simplify, columns, beside: run in the learner, when scenes are compiled
//   scene/     compiled scenes (scene), which of their objects are agents (control)
//   search/    what is near: segments of one type (segments) or of all (roads), bodies (partners),
//              ways along the lane graph (lanes), where they meet and who goes first there
//              (conflicts); vectors.h has what their loops share
//   motion/    how bodies move (models, bicycle.h, walkers), what actions mean (actions), how to
//              follow a log (inverse, expert, logged), what moves agents (dynamics), other vehicles
//              (followers, kinds, follow) and heights (height); all objects of a step (bodies)
//   judge/     contacts (collide), what a step was like (measure), rewards, metrics
//   observe/   observation rows (observe, encode), what lies ahead (ahead), lidar, raster
//   block/     addresses (layout), which scenes (bundle), one scene's episode (episode), states as
//              bytes (saved)
//
// state.h has the types of the state, tables.h the lists that Python shares, turn.h short answers
// about a turn, scalar.h scalar functions.
#include "contract/base.h"
#include "contract/env.h"
#include "drive/block/bundle.h"
#include "drive/block/episode.h"
#include "drive/block/layout.h"
#include "drive/block/saved.h"
#include "drive/judge/metrics.h"
#include "drive/judge/reward.h"
#include "drive/motion/actions.h"
#include "drive/observe/observe.h"
#include "drive/scene/control.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

// ---- settings ----

#define KIND_int32_t PV_I32
#define KIND_float PV_F32

static const pv_config_field config_fields[] = {
#define FIELD(type, name, low, high) {#name, KIND_##type, offsetof(pv_drive_config, name)},
    DRIVE_SETTINGS(FIELD)
#undef FIELD
};

static int check_config(const pv_drive_config* config, char* text) {
    // The bounds are decimal literals; float settings are compared in float.
#define CHECK(type, name, low, high) \
    if (!(config->name >= (type)(low) && config->name <= (type)(high))) \
        return pv_describe_error(text, PV_ERROR_CONFIG, \
                                 "drive: %s is %g; it must be from %g to %g", #name, \
                                 (double)config->name, (double)(low), (double)(high));
    DRIVE_SETTINGS(CHECK)
#undef CHECK
    return PV_OK;
}

// ---- describe ----

static int check_drawable(const pv_context* context, const drive_block* layout, char* text) {
    const pv_drive_config* config = drive_config_of(context);
    uint32_t count = drive_set(context->data)->scene_count, most = 0;
    if (layout->scenes)
        return PV_OK;
    if (!count)
        return pv_describe_error(text, PV_ERROR_DATA,
                                 "drive: there are no scenes; name a folder that holds some");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t agents = drive_scene_agents(context, i);
        if (agents > most)
            most = agents;
    }
    if (!most)
        return pv_describe_error(text, PV_ERROR_DATA,
                                 "drive: none of the %u scenes has an agent under these settings",
                                 count);
    return pv_describe_error(text, PV_ERROR_CONFIG,
                             "drive: num_agents is %d, but every scene with agents has more (up to "
                             "%u); use at least that",
                             config->num_agents, most);
}

static int drive_describe(const pv_context* context, pv_spec* spec, char* text) {
    const pv_drive_config* config = drive_config_of(context);
    int code = check_config(config, text);
    if (code)
        return code;
    if (!context->data)
        return pv_describe_error(text, PV_ERROR_DATA, "drive: no compiled scenes were given");
    code = pv_drive_scenes_check(context->data, context->data_bytes, text);
    if (code)
        return code;
    drive_block layout;
    drive_layout(context, 1, &layout);
    if (!drive_rewards_init(context, &layout))
        return pv_describe_error(
            text, PV_ERROR_CONFIG,
            "drive: reward_ranges are not two numbers for each of the %d terms",
            DRIVE_REWARD_COUNT);
    code = check_drawable(context, &layout, text);
    if (code)
        return code;
    spec->group_count = 1;
    pv_group_spec* group = &spec->groups[0];
    strcpy(group->name, "agents");
    group->agents = layout.agents;
    drive_describe_observation(config, &layout, group);
    code = drive_describe_actions(context, group, text);
    if (code)
        return code;
    drive_describe_counters(spec);
    drive_describe_records(config, spec);
    drive_describe_state(&layout, spec);
    spec->save_bytes = (uint32_t)layout.env_bytes;
    spec->records_per_turn = layout.slots;
    spec->task_count = drive_set(context->data)->scene_count;
    return PV_OK;
}

static uint64_t drive_bytes(const pv_context* context, uint32_t env_count) {
    drive_block layout;
    drive_layout(context, env_count, &layout);
    return layout.bytes;
}

static int drive_init(pv_block* block) {
    drive_block* layout = (drive_block*)block->state;
    drive_layout(block->context, block->env_count, layout);
    drive_bundle_init(block->context, layout);
    return PV_OK;
}

// ---- reset and step ----

// Counts the rows that no scene of the bundle uses. They were blanked when the bundle was filled.
static uint32_t count_padding(const drive_turn* turn) {
    uint32_t count = turn->layout->agents - turn->state->rows;
    turn->block->counters[DRIVE_COUNTER_PADDING] += count;
    return count;
}

// Fills the env with scenes and starts them. The rest of the state is cleared, so that its bytes do
// not depend on what ran there before. goes_on: scenes of the bundle that has ended may stay.
static int start_bundle(drive_turn* turn, int goes_on) {
    drive_env* env = turn->state;
    const int had_task = env->task >= 0;
    env->task = turn->block->tasks[turn->env];
    env->step = 0;
    env->over = 0;
    memset(turn->block->rows[0].agent_types + turn->first_row, 0,
           turn->layout->agents); // rows that stay empty keep this
    int code = drive_bundle_fill(turn, goes_on && !had_task);
    if (code)
        return code;
    for (uint32_t slot = 0; slot < env->slots; slot++) {
        drive_turn_slot(turn, slot);
        drive_slot_start(turn);
    }
    drive_rows_blank(turn, env->rows, count_padding(turn));
    return PV_OK;
}

static int drive_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env])
            continue;
        pv_block_at(block, env);
        drive_turn turn;
        drive_turn_open(block, env, &turn);
        if (seeds) {
            turn.state->seed = seeds[env];
            turn.state->episode = turn.state->drawn = 0;
        } else {
            turn.state->episode++;
        }
        int code = start_bundle(&turn, 0);
        if (code)
            return code;
    }
    return PV_OK;
}

static int next_bundle(drive_turn* turn) {
    turn->state->episode++;
    return start_bundle(turn, 1);
}

static int start_slot(drive_turn* turn) {
    drive_slot_start(turn);
    return PV_OK;
}

// Keeps the last observations of the scene's agents that are done.
static void keep_observations(const drive_turn* turn) {
    const pv_rows* rows = &turn->block->rows[0];
    uint64_t first = turn->first_row + turn->slot->row, bytes = rows->observation_bytes;
    for (uint64_t row = first; row < first + turn->slot->count; row++) {
        if (rows->terminals[row] || rows->truncations[row])
            memcpy(rows->final_observations + row * bytes, rows->observations + row * bytes, bytes);
    }
}

// Same-step autoreset of `count` rows: calls `start` and then restores the rewards and flags of the
// last step. The counters are restored too, since a row counts once per turn.
static int restart(drive_turn* turn, uint32_t row, uint32_t count, int (*start)(drive_turn* turn)) {
    float rewards[DRIVE_MAX_AGENTS];
    uint8_t terminals[DRIVE_MAX_AGENTS], truncations[DRIVE_MAX_AGENTS];
    uint64_t counters[PV_COUNTERS];
    const pv_rows* rows = &turn->block->rows[0];
    uint64_t at = turn->first_row + row;
    memcpy(counters, turn->block->counters, sizeof counters);
    memcpy(rewards, rows->rewards + at, count * sizeof(float));
    memcpy(terminals, rows->terminals + at, count);
    memcpy(truncations, rows->truncations + at, count);
    int code = start(turn);
    memcpy(rows->rewards + at, rewards, count * sizeof(float));
    memcpy(rows->terminals + at, terminals, count);
    memcpy(rows->truncations + at, truncations, count);
    memcpy(turn->block->counters, counters, sizeof counters);
    return code;
}

// Does the same-step autoreset of a scene that was just stepped: restarts the scene, or begins the
// new rows of agents that return.
static void begin_again(drive_turn* turn) {
    const drive_slot* slot = turn->slot;
    if (slot->over)
        restart(turn, slot->row, slot->count, start_slot);
    else if (turn->config->goal_behavior == DRIVE_IS_goal_behavior_respawn)
        restart(turn, slot->row, slot->count, drive_slot_respawn);
}

// One turn of a scene that is over: it restarts, unless autoreset is disabled or the bundle ends
// with this turn.
static void step_idle_slot(drive_turn* turn, int last) {
    if (turn->block->context->autoreset == PV_NEXT_STEP && !last) {
        drive_slot_start(turn);
        return;
    }
    drive_rows_blank(turn, turn->slot->row, turn->slot->count);
    turn->block->counters[DRIVE_COUNTER_IDLE] += turn->slot->count;
}

static int step_env(pv_block* block, uint32_t env) {
    const int same_step = block->context->autoreset == PV_SAME_STEP;
    drive_turn turn;
    drive_turn_open(block, env, &turn);
    if (turn.state->over)
        return next_bundle(&turn); // next-step autoreset: this turn's actions are ignored
    turn.state->step++;
    int last = turn.state->step >= (uint32_t)turn.config->resample_steps;
    for (uint32_t slot = 0; slot < turn.state->slots; slot++) {
        drive_turn_slot(&turn, slot);
        if (turn.slot->over) {
            step_idle_slot(&turn, last);
            continue;
        }
        drive_slot_advance(&turn);
        if (last)
            drive_slot_cut(&turn);
        if (same_step)
            keep_observations(&turn);
        if (same_step && !last)
            begin_again(&turn);
    }
    count_padding(&turn);
    turn.state->over = (uint32_t)(last && !same_step);
    return last && same_step ? restart(&turn, 0, turn.layout->agents, next_bundle) : PV_OK;
}

static int drive_step(pv_block* block) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        pv_block_at(block, env);
        int code = step_env(block, env);
        if (code)
            return code;
    }
    return PV_OK;
}

// ---- poke ----

// Scenes and bundles for which this state is the last one end as in a step.
static int set_state(drive_turn* turn) {
    const int same_step = turn->block->context->autoreset == PV_SAME_STEP,
              was_last = turn->state->over != 0;
    const int last = turn->state->step >= (uint32_t)turn->config->resample_steps;
    for (uint32_t slot = 0; slot < turn->state->slots; slot++) {
        drive_turn_slot(turn, slot);
        drive_slot_set(turn, was_last, last);
        if (same_step)
            keep_observations(turn);
        if (same_step && !last)
            begin_again(turn);
    }
    turn->state->over = (uint32_t)(last && !same_step);
    return last && same_step ? restart(turn, 0, turn->layout->agents, next_bundle) : PV_OK;
}

static int drive_poke(pv_block* block, uint32_t env, const uint8_t* in) {
    uint64_t counters[PV_COUNTERS];
    drive_turn turn;
    drive_turn_open(block, env, &turn);
    int code = drive_take_state(&turn, in);
    if (code)
        return code;
    memcpy(counters, block->counters, sizeof counters);
    code = set_state(&turn);
    memcpy(block->counters, counters, sizeof counters); // they count only steps
    return code;
}

const pv_env_type pv_drive_type = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = "drive",
    .config_fields = config_fields,
    .config_count = sizeof config_fields / sizeof config_fields[0],
    .config_bytes = sizeof(pv_drive_config),
    .flags = PV_OWN_AUTORESET,
    .describe = drive_describe,
    .bytes = drive_bytes,
    .init = drive_init,
    .reset = drive_reset,
    .step = drive_step,
    .save = drive_save,
    .load = drive_load,
    .peek = drive_peek,
    .poke = drive_poke,
};

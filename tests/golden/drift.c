// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `drift`: a test env whose numbers change where arithmetic does: with denormals flushed to zero,
// another rounding mode, fused multiply-adds, reordered sums. If its golden hashes hold, so would
// those of any env. Actions are two floats. Its contract is env.h's.
#include "pv_env.h"

#include <string.h>

#define SUMMED 64 // a loop that vectorizes

typedef struct drift_config {
    int32_t episode_length;
} drift_config;

static const pv_config_field config_fields[] = {
    {"episode_length", PV_I32, offsetof(drift_config, episode_length)}};

typedef struct drift {
    uint64_t seed, episode;
    uint32_t step, over;
    float tiny;          // halves at each step: denormal for most of the episode
    float fused;         // product and sum that a fused operation rounds once instead of twice
    float swing;         // what the actions do, in [-10, 10]
    float terms[SUMMED]; // of very different size, so that the order of their sum shows
    float episode_return;
} drift;

static drift* env_at(pv_block* block, uint32_t env) {
    return (drift*)block->state + env;
}

static int drift_describe(const pv_context* context, pv_spec* spec, char* text) {
    const drift_config* config = (const drift_config*)context->config;
    if (config->episode_length < 1)
        return pv_describe_error(text, PV_ERROR_CONFIG, "episode_length is %d: use at least 1",
                                 config->episode_length);
    pv_group_spec* group = &spec->groups[spec->group_count++];
    strcpy(group->name, "agents");
    group->agents = 1;
    group->action_kind = PV_CONTINUOUS;
    group->action_dims = 2;
    for (int d = 0; d < 2; d++) {
        group->action_low[d] = -1.0f;
        group->action_high[d] = 1.0f;
    }
    pv_add_field(group->fields, &group->field_count, &group->observation_bytes, "numbers", "",
                 PV_F32, 4, 0, -100.0f, 100.0f, 1.0f);
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "tiny", "", PV_F32, 0,
                 0, 0.0f, 1.0f, 1.0f);
    spec->save_bytes = sizeof(drift);
    spec->records_per_turn = 1;
    return PV_OK;
}

static uint64_t drift_bytes(const pv_context* context, uint32_t env_count) {
    (void)context;
    return env_count * sizeof(drift);
}

static int drift_init(pv_block* block) {
    (void)block;
    return PV_OK;
}

static void drift_close(pv_block* block) {
    (void)block;
}

static void write_row(pv_block* block, uint32_t env, float reward, int truncation) {
    const pv_rows* rows = &block->rows[0];
    const drift* state = env_at(block, env);
    float sum = 0.0f;
    for (int i = 0; i < SUMMED; i++)
        sum += state->terms[i];
    const float shown[4] = {state->tiny, state->fused, state->swing, sum};
    memcpy(rows->observations + env * rows->observation_bytes, shown, sizeof shown);
    rows->rewards[env] = reward;
    rows->terminals[env] = 0;
    rows->truncations[env] = (uint8_t)truncation;
    rows->masks[env] = 1;
    rows->agent_types[env] = 0;
}

static void begin_episode(pv_block* block, uint32_t env) {
    drift* state = env_at(block, env);
    state->step = state->over = 0;
    state->episode_return = state->swing = 0.0f;
    state->tiny = 1e-37f * (1.0f + pv_rng_f32(state->seed, state->episode, 0,
                                              0)); // just above the least normal number
    state->fused = pv_rng_f32(state->seed, state->episode, 0, 1);
    for (uint32_t i = 0; i < SUMMED; i++) {
        const float drawn = pv_rng_f32(state->seed, state->episode, 0, 2 + i);
        state->terms[i] = i % 2 ? drawn * 1e-6f : drawn - 0.5f;
    }
    write_row(block, env, 0.0f, 0);
}

static int drift_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env])
            continue;
        drift* state = env_at(block, env);
        state->episode = seeds ? 0 : state->episode + 1;
        if (seeds)
            state->seed = seeds[env];
        begin_episode(block, env);
    }
    return PV_OK;
}

static void leave_record(pv_block* block, uint32_t env) {
    pv_record* record = pv_block_record(block, env);
    if (!record)
        return;
    const drift* state = env_at(block, env);
    record->episode = state->episode;
    record->task = -1;
    record->length = state->step;
    record->episode_return = state->episode_return;
}

static void step_env(pv_block* block, uint32_t env, int32_t episode_length) {
    drift* state = env_at(block, env);
    if (state->over) { // next-step autoreset
        state->episode++;
        begin_episode(block, env);
        return;
    }
    const float* action =
        block->rows[0].values + 2 * (uint64_t)env; // finite and in bounds: puffervec has looked
    state->step++;
    state->tiny *= 0.5f;
    state->fused = state->fused * 0.99f + 0.1f * action[0];
    state->swing = state->swing * 0.9f + action[1];
    for (int i = 0; i < SUMMED; i++)
        state->terms[i] = state->terms[i] * -0.999f + state->fused * 1e-3f;
    state->over = state->step >= (uint32_t)episode_length;
    const float reward = state->swing * 0.125f;
    state->episode_return += reward;
    write_row(block, env, reward, (int)state->over);
    if (state->over)
        leave_record(block, env);
}

static int drift_step(pv_block* block) {
    const int32_t length = ((const drift_config*)block->context->config)->episode_length;
    for (uint32_t env = 0; env < block->env_count; env++)
        step_env(block, env, length);
    return PV_OK;
}

static int drift_save(pv_block* block, uint32_t env, uint8_t* out) {
    memcpy(out, env_at(block, env), sizeof(drift));
    return PV_OK;
}

static int drift_load(pv_block* block, uint32_t env, const uint8_t* in) {
    memcpy(env_at(block, env), in, sizeof(drift));
    return PV_OK;
}

static int drift_peek(pv_block* block, uint32_t env, uint8_t* out) {
    memcpy(out, &env_at(block, env)->tiny, sizeof(float));
    return PV_OK;
}

PV_ENV_TYPE(drift) = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = "drift",
    .config_fields = config_fields,
    .config_count = sizeof config_fields / sizeof config_fields[0],
    .config_bytes = sizeof(drift_config),
    .describe = drift_describe,
    .bytes = drift_bytes,
    .init = drift_init,
    .reset = drift_reset,
    .step = drift_step,
    .save = drift_save,
    .load = drift_load,
    .peek = drift_peek,
    .close = drift_close,
};

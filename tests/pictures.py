# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A C env with pictures, compiled as a package of its own: which half of the picture is bright?

Settings: height, width, channels (0: two axes), vector (floats beside the picture, the first one is
the step).
"""

from __future__ import annotations

from pathlib import Path

from tests.libraries import install_env

SOURCE = r"""
#include "pv_env.h"
#include <math.h>
#include <string.h>

typedef struct { int32_t height, width, channels, vector; } eye_config;
typedef struct { uint64_t seed, episode; int32_t steps, right, over; float earned; } eye;
static const pv_config_field fields[] = {
    {"height", PV_I32, offsetof(eye_config, height)},
    {"width", PV_I32, offsetof(eye_config, width)},
    {"channels", PV_I32, offsetof(eye_config, channels)},
    {"vector", PV_I32, offsetof(eye_config, vector)},
};
static const eye_config* config_of(const pv_context* context) { return context->config; }
static eye* env_at(pv_block* block, uint32_t env) { return (eye*)block->state + env; }

static int eye_describe(const pv_context* context, pv_spec* spec, char* text) {
    const eye_config* config = config_of(context);
    (void)text;
    pv_group_spec* group = &spec->groups[spec->group_count++];
    strcpy(group->name, "agents");
    group->agents = 1;
    group->action_kind = PV_DISCRETE;
    group->action_dims = 1;
    group->action_sizes[0] = 2;
    if (config->vector)
        pv_add_field(group->fields, &group->field_count, &group->observation_bytes, "senses", "",
                     PV_F32, (uint32_t)config->vector, 0, -INFINITY, INFINITY, 1.0f);
    pv_add_picture(group->fields, &group->field_count, &group->observation_bytes, "picture",
                   (uint32_t)config->height, (uint32_t)config->width, (uint32_t)config->channels);
    spec->save_bytes = sizeof(eye);
    spec->records_per_turn = 1;
    return PV_OK;
}
static uint64_t eye_bytes(const pv_context* context, uint32_t env_count) {
    (void)context;
    return env_count * sizeof(eye);
}
static int eye_init(pv_block* block) { (void)block; return PV_OK; }
static void eye_close(pv_block* block) { (void)block; }

static void show(pv_block* block, uint32_t env, float reward, int over) {
    const pv_rows* rows = &block->rows[0];
    const eye_config* config = config_of(block->context);
    eye* state = env_at(block, env);
    uint8_t* row = rows->observations + env * rows->observation_bytes;
    state->right = (int32_t)pv_rng_below(state->seed, state->episode, (uint32_t)state->steps, 0, 2);
    float* senses = (float*)(void*)row;
    for (int32_t i = 0; i < config->vector; i++) senses[i] = (float)(i ? 1000 : state->steps);
    uint8_t* pixel = row + (size_t)config->vector * sizeof(float);
    const int32_t channels = config->channels ? config->channels : 1;
    for (int32_t y = 0; y < config->height; y++)
        for (int32_t x = 0; x < config->width; x++) {
            const int bright = (x >= config->width / 2) == state->right;
            for (int32_t c = 0; c < channels; c++) /* the value tells row, column, channel */
                *pixel++ = (uint8_t)(bright ? 200 + c : (y + 2 * x + c) % 100);
        }
    rows->rewards[env] = reward;
    rows->terminals[env] = (uint8_t)over;
    rows->truncations[env] = 0;
    rows->masks[env] = 1;
    rows->agent_types[env] = 0;
    state->over = over;
}
static int eye_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env]) continue;
        eye* state = env_at(block, env);
        state->episode = seeds ? 0 : state->episode + 1;
        if (seeds) state->seed = seeds[env];
        state->steps = 0;
        state->earned = 0.0f;
        show(block, env, 0.0f, 0);
    }
    return PV_OK;
}
static void step_env(pv_block* block, uint32_t env) {
    eye* state = env_at(block, env);
    if (state->over) {
        state->episode++;
        state->steps = 0;
        state->earned = 0.0f;
        show(block, env, 0.0f, 0);
        return;
    }
    const float reward = block->rows[0].indices[env] == state->right ? 1.0f : 0.0f;
    state->earned += reward;
    show(block, env, reward, ++state->steps == 4);
    pv_record* record = state->over ? pv_block_record(block, env) : NULL;
    if (!record) return;
    record->episode = state->episode;
    record->length = 4;
    record->episode_return = state->earned;
}
static int eye_step(pv_block* block) {
    for (uint32_t env = 0; env < block->env_count; env++) step_env(block, env);
    return PV_OK;
}
static int eye_save(pv_block* block, uint32_t env, uint8_t* out) {
    memcpy(out, env_at(block, env), sizeof(eye));
    return PV_OK;
}
static int eye_load(pv_block* block, uint32_t env, const uint8_t* in) {
    memcpy(env_at(block, env), in, sizeof(eye));
    return PV_OK;
}
static int eye_peek(pv_block* block, uint32_t env, uint8_t* out) {
    (void)block, (void)env, (void)out;
    return PV_OK;
}
PV_ENV_TYPE(eye) = {
    .abi = PV_ABI, .struct_bytes = sizeof(pv_env_type), .name = "eye", .config_fields = fields,
    .config_count = 4, .config_bytes = sizeof(eye_config), .describe = eye_describe,
    .bytes = eye_bytes, .init = eye_init, .reset = eye_reset, .step = eye_step, .save = eye_save,
    .load = eye_load, .peek = eye_peek, .close = eye_close,
};
"""
SETTINGS = """height: int = 16
    width: int = 12
    channels: int = 3
    vector: int = 0"""


def install_eye(folder: Path) -> Path:
    """Compile the env and lay it out as an installed package; returns the folder to put on
    sys.path.
    """
    return install_env(folder, "eye", SOURCE, SETTINGS)

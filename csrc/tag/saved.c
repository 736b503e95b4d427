// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// tag_continuous: the flat form of one env, for save and load, and its readable state.
#include "continuous.h"

#include <math.h>
#include <string.h>

// The arrays of its agents follow, as in `arrays_of`.
typedef struct tag_saved {
    uint64_t seed, episode;
    int64_t task, survived;
    int32_t time, left, tags, over;
    float returns[2];
} tag_saved;

_Static_assert(sizeof(tag_saved) == TAG_SAVED_HEAD, "describe.c counts these bytes");

#define ARRAYS 6
#define ALIVE 5

typedef struct tag_arrays {
    float* of[ARRAYS];
} tag_arrays;

static tag_arrays arrays_of(const tag_state* state, uint64_t row) {
    return (tag_arrays){{state->x + row, state->y + row, state->speed + row, state->direction + row, state->acceleration + row,
                         state->alive + row}};
}

int tag_continuous_save(pv_block* block, uint32_t env, uint8_t* out) {
    tag_state state = tag_state_of(block);
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const tag_saved saved = {state.seed[env], state.episode[env], state.task[env], state.survived[env], state.time[env],
                             state.left[env], state.tags[env],    state.over[env], {state.returns[2 * env],
                             state.returns[2 * env + 1]}};
    memcpy(out, &saved, sizeof saved);
    const tag_arrays arrays = arrays_of(&state, (uint64_t)env * agents);
    for (uint32_t a = 0; a < ARRAYS; a++) memcpy(out + sizeof saved + a * 4 * agents, arrays.of[a], 4 * agents);
    return PV_OK;
}

// True if agent `i` of saved arrays can be gone on from. Comparisons with NaN are false.
static int is_agent(const tag_config* config, const tag_constants* constants, const float* values, int32_t type) {
    const float cap = constants->cap[type], length = config->grid_length;
    return values[0] >= 0.0f && values[0] <= length && values[1] >= 0.0f && values[1] <= length && values[2] >= 0.0f &&
           values[2] <= cap && values[3] >= 0.0f && values[3] <= TAG_TWO_PI && fabsf(values[4]) <= cap &&
           (values[ALIVE] == 1.0f || (values[ALIVE] == 0.0f && type == TAG_RUNNER));
}

static int check_agents(pv_block* block, const tag_state* state, uint32_t env, const uint8_t* in, int32_t left) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    int32_t runners = 0;
    for (uint32_t i = 0; i < agents; i++) {
        float values[ARRAYS];
        for (uint32_t a = 0; a < ARRAYS; a++) memcpy(&values[a], in + 4 * (a * agents + i), 4);
        if (!is_agent(config, state->constants, values, state->type[i]))
            return pv_block_error(block, env,
                                  "saved state: agent %u at (%g, %g), speed %g, direction %g, acceleration %g, in the game %g is "
                                  "no state to go on from",
                                  i, (double)values[0], (double)values[1], (double)values[2], (double)values[3],
                                  (double)values[4], (double)values[5]);
        runners += state->type[i] == TAG_RUNNER && values[ALIVE] == 1.0f;
    }
    if (runners != left)
        return pv_block_error(block, env, "saved state: %d runners are in the game, and %d are counted", runners, left);
    return PV_OK;
}

int tag_continuous_load(pv_block* block, uint32_t env, const uint8_t* in) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    tag_state state = tag_state_of(block);
    tag_saved saved;
    memcpy(&saved, in, sizeof saved);
    int32_t last = saved.over ? config->episode_length : config->episode_length - 1;
    if (saved.time < 0 || saved.time > last || saved.tags < 0 || saved.survived < 0 || !isfinite(saved.returns[0]) ||
        !isfinite(saved.returns[1]) || (saved.left == 0 && !saved.over))
        return pv_block_error(block, env, "saved state: time %d of %d, %d tags, returns %g and %g are no state to go on from",
                              saved.time, config->episode_length, saved.tags, (double)saved.returns[0],
                              (double)saved.returns[1]);
    int code = check_agents(block, &state, env, in + sizeof saved, saved.left);
    if (code) return code;
    const tag_arrays arrays = arrays_of(&state, (uint64_t)env * agents);
    for (uint32_t a = 0; a < ARRAYS; a++) memcpy(arrays.of[a], in + sizeof saved + a * 4 * agents, 4 * agents);
    state.seed[env] = saved.seed;
    state.episode[env] = saved.episode;
    state.task[env] = saved.task;
    state.survived[env] = saved.survived;
    state.time[env] = saved.time;
    state.left[env] = saved.left;
    state.tags[env] = saved.tags;
    state.over[env] = saved.over != 0;
    memcpy(state.returns + 2 * (uint64_t)env, saved.returns, sizeof saved.returns);
    return PV_OK;
}

int tag_continuous_peek(pv_block* block, uint32_t env, uint8_t* out) {
    tag_state state = tag_state_of(block);
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const tag_arrays arrays = arrays_of(&state, (uint64_t)env * agents);
    for (uint32_t a = 0; a < ALIVE; a++) memcpy(out + a * 4 * agents, arrays.of[a], 4 * agents);
    for (uint32_t i = 0; i < agents; i++) {
        int32_t alive = arrays.of[ALIVE][i] != 0.0f;
        memcpy(out + 4 * (ALIVE * agents + i), &alive, sizeof alive);
    }
    memcpy(out + 4 * ARRAYS * agents, &state.time[env], sizeof(int32_t));
    return PV_OK;
}

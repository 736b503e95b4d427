// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// tag_continuous: the saved form of one env, for save and load, and its readable state, for peek
// and poke.
#include "continuous.h"

#include <math.h>
#include <string.h>

// The arrays of its agents follow, as in `arrays_of`.
typedef struct tag_saved {
    uint64_t seed, episode;
    int64_t task;
    int32_t time, left, tags, over;
    float returns[2];
} tag_saved;

_Static_assert(sizeof(tag_saved) == TAG_SAVED_HEAD, "describe.c counts these bytes");

#define REALS 5 // x, y, speed, direction, acceleration
#define ARRAYS 7

typedef struct tag_arrays {
    void* of[ARRAYS];
} tag_arrays;

static tag_arrays arrays_of(const tag_state* state, uint64_t row) {
    return (tag_arrays){{state->x + row, state->y + row, state->speed + row, state->direction + row,
                         state->acceleration + row, state->alive + row, state->left_at + row}};
}

int tag_continuous_save(pv_block* block, uint32_t env, uint8_t* out) {
    tag_state state = tag_state_of(block);
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const tag_saved saved = {
        state.seed[env], state.episode[env],
        state.task[env], state.time[env],
        state.left[env], state.tags[env],
        state.over[env], {state.returns[2 * (uint64_t)env], state.returns[2 * (uint64_t)env + 1]}};
    memcpy(out, &saved, sizeof saved);
    const tag_arrays arrays = arrays_of(&state, (uint64_t)env * agents);
    for (uint32_t a = 0; a < ARRAYS; a++)
        memcpy(out + sizeof saved + a * 4 * agents, arrays.of[a], 4 * agents);
    return PV_OK;
}

// ---- states from outside ----

// One agent of a state.
typedef struct tag_agent {
    float real[REALS];
    int in_game;
} tag_agent;

static float real_at(const uint8_t* in, uint32_t index) {
    float value;
    memcpy(&value, in + 4 * (uint64_t)index, sizeof value);
    return value;
}

static int32_t whole_at(const uint8_t* in, uint32_t index) {
    int32_t value;
    memcpy(&value, in + 4 * (uint64_t)index, sizeof value);
    return value;
}

// Refuses an agent that is out of bounds. Comparisons with NaN are false.
static int check_agent(
    pv_block* block, const tag_state* state, uint32_t env, uint32_t id, const tag_agent* agent) {
    const float length = tag_config_of(block->context)->grid_length, *real = agent->real;
    const int tagger = state->tagger[id] != 0.0f;
    const float cap = state->constants->cap[tagger];
    const int placed = real[0] >= 0.0f && real[0] <= length && real[1] >= 0.0f && real[1] <= length;
    const int moves = real[2] >= 0.0f && real[2] <= cap && fabsf(real[4]) <= cap;
    if (placed && moves && real[3] >= 0.0f && real[3] <= TAG_TWO_PI && (agent->in_game || !tagger))
        return PV_OK;
    return pv_block_error(block, env,
                          "agent %u, a %s, cannot be at (%.9g, %.9g) with speed %.9g, direction "
                          "%.9g, acceleration %.9g, %s the "
                          "game: places are 0 to %.9g, speeds 0 to %.9g, accelerations at most "
                          "that, directions 0 to 2 pi, and "
                          "taggers stay in the game",
                          id, tagger ? "tagger" : "runner", (double)real[0], (double)real[1],
                          (double)real[2], (double)real[3], (double)real[4],
                          agent->in_game ? "in" : "out of", (double)length, (double)cap);
}

// Checks all agents of saved or peeked arrays, in the order of `arrays_of`; the sixth is int32 if
// `whole`, else float32. Returns an error, or PV_OK with the number of runners still in the game.
static int check_agents(pv_block* block,
                        const tag_state* state,
                        uint32_t env,
                        const uint8_t* in,
                        int whole,
                        int32_t* left) {
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    *left = 0;
    for (uint32_t i = 0; i < agents; i++) {
        tag_agent agent;
        for (uint32_t a = 0; a < REALS; a++)
            agent.real[a] = real_at(in, a * agents + i);
        agent.in_game =
            whole ? whole_at(in, REALS * agents + i) != 0 : real_at(in, REALS * agents + i) == 1.0f;
        int code = check_agent(block, state, env, i, &agent);
        if (code)
            return code;
        if (!whole && !agent.in_game && real_at(in, REALS * agents + i) != 0.0f)
            return pv_block_error(block, env,
                                  "saved state: agent %u is neither in the game nor out of it", i);
        *left += agent.in_game && state->tagger[i] == 0.0f;
    }
    return PV_OK;
}

int tag_continuous_load(pv_block* block, uint32_t env, const uint8_t* in) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    tag_state state = tag_state_of(block);
    tag_saved saved;
    memcpy(&saved, in, sizeof saved);
    int32_t last = saved.over ? config->episode_length : config->episode_length - 1, left;
    int code = check_agents(block, &state, env, in + sizeof saved, 0, &left);
    if (code)
        return code;
    if (saved.time < 0 || saved.time > last || saved.tags < 0 || !isfinite(saved.returns[0]) ||
        !isfinite(saved.returns[1]) || saved.left != left || (!left && !saved.over))
        return pv_block_error(block, env,
                              "saved state: time %d of %d, %d of %d runners left, %d tags, returns "
                              "%g and %g are no state to go "
                              "on from",
                              saved.time, config->episode_length, saved.left, left, saved.tags,
                              (double)saved.returns[0], (double)saved.returns[1]);
    for (uint32_t i = 0; i < agents; i++) {
        int32_t left_at = whole_at(in + sizeof saved, (ARRAYS - 1) * agents + i);
        if (left_at < -1 || left_at > saved.time)
            return pv_block_error(block, env,
                                  "saved state: agent %u left at %d, and the time is %d", i,
                                  left_at, saved.time);
    }
    const tag_arrays arrays = arrays_of(&state, (uint64_t)env * agents);
    for (uint32_t a = 0; a < ARRAYS; a++)
        memcpy(arrays.of[a], in + sizeof saved + a * 4 * agents, 4 * agents);
    state.seed[env] = saved.seed;
    state.episode[env] = saved.episode;
    state.task[env] = saved.task;
    state.time[env] = saved.time;
    state.left[env] = saved.left;
    state.tags[env] = saved.tags;
    state.over[env] = saved.over != 0;
    state.stale[env] = 1;
    memcpy(state.returns + 2 * (uint64_t)env, saved.returns, sizeof saved.returns);
    return PV_OK;
}

// ---- readable state ----

int tag_continuous_peek(pv_block* block, uint32_t env, uint8_t* out) {
    tag_state state = tag_state_of(block);
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const uint64_t first = (uint64_t)env * agents;
    const tag_arrays arrays = arrays_of(&state, first);
    for (uint32_t a = 0; a < REALS; a++)
        memcpy(out + a * 4 * agents, arrays.of[a], 4 * agents);
    for (uint32_t i = 0; i < agents; i++) {
        const int32_t in_game = state.alive[first + i] != 0.0f;
        const int32_t just_tagged = !in_game && state.left_at[first + i] == state.time[env];
        memcpy(out + 4 * (REALS * agents + i), &in_game, 4);
        memcpy(out + 4 * ((REALS + 1) * agents + i), &just_tagged, 4);
    }
    memcpy(out + 4 * ARRAYS * agents, &state.time[env], sizeof(int32_t));
    return PV_OK;
}

// Sets which agents are in the game, and when the others left: now, or at an earlier time.
static void set_presence(
    const tag_state* state, uint32_t env, uint64_t first, uint32_t agents, const uint8_t* in) {
    const int32_t now = state->time[env];
    for (uint32_t i = 0; i < agents; i++) {
        const int32_t in_game = whole_at(in, REALS * agents + i),
                      just_tagged = whole_at(in, (REALS + 1) * agents + i);
        int32_t before = state->alive[first + i] != 0.0f || state->left_at[first + i] >= now
                             ? now - 1
                             : state->left_at[first + i];
        state->left_at[first + i] = in_game ? 0 : just_tagged ? now : before;
        state->alive[first + i] = in_game ? 1.0f : 0.0f;
    }
}

// Writes the rows of a state that was set. A runner tagged in the last step is seen for the last
// time.
static void write_rows(const pv_block* block,
                       const tag_state* state,
                       uint32_t env,
                       const uint8_t* in) {
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const uint64_t first = (uint64_t)env * agents;
    const pv_rows* rows = &block->rows[0];
    memset(rows->rewards + first, 0, agents * sizeof(float));
    memset(rows->truncations + first, 0, agents);
    tag_scale(state, first, 0, agents);
    for (uint32_t i = 0; i < agents; i++) {
        const int just_tagged =
            state->alive[first + i] == 0.0f && whole_at(in, (REALS + 1) * agents + i);
        if (just_tagged)
            state->seen[i] = 1.0f;
        rows->masks[first + i] = state->seen[i] != 0.0f;
        rows->terminals[first + i] = (uint8_t)just_tagged;
    }
    if (state->over[env])
        tag_end_rows(block, state, env);
    state->stale[env] = 1;
    tag_observe(block, state, env, 1);
    for (uint32_t i = 0; i < agents; i++)
        state->stale[env] |= state->seen[i] != state->alive[first + i];
}

int tag_continuous_poke(pv_block* block, uint32_t env, const uint8_t* in) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    const uint64_t first = (uint64_t)env * agents;
    tag_state state = tag_state_of(block);
    int32_t left;
    int code = check_agents(block, &state, env, in, 1, &left);
    if (code)
        return code;
    const tag_arrays arrays = arrays_of(&state, first);
    for (uint32_t a = 0; a < REALS; a++)
        memcpy(arrays.of[a], in + a * 4 * agents, 4 * agents);
    state.time[env] = whole_at(in, ARRAYS * agents);
    set_presence(&state, env, first, agents, in);
    state.left[env] = left;
    const int over = !left || state.time[env] >= config->episode_length;
    if (state.over[env] && !over) { // its next episode
        state.episode[env]++;
        tag_forget_episode(block, &state, env);
    }
    state.over[env] = (uint8_t)over;
    write_rows(block, &state, env, in);
    return PV_OK;
}

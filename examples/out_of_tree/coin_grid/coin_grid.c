// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `coin_grid`: an agent walks on a grid of size x size cells and collects coins; each coin that it
// takes appears anew on another cell. A pit ends the episode (terminal), the time limit truncates
// it. One struct per env. The contract is puffervec's env.h.
#include "pv_env.h"

#include <string.h>

typedef struct coin_grid_config {
    int32_t size;
    int32_t episode_length;
    float coin_reward;
    float pit_penalty;
} coin_grid_config;

static const pv_config_field config_fields[] = {
    {"size", PV_I32, offsetof(coin_grid_config, size)},
    {"episode_length", PV_I32, offsetof(coin_grid_config, episode_length)},
    {"coin_reward", PV_F32, offsetof(coin_grid_config, coin_reward)},
    {"pit_penalty", PV_F32, offsetof(coin_grid_config, pit_penalty)},
};

typedef struct cell {
    int32_t x, y;
} cell;

// No pointers, so that saving is a copy.
typedef struct coin_grid {
    uint64_t seed, episode;
    int64_t task;
    cell agent, coin, pit;
    int32_t steps; // of this episode
    int32_t over;  // 1: the next step is a reset
    float episode_return;
    int32_t coins; // taken in this episode
} coin_grid;

static const coin_grid_config* config_of(const pv_context* context) {
    return (const coin_grid_config*)context->config;
}

static coin_grid* env_at(pv_block* block, uint32_t env) {
    return (coin_grid*)block->state + env;
}

static int coin_grid_describe(const pv_context* context, pv_spec* spec, char* text) {
    const coin_grid_config* config = config_of(context);
    if (config->size < 2 || config->size > 1000)
        return pv_describe_error(text, PV_ERROR_CONFIG, "size is %d: use 2 to 1000", config->size);
    if (config->episode_length < 1)
        return pv_describe_error(text, PV_ERROR_CONFIG, "episode_length is %d: use at least 1",
                                 config->episode_length);
    pv_group_spec* group = &spec->groups[spec->group_count++];
    strcpy(group->name, "agents");
    group->agents = 1;
    group->action_kind = PV_DISCRETE;
    group->action_dims = 1;
    group->action_sizes[0] = 5; // stay, right, left, down, up
    const char* names[3] = {"agent", "coin", "pit"};
    for (int i = 0; i < 3; i++) // x and y of each, as a share of the grid
        pv_add_field(group->fields, &group->field_count, &group->observation_bytes, names[i],
                     "cells", PV_F32, 2, 0, 0.0f, 1.0f, (float)config->size);
    // What vec.peek shows and vec.poke sets. Seed, episode and steps decide where the next coin
    // lies.
    pv_field* fields = spec->state_fields;
    pv_add_field(fields, &spec->state_count, &spec->state_bytes, "seed", "", PV_U64, 0, 0, 0.0f,
                 0x1p64f, 1.0f);
    pv_add_field(fields, &spec->state_count, &spec->state_bytes, "episode", "", PV_U64, 0, 0, 0.0f,
                 0x1p64f, 1.0f);
    for (int i = 0; i < 3; i++)
        pv_add_field(fields, &spec->state_count, &spec->state_bytes, names[i], "cells", PV_I32, 2,
                     0, 0.0f, (float)(config->size - 1), 1.0f);
    pv_add_field(fields, &spec->state_count, &spec->state_bytes, "steps", "", PV_I32, 0, 0, 0.0f,
                 (float)config->episode_length, 1.0f);
    const char* records[3] = {"coins", "falls", "agents"}; // agents: how many the record stands for
    for (int i = 0; i < 3; i++)
        strcpy(spec->record_names[spec->record_count++], records[i]);
    spec->save_bytes = sizeof(coin_grid);
    spec->records_per_turn = 1;
    return PV_OK;
}

static uint64_t coin_grid_bytes(const pv_context* context, uint32_t env_count) {
    (void)context;
    return env_count * sizeof(coin_grid);
}

static int coin_grid_init(pv_block* block) {
    (void)block;
    return PV_OK;
}

static void coin_grid_close(pv_block* block) {
    (void)block;
}

// ---- rows ----

static void write_row(pv_block* block, uint32_t env, float reward, int terminal, int truncation) {
    const pv_rows* rows = &block->rows[0];
    const coin_grid* state = env_at(block, env);
    const float size = (float)config_of(block->context)->size;
    const cell shown[3] = {state->agent, state->coin, state->pit};
    float* observation = (float*)(void*)(rows->observations + env * rows->observation_bytes);
    for (int i = 0; i < 3; i++) {
        observation[2 * i] = (float)shown[i].x / size;
        observation[2 * i + 1] = (float)shown[i].y / size;
    }
    rows->rewards[env] = reward;
    rows->terminals[env] = (uint8_t)terminal;
    rows->truncations[env] = (uint8_t)truncation;
    rows->masks[env] = 1;
    rows->agent_types[env] = 0;
}

// ---- reset and step ----

// A cell drawn at this step of this episode; `draw` tells draws of one step apart.
static cell drawn_cell(const coin_grid* state, uint32_t draw, int32_t size) {
    uint32_t step = (uint32_t)state->steps;
    return (cell){
        (int32_t)pv_rng_below(state->seed, state->episode, step, 2 * draw, (uint32_t)size),
        (int32_t)pv_rng_below(state->seed, state->episode, step, 2 * draw + 1, (uint32_t)size)};
}

static int same(cell a, cell b) {
    return a.x == b.x && a.y == b.y;
}

// The next cell in reading order, so that two things never share one.
static cell next_cell(cell at, int32_t size) {
    int32_t index = (at.y * size + at.x + 1) % (size * size);
    return (cell){index % size, index / size};
}

static void place_coin(coin_grid* state, int32_t size) {
    state->coin = drawn_cell(state, 0, size);
    while (same(state->coin, state->pit) || same(state->coin, state->agent))
        state->coin = next_cell(state->coin, size);
}

static void begin_episode(pv_block* block, uint32_t env) {
    coin_grid* state = env_at(block, env);
    const int32_t size = config_of(block->context)->size;
    state->task = block->tasks[env];
    state->steps = state->over = state->coins = 0;
    state->episode_return = 0.0f;
    state->agent = drawn_cell(state, 1, size);
    state->pit = drawn_cell(state, 2, size);
    if (same(state->pit, state->agent))
        state->pit = next_cell(state->pit, size);
    place_coin(state, size);
    write_row(block, env, 0.0f, 0, 0);
}

static int coin_grid_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env])
            continue;
        pv_block_at(block, env);
        coin_grid* state = env_at(block, env);
        state->episode = seeds ? 0 : state->episode + 1;
        if (seeds)
            state->seed = seeds[env];
        begin_episode(block, env);
    }
    return PV_OK;
}

static void leave_record(pv_block* block, uint32_t env, int fell) {
    const coin_grid* state = env_at(block, env);
    pv_record* record = pv_block_record(block, env);
    if (!record)
        return;
    record->episode = state->episode;
    record->task = state->task;
    record->length = (uint32_t)state->steps;
    record->episode_return = state->episode_return;
    record->values[0] = (float)state->coins;
    record->values[1] = (float)fell;
    record->values[2] = 1.0f;
}

static int32_t clip(int32_t value, int32_t size) {
    return value < 0 ? 0 : value >= size ? size - 1 : value;
}

static void step_env(pv_block* block, uint32_t env) {
    const coin_grid_config* config = config_of(block->context);
    coin_grid* state = env_at(block, env);
    if (state->over) { // next-step autoreset: this turn's action is ignored
        state->episode++;
        begin_episode(block, env);
        return;
    }
    const int32_t action = block->rows[0].indices[env]; // in range: puffervec has looked
    state->steps++;
    state->agent.x = clip(state->agent.x + (action == 1) - (action == 2), config->size);
    state->agent.y = clip(state->agent.y + (action == 3) - (action == 4), config->size);
    const int fell = same(state->agent, state->pit), found = same(state->agent, state->coin);
    const float reward = fell ? -config->pit_penalty : found ? config->coin_reward : 0.0f;
    state->coins += found;
    state->episode_return += reward;
    if (found)
        place_coin(state, config->size);
    const int late = state->steps >= config->episode_length;
    state->over = fell || late;
    write_row(block, env, reward, fell, late && !fell);
    if (state->over)
        leave_record(block, env, fell);
}

static int coin_grid_step(pv_block* block) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        pv_block_at(block, env); // a crash names this env
        step_env(block, env);
    }
    return PV_OK;
}

// ---- save, load, peek, poke ----

static int coin_grid_save(pv_block* block, uint32_t env, uint8_t* out) {
    memcpy(out, env_at(block, env), sizeof(coin_grid));
    return PV_OK;
}

static int coin_grid_load(pv_block* block, uint32_t env, const uint8_t* in) {
    const int32_t size = config_of(block->context)->size;
    coin_grid saved;
    memcpy(&saved, in, sizeof saved);
    const cell cells[3] = {saved.agent, saved.coin, saved.pit};
    for (int i = 0; i < 3; i++) {
        if (cells[i].x < 0 || cells[i].x >= size || cells[i].y < 0 || cells[i].y >= size)
            return pv_block_error(block, env, "saved state: (%d, %d) is no cell of a grid of %d",
                                  cells[i].x, cells[i].y, size);
    }
    *env_at(block, env) = saved;
    return PV_OK;
}

// The readable state, in the order of its fields.
typedef struct coin_grid_shown {
    uint64_t seed, episode;
    cell agent, coin, pit;
    int32_t steps;
} coin_grid_shown;

static int coin_grid_peek(pv_block* block, uint32_t env, uint8_t* out) {
    const coin_grid* state = env_at(block, env);
    const coin_grid_shown shown = {state->seed, state->episode, state->agent,
                                   state->coin, state->pit,     state->steps};
    memcpy(out, &shown, block->spec->state_bytes);
    return PV_OK;
}

// Each number is within the bounds that describe gave; whether they go together is asked here,
// before anything is changed.
static int coin_grid_poke(pv_block* block, uint32_t env, const uint8_t* in) {
    coin_grid* state = env_at(block, env);
    coin_grid_shown given;
    memcpy(&given, in, block->spec->state_bytes);
    if (same(given.coin, given.agent) || same(given.coin, given.pit))
        return pv_block_error(block, env,
                              "the coin lies on (%d, %d): not where the agent or the pit is",
                              given.coin.x, given.coin.y);
    const int fell = same(given.agent, given.pit),
              late = given.steps >= config_of(block->context)->episode_length;
    if (state->over && !fell && !late) { // the episode had ended: this is another one
        state->task = block->tasks[env];
        state->coins = 0;
        state->episode_return = 0.0f;
    }
    state->seed = given.seed;
    state->episode = given.episode;
    state->agent = given.agent;
    state->coin = given.coin;
    state->pit = given.pit;
    state->steps = given.steps;
    state->over = fell || late;
    write_row(block, env, 0.0f, fell, late && !fell);
    return PV_OK;
}

PV_ENV_TYPE(coin_grid) = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = "coin_grid",
    .config_fields = config_fields,
    .config_count = sizeof config_fields / sizeof config_fields[0],
    .config_bytes = sizeof(coin_grid_config),
    .describe = coin_grid_describe,
    .bytes = coin_grid_bytes,
    .init = coin_grid_init,
    .reset = coin_grid_reset,
    .step = coin_grid_step,
    .save = coin_grid_save,
    .load = coin_grid_load,
    .peek = coin_grid_peek,
    .poke = coin_grid_poke,
    .close = coin_grid_close,
};

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `tag_grid`: the discrete game of Tag on a grid, equal to TagGridWorld of WarpDrive (Lan,
// Srinivasa, Wang, Zheng, "Extremely Fast End-to-End Deep Multi-Agent RL on a GPU", 2021), step by
// step. Runs in a worker; the block's state is structure of arrays.
//
// num_taggers taggers (type 0) chase one runner (type 1, the last agent) on cells 0..grid_length.
// In a step all agents move simultaneously; a tagger that is on the runner's cell afterwards tags
// it. Our additions: a tag is a terminal and the time limit a truncation; starts may be random or
// drawn from several layouts (off by default); task >= 0 picks a layout.
//
// State arrays have one entry per row, in the order of the block's rows (env, then agent). A step
// processes a chunk of envs at a time, whose rows stay in the first-level cache, in a few
// vectorized loops over rows or envs; only envs that begin or end are handled one by one
// afterwards. Stores limit its speed: an env of five agents needs 15 for its observations alone.
#include "contract/env.h"
#include "contract/rng.h"
#include "grid_rows.h"

#include <math.h>
#include <string.h>

typedef struct tag_config {
    int32_t num_taggers;
    int32_t grid_length;
    int32_t episode_length;
    float wall_hit_penalty;
    float tag_reward_for_tagger;
    float tag_penalty_for_runner;
    float step_cost_for_tagger;
    int32_t use_full_observation;
    int32_t random_starts; // 1: every agent starts on a cell drawn at each reset
} tag_config;

static const pv_config_field config_fields[] = {
#define FIELD(name, kind) {#name, kind, offsetof(tag_config, name)}
    FIELD(num_taggers, PV_I32),           FIELD(grid_length, PV_I32),
    FIELD(episode_length, PV_I32),        FIELD(wall_hit_penalty, PV_F32),
    FIELD(tag_reward_for_tagger, PV_F32), FIELD(tag_penalty_for_runner, PV_F32),
    FIELD(step_cost_for_tagger, PV_F32),  FIELD(use_full_observation, PV_I32),
    FIELD(random_starts, PV_I32),
#undef FIELD
};

#define MOST_REWARD 1e9f // in either direction

// The block's state: pointers into one allocation, made anew from its base at each call.
typedef struct tag_state {
    uint64_t* seed;       // (E,)
    uint64_t* episode;    // (E,)
    int64_t* task;        // (E,) of the running episode
    int32_t* time;        // (E,) steps of this episode
    uint8_t* over;        // (E,) 1: the next step is a reset
    int32_t* x;           // (E*N,)
    int32_t* y;           // (E*N,)
    float* tagger_return; // (E,) summed over taggers
    float* runner_return; // (E,)
    // The same for all envs.
    tag_ends* ends; // (1,)
    float* calm;    // (chunk rows,) rewards of a step without a tag and without walls
    // Intermediate results of the loops over a chunk.
    float* shown_x;  // (chunk rows,) x / grid_length
    float* shown_y;  // (chunk rows,)
    float* clock;    // (chunk envs,) time / episode_length
    uint8_t* tagged; // (chunk envs,)
} tag_state;

static const tag_config* config_of(const pv_context* context) {
    return (const tag_config*)context->config;
}

static uint32_t agents_of(const tag_config* config) {
    return (uint32_t)config->num_taggers + 1;
}

// Returns how many envs are stepped together: with few agents a multiple of the widest vectors.
static uint32_t chunk_of(const tag_config* config) {
    uint32_t envs = 512 / agents_of(config);
    return envs >= 16 ? envs & ~15u : envs ? envs : 1;
}

static uint64_t lay_out(const tag_config* config, uint64_t envs, uint8_t* base, tag_state* state) {
    uint64_t rows = envs * agents_of(config), chunk = chunk_of(config),
             chunk_rows = chunk * agents_of(config), at = 0;
#define TAKE(member, count) \
    state->member = (void*)(base + at); \
    at = pv_align_up(at + (count) * sizeof *state->member, 64)
    TAKE(seed, envs);
    TAKE(episode, envs);
    TAKE(task, envs);
    TAKE(time, envs);
    TAKE(over, envs);
    TAKE(x, rows + LANES); // see grid_rows.h
    TAKE(y, rows + LANES);
    TAKE(tagger_return, envs);
    TAKE(runner_return, envs);
    TAKE(ends, 1);
    TAKE(calm, chunk_rows);
    TAKE(shown_x, chunk_rows + LANES);
    TAKE(shown_y, chunk_rows + LANES);
    TAKE(clock, chunk);
    TAKE(tagged, chunk);
#undef TAKE
    return at;
}

static tag_state state_of(const pv_block* block) {
    tag_state state;
    lay_out(config_of(block->context), block->env_count, block->state, &state);
    return state;
}

// ---- describe ----

static int check(const tag_config* config, char* text) {
    if (config->num_taggers < 1 || config->num_taggers > MOST_TAGGERS)
        return pv_describe_error(text, PV_ERROR_CONFIG, "num_taggers is %d: use 1 to %d",
                                 config->num_taggers, MOST_TAGGERS);
    if (config->grid_length < 1 || config->grid_length > 100000)
        return pv_describe_error(text, PV_ERROR_CONFIG, "grid_length is %d: use 1 to 100000",
                                 config->grid_length);
    if (config->episode_length < 1 || config->episode_length > 10000000)
        return pv_describe_error(text, PV_ERROR_CONFIG, "episode_length is %d: use 1 to 10000000",
                                 config->episode_length);
    const float rewards[4] = {config->wall_hit_penalty, config->tag_reward_for_tagger,
                              config->tag_penalty_for_runner, config->step_cost_for_tagger};
    for (int i = 0; i < 4; i++) {
        if (!(fabsf(rewards[i]) <= MOST_REWARD)) // or NaN; sums over an episode stay finite
            return pv_describe_error(text, PV_ERROR_CONFIG,
                                     "a reward is %g: use a finite number from -1e9 to 1e9",
                                     (double)rewards[i]);
    }
    return PV_OK;
}

static int check_starts(const pv_context* context, char* text) {
    const tag_config* config = config_of(context);
    uint64_t count_x, count_y, agents = agents_of(config);
    const int32_t* x = pv_params_find(context->params, "start_x", PV_I32, &count_x);
    const int32_t* y = pv_params_find(context->params, "start_y", PV_I32, &count_y);
    if (count_x != count_y || !count_x || count_x % agents)
        return pv_describe_error(text, PV_ERROR_CONFIG,
                                 "starting_location_x has %llu and starting_location_y %llu "
                                 "entries: give both one per agent "
                                 "(%llu), or layouts x agents",
                                 (unsigned long long)count_x, (unsigned long long)count_y,
                                 (unsigned long long)agents);
    for (uint64_t i = 0; i < count_x; i++) {
        if (x[i] < 0 || x[i] > config->grid_length || y[i] < 0 || y[i] > config->grid_length)
            return pv_describe_error(text, PV_ERROR_CONFIG,
                                     "starting location %llu is (%d, %d): cells are 0 to %d",
                                     (unsigned long long)i, x[i], y[i], config->grid_length);
    }
    return PV_OK;
}

static void add(pv_group_spec* group,
                const char* name,
                const char* unit,
                uint32_t count,
                float high,
                float scale) {
    pv_add_field(group->fields, &group->field_count, &group->observation_bytes, name, unit, PV_F32,
                 count, 0, 0.0f, high, scale);
}

static void describe_rows(const tag_config* config, pv_group_spec* group) {
    uint32_t agents = agents_of(config);
    float length = (float)config->grid_length, time = (float)config->episode_length;
    strcpy(group->name, "agents");
    group->agents = agents;
    if (config->use_full_observation) {
        add(group, "x", "cells", agents, 1.0f, length);
        add(group, "y", "cells", agents, 1.0f, length);
        add(group, "agent_type", "", agents, 1.0f, 1.0f);
        add(group, "self", "", agents, 1.0f, 1.0f);
    } else {
        add(group, "own_position", "cells", 2, 1.0f, length);
        add(group, "other_position", "cells", 2, 1.0f, length);
        add(group, "agent_type", "", 1, 1.0f, 1.0f);
    }
    add(group, "time", "steps", 1, 1.0f, time);
    group->action_kind = PV_DISCRETE;
    group->action_dims = 1;
    group->action_sizes[0] = 5;
}

static void add_state(pv_spec* spec, const char* name, uint32_t dtype, uint32_t count, float high) {
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, name, "", dtype, count,
                 0, 0.0f, high, 1.0f);
}

static int tag_describe(const pv_context* context, pv_spec* spec, char* text) {
    const tag_config* config = config_of(context);
    int code = check(config, text);
    if (!code)
        code = check_starts(context, text);
    if (code)
        return code;
    spec->group_count = 1;
    describe_rows(config, &spec->groups[0]);
    strcpy(spec->record_names[spec->record_count++], "tagged");
    strcpy(spec->record_names[spec->record_count++], "agents");
    add_state(spec, "x", PV_I32, agents_of(config), (float)config->grid_length);
    add_state(spec, "y", PV_I32, agents_of(config), (float)config->grid_length);
    add_state(spec, "time", PV_I32, 1, (float)config->episode_length);
    spec->save_bytes = 40 + 8 * agents_of(config);
    spec->records_per_turn = 2;
    uint64_t count = 0;
    pv_params_find(context->params, "start_x", PV_I32, &count);
    spec->task_count = config->random_starts ? 1 : count / agents_of(config);
    return PV_OK;
}

static uint64_t tag_bytes(const pv_context* context, uint32_t env_count) {
    tag_state unused;
    return lay_out(config_of(context), env_count, NULL, &unused);
}

static int tag_init(pv_block* block) {
    const tag_config* config = config_of(block->context);
    tag_state state = state_of(block);
    const uint32_t agents = agents_of(config), rows = chunk_of(config) * agents;
    const float cost = config->step_cost_for_tagger;
    for (uint32_t r = 0; r < rows; r++)
        state.calm[r] = (r + 1) % agents ? -cost : cost;
    fill_ends(state.ends, agents);
    return PV_OK;
}

// ---- observations ----

// Computes the positions of these rows' agents as shares of the grid.
static inline void show(const tag_config* config,
                        const tag_state* state,
                        uint64_t first,
                        uint32_t rows) {
    const float length = (float)config->grid_length;
    const int32_t* restrict x = state->x + first;
    const int32_t* restrict y = state->y + first;
    float* restrict shown_x = state->shown_x;
    float* restrict shown_y = state->shown_y;
    for (uint32_t r = 0; r < rows; r++) {
        shown_x[r] = (float)x[r] / length;
        shown_y[r] = (float)y[r] / length;
    }
}

// Writes the changing parts of an env's rows; it is env `index` of those that `show` handled.
PV_INLINE void observe(const pv_block* block,
                       const tag_state* state,
                       uint32_t agents,
                       uint32_t env,
                       uint32_t index,
                       float time) {
    const uint64_t first = (uint64_t)env * agents, at = (uint64_t)index * agents;
    const float *x = state->shown_x + at, *y = state->shown_y + at;
    float* row =
        (float*)(void*)(block->rows[0].observations + first * block->rows[0].observation_bytes);
    if (config_of(block->context)->use_full_observation) {
        write_full(state->ends, row, x, y, agents, time);
    } else {
        uint32_t nearest = nearest_tagger(state->x + first, state->y + first, agents - 1);
        write_partial(row, x, y, agents - 1, nearest, time);
    }
}

// ---- reset ----

static void place(const pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = config_of(block->context);
    const uint64_t seed = state->seed[env], episode = state->episode[env];
    const uint32_t agents = agents_of(config);
    int32_t* x = state->x + (uint64_t)env * agents;
    int32_t* y = state->y + (uint64_t)env * agents;
    if (config->random_starts) {
        uint32_t cells = (uint32_t)config->grid_length + 1;
        for (uint32_t i = 0; i < agents; i++) {
            x[i] = (int32_t)pv_rng_below(seed, episode, 0, 2 * i, cells);
            y[i] = (int32_t)pv_rng_below(seed, episode, 0, 2 * i + 1, cells);
        }
        return;
    }
    uint64_t count = 0;
    const int32_t* start_x = pv_params_find(block->context->params, "start_x", PV_I32, &count);
    const int32_t* start_y = pv_params_find(block->context->params, "start_y", PV_I32, &count);
    uint64_t layouts = count / agents, layout = 0;
    if (state->task[env] >= 0)
        layout = (uint64_t)state->task[env] % layouts;
    else
        layout = pv_rng_below(seed, episode, 0, 0, (uint32_t)layouts);
    memcpy(x, start_x + layout * agents, agents * sizeof(int32_t));
    memcpy(y, start_y + layout * agents, agents * sizeof(int32_t));
}

static void write_reset_rows(const pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = config_of(block->context);
    const uint32_t agents = agents_of(config);
    const pv_rows* rows = &block->rows[0];
    const uint64_t first = (uint64_t)env * agents;
    memset(rows->rewards + first, 0, agents * sizeof(float));
    memset(rows->terminals + first, 0, agents);
    memset(rows->truncations + first, 0, agents);
    memset(rows->masks + first, 1, agents);
    memset(rows->agent_types + first, 0, agents);
    rows->agent_types[first + agents - 1] = 1;
    if (config->use_full_observation) {
        float* row = (float*)(void*)(rows->observations + first * rows->observation_bytes);
        write_constants(row, agents);
    }
    show(config, state, first, agents);
    observe(block, state, agents, env, 0, (float)state->time[env] / (float)config->episode_length);
}

static void begin_episode(pv_block* block, const tag_state* state, uint32_t env) {
    state->task[env] = block->tasks[env];
    state->time[env] = 0;
    state->over[env] = 0;
    state->tagger_return[env] = 0.0f;
    state->runner_return[env] = 0.0f;
    place(block, state, env);
    write_reset_rows(block, state, env);
}

static int tag_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    tag_state state = state_of(block);
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env])
            continue;
        pv_block_at(block, env);
        state.episode[env] = seeds ? 0 : state.episode[env] + 1;
        if (seeds)
            state.seed[env] = seeds[env];
        begin_episode(block, &state, env);
    }
    return PV_OK;
}

// ---- step ----

static inline int32_t clip(int32_t value, int32_t high) {
    int32_t raised = value > 0 ? value : 0;
    return raised < high ? raised : high;
}

// Moves the rows of a chunk and gives each the reward of a step without a tag.
static inline void move(const pv_block* block,
                        const tag_state* state,
                        uint64_t first,
                        uint32_t rows) {
    const tag_config* config = config_of(block->context);
    const int32_t high = config->grid_length;
    const float penalty = config->wall_hit_penalty;
    int32_t* restrict x = state->x + first;
    int32_t* restrict y = state->y + first;
    const uint8_t* restrict actions = block->rows[0].actions + first; // 5 choices fit into a byte
    const float* restrict calm = state->calm;
    float* restrict rewards = block->rows[0].rewards + first;
    for (uint32_t r = 0; r < rows; r++) {
        int32_t action = actions[r];
        int32_t to_x = x[r] + (action == 1) - (action == 2),
                to_y = y[r] + (action == 3) - (action == 4);
        int32_t new_x = clip(to_x, high), new_y = clip(to_y, high);
        int32_t beyond = (new_x ^ to_x) | (new_y ^ to_y);
        float at_wall =
            calm[r] -
            penalty; // computed for all: a branch would keep the loop from being vectorized
        rewards[r] = beyond != 0 ? at_wall : calm[r];
        x[r] = new_x;
        y[r] = new_y;
    }
}

// Advances the time of the envs of a chunk. Returns whether one of them was over, or is now by the
// time limit.
static inline int tick(const tag_config* config,
                       const tag_state* state,
                       uint32_t begin,
                       uint32_t envs) {
    const int32_t last = config->episode_length;
    const float length = (float)last;
    int32_t* restrict time = state->time + begin;
    const uint8_t* restrict over = state->over + begin;
    float* restrict clock = state->clock;
    int32_t any = 0;
    for (uint32_t i = 0; i < envs; i++) {
        int32_t now = time[i] + 1;
        time[i] = now;
        clock[i] = (float)now / length;
        any |= now >= last;
    }
    for (uint32_t i = 0; i < envs; i++)
        any |= over[i];
    return any;
}

// Replaces the step reward by the tag reward, keeping the wall penalty: a reward is one of four
// values.
static __attribute__((noinline, cold)) void reward_tag(const tag_config* config,
                                                       float* rewards,
                                                       uint32_t taggers) {
    const float cost = config->step_cost_for_tagger, penalty = config->wall_hit_penalty;
    for (uint32_t i = 0; i <= taggers; i++) {
        float without_wall = i < taggers ? -cost : cost;
        float tag = i < taggers ? config->tag_reward_for_tagger : -config->tag_penalty_for_runner;
        rewards[i] = rewards[i] == without_wall ? tag : tag - penalty;
    }
}

static void leave_records(pv_block* block, const tag_state* state, uint32_t env, int tagged) {
    float taggers = (float)config_of(block->context)->num_taggers;
    for (uint32_t type = 0; type < 2; type++) {
        pv_record* record = pv_block_record(block, env);
        if (!record)
            return;
        record->episode = state->episode[env];
        record->task = state->task[env];
        record->slot = type;
        record->agent_type = type;
        record->length = (uint32_t)state->time[env];
        record->episode_return =
            type ? state->runner_return[env] : state->tagger_return[env] / taggers;
        record->values[0] = (float)tagged;
        record->values[1] = type ? 1.0f : taggers;
    }
}

// Steps a chunk of envs, including those that are over, which are corrected afterwards. Returns
// whether one of them was over, or is now.
PV_INLINE int step_chunk(
    const pv_block* block, const tag_state* state, uint32_t agents, uint32_t begin, uint32_t envs) {
    const tag_config* config = config_of(block->context);
    const uint64_t begin_row = (uint64_t)begin * agents;
    int any = tick(config, state, begin, envs);
    move(block, state, begin_row, envs * agents);
    show(config, state, begin_row, envs * agents);
    for (uint32_t index = 0; index < envs; index++) {
        const uint32_t env = begin + index, taggers = agents - 1;
        const uint64_t first = (uint64_t)env * agents;
        float* rewards = block->rows[0].rewards + first;
        pv_block_at(block, env);
        int tagged = is_tagged(state->ends, state->x + first, state->y + first, taggers);
        if (PV_UNLIKELY(tagged))
            reward_tag(config, rewards, taggers);
        float sum = 0.0f;
        for (uint32_t i = 0; i < taggers; i++)
            sum += rewards[i];
        state->tagger_return[env] += sum;
        state->runner_return[env] += rewards[taggers];
        state->tagged[index] = (uint8_t)tagged;
        any |= tagged;
        observe(block, state, agents, env, index, state->clock[index]);
    }
    return any;
}

// Loops over few agents are short: where the number is a constant they are unrolled, which saves an
// eighth of a step with full rows, and a third of one with partial rows.
typedef int step_function(const pv_block* block,
                          const tag_state* state,
                          uint32_t begin,
                          uint32_t envs);
#define STEP(name, agents) \
    PV_CLONES static int name(const pv_block* block, const tag_state* state, uint32_t begin, \
                              uint32_t envs) { \
        return step_chunk(block, state, agents, begin, envs); \
    }
STEP(step_many, agents_of(config_of(block->context)))
STEP(step_2, 2)
STEP(step_3, 3)
STEP(step_4, 4)
STEP(step_5, 5)
STEP(step_6, 6)
static step_function* const step_few[] = {step_2, step_3, step_4, step_5, step_6};

// After a step, begins the next episode of an env that was over, or ends the one that is over now.
static void turn_over(pv_block* block, const tag_state* state, uint32_t env, int tagged) {
    const uint32_t agents = agents_of(config_of(block->context));
    const pv_rows* rows = &block->rows[0];
    if (state->over[env]) { // next-step autoreset
        pv_block_at(block, env);
        state->episode[env]++;
        begin_episode(block, state, env);
    } else if (tagged || state->time[env] >= config_of(block->context)->episode_length) {
        state->over[env] = 1;
        memset((tagged ? rows->terminals : rows->truncations) + (uint64_t)env * agents, 1, agents);
        leave_records(block, state, env, tagged);
    }
}

static int tag_step(pv_block* block) {
    const tag_state state = state_of(block);
    const tag_config* config = config_of(block->context);
    const uint32_t chunk = chunk_of(config), few = agents_of(config) - 2;
    step_function* const step =
        few < sizeof step_few / sizeof step_few[0] ? step_few[few] : step_many;
    for (uint32_t begin = 0; begin < block->env_count; begin += chunk) {
        uint32_t envs = block->env_count - begin < chunk ? block->env_count - begin : chunk;
        if (!step(block, &state, begin, envs))
            continue;
        for (uint32_t index = 0; index < envs; index++)
            turn_over(block, &state, begin + index, state.tagged[index]);
    }
    return PV_OK;
}

// ---- save, load, peek, poke ----

// The saved form of one env; positions follow.
typedef struct tag_saved {
    uint64_t seed, episode;
    int64_t task;
    int32_t time, over;
    float tagger_return, runner_return;
} tag_saved;

_Static_assert(sizeof(tag_saved) == 40, "tag_describe counts 40 bytes");

static int tag_save(pv_block* block, uint32_t env, uint8_t* out) {
    tag_state state = state_of(block);
    uint32_t agents = agents_of(config_of(block->context));
    tag_saved saved = {state.seed[env],         state.episode[env], state.task[env],
                       state.time[env],         state.over[env],    state.tagger_return[env],
                       state.runner_return[env]};
    memcpy(out, &saved, sizeof saved);
    memcpy(out + sizeof saved, state.x + (uint64_t)env * agents, agents * sizeof(int32_t));
    memcpy(out + sizeof saved + agents * sizeof(int32_t), state.y + (uint64_t)env * agents,
           agents * sizeof(int32_t));
    return PV_OK;
}

static int tag_load(pv_block* block, uint32_t env, const uint8_t* in) {
    const tag_config* config = config_of(block->context);
    tag_state state = state_of(block);
    uint32_t agents = agents_of(config);
    tag_saved saved;
    memcpy(&saved, in, sizeof saved);
    int32_t last = saved.over ? config->episode_length : config->episode_length - 1;
    if (saved.time < 0 || saved.time > last || !isfinite(saved.tagger_return) ||
        !isfinite(saved.runner_return))
        return pv_block_error(
            block, env, "saved state: time %d of %d, returns %g and %g are no state to go on from",
            saved.time, config->episode_length, (double)saved.tagger_return,
            (double)saved.runner_return);
    const uint8_t *in_x = in + sizeof saved, *in_y = in_x + agents * sizeof(int32_t);
    for (uint32_t i = 0; i < agents; i++) {
        int32_t x, y;
        memcpy(&x, in_x + i * sizeof x, sizeof x);
        memcpy(&y, in_y + i * sizeof y, sizeof y);
        if (x < 0 || x > config->grid_length || y < 0 || y > config->grid_length)
            return pv_block_error(block, env,
                                  "saved state: agent %u stands on (%d, %d), outside 0 to %d", i, x,
                                  y, config->grid_length);
    }
    memcpy(state.x + (uint64_t)env * agents, in_x, agents * sizeof(int32_t));
    memcpy(state.y + (uint64_t)env * agents, in_y, agents * sizeof(int32_t));
    state.seed[env] = saved.seed;
    state.episode[env] = saved.episode;
    state.task[env] = saved.task;
    state.time[env] = saved.time;
    state.over[env] = saved.over != 0;
    state.tagger_return[env] = saved.tagger_return;
    state.runner_return[env] = saved.runner_return;
    return PV_OK;
}

static int tag_peek(pv_block* block, uint32_t env, uint8_t* out) {
    tag_state state = state_of(block);
    uint32_t agents = agents_of(config_of(block->context));
    memcpy(out, state.x + (uint64_t)env * agents, agents * sizeof(int32_t));
    memcpy(out + agents * sizeof(int32_t), state.y + (uint64_t)env * agents,
           agents * sizeof(int32_t));
    memcpy(out + 2 * agents * sizeof(int32_t), &state.time[env], sizeof(int32_t));
    return PV_OK;
}

static int tag_poke(pv_block* block, uint32_t env, const uint8_t* in) {
    const tag_config* config = config_of(block->context);
    tag_state state = state_of(block);
    const uint32_t agents = agents_of(config), taggers = agents - 1;
    const uint64_t first = (uint64_t)env * agents, bytes = agents * sizeof(int32_t);
    int32_t *x = state.x + first, *y = state.y + first;
    memcpy(x, in, bytes);
    memcpy(y, in + bytes, bytes);
    memcpy(&state.time[env], in + 2 * bytes, sizeof(int32_t));
    const int tagged =
        state.time[env] > 0 &&
        is_tagged(state.ends, x, y, taggers); // a start on the same cell is not a tag
    const int late = !tagged && state.time[env] >= config->episode_length;
    if (state.over[env] && !tagged && !late) { // its next episode
        state.episode[env]++;
        state.task[env] = block->tasks[env];
        state.tagger_return[env] = state.runner_return[env] = 0.0f;
    }
    state.over[env] = tagged || late;
    write_reset_rows(block, &state, env);
    memset(block->rows[0].terminals + first, tagged, agents);
    memset(block->rows[0].truncations + first, late, agents);
    return PV_OK;
}

const pv_env_type pv_tag_grid_type = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = "tag_grid",
    .config_fields = config_fields,
    .config_count = sizeof config_fields / sizeof config_fields[0],
    .config_bytes = sizeof(tag_config),
    .flags = PV_BYTE_ACTIONS,
    .describe = tag_describe,
    .bytes = tag_bytes,
    .init = tag_init,
    .reset = tag_reset,
    .step = tag_step,
    .save = tag_save,
    .load = tag_load,
    .peek = tag_peek,
    .poke = tag_poke,
};

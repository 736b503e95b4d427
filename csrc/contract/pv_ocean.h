// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Makes an env type of puffervec from an env in the convention of PufferLib's Ocean, whose header
// stays as it is:
//
//     typedef struct {
//         float score; ...; float n;         floats in any order, summed over n episodes
//     } Log;
//     typedef struct {
//         Log log;
//         float* observations;               or unsigned char*, ...
//         int* actions;                      or float*
//         float* rewards;
//         unsigned char* terminals;          or float*
//         ...;
//     } MyEnv;
//     void c_reset(MyEnv* env);
//     void c_step(MyEnv* env);
//     void c_close(MyEnv* env);
//     void c_render(MyEnv* env);             is never called
//
// The glue is one C file. It defines what the header does not say and includes this file, which
// includes the header:
//
//     #define OCEAN_HEADER "my_env.h"
//     #define OCEAN_NAME my_env                       // name of the env type
//     #define OCEAN_ENV MyEnv                         // the header's struct
//     // Its int and float members that are settings:
//     #define OCEAN_SETTINGS(INT, FLOAT) INT(size) FLOAT(speed)
//     // The members of Log, without n:
//     #define OCEAN_LOG(X) X(score) X(episode_return) X(episode_length)
//     // What env->observations points to:
//     #define OCEAN_OBSERVATION_DTYPE PV_F32
//     // Numbers per agent, or their shape: 84, 84, 3 (height, width, channels):
//     #define OCEAN_OBSERVATION_COUNT (2 * config->size)
//     #define OCEAN_OBSERVATION_LOW 0.0f              // bounds of each number
//     #define OCEAN_OBSERVATION_HIGH 1.0f
//     #define OCEAN_ACTION_SIZES 5                    // choices; 3, 4 for two dims
//     #include "pv_ocean.h"
//
// For continuous actions in [OCEAN_ACTION_LOW, OCEAN_ACTION_HIGH] (default -1 and 1), instead of
// OCEAN_ACTION_SIZES:
//
//     #define OCEAN_ACTION_DIMS 2
//
// If needed:
//
//     #define OCEAN_AGENTS config->num_agents         // agents per env, default 1
//     #define OCEAN_INIT(env) init(env)               // called once per env, with its settings set
//     // Called by a reset with seeds (uint32_t), for rand_r(&env->rng):
//     #define OCEAN_SEED(env, seed) (env)->rng = (seed)
//
// `config` is a struct with the settings; the Python dataclass has the same fields in the same
// order. The header's folder must be among the compiler's include folders.
//
// The convention lacks some things; this happens instead:
//
// Last observation: c_step resets the env in the step that ends it, so the row that ends an episode
// already shows the first observation of the next. Rewards and ends are correct. After a step
// in which all agents are terminal the env pauses for a turn (action ignored, reward 0, nothing
// ends, the first observation again). That turn is the reset row of puffervec's next-step
// autoreset, so returns and losses are exact. The modes same-step and disabled need the last
// observation and are refused.
//
// Agents that respawn one by one: their rows are not changed. puffervec takes the row after an end
// for a reset row, so the reward of the step after such an end counts in no return.
//
// Truncation: a time limit inside c_step is a terminal.
//
// Saving: the struct contains pointers, so save and load are refused, and save_bytes is 0. The
// state cannot be set (poke).
//
// Random numbers: rand() and srand() within the header use a generator per env, keyed by its seed:
// the same seed gives the same bytes with any number of workers. A header that calls rand_r, on a
// state of its own, needs OCEAN_SEED, else it does not compile. rand() in other C files, random,
// clocks and static variables stay as they are: with those, bytes may depend on the workers, and
// the threading backend must not be used.
//
// Records: when log.n > 0 after a step, the env leaves one record with the mean of each member, and
// n, and clears the log. The members episode_return and episode_length, if any, are also the
// record's return and length.
//
// Drawing: a header that includes raylib.h is compiled and linked with raylib, though c_render is
// never called.
#pragma once

#include "pv_env.h"

#ifdef __cplusplus
#error "pv_ocean.h is C: give the glue a name that ends in .c"
#endif

#if defined(OCEAN_HEADER)

#include <math.h>
#include <stdlib.h>

#if !defined(OCEAN_NAME) || !defined(OCEAN_ENV) || !defined(OCEAN_LOG) || !defined(OCEAN_SETTINGS)
#error "pv_ocean.h: define OCEAN_NAME, OCEAN_ENV, OCEAN_SETTINGS and OCEAN_LOG: see its first lines"
#endif
#if defined(OCEAN_ACTION_SIZES) == defined(OCEAN_ACTION_DIMS)
#error "pv_ocean.h: define OCEAN_ACTION_SIZES (discrete) or OCEAN_ACTION_DIMS (continuous)"
#endif
#ifndef OCEAN_AGENTS
#define OCEAN_AGENTS 1
#endif
#ifndef OCEAN_INIT
#define OCEAN_INIT(env) ((void)(env))
#endif
#ifndef OCEAN_SEED
#define OCEAN_SEED(env, seed) ((void)(seed))
// rand_r takes its state from the env, and all envs have equal states until they are seeded.
#define rand_r(state) \
    ((int)sizeof(struct { \
        _Static_assert(!sizeof(state), "rand_r in the header needs OCEAN_SEED, see pv_ocean.h"); \
        char c; \
    }))
#endif
#ifndef OCEAN_ACTION_LOW
#define OCEAN_ACTION_LOW -1.0f
#define OCEAN_ACTION_HIGH 1.0f
#endif

// ---- random numbers: one stream per env, by draw ----

typedef struct ocean_random {
    uint64_t seed;
    uint64_t drawn;
} ocean_random;

// The stream of the env that runs on this thread.
static _Thread_local ocean_random* ocean_stream;

static inline int ocean_rand(void) {
    const uint64_t drawn = ocean_stream->drawn++;
    return (int)(pv_rng_u64(ocean_stream->seed, drawn >> 32, (uint32_t)drawn, 0) %
                 ((uint64_t)RAND_MAX + 1));
}

static inline void ocean_srand(unsigned seed) {
    (void)seed;
} // reset sets the seed

#define rand() ocean_rand()
#define srand(seed) ocean_srand(seed)
#include OCEAN_HEADER
#undef rand
#undef srand
#undef rand_r

// ---- settings ----

#define OCEAN_INT(name) int32_t name;
#define OCEAN_FLOAT(name) float name;

typedef struct ocean_config {
    OCEAN_SETTINGS(OCEAN_INT, OCEAN_FLOAT)
} ocean_config;

#undef OCEAN_INT
#undef OCEAN_FLOAT

#define OCEAN_INT(name) {#name, PV_I32, offsetof(ocean_config, name)},
#define OCEAN_FLOAT(name) {#name, PV_F32, offsetof(ocean_config, name)},
static const pv_config_field ocean_config_fields[] = {OCEAN_SETTINGS(OCEAN_INT, OCEAN_FLOAT)};
#undef OCEAN_INT
#undef OCEAN_FLOAT

static const ocean_config* ocean_config_of(const pv_context* context) {
    return (const ocean_config*)context->config;
}

static void ocean_configure(OCEAN_ENV* env, const ocean_config* config) {
#define OCEAN_COPY(name) env->name = config->name;
    OCEAN_SETTINGS(OCEAN_COPY, OCEAN_COPY)
#undef OCEAN_COPY
}

// ---- state: a slot per env, then all agents' actions, then their ends where these are floats ----

typedef struct ocean_slot {
    OCEAN_ENV env;
    ocean_random random;
    uint64_t episode;
    int64_t task;
    uint32_t steps;       // of this episode
    uint32_t over;        // 1: c_step has reset the env, and the next turn is its reset row
    float episode_return; // of this episode, over all agents
    uint32_t unused;
} ocean_slot;

typedef union ocean_action {
    int index;
    float value;
} ocean_action;

#define OCEAN_FLOAT_ACTIONS _Generic(((OCEAN_ENV*)0)->actions, float*: 1, int*: 0)
#if defined(OCEAN_ACTION_SIZES)
static const uint32_t ocean_action_sizes[] = {OCEAN_ACTION_SIZES};
#define OCEAN_DIMS ((uint32_t)(sizeof ocean_action_sizes / sizeof ocean_action_sizes[0]))
#else
#define OCEAN_DIMS ((uint32_t)(OCEAN_ACTION_DIMS))
_Static_assert(OCEAN_FLOAT_ACTIONS, "continuous actions need float* actions in the env's struct");
#endif
#define OCEAN_FLOAT_TERMINALS _Generic(((OCEAN_ENV*)0)->terminals, float*: 1, unsigned char*: 0)
_Static_assert(_Generic(((OCEAN_ENV*)0)->rewards, float*: 1, default: 0), "rewards must be float*");
#define OCEAN_IS_FLOAT(name) \
    _Static_assert(_Generic(((Log*)0)->name, float: 1, default: 0), \
                   "Log." #name " must be a float");
OCEAN_LOG(OCEAN_IS_FLOAT)
OCEAN_IS_FLOAT(n)
#undef OCEAN_IS_FLOAT

static uint32_t ocean_agents(const ocean_config* config) {
    (void)config;
    return (uint32_t)(OCEAN_AGENTS);
}

static ocean_slot* ocean_slot_at(pv_block* block, uint32_t env) {
    return (ocean_slot*)block->state + env;
}

static ocean_action* ocean_actions_at(pv_block* block, uint32_t env) {
    ocean_action* first = (ocean_action*)(void*)((ocean_slot*)block->state + block->env_count);
    return first + (uint64_t)env * block->spec->groups[0].agents * OCEAN_DIMS;
}

// Returns the ends that the env writes where they are floats; rows->terminals are bytes.
static float* ocean_terminals_at(pv_block* block, uint32_t env) {
    return (float*)(void*)ocean_actions_at(block, block->env_count) +
           (uint64_t)env * block->spec->groups[0].agents;
}

static uint64_t ocean_bytes(const pv_context* context, uint32_t env_count) {
    const uint64_t agents = ocean_agents(ocean_config_of(context));
    const uint64_t each =
        OCEAN_DIMS * sizeof(ocean_action) + (OCEAN_FLOAT_TERMINALS ? sizeof(float) : 0);
    return env_count * (sizeof(ocean_slot) + agents * each);
}

// ---- describe ----

// The members of the log by name.
#define OCEAN_MEMBER(name) {#name, offsetof(Log, name)},

static const struct {
    const char* name;
    size_t offset;
} ocean_log_members[] = {OCEAN_LOG(OCEAN_MEMBER){"n", offsetof(Log, n)}};

#undef OCEAN_MEMBER
#define OCEAN_LOG_COUNT (sizeof ocean_log_members / sizeof ocean_log_members[0])
_Static_assert(OCEAN_LOG_COUNT <= PV_RECORD_VALUES,
               "a record holds 48 numbers: list fewer members in OCEAN_LOG");

static void ocean_describe_actions(pv_group_spec* group) {
    group->action_dims = OCEAN_DIMS;
#if defined(OCEAN_ACTION_SIZES)
    group->action_kind = OCEAN_DIMS == 1 ? PV_DISCRETE : PV_MULTI_DISCRETE;
    for (uint32_t d = 0; d < OCEAN_DIMS; d++)
        group->action_sizes[d] = ocean_action_sizes[d];
#else
    group->action_kind = PV_CONTINUOUS;
    for (uint32_t d = 0; d < OCEAN_DIMS; d++) {
        group->action_low[d] = OCEAN_ACTION_LOW;
        group->action_high[d] = OCEAN_ACTION_HIGH;
    }
#endif
}

static int ocean_describe(const pv_context* context, pv_spec* spec, char* text) {
    const ocean_config* config = ocean_config_of(context);
    if (context->autoreset != PV_NEXT_STEP)
        return pv_describe_error(text, PV_ERROR_CONFIG,
                                 "an Ocean env resets itself within its last step, which loses the "
                                 "last observation: use "
                                 "autoreset_mode=\"next_step\"");
    const int64_t agents = (int64_t)(OCEAN_AGENTS), sizes[] = {OCEAN_OBSERVATION_COUNT};

    enum { AXES = sizeof sizes / sizeof sizes[0] };

    _Static_assert(AXES <= PV_MAX_NDIM, "OCEAN_OBSERVATION_COUNT has more than three axes");
    uint32_t shape[AXES];
    int64_t count = 1;
    for (int axis = 0; axis < AXES && count >= 1 && count <= 100000000; axis++) {
        shape[axis] = (uint32_t)sizes[axis];
        count = sizes[axis] < 1 || sizes[axis] > 100000000 ? sizes[axis] : count * sizes[axis];
    }
    if (agents < 1 || agents > 1000000 || count < 1 || count > 100000000)
        return pv_describe_error(
            text, PV_ERROR_CONFIG,
            "the settings make %lld agents with %lld numbers each: use at least 1",
            (long long)agents, (long long)count);
    (void)config;
    pv_group_spec* group = &spec->groups[spec->group_count++];
    strcpy(group->name, "agents");
    group->agents = (uint32_t)agents;
    pv_add_array(group->fields, &group->field_count, &group->observation_bytes, "observation", "",
                 OCEAN_OBSERVATION_DTYPE, AXES, shape, OCEAN_OBSERVATION_LOW,
                 OCEAN_OBSERVATION_HIGH, 1.0f);
    ocean_describe_actions(group);
    for (size_t i = 0; i < OCEAN_LOG_COUNT; i++)
        strncpy(spec->record_names[spec->record_count++], ocean_log_members[i].name,
                PV_NAME_BYTES - 1);
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "episode", "", PV_U64,
                 0, 0, 0.0f, 1e9f, 1.0f);
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "steps", "", PV_U32, 0,
                 0, 0.0f, 1e9f, 1.0f);
    spec->records_per_turn = 1;
    return PV_OK;
}

// ---- init and close ----

static int ocean_init(pv_block* block) {
    const pv_rows* rows = &block->rows[0];
    const uint64_t agents = block->spec->groups[0].agents;
    for (uint32_t env = 0; env < block->env_count; env++) {
        pv_block_at(block, env);
        ocean_slot* slot = ocean_slot_at(block, env);
        ocean_configure(&slot->env, ocean_config_of(block->context));
        // The env writes straight into its rows.
        slot->env.observations =
            (void*)(rows->observations + env * agents * rows->observation_bytes);
        slot->env.rewards = rows->rewards + env * agents;
        slot->env.terminals = OCEAN_FLOAT_TERMINALS ? (void*)ocean_terminals_at(block, env)
                                                    : (void*)(rows->terminals + env * agents);
        slot->env.actions = (void*)ocean_actions_at(block, env);
        ocean_stream = &slot->random;
        OCEAN_INIT(&slot->env);
    }
    return PV_OK;
}

static void ocean_close(pv_block* block) {
    for (uint32_t env = 0; env < block->env_count; env++)
        c_close(&ocean_slot_at(block, env)->env);
}

// ---- reset and step ----

// Clears the rewards and ends in the env's rows.
static void ocean_clear_flags(pv_block* block, uint32_t env) {
    const pv_rows* rows = &block->rows[0];
    const uint64_t agents = block->spec->groups[0].agents, first = env * agents;
    memset(rows->rewards + first, 0, agents * sizeof(float));
    memset(rows->terminals + first, 0, agents);
    if (OCEAN_FLOAT_TERMINALS)
        memset(ocean_terminals_at(block, env), 0, agents * sizeof(float));
    memset(rows->truncations + first, 0, agents);
    memset(rows->masks + first, 1, agents);
    memset(rows->agent_types + first, 0, agents);
}

static void ocean_begin_episode(pv_block* block, uint32_t env) {
    ocean_slot* slot = ocean_slot_at(block, env);
    slot->task = block->tasks[env];
    slot->steps = 0;
    slot->over = 0;
    slot->episode_return = 0.0f;
}

static int ocean_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env])
            continue;
        pv_block_at(block, env);
        ocean_slot* slot = ocean_slot_at(block, env);
        slot->episode = seeds ? 0 : slot->episode + 1;
        if (seeds) {
            slot->random = (ocean_random){seeds[env], 0};
            OCEAN_SEED(&slot->env, (uint32_t)(seeds[env] ^ seeds[env] >> 32));
        }
        memset(&slot->env.log, 0, sizeof slot->env.log);
        ocean_begin_episode(block, env);
        ocean_clear_flags(block, env);
        ocean_stream = &slot->random;
        c_reset(&slot->env);
        ocean_clear_flags(block, env); // in some envs c_reset runs the code that ends an episode
    }
    return PV_OK;
}

static void ocean_take_actions(pv_block* block, uint32_t env) {
    const pv_rows* rows = &block->rows[0];
    const uint64_t count = block->spec->groups[0].agents * (uint64_t)OCEAN_DIMS,
                   first = env * count;
    ocean_action* actions = ocean_actions_at(block, env);
    for (uint64_t i = 0; i < count; i++) {
        if (rows->values)
            actions[i].value = rows->values[first + i];
        else if (OCEAN_FLOAT_ACTIONS)
            actions[i].value = (float)rows->indices[first + i];
        else
            actions[i].index = rows->indices[first + i];
    }
}

// Leaves the log of the episodes that ended in this step, and clears it.
static void ocean_leave_record(pv_block* block, uint32_t env) {
    ocean_slot* slot = ocean_slot_at(block, env);
    const float episodes = slot->env.log.n;
    pv_record* record = pv_block_record(block, env);
    if (record) {
        record->episode = slot->episode;
        record->task = slot->task;
        record->length = slot->steps;
        record->episode_return = slot->episode_return;
        for (size_t i = 0; i < OCEAN_LOG_COUNT; i++) {
            float sum;
            memcpy(&sum, (const uint8_t*)&slot->env.log + ocean_log_members[i].offset, sizeof sum);
            record->values[i] = i + 1 < OCEAN_LOG_COUNT ? sum / episodes : episodes;
            if (strcmp(ocean_log_members[i].name, "episode_return") == 0)
                record->episode_return = record->values[i];
            if (strcmp(ocean_log_members[i].name, "episode_length") == 0)
                record->length = (uint32_t)lroundf(record->values[i]);
        }
    }
    memset(&slot->env.log, 0, sizeof slot->env.log);
}

static void ocean_step_env(pv_block* block, uint32_t env) {
    ocean_slot* slot = ocean_slot_at(block, env);
    const pv_rows* rows = &block->rows[0];
    const uint64_t agents = block->spec->groups[0].agents, first = env * agents;
    ocean_clear_flags(block, env);
    if (slot->over) { // the reset row: c_step wrote its observations in the last turn
        slot->episode++;
        ocean_begin_episode(block, env);
        return;
    }
    ocean_take_actions(block, env);
    ocean_stream = &slot->random;
    c_step(&slot->env);
    slot->steps++;
    uint32_t ended = 0;
    for (uint64_t i = 0; i < agents; i++) {
        const uint64_t row = first + i;
        rows->terminals[row] = slot->env.terminals[i] != 0;
        ended += rows->terminals[row];
        slot->episode_return += rows->rewards[row];
    }
    slot->over = ended == agents;
    if (slot->env.log.n > 0)
        ocean_leave_record(block, env);
}

static int ocean_step(pv_block* block) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        pv_block_at(block, env);
        ocean_step_env(block, env);
    }
    return PV_OK;
}

// ---- save, load, peek ----

static int ocean_refuse(pv_block* block, uint32_t env) {
    return pv_block_error(
        block, env, "the state of an Ocean env contains pointers: it cannot be saved or loaded");
}

static int ocean_save(pv_block* block, uint32_t env, uint8_t* out) {
    (void)out;
    return ocean_refuse(block, env);
}

static int ocean_load(pv_block* block, uint32_t env, const uint8_t* in) {
    (void)in;
    return ocean_refuse(block, env);
}

static int ocean_peek(pv_block* block, uint32_t env, uint8_t* out) {
    const ocean_slot* slot = ocean_slot_at(block, env);
    memcpy(out, &slot->episode, sizeof slot->episode);
    memcpy(out + sizeof slot->episode, &slot->steps, sizeof slot->steps);
    return PV_OK;
}

// The name is a macro, which these expand before it is pasted or quoted.
#define OCEAN_TYPE(name) PV_ENV_TYPE(name)
#define OCEAN_QUOTE(name) #name
#define OCEAN_TEXT(name) OCEAN_QUOTE(name)

OCEAN_TYPE(OCEAN_NAME) = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = OCEAN_TEXT(OCEAN_NAME),
    .config_fields = ocean_config_fields,
    .config_count = sizeof ocean_config_fields / sizeof ocean_config_fields[0],
    .config_bytes = sizeof(ocean_config),
    .describe = ocean_describe,
    .bytes = ocean_bytes,
    .init = ocean_init,
    .reset = ocean_reset,
    .step = ocean_step,
    .save = ocean_save,
    .load = ocean_load,
    .peek = ocean_peek,
    .close = ocean_close,
};

#endif // OCEAN_HEADER

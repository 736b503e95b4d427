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
// already shows the first observation of the next. Rewards and ends are correct. After a step in
// which all agents are terminal the env pauses for a turn (action ignored, reward 0, nothing
// ends, the first observation again). That turn is the reset row of puffervec's next-step
// autoreset, so returns and losses are exact. The modes same-step and disabled need the last
// observation and are refused.
//
// Agents that respawn one by one: their rows are not changed. puffervec treats the row after an end
// as a reset row, so the reward of the step after such an end counts in no return.
//
// Truncation: a time limit inside c_step is a terminal.
//
// Saving: the struct contains pointers, so save and load are refused, and save_bytes is 0. The
// state cannot be set (poke).
//
// Random numbers: rand() and srand() within the header use a generator per env, keyed by its seed:
// the same seed gives the same bytes with any number of workers, and srand() changes nothing. A
// header that calls rand_r, on a state of its own, needs OCEAN_SEED, else it does not compile.
// rand() in other C files, random, clocks and static variables stay as they are: with those, bytes
// may depend on the workers, and the threading backend must not be used.
//
// Records: when log.n > 0 after a step, the env leaves one record with the mean of each member, and
// n, and clears the log. The members episode_return and episode_length, if any, are also the
// record's return and length.
//
// Failures: exit() and abort() in the header fail the step, with the line they stand in.
//
// Drawing: a header that includes raylib.h is compiled and linked with raylib, though c_render is
// never called.
//
// puffervec.ocean compiles an env of PufferLib without any glue (pv_ocean_generated.h).
#pragma once

#include "ocean/host.h"
#include "pv_env.h"

#ifdef __cplusplus
#error "pv_ocean.h is C: give the glue a name that ends in .c"
#endif

#if defined(OCEAN_HEADER)

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

static inline int ocean_rand(void);
#undef rand
#undef srand
#define rand() ocean_rand()
#define srand(seed) ((void)(seed)) // reset sets the seed
#include OCEAN_HEADER
#undef rand_r

// ---- what the engine needs to know ----

// The types behind the pointers; others do not compile.
#define OCEAN_ACTION \
    __typeof__(*_Generic(((OCEAN_ENV*)0)->actions, float*: (float*)0, int*: (int*)0))
#define OCEAN_TERMINAL \
    __typeof__(*_Generic(((OCEAN_ENV*)0)->terminals, \
                   float*: (float*)0, \
                   unsigned char*: (uint8_t*)0))
#define OCEAN_HALF 0
#define OCEAN_REMADE 0
#define OCEAN_SHARED char
#define OCEAN_RESET(env) c_reset(env)
#define OCEAN_CLOSE(env) c_close(env)
#define OCEAN_STEP(block, env, index) c_step(env)

#include "pv_ocean_engine.h"

#if !defined(OCEAN_ACTION_SIZES)
_Static_assert(_Generic(((OCEAN_ENV*)0)->actions, float*: 1, int*: 0),
               "continuous actions need float* actions in the env's struct");
#endif
_Static_assert(_Generic(((OCEAN_ENV*)0)->rewards, float*: 1, default: 0), "rewards must be float*");
#define OCEAN_IS_FLOAT(name) \
    _Static_assert(_Generic(((Log*)0)->name, float: 1, default: 0), \
                   "Log." #name " must be a float");
OCEAN_LOG(OCEAN_IS_FLOAT)
OCEAN_IS_FLOAT(n)
#undef OCEAN_IS_FLOAT

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

// ---- rows ----

#if defined(OCEAN_ACTION_SIZES)
static const uint32_t ocean_action_sizes[] = {OCEAN_ACTION_SIZES};
#define OCEAN_DIMS ((uint32_t)(sizeof ocean_action_sizes / sizeof ocean_action_sizes[0]))
#else
#define OCEAN_DIMS ((uint32_t)(OCEAN_ACTION_DIMS))
#endif

static ocean_sizes ocean_sizes_of(const pv_context* context) {
    const ocean_config* config = ocean_config_of(context);
    (void)config;
    return (ocean_sizes){.agents = (uint32_t)(OCEAN_AGENTS), .dims = OCEAN_DIMS};
}

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

static int ocean_describe_group(const pv_context* context, pv_group_spec* group, char* text) {
    const ocean_config* config = ocean_config_of(context);
    (void)config;
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
    group->agents = (uint32_t)agents;
    pv_add_array(group->fields, &group->field_count, &group->observation_bytes, "observation", "",
                 OCEAN_OBSERVATION_DTYPE, AXES, shape, OCEAN_OBSERVATION_LOW,
                 OCEAN_OBSERVATION_HIGH, 1.0f);
    ocean_describe_actions(group);
    return PV_OK;
}

static void ocean_show_agents(pv_block* block, uint32_t index) {
    const uint64_t agents = block->spec->groups[0].agents;
    memset(block->rows[0].agent_types + index * agents, 0, agents);
}

// ---- log ----

// The members of the log by name.
#define OCEAN_MEMBER(name) {#name, offsetof(Log, name)},

static const struct {
    const char* name;
    size_t offset;
} ocean_log_members[] = {OCEAN_LOG(OCEAN_MEMBER)};

#undef OCEAN_MEMBER
#define OCEAN_LOG_COUNT (sizeof ocean_log_members / sizeof ocean_log_members[0])
_Static_assert(OCEAN_LOG_COUNT < PV_RECORD_VALUES,
               "a record holds 48 numbers: list fewer members in OCEAN_LOG");

static void ocean_name_records(const pv_context* context, pv_spec* spec) {
    (void)context;
    for (size_t i = 0; i < OCEAN_LOG_COUNT; i++)
        strncpy(spec->record_names[spec->record_count++], ocean_log_members[i].name,
                PV_NAME_BYTES - 1);
}

static void ocean_read_log(pv_block* block, Log* means, float* values) {
    (void)block;
    for (size_t i = 0; i < OCEAN_LOG_COUNT; i++)
        memcpy(&values[i], (const uint8_t*)means + ocean_log_members[i].offset, sizeof(float));
}

// ---- envs ----

static void ocean_open(pv_block* block) {
    (void)block;
}

static void ocean_make(pv_block* block, uint32_t index, unsigned seed) {
    (void)seed;
    const ocean_config* config = ocean_config_of(block->context);
    const ocean_rows rows = ocean_rows_at(block, index);
    OCEAN_ENV* env = &ocean_head_of(block)->envs[index];
#define OCEAN_COPY(name) env->name = config->name;
    OCEAN_SETTINGS(OCEAN_COPY, OCEAN_COPY)
#undef OCEAN_COPY
    env->observations = rows.observations;
    env->actions = rows.actions;
    env->rewards = rows.rewards;
    env->terminals = rows.terminals;
    OCEAN_INIT(env);
}

// Returns the next number of the stream of the env that runs on this thread: one stream per env, by
// draw.
static inline int ocean_rand(void) {
    ocean_slot* slot = (ocean_slot*)(void*)pv_ocean_stream;
    const uint64_t drawn = slot->drawn++;
    return (int)(pv_rng_u64(slot->seed, drawn >> 32, (uint32_t)drawn, 0) %
                 ((uint64_t)RAND_MAX + 1));
}

static void ocean_reseed(pv_block* block, uint32_t index, unsigned seed) {
    (void)block, (void)index;
    OCEAN_SEED(&ocean_head_of(block)->envs[index], seed);
}

OCEAN_TABLE(ocean_config_fields,
            sizeof ocean_config_fields / sizeof ocean_config_fields[0],
            sizeof(ocean_config));

#endif // OCEAN_HEADER

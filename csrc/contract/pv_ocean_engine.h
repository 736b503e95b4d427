// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Steps envs in the convention of PufferLib's Ocean as an env type of puffervec: where their rows,
// actions and ends lie, their turns, their records. What differs by generation of the convention is
// in the functions declared under "what an adapter defines", and in these macros:
//
//     OCEAN_NAME                    name of the env type
//     OCEAN_ENV                     the env's struct, with a member `log` of type Log
//     OCEAN_ACTION, OCEAN_TERMINAL  the types that its actions and ends have in memory
//     OCEAN_HALF                    1: its observations are bf16, which rows show as float
//     OCEAN_REMADE                  1: a reset with seeds makes the env anew
//     OCEAN_SHARED                  a type: what the adapter keeps for all envs of a block
//     OCEAN_RESET(env), OCEAN_CLOSE(env), OCEAN_STEP(block, env, index)
//     OCEAN_CLOSED(block)           optional: called once all envs of a block are closed
//
// pv_ocean.h is the adapter for a header with hand-written glue, pv_ocean_generated.h the one for
// headers that puffervec.ocean compiles. The comment of pv_ocean.h says how
// puffervec handles a convention without truncations and last observations.
#pragma once

#include "ocean/host.h"
#include "pv_env.h"

#ifdef OCEAN_ENV

typedef struct ocean_sizes {
    uint32_t agents;  // per env
    uint32_t numbers; // of an observation
    uint32_t dims;    // of an action
    uint32_t keeps;   // 1: rewards and ends stay from step to step until the env changes them
} ocean_sizes;

typedef struct ocean_slot {
    pv_ocean_random random; // first, so that pv_ocean_stream leads here
    uint64_t seed, drawn;   // for adapters with another generator: numbers drawn since the seed
    uint64_t episode;
    int64_t task;
    uint32_t made; // 1: between ocean_make and OCEAN_CLOSE
} ocean_slot;

// The start of a block's state, which the arrays follow.
typedef struct ocean_head {
    ocean_sizes sizes;
    OCEAN_ENV* envs;   // (E,)
    ocean_slot* slots; // (E,)
    // What each turn reads of an env, apart from its slot, so that a turn touches few cache lines.
    uint32_t* steps;           // (E,) of this episode
    float* returns;            // (E,) of this episode, over all agents
    uint8_t* over;             // (E,) 1: it has reset itself, and the next turn is its reset row
    uint32_t* pausing;         // (E,) at its front: the envs whose reset row this turn is
    OCEAN_ACTION* actions;     // (E, agents, dims)
    float* rewards;            // (E, agents); NULL: the env writes into rows->rewards
    OCEAN_TERMINAL* terminals; // (E, agents); NULL: it writes into rows->terminals
    uint16_t* halves;          // (E, agents, numbers) if OCEAN_HALF, else NULL
    const double* table;       // what each choice of each dim writes as an action, or NULL
    uint32_t starts[PV_MAX_ACTION_DIMS]; // of each dim in the table
    OCEAN_SHARED shared;
} ocean_head;

// Where an env reads and writes, from its first agent on.
typedef struct ocean_rows {
    void* observations;
    OCEAN_ACTION* actions;
    float* rewards;
    OCEAN_TERMINAL* terminals;
    unsigned char* masks; // NULL if it has no action masks
} ocean_rows;

// ---- what an adapter defines ----

// Returns the sizes for a config.
static ocean_sizes ocean_sizes_of(const pv_context* context);
// Fills the group's agents, observation and actions.
static int ocean_describe_group(const pv_context* context, pv_group_spec* group, char* text);
// Adds the names of the log's members to the spec, without n.
static void ocean_name_records(const pv_context* context, pv_spec* spec);
// Writes the members in the order of their names.
static void ocean_read_log(pv_block* block, Log* means, float* values);
// Prepares what all envs of a block share, before the first is made.
static void ocean_open(pv_block* block);
// Makes a zeroed env: its settings, its rows, its seed.
static void ocean_make(pv_block* block, uint32_t index, unsigned seed);
// Gives an env that was made another seed. Called before each reset with seeds.
static void ocean_reseed(pv_block* block, uint32_t index, unsigned seed);
// Notes what the env's agents are, after a reset: rows->agent_types.
static void ocean_show_agents(pv_block* block, uint32_t index);

// ---- memory ----

#define OCEAN_BYTE_TERMINALS (sizeof(OCEAN_TERMINAL) == 1)

static ocean_head* ocean_head_of(pv_block* block) {
    return (ocean_head*)block->state;
}

// Places `count` things of `bytes` behind `*end`. Returns where.
static uint64_t ocean_place(uint64_t* end, uint64_t count, uint64_t bytes) {
    const uint64_t start = pv_align_up(*end, 64);
    *end = start + count * bytes;
    return start;
}

// Lays out the state of `envs` envs; sets the pointers if `head` is not NULL. Returns its bytes.
static uint64_t ocean_lay_out(const pv_context* context, uint64_t envs, ocean_head* head) {
    const ocean_sizes sizes = ocean_sizes_of(context);
    const uint64_t agents = envs * sizes.agents;
    uint64_t end = sizeof(ocean_head);
    const uint64_t env_at = ocean_place(&end, envs, sizeof(OCEAN_ENV));
    const uint64_t slot_at = ocean_place(&end, envs, sizeof(ocean_slot));
    const uint64_t step_at = ocean_place(&end, envs, sizeof(uint32_t));
    const uint64_t return_at = ocean_place(&end, envs, sizeof(float));
    const uint64_t over_at = ocean_place(&end, envs, 1);
    const uint64_t pausing_at = ocean_place(&end, envs, sizeof(uint32_t));
    const uint64_t action_at = ocean_place(&end, agents * sizes.dims, sizeof(OCEAN_ACTION));
    const int own_terminals = !OCEAN_BYTE_TERMINALS || sizes.keeps;
    const uint64_t reward_at = ocean_place(&end, sizes.keeps ? agents : 0, sizeof(float));
    const uint64_t terminal_at =
        ocean_place(&end, own_terminals ? agents : 0, sizeof(OCEAN_TERMINAL));
    const uint64_t half_at = ocean_place(&end, OCEAN_HALF ? agents * sizes.numbers : 0, 2);
    if (head) {
        uint8_t* start = (uint8_t*)head;
        head->sizes = sizes;
        head->envs = (OCEAN_ENV*)(void*)(start + env_at);
        head->slots = (ocean_slot*)(void*)(start + slot_at);
        head->steps = (uint32_t*)(void*)(start + step_at);
        head->returns = (float*)(void*)(start + return_at);
        head->over = start + over_at;
        head->pausing = (uint32_t*)(void*)(start + pausing_at);
        head->actions = (OCEAN_ACTION*)(void*)(start + action_at);
        head->rewards = sizes.keeps ? (float*)(void*)(start + reward_at) : NULL;
        head->terminals = own_terminals ? (OCEAN_TERMINAL*)(void*)(start + terminal_at) : NULL;
        head->halves = OCEAN_HALF ? (uint16_t*)(void*)(start + half_at) : NULL;
    }
    return end;
}

static uint64_t ocean_bytes(const pv_context* context, uint32_t env_count) {
    return ocean_lay_out(context, env_count, NULL);
}

static ocean_rows ocean_rows_at(pv_block* block, uint32_t index) {
    const ocean_head* head = ocean_head_of(block);
    const pv_rows* rows = &block->rows[0];
    const uint64_t first = (uint64_t)index * head->sizes.agents;
    return (ocean_rows){
        .observations = OCEAN_HALF ? (void*)(head->halves + first * head->sizes.numbers)
                                   : (void*)(rows->observations + first * rows->observation_bytes),
        .actions = head->actions + first * head->sizes.dims,
        .rewards = (head->rewards ? head->rewards : rows->rewards) + first,
        .terminals =
            (head->terminals ? head->terminals : (OCEAN_TERMINAL*)(void*)rows->terminals) + first,
        .masks = rows->action_masks
                     ? rows->action_masks + first * block->spec->groups[0].action_mask_size
                     : NULL,
    };
}

// ---- describe ----

static int ocean_describe(const pv_context* context, pv_spec* spec, char* text) {
    if (context->autoreset != PV_NEXT_STEP)
        return pv_describe_error(text, PV_ERROR_CONFIG,
                                 "an Ocean env resets itself within its last step, which loses the "
                                 "last observation: use "
                                 "autoreset_mode=\"next_step\"");
    pv_group_spec* group = &spec->groups[spec->group_count++];
    strcpy(group->name, "agents");
    const int code = ocean_describe_group(context, group, text);
    if (code)
        return code;
    ocean_name_records(context, spec);
    strcpy(spec->record_names[spec->record_count++], "n");
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "episode", "", PV_U64,
                 0, 0, 0.0f, 1e9f, 1.0f);
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "steps", "", PV_U32, 0,
                 0, 0.0f, 1e9f, 1.0f);
    spec->records_per_turn = 1;
    return PV_OK;
}

// ---- calls into the env ----

// Runs `work`; a failure within (exit, assert, a missing setting) becomes an error of the env at
// work.
static int ocean_run(pv_block* block,
                     void (*work)(pv_block*, const uint8_t*, const uint64_t*),
                     const uint8_t* mask,
                     const uint64_t* seeds) {
    pv_ocean_catcher catcher;
    pv_ocean_caught = &catcher;
    if (setjmp(catcher.back) == 0) {
        work(block, mask, seeds);
        pv_ocean_caught = NULL;
        return PV_OK;
    }
    pv_ocean_caught = NULL;
    return pv_block_error(block, *block->error_env - block->first_env, "%s", catcher.text);
}

static void ocean_make_env(pv_block* block, uint32_t index, unsigned seed) {
    ocean_head* head = ocean_head_of(block);
    pv_ocean_stream = &head->slots[index].random;
    pv_ocean_seed(pv_ocean_stream, seed);
    ocean_make(block, index, seed);
    head->slots[index].made = 1;
}

static void ocean_close_env(pv_block* block, uint32_t index) {
    ocean_head* head = ocean_head_of(block);
    if (!head->slots[index].made)
        return;
    head->slots[index].made = 0;
    pv_ocean_stream = &head->slots[index].random;
    pv_ocean_closing = &head->envs[index];
    OCEAN_CLOSE(&head->envs[index]);
    pv_ocean_closing = NULL;
}

static void ocean_init_all(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    (void)mask, (void)seeds;
    ocean_lay_out(block->context, block->env_count, ocean_head_of(block));
    pv_block_at(block, 0);
    if (block->rows[0].action_masks)
        memset(block->rows[0].action_masks, 1,
               block->rows[0].count * block->spec->groups[0].action_mask_size);
    ocean_open(block);
    for (uint32_t env = 0; env < block->env_count && !OCEAN_REMADE; env++) {
        pv_block_at(block, env);
        ocean_make_env(block, env, 1);
    }
}

static int ocean_init(pv_block* block) {
    return ocean_run(block, ocean_init_all, NULL, NULL);
}

static void ocean_close_all(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    (void)mask, (void)seeds;
    for (uint32_t env = 0; env < block->env_count; env++)
        ocean_close_env(block, env);
#ifdef OCEAN_CLOSED
    OCEAN_CLOSED(block);
#endif
}

static void ocean_close(pv_block* block) {
    if (ocean_head_of(block)->slots)
        ocean_run(block, ocean_close_all, NULL, NULL);
}

// ---- reset ----

// Clears the rewards and ends in the env's rows.
static void ocean_clear_rows(pv_block* block, uint32_t index) {
    const pv_rows* rows = &block->rows[0];
    const uint64_t agents = ocean_head_of(block)->sizes.agents, first = index * agents;
    memset(rows->rewards + first, 0, agents * sizeof(float));
    memset(rows->terminals + first, 0, agents);
}

// Clears the rewards and ends that the env has written.
static void ocean_clear_flags(pv_block* block, uint32_t index) {
    const uint64_t agents = ocean_head_of(block)->sizes.agents;
    const ocean_rows rows = ocean_rows_at(block, index);
    memset(rows.rewards, 0, agents * sizeof(float));
    memset(rows.terminals, 0, agents * sizeof(OCEAN_TERMINAL));
}

// Shows bf16 observations as floats.
static void ocean_show(pv_block* block, uint32_t index) {
    if (!OCEAN_HALF)
        return;
    const ocean_head* head = ocean_head_of(block);
    const uint64_t count = (uint64_t)head->sizes.agents * head->sizes.numbers,
                   first = index * count;
    uint32_t* shown = (uint32_t*)(void*)block->rows[0].observations + first;
    for (uint64_t i = 0; i < count; i++)
        shown[i] = (uint32_t)head->halves[first + i] << 16;
}

// Clears what an env has shown, since some write only what changes. All actions are allowed again.
static void ocean_clear_shown(pv_block* block, uint32_t index) {
    const ocean_sizes sizes = ocean_head_of(block)->sizes;
    const ocean_rows rows = ocean_rows_at(block, index);
    const uint64_t bytes = OCEAN_HALF ? 2 * sizes.numbers : block->rows[0].observation_bytes;
    memset(rows.observations, 0, sizes.agents * bytes);
    if (rows.masks)
        memset(rows.masks, 1, (uint64_t)sizes.agents * block->spec->groups[0].action_mask_size);
}

static void ocean_begin_episode(pv_block* block, uint32_t index) {
    ocean_head* head = ocean_head_of(block);
    head->slots[index].task = block->tasks[index];
    head->steps[index] = 0;
    head->returns[index] = 0.0f;
    head->over[index] = 0;
}

static void ocean_reset_env(pv_block* block, uint32_t index, const uint64_t* seeds) {
    ocean_head* head = ocean_head_of(block);
    ocean_slot* slot = &head->slots[index];
    const uint64_t agents = head->sizes.agents, first = index * agents;
    slot->episode = seeds ? 0 : slot->episode + 1;
    const uint64_t wide = seeds ? seeds[index] : block->first_env + index;
    const unsigned seed = (unsigned)(wide ^ wide >> 32);
    if (seeds) {
        slot->seed = wide;
        slot->drawn = 0;
    }
    if (OCEAN_REMADE && (seeds || !slot->made)) {
        ocean_close_env(block, index);
        memset(&head->envs[index], 0, sizeof head->envs[index]);
        ocean_clear_shown(block, index);
        ocean_make_env(block, index, seed);
    }
    pv_ocean_stream = &slot->random;
    if (seeds) { // some envs show the last actions
        memset(ocean_rows_at(block, index).actions, 0,
               agents * head->sizes.dims * sizeof(OCEAN_ACTION));
        ocean_reseed(block, index, seed);
    }
    memset(&head->envs[index].log, 0, sizeof head->envs[index].log);
    ocean_begin_episode(block, index);
    ocean_clear_flags(block, index);
    memset(block->rows[0].truncations + first, 0, agents);
    memset(block->rows[0].masks + first, 1, agents);
    OCEAN_RESET(&head->envs[index]);
    if (!head->sizes.keeps) // in some envs a reset runs the code that ends an episode
        ocean_clear_flags(block, index);
    ocean_clear_rows(block, index);
    ocean_show_agents(block, index);
    ocean_show(block, index);
}

static void ocean_reset_all(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env])
            continue;
        pv_block_at(block, env);
        ocean_reset_env(block, env, seeds);
    }
}

static int ocean_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    return ocean_run(block, ocean_reset_all, mask, seeds);
}

// ---- step ----

// Writes the actions of all envs where they read them; envs that pause ignore theirs.
static void ocean_take_actions(pv_block* block) {
    const ocean_head* head = ocean_head_of(block);
    const pv_rows* rows = &block->rows[0];
    const uint32_t dims = head->sizes.dims;
    const uint64_t count = (uint64_t)block->env_count * head->sizes.agents * dims;
    OCEAN_ACTION* restrict actions = head->actions;
    if (rows->values) {
        for (uint64_t i = 0; i < count; i++)
            actions[i] = (OCEAN_ACTION)rows->values[i];
    } else if (!head->table) {
        for (uint64_t i = 0; i < count; i++)
            actions[i] = (OCEAN_ACTION)rows->indices[i];
    } else {
        for (uint64_t i = 0; i < count; i++) {
            const uint32_t choice = head->starts[i % dims] + (uint32_t)rows->indices[i];
            actions[i] = (OCEAN_ACTION)head->table[choice];
        }
    }
}

// Leaves the log of the episodes that ended in this step as a record, and clears it.
static void ocean_leave_record(pv_block* block, uint32_t index) {
    const ocean_head* head = ocean_head_of(block);
    const ocean_slot* slot = &head->slots[index];
    Log* log = &head->envs[index].log;
    const float episodes = log->n;
    pv_record* record = pv_block_record(block, index);
    if (record) {
        float sums[sizeof(Log) / sizeof(float)];
        memcpy(sums, log, sizeof sums);
        for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
            sums[i] /= episodes;
        Log means = *log;
        memcpy(&means, sums, sizeof sums);
        record->episode = slot->episode;
        record->task = slot->task;
        record->length = head->steps[index];
        record->episode_return = head->returns[index];
        ocean_read_log(block, &means, record->values);
        const uint32_t last = block->spec->record_count - 1;
        record->values[last] = episodes;
        for (uint32_t i = 0; i < last; i++) {
            if (strcmp(block->spec->record_names[i], "episode_return") == 0)
                record->episode_return = record->values[i];
            if (strcmp(block->spec->record_names[i], "episode_length") == 0)
                record->length = (uint32_t)lroundf(record->values[i]);
        }
    }
    memset(log, 0, sizeof *log);
}

// Shows the rewards and ends that the envs have written, of all envs at once.
static void ocean_show_flags(pv_block* block) {
    const ocean_head* head = ocean_head_of(block);
    const pv_rows* rows = &block->rows[0];
    const uint64_t count = (uint64_t)block->env_count * head->sizes.agents;
    uint8_t* restrict shown = rows->terminals;
    if (head->rewards)
        memcpy(rows->rewards, head->rewards, count * sizeof(float));
    if (head->terminals) {
        const OCEAN_TERMINAL* restrict terminals = head->terminals;
        for (uint64_t i = 0; i < count; i++)
            shown[i] = terminals[i] != 0;
    } else {
        for (uint64_t i = 0; i < count; i++)
            shown[i] = shown[i] != 0;
    }
}

// Counts steps, rewards and ends of all envs; those that pause begin an episode afterwards.
static inline void ocean_count(ocean_head* head,
                               const pv_rows* rows,
                               uint32_t env_count,
                               uint64_t agents) {
    uint32_t* restrict steps = head->steps;
    float* restrict returns = head->returns;
    uint8_t* restrict over = head->over;
    const float* restrict rewards = rows->rewards;
    const uint8_t* restrict terminals = rows->terminals;
    for (uint64_t env = 0; env < env_count; env++) {
        uint64_t ended = 0;
        float sum = returns[env];
        for (uint64_t row = env * agents; row < (env + 1) * agents; row++) {
            ended += terminals[row];
            sum += rewards[row];
        }
        steps[env]++;
        returns[env] = sum;
        over[env] = ended == agents;
    }
}

static void ocean_step_all(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    (void)mask, (void)seeds;
    ocean_head* head = ocean_head_of(block);
    const ocean_sizes sizes = head->sizes;
    ocean_take_actions(block);
    if (!sizes.keeps && block->env_count) { // of all envs at once, which lie next to each other
        const ocean_rows rows = ocean_rows_at(block, 0);
        const uint64_t count = (uint64_t)block->env_count * sizes.agents;
        memset(rows.rewards, 0, count * sizeof(float));
        memset(rows.terminals, 0, count * sizeof(OCEAN_TERMINAL));
    }
    // Between two steps there is little code, and it uses local variables, which no write of an env
    // can change: the fewer instructions, the more a CPU overlaps the steps. Other loops do the
    // rest.
    OCEAN_ENV* const envs = head->envs;
    ocean_slot* const slots = head->slots;
    const uint8_t* const over = head->over;
    uint32_t* const pausing = head->pausing;
    const pv_block running = {.error_env = block->error_env, .first_env = block->first_env};
    const uint32_t env_count = block->env_count;
    uint32_t pauses = 0;
    for (uint32_t env = 0; env < env_count; env++) {
        if (over[env]) {
            pausing[pauses++] = env;
            continue;
        }
        pv_block_at(&running, env);
        pv_ocean_stream = &slots[env].random;
        OCEAN_STEP(block, &envs[env], env);
    }
    ocean_show_flags(block);
    if (sizes.agents == 1) // a constant, with which the compiler makes vectors
        ocean_count(head, &block->rows[0], env_count, 1);
    else
        ocean_count(head, &block->rows[0], env_count, sizes.agents);
    for (uint32_t i = 0; i < pauses; i++) { // the env wrote the observations in the last turn
        slots[pausing[i]].episode++;
        ocean_begin_episode(block, pausing[i]);
        ocean_clear_rows(block, pausing[i]);
    }
    for (uint32_t env = 0; env < env_count; env++) {
        if (envs[env].log.n > 0) {
            pv_block_at(block, env);
            ocean_leave_record(block, env);
        }
        ocean_show(block, env);
    }
}

static int ocean_step(pv_block* block) {
    return ocean_run(block, ocean_step_all, NULL, NULL);
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
    const ocean_head* head = ocean_head_of(block);
    const uint64_t episode = head->slots[env].episode;
    memcpy(out, &episode, sizeof episode);
    memcpy(out + sizeof episode, &head->steps[env], sizeof(uint32_t));
    return PV_OK;
}

// The name is a macro, which these expand before it is pasted or quoted.
#define OCEAN_TYPE(name) PV_ENV_TYPE(name)
#define OCEAN_QUOTE(name) #name
#define OCEAN_TEXT(name) OCEAN_QUOTE(name)

// The table of the env type; an adapter gives the fields of its config.
#define OCEAN_TABLE(fields, count, bytes_of_config) \
    OCEAN_TYPE(OCEAN_NAME) = { \
        .abi = PV_ABI, \
        .struct_bytes = sizeof(pv_env_type), \
        .name = OCEAN_TEXT(OCEAN_NAME), \
        .config_fields = fields, \
        .config_count = count, \
        .config_bytes = bytes_of_config, \
        .describe = ocean_describe, \
        .bytes = ocean_bytes, \
        .init = ocean_init, \
        .reset = ocean_reset, \
        .step = ocean_step, \
        .save = ocean_save, \
        .load = ocean_load, \
        .peek = ocean_peek, \
        .close = ocean_close, \
    }

#endif // OCEAN_ENV

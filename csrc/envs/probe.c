// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `probe`: the teaching env, which most tests use too. Every number that it writes can be computed
// by hand, and its settings can make it fail in all the ways a real env can. Read it from top
// to bottom to learn the contract of env.h; copy it to start your own.
//
// The game: the reward of agent a at step t (1, 2, ...) is
//     t + 0.25 * a + action / 16
// and the episode ends after episode_length steps with a terminal, a truncation, or both in turn,
// as end_kind says. With leave = 1, agent a > 0 leaves (terminal) at step a, and its rows are empty
// until the next episode. There is one struct per env.
//
//   mode 0   one group "agents": num_agents rows, float32[obs_size] observations, Discrete(5)
//   mode 1   two groups with different spaces:
//            "scouts": num_agents rows, float32[6], Discrete(3) with an action mask
//            "towers": 1 row, uint8[4] and float32[3], MultiDiscrete(2, 4)
//
// Observation of mode 0, float32 (obs_size >= 8): seed mod 4096, episode, step, agent, last action,
// uniform random number, env's task, number of steps since the vector env began (clock), then
// zeros.
#include "contract/env.h"
#include "contract/rng.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- 1. settings: a plain struct, and a table that Python compares with its dataclass ----

typedef struct probe_config {
    int32_t num_agents;
    int32_t episode_length;
    int32_t end_kind;   // 0 terminal, 1 truncation, 2 in turn
    int32_t leave;      // 1: agent a > 0 leaves at step a
    int32_t mode;       // 0 one group, 1 two groups
    int32_t obs_size;   // floats per observation in mode 0
    int32_t work;       // iterations of a busy loop per env and step, in place of a simulation
    int32_t fault;      // FAULT_...
    int32_t fault_env;  // global index of the env that fails
    int32_t fault_step; // the env's clock at which it fails, or IN_RESET ...
} probe_config;

static const pv_config_field config_fields[] = {
#define FIELD(name) {#name, PV_I32, offsetof(probe_config, name)}
    FIELD(num_agents), FIELD(episode_length), FIELD(end_kind), FIELD(leave),     FIELD(mode),
    FIELD(obs_size),   FIELD(work),           FIELD(fault),    FIELD(fault_env), FIELD(fault_step),
#undef FIELD
};

enum {
    FAULT_NONE,
    FAULT_SEGV,
    FAULT_ABORT,
    FAULT_EXIT,
    FAULT_KILL,
    FAULT_HANG,
    FAULT_SPIN,
    FAULT_NAN,
    FAULT_OOB,
    FAULT_OOM,
    FAULT_ERROR,
    FAULT_SLOW,
    FAULT_COUNT
};

// Values of fault_step, besides those of the clock.
enum {
    IN_RESET = -1,
    IN_SAVE = -2,
    IN_LOAD = -3,
    IN_PEEK = -4,
    IN_CLOSE = -5,
    IN_INIT = -6,
    IN_POKE = -7
};

// ---- 2. state: flat and without pointers, so save and load are copies ----

typedef struct probe_env {
    uint64_t seed, episode;
    int64_t task;
    uint32_t clock;        // steps since the seeded reset
    uint32_t step;         // steps of this episode
    uint32_t over;         // the episode ended: the next step is a reset
    float work;            // result of the busy loop, which must not be optimized away
    float episode_return;  // sum over agents
    int32_t last_action[]; // per agent, scouts before the tower
} probe_env;

static const probe_config* config_of(const pv_context* context) {
    return (const probe_config*)context->config;
}

static uint32_t agents_of(const probe_config* config) {
    return (uint32_t)config->num_agents + (config->mode == 1 ? 1 : 0);
}

static uint64_t env_bytes(const probe_config* config) {
    return pv_align_up(sizeof(probe_env) + agents_of(config) * sizeof(int32_t), 8);
}

static probe_env* env_at(pv_block* block, uint32_t env) {
    return (probe_env*)(void*)((uint8_t*)block->state + env * env_bytes(config_of(block->context)));
}

// ---- 3. describe: check the config, declare rows, actions, records and readable state ----

static int check(const probe_config* config, char* text) {
    if (config->num_agents < 1 || config->num_agents > 1024)
        return pv_describe_error(text, PV_ERROR_CONFIG, "num_agents is %d: use 1 to 1024",
                                 config->num_agents);
    if (config->episode_length < 1)
        return pv_describe_error(text, PV_ERROR_CONFIG, "episode_length is %d: use at least 1",
                                 config->episode_length);
    if (config->obs_size < 8 || config->obs_size > 65536)
        return pv_describe_error(text, PV_ERROR_CONFIG, "obs_size is %d: use 8 to 65536",
                                 config->obs_size);
    if (config->mode < 0 || config->mode > 1)
        return pv_describe_error(text, PV_ERROR_CONFIG,
                                 "mode is %d: use 0 (one group) or 1 (two groups)", config->mode);
    if (config->end_kind < 0 || config->end_kind > 2)
        return pv_describe_error(text, PV_ERROR_CONFIG, "end_kind is %d: use 0, 1 or 2",
                                 config->end_kind);
    if (config->fault < 0 || config->fault >= FAULT_COUNT)
        return pv_describe_error(text, PV_ERROR_CONFIG, "fault is %d: use 0 to %d", config->fault,
                                 FAULT_COUNT - 1);
    return PV_OK;
}

static void describe_one_group(const probe_config* config, pv_group_spec* group) {
    strcpy(group->name, "agents");
    group->agents = (uint32_t)config->num_agents;
    pv_add_field(group->fields, &group->field_count, &group->observation_bytes, "observation", "",
                 PV_F32, (uint32_t)config->obs_size, 0, -1.0f, 1e9f, 1.0f);
    group->action_kind = PV_DISCRETE;
    group->action_dims = 1;
    group->action_sizes[0] = 5;
}

static void describe_two_groups(const probe_config* config,
                                pv_group_spec* scouts,
                                pv_group_spec* towers) {
    strcpy(scouts->name, "scouts");
    scouts->agents = (uint32_t)config->num_agents;
    pv_add_field(scouts->fields, &scouts->field_count, &scouts->observation_bytes, "observation",
                 "", PV_F32, 6, 0, -1.0f, 1e9f, 1.0f);
    scouts->action_kind = PV_DISCRETE;
    scouts->action_dims = 1;
    scouts->action_sizes[0] = 3;
    scouts->action_mask_size = 3;
    strcpy(towers->name, "towers");
    towers->agents = 1;
    pv_add_field(towers->fields, &towers->field_count, &towers->observation_bytes, "lights", "",
                 PV_U8, 4, 0, 0.0f, 255.0f, 1.0f);
    pv_add_field(towers->fields, &towers->field_count, &towers->observation_bytes, "gauges", "",
                 PV_F32, 3, 0, -1.0f, 1e9f, 1.0f);
    towers->action_kind = PV_MULTI_DISCRETE;
    towers->action_dims = 2;
    towers->action_sizes[0] = 2;
    towers->action_sizes[1] = 4;
}

static int probe_describe(const pv_context* context, pv_spec* spec, char* text) {
    const probe_config* config = config_of(context);
    int code = check(config, text);
    if (code)
        return code;
    if (config->mode == 0) {
        spec->group_count = 1;
        describe_one_group(config, &spec->groups[0]);
    } else {
        spec->group_count = 2;
        describe_two_groups(config, &spec->groups[0], &spec->groups[1]);
    }
    strcpy(spec->record_names[spec->record_count++], "truncated");
    strcpy(spec->counter_names[spec->counter_count++], "steps");
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "seed", "", PV_U64, 0,
                 0, 0.0f, 0x1p64f, 1.0f);
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "episode", "", PV_U64,
                 0, 0, 0.0f, 1e9f, 1.0f);
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "step", "", PV_U32, 0,
                 0, 0.0f, (float)config->episode_length, 1.0f);
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "clock", "", PV_U32, 0,
                 0, 0.0f, 1e9f, 1.0f);
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "last_action", "",
                 PV_I32, agents_of(config), 0, 0.0f, 7.0f, 1.0f);
    spec->save_bytes = (uint32_t)env_bytes(config);
    spec->records_per_turn = 1;
    spec->task_count = PV_ANY_TASK; // any number: a probe only shows its task; an env with scenes
                                    // or layouts gives their number
    return PV_OK;
}

static uint64_t probe_bytes(const pv_context* context, uint32_t env_count) {
    return env_count * env_bytes(config_of(context));
}

// ---- 4. rows: the only place that writes observations, rewards, flags and masks ----

// The first numbers of every observation.
static void tracer(const probe_env* env, uint32_t agent, float values[8]) {
    values[0] = (float)(env->seed % 4096);
    values[1] = (float)env->episode;
    values[2] = (float)env->step;
    values[3] = (float)agent;
    values[4] = (float)env->last_action[agent];
    values[5] = pv_rng_f32(env->seed, env->episode, env->step, agent);
    values[6] = (float)env->task;
    values[7] = (float)env->clock;
}

static void write_agent(const pv_rows* rows, uint64_t row, const float values[8], uint32_t floats) {
    float* observation = (float*)(void*)(rows->observations + row * rows->observation_bytes);
    memcpy(observation, values, floats * sizeof(float));
}

static void write_tower(const pv_rows* rows, uint64_t row, const float values[8]) {
    uint8_t* observation = rows->observations + row * rows->observation_bytes;
    for (int i = 0; i < 4; i++)
        observation[i] = (uint8_t)((uint32_t)values[i] & 255u);
    memcpy(observation + 4, values + 4, 3 * sizeof(float));
}

// Scouts may not repeat their last action, except to do nothing (index 0).
static void write_action_mask(const pv_rows* rows, uint64_t row, int32_t last_action) {
    for (int choice = 0; choice < 3; choice++)
        rows->action_masks[row * 3 + (uint64_t)choice] =
            (uint8_t)(choice == 0 || choice != last_action);
}

typedef struct row_flags {
    float reward;
    uint8_t terminal, truncation, mask;
} row_flags;

static int ends(const probe_config* config, const probe_env* state) {
    return state->step >= (uint32_t)config->episode_length;
}

// Returns whether this episode ends with a truncation.
static int truncates(const probe_config* config, const probe_env* state) {
    return config->end_kind == 1 || (config->end_kind == 2 && state->episode % 2 == 1);
}

// Returns the flags of an agent's row, with reward 0. An agent that left at step `agent` has no
// rows after that step.
static row_flags flags_of(const probe_config* config, const probe_env* state, uint32_t agent) {
    const int may_leave = config->leave && agent > 0 && agent < (uint32_t)config->num_agents;
    if (may_leave && state->step > agent)
        return (row_flags){0.0f, 0, 0, 0};
    const int leaves = may_leave && state->step == agent, over = ends(config, state),
              truncated = truncates(config, state);
    return (row_flags){0.0f, (uint8_t)(leaves || (over && !truncated)),
                       (uint8_t)(over && truncated && !leaves), 1};
}

static void write_row(
    pv_block* block, uint32_t env, uint32_t agent, const probe_env* state, row_flags flags) {
    const probe_config* config = config_of(block->context);
    int tower = config->mode == 1 && agent == (uint32_t)config->num_agents;
    const pv_rows* rows = &block->rows[tower];
    uint64_t row = tower ? env : (uint64_t)env * (uint64_t)config->num_agents + agent;
    float values[8];
    tracer(state, agent, values);
    if (!flags.mask)
        memset(values, 0, sizeof values);
    if (tower)
        write_tower(rows, row, values);
    else
        write_agent(rows, row, values, config->mode == 1 ? 6 : 8);
    if (rows->action_masks)
        write_action_mask(rows, row, flags.mask ? state->last_action[agent] : -1);
    rows->rewards[row] = flags.reward;
    rows->terminals[row] = flags.terminal;
    rows->truncations[row] = flags.truncation;
    rows->masks[row] = flags.mask;
    rows->agent_types[row] = (uint8_t)tower;
}

static void clear_observations(pv_block* block, uint32_t env) {
    for (uint32_t g = 0; g < block->spec->group_count; g++) {
        uint64_t bytes = block->spec->groups[g].agents * block->rows[g].observation_bytes;
        memset(block->rows[g].observations + env * bytes, 0, bytes);
    }
}

// ---- 5. faults: failing on demand ----

static void sleep_forever(void) {
    for (;;)
        pause();
}

static int eat_memory(pv_block* block, uint32_t env) {
    char* memory = NULL;
    for (size_t bytes = 0;; bytes += 64u << 20) {
        char* more = realloc(memory, bytes + (64u << 20));
        if (!more)
            break;
        memory = more;
        memset(memory + bytes, 1, 64u << 20);
    }
    free(memory);
    return pv_block_error(block, env, "out of memory");
}

static int fault(pv_block* block, uint32_t env) {
    const pv_rows* rows = &block->rows[0];
    switch (config_of(block->context)->fault) {
    case FAULT_SEGV: raise(SIGSEGV); break;
    case FAULT_ABORT: abort();
    case FAULT_EXIT: _exit(3);
    case FAULT_KILL: kill(getpid(), SIGKILL); break;
    case FAULT_HANG: sleep_forever(); break;
    case FAULT_SPIN:
        for (volatile int forever = 1; forever;) {}
        break;
    case FAULT_NAN: ((float*)(void*)rows->observations)[0] = NAN; break;
    case FAULT_OOB: rows->rewards[rows->count] = 1.0f; break; // one float behind this block's rows
    case FAULT_OOM: return eat_memory(block, env);
    case FAULT_ERROR:
        return pv_block_error(block, env, "the probe was told to fail at step %u",
                              env_at(block, env)->clock);
    case FAULT_SLOW: nanosleep(&(struct timespec){0, 20000000}, NULL); break;
    default: break;
    }
    return PV_OK;
}

static int fault_if_due(pv_block* block, uint32_t env, int64_t now) {
    const probe_config* config = config_of(block->context);
    int due = config->fault != FAULT_NONE &&
              (uint32_t)config->fault_env == block->first_env + env && config->fault_step == now;
    return PV_UNLIKELY(due) ? fault(block, env) : PV_OK;
}

static int probe_init(pv_block* block) {
    int code = PV_OK;
    for (uint32_t env = 0; env < block->env_count && !code; env++) {
        pv_block_at(block, env);
        code = fault_if_due(block, env, IN_INIT);
    }
    return code;
}

static void probe_close(pv_block* block) {
    for (uint32_t env = 0; env < block->env_count; env++)
        fault_if_due(block, env, IN_CLOSE);
}

// ---- 6. reset and step ----

static void begin_episode(pv_block* block, uint32_t env) {
    probe_env* state = env_at(block, env);
    uint32_t agents = agents_of(config_of(block->context));
    state->task = block->tasks[env];
    state->step = 0;
    state->over = 0;
    state->episode_return = 0.0f;
    memset(state->last_action, 0, agents * sizeof(int32_t));
    clear_observations(block, env); // nothing else does, and write_row writes only 8 numbers
    for (uint32_t agent = 0; agent < agents; agent++)
        write_row(block, env, agent, state, (row_flags){0.0f, 0, 0, 1});
}

static int probe_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env])
            continue;
        pv_block_at(block, env); // so that a crash names this env
        probe_env* state = env_at(block, env);
        if (seeds) {
            state->seed = seeds[env];
            state->episode = 0;
            state->clock = 0;
        } else {
            state->episode++;
        }
        begin_episode(block, env);
        int code = fault_if_due(block, env, IN_RESET);
        if (code)
            return code;
    }
    return PV_OK;
}

static int32_t action_of(const pv_block* block, uint32_t env, uint32_t agent) {
    const probe_config* config = config_of(block->context);
    if (agent < (uint32_t)config->num_agents)
        return block->rows[0].indices[(uint64_t)env * (uint64_t)config->num_agents + agent];
    const int32_t* pair =
        block->rows[1].indices + 2 * (uint64_t)env; // the tower: two choices as one number
    return pair[0] * 4 + pair[1];
}

static void leave_record(pv_block* block, uint32_t env, const probe_env* state, int truncated) {
    pv_record* record = pv_block_record(block, env);
    if (!record)
        return;
    record->episode = state->episode;
    record->task = state->task;
    record->length = state->step;
    record->episode_return = state->episode_return;
    record->values[0] = (float)truncated;
}

static void step_env(pv_block* block, uint32_t env) {
    const probe_config* config = config_of(block->context);
    probe_env* state = env_at(block, env);
    uint32_t agents = agents_of(config);
    for (int i = 0; i < config->work; i++)
        state->work = state->work * 0.999f + 1.0f;
    state->clock++;
    block->counters[0]++;
    if (state->over) { // next-step autoreset: this turn's actions are ignored
        state->episode++;
        begin_episode(block, env);
        return;
    }
    state->step++;
    state->over = (uint32_t)ends(config, state);
    for (uint32_t agent = 0; agent < agents; agent++) {
        row_flags flags = flags_of(config, state, agent);
        if (flags.mask) {
            state->last_action[agent] = action_of(block, env, agent);
            flags.reward = (float)state->step + 0.25f * (float)agent +
                           (float)state->last_action[agent] / 16.0f;
            state->episode_return += flags.reward;
        }
        write_row(block, env, agent, state, flags);
    }
    if (state->over)
        leave_record(block, env, state, truncates(config, state));
}

static int probe_step(pv_block* block) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        pv_block_at(block, env);
        step_env(block, env);
        int code = fault_if_due(block, env, env_at(block, env)->clock);
        if (code)
            return code;
    }
    return PV_OK;
}

// ---- 7. save, load, peek, poke ----

static int probe_save(pv_block* block, uint32_t env, uint8_t* out) {
    memcpy(out, env_at(block, env), env_bytes(config_of(block->context)));
    return fault_if_due(block, env, IN_SAVE);
}

// The state comes from a file: one that this env cannot have saved is refused before anything is
// changed.
static int probe_load(pv_block* block, uint32_t env, const uint8_t* in) {
    const probe_config* config = config_of(block->context);
    const uint32_t agents = agents_of(config), most = 1000000000; // upper bounds of the fields
    probe_env saved;
    memcpy(&saved, in, sizeof saved);
    int sound = saved.over <= 1 && saved.step <= (uint32_t)config->episode_length &&
                saved.episode <= most && saved.clock <= most;
    sound = sound && saved.task >= -1 && saved.task <= (int64_t)most && isfinite(saved.work) &&
            isfinite(saved.episode_return);
    for (uint32_t agent = 0; agent < agents && sound; agent++) {
        int32_t action;
        memcpy(&action, in + offsetof(probe_env, last_action) + agent * sizeof action,
               sizeof action);
        sound = action >= -1 && action < 8;
    }
    if (!sound)
        return pv_block_error(block, env,
                              "saved state: over %u, step %u, episode %llu, return %g and actions "
                              "cannot be a state of this env",
                              saved.over, saved.step, (unsigned long long)saved.episode,
                              (double)saved.episode_return);
    memcpy(env_at(block, env), in, env_bytes(config));
    return fault_if_due(block, env, IN_LOAD);
}

static int probe_peek(pv_block* block, uint32_t env, uint8_t* out) {
    const probe_env* state = env_at(block, env);
    memcpy(out, &state->seed, 8);
    memcpy(out + 8, &state->episode, 8);
    memcpy(out + 16, &state->step, 4);
    memcpy(out + 20, &state->clock, 4);
    memcpy(out + 24, state->last_action, agents_of(config_of(block->context)) * sizeof(int32_t));
    return fault_if_due(block, env, IN_PEEK);
}

// The worker has checked all numbers against the bounds of their fields, and this env can be in any
// state within them.
static int probe_poke(pv_block* block, uint32_t env, const uint8_t* in) {
    const probe_config* config = config_of(block->context);
    const uint32_t agents = agents_of(config);
    probe_env* state = env_at(block, env);
    memcpy(&state->seed, in, 8);
    memcpy(&state->episode, in + 8, 8);
    memcpy(&state->step, in + 16, 4);
    memcpy(&state->clock, in + 20, 4);
    memcpy(state->last_action, in + 24, agents * sizeof(int32_t));
    const uint32_t was_over = state->over;
    state->over = (uint32_t)ends(config, state);
    if (was_over && !state->over) { // the rest starts afresh with the next episode
        state->task = block->tasks[env];
        state->episode_return = 0.0f;
    }
    clear_observations(block, env);
    for (uint32_t agent = 0; agent < agents; agent++)
        write_row(block, env, agent, state, flags_of(config, state, agent));
    return fault_if_due(block, env, IN_POKE)
               ? PV_ERROR_STATE
               : PV_OK; // PV_ERROR_ENV would say that nothing was changed
}

// ---- 8. the table ----

const pv_env_type pv_probe_type = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = "probe",
    .config_fields = config_fields,
    .config_count = sizeof config_fields / sizeof config_fields[0],
    .config_bytes = sizeof(probe_config),
    .describe = probe_describe,
    .bytes = probe_bytes,
    .init = probe_init,
    .reset = probe_reset,
    .step = probe_step,
    .save = probe_save,
    .load = probe_load,
    .peek = probe_peek,
    .poke = probe_poke,
    .close = probe_close,
};

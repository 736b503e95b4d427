// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `cartpole`: the second teaching env. probe.c shows the whole contract with one struct per env;
// this one shows how to make a small env fast: one array per state variable over all envs of a
// worker (structure of arrays), and a step of flat loops without branches, which the compiler turns
// into vector instructions. Few envs end at a step; they are handled one by one afterwards.
//
// The game is Gymnasium's CartPole-v1: Barto, Sutton, Anderson, "Neuronlike Adaptive Elements That
// Can Solve Difficult Learning Control Problems", 1983, with the equations of Florian, "Correct
// Equations for the Dynamics of the Cart-Pole System", 2005, without friction, integrated by
// Euler's method. A cart on a track balances a pole; action 0 pushes it left, action 1 right.
//
// Numbers. Like Gymnasium we compute in float64, in its order of operations, and show float32: with
// the same start and actions most episodes are equal bit for bit. Our own sine and cosine give the
// same bits on all machines. Where they round differently from the C library's (1 in 400), the
// difference of 1e-17 grows by 8 % per step, because a pole is unstable: of 4,000 balanced episodes
// none was off by 1e-6 before step 300, and 1 in 200 at step 500. In float32 they would be off by
// that within 50 steps.
//
// One difference: if the pole falls at the step of the time limit, the episode ends with a terminal
// only, not a truncation as well.
#include "contract/env.h"
#include "contract/rng.h"

#include <math.h>
#include <string.h>

#define GRAVITY 9.8
#define MASS_POLE 0.1
#define MASS_TOTAL (0.1 + 1.0)  // pole and cart
#define HALF_LENGTH 0.5         // of the pole
#define POLE_MOMENT (0.1 * 0.5) // mass of the pole times its half length
#define FORCE 10.0
#define STEP_S 0.02
#define MOST_X 2.4                                         // m; beyond it the episode ends
#define MOST_THETA (12 * 2 * 3.14159265358979323846 / 360) // rad (12 degrees); the same
#define MOST_X_DOT \
    100.0 // m/s, bound for a running cart that is loaded or set: it stays within twice MOST_X for a
          // step
#define MOST_THETA_DOT 10.0 // rad/s, the same; actual values stay below half of it
#define MOST_LEFT 1e3 // bound for all numbers of a saved finished cart, which may have any speed
#define START 0.05    // every state variable starts in [-START, START)

// ---- 1. settings ----

typedef struct cartpole_config {
    int32_t max_episode_steps;
    int32_t sutton_barto_reward; // 1: 0 per step and -1 for the fall, instead of 1 per step
} cartpole_config;

static const pv_config_field config_fields[] = {
    {"max_episode_steps", PV_I32, offsetof(cartpole_config, max_episode_steps)},
    {"sutton_barto_reward", PV_I32, offsetof(cartpole_config, sutton_barto_reward)},
};

static const cartpole_config* config_of(const pv_context* context) {
    return (const cartpole_config*)context->config;
}

// ---- 2. state: pointers into the block's memory, computed from its base at each call ----

typedef struct cartpole_state {
    double* x;         // (E,) m, of the cart
    double* x_dot;     // (E,) m/s
    double* theta;     // (E,) rad, of the pole, 0 is upright
    double* theta_dot; // (E,) rad/s
    uint64_t* seed;    // (E,)
    uint64_t* episode; // (E,)
    int64_t* task;     // (E,) of the running episode; only for records
    int32_t* steps;    // (E,) of the running episode
    uint8_t* over;     // (E,) 1: the episode ended, so the next step is a reset
} cartpole_state;

static uint64_t lay_out(uint64_t envs, uint8_t* base, cartpole_state* state) {
    uint64_t at = 0;
#define TAKE(member) \
    state->member = (void*)(base + at); \
    at = pv_align_up(at + envs * sizeof *state->member, 64)
    TAKE(x);
    TAKE(x_dot);
    TAKE(theta);
    TAKE(theta_dot);
    TAKE(seed);
    TAKE(episode);
    TAKE(task);
    TAKE(steps);
    TAKE(over);
#undef TAKE
    return at;
}

static cartpole_state state_of(const pv_block* block) {
    cartpole_state state;
    lay_out(block->env_count, block->state, &state);
    return state;
}

// ---- 3. describe: what the rows hold ----

static int cartpole_describe(const pv_context* context, pv_spec* spec, char* text) {
    const cartpole_config* config = config_of(context);
    if (config->max_episode_steps < 1)
        return pv_describe_error(text, PV_ERROR_CONFIG, "max_episode_steps is %d: use at least 1",
                                 config->max_episode_steps);
    pv_group_spec* group = &spec->groups[spec->group_count++];
    strcpy(group->name, "agents");
    group->agents = 1;
    group->action_kind = PV_DISCRETE;
    group->action_dims = 1;
    group->action_sizes[0] = 2;

    // Four numbers are both the observation (float32) and the readable state (float64). An episode
    // ends at half the bounds.
    const struct {
        const char *name, *unit;
        float bound; // of the observation, as in Gymnasium
        float state_bound;
    } variables[4] = {{"x", "m", (float)(2 * MOST_X), (float)(2 * MOST_X)},
                      {"x_dot", "m/s", INFINITY, (float)MOST_X_DOT},
                      {"theta", "rad", (float)(2 * MOST_THETA), (float)(2 * MOST_THETA)},
                      {"theta_dot", "rad/s", INFINITY, (float)MOST_THETA_DOT}};

    for (int i = 0; i < 4; i++) {
        float bound = variables[i].bound, state_bound = variables[i].state_bound;
        pv_add_field(group->fields, &group->field_count, &group->observation_bytes,
                     variables[i].name, variables[i].unit, PV_F32, 0, 0, -bound, bound, 1.0f);
        pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, variables[i].name,
                     variables[i].unit, PV_F64, 0, 0, -state_bound, state_bound, 1.0f);
    }
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "steps", "", PV_I32, 0,
                 0, 0.0f, (float)config->max_episode_steps, 1.0f);
    spec->save_bytes = 64;
    spec->records_per_turn = 1;
    return PV_OK;
}

static uint64_t cartpole_bytes(const pv_context* context, uint32_t env_count) {
    (void)context;
    cartpole_state unused;
    return lay_out(env_count, NULL, &unused);
}

static int cartpole_init(pv_block* block) {
    (void)block;
    return PV_OK;
}

// ---- 4. reset ----

static void write_observation(const pv_block* block, const cartpole_state* state, uint32_t env) {
    float* observation = (float*)(void*)block->rows[0].observations + 4 * (uint64_t)env;
    observation[0] = (float)state->x[env];
    observation[1] = (float)state->x_dot[env];
    observation[2] = (float)state->theta[env];
    observation[3] = (float)state->theta_dot[env];
}

// Returns a number in [-START, START) from 32 random bits.
static double start_of(uint32_t word) {
    return (double)word * (2 * START / 0x1p32) - START;
}

static void begin_episode(pv_block* block, const cartpole_state* state, uint32_t env) {
    const pv_rows* rows = &block->rows[0];
    // One call of the generator gives four words, one per variable: (seed, episode) are the key, as
    // in all draws.
    const uint64_t seed = state->seed[env], episode = state->episode[env];
    const uint32_t counter[4] = {(uint32_t)episode, (uint32_t)(episode >> 32), 0, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4];
    pv_philox_inline(counter, key, words);
    state->x[env] = start_of(words[0]);
    state->x_dot[env] = start_of(words[1]);
    state->theta[env] = start_of(words[2]);
    state->theta_dot[env] = start_of(words[3]);
    state->task[env] = block->tasks[env];
    state->steps[env] = 0;
    state->over[env] = 0;
    write_observation(block, state, env);
    rows->rewards[env] = 0.0f;
    rows->terminals[env] = 0;
    rows->truncations[env] = 0;
    rows->masks[env] = 1;
    rows->agent_types[env] = 0;
}

static int cartpole_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    cartpole_state state = state_of(block);
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

// ---- 5. step: flat loops over all envs, then the few that end or begin ----

// Taylor series for the angles of a standing pole: for |angle| < 0.21 the omitted terms are below
// 1e-20.
static inline double sine(double angle) {
    const double square = angle * angle;
    double series = 1.0 / 6227020800.0;
    series = series * square - 1.0 / 39916800.0;
    series = series * square + 1.0 / 362880.0;
    series = series * square - 1.0 / 5040.0;
    series = series * square + 1.0 / 120.0;
    series = series * square - 1.0 / 6.0;
    return angle + angle * square * series;
}

static inline double cosine(double angle) {
    const double square = angle * angle, half = 0.5 * square, rest = 1.0 - half;
    double series = 1.0 / 479001600.0;
    series = series * square - 1.0 / 3628800.0;
    series = series * square + 1.0 / 40320.0;
    series = series * square - 1.0 / 720.0;
    series = series * square + 1.0 / 24.0;
    return rest + (((1.0 - rest) - half) +
                   square * square * series); // adds back what `rest` lost in rounding
}

// Moves all carts, including those of finished episodes, which are reset below: a branch would cost
// more than it saves.
PV_CLONES static void move_all(const pv_block* block, const cartpole_state* state) {
    const int32_t* restrict actions = block->rows[0].indices;
    double* restrict x = state->x;
    double* restrict x_dot = state->x_dot;
    double* restrict theta = state->theta;
    double* restrict theta_dot = state->theta_dot;
    for (uint32_t i = 0; i < block->env_count; i++) {
        const double force = (double)actions[i] * (2 * FORCE) - FORCE;
        const double c = cosine(theta[i]), s = sine(theta[i]);
        const double push = (force + POLE_MOMENT * (theta_dot[i] * theta_dot[i]) * s) / MASS_TOTAL;
        const double inertia = HALF_LENGTH * (4.0 / 3.0 - MASS_POLE * (c * c) / MASS_TOTAL);
        const double theta_acc = (GRAVITY * s - c * push) / inertia;
        const double x_acc = push - POLE_MOMENT * theta_acc * c / MASS_TOTAL;
        x[i] = x[i] + STEP_S * x_dot[i]; // Euler: positions move with the old speeds
        x_dot[i] = x_dot[i] + STEP_S * x_acc;
        theta[i] = theta[i] + STEP_S * theta_dot[i];
        theta_dot[i] = theta_dot[i] + STEP_S * theta_acc;
    }
}

// Writes all rows, including those of finished episodes.
PV_CLONES static void write_rows(const pv_block* block, const cartpole_state* state) {
    const cartpole_config* config = config_of(block->context);
    const pv_rows* rows = &block->rows[0];
    const uint32_t count = block->env_count;
    const int32_t limit = config->max_episode_steps;
    const float reward = config->sutton_barto_reward ? 0.0f : 1.0f,
                last_reward = config->sutton_barto_reward ? -1.0f : 1.0f;
    const double* restrict x = state->x;
    const double* restrict x_dot = state->x_dot;
    const double* restrict theta = state->theta;
    const double* restrict theta_dot = state->theta_dot;
    int32_t* restrict steps = state->steps;
    float* restrict observations = (float*)(void*)rows->observations;
    float* restrict rewards = rows->rewards;
    uint8_t* restrict terminals = rows->terminals;
    uint8_t* restrict truncations = rows->truncations;
    for (uint32_t i = 0; i < count; i++) {
        observations[4 * i] = (float)x[i];
        observations[4 * i + 1] = (float)x_dot[i];
        observations[4 * i + 2] = (float)theta[i];
        observations[4 * i + 3] = (float)theta_dot[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        const int fell = (fabs(x[i]) > MOST_X) | (fabs(theta[i]) > MOST_THETA);
        steps[i] = steps[i] + 1;
        rewards[i] = fell ? last_reward : reward;
        terminals[i] = (uint8_t)fell;
        truncations[i] = (uint8_t)(!fell & (steps[i] >= limit));
    }
}

static void leave_record(pv_block* block, const cartpole_state* state, uint32_t env) {
    pv_record* record = pv_block_record(block, env);
    if (!record)
        return;
    const int terminal = block->rows[0].terminals[env];
    record->episode = state->episode[env];
    record->task = state->task[env];
    record->length = (uint32_t)state->steps[env];
    record->episode_return = config_of(block->context)->sutton_barto_reward
                                 ? (float)-terminal
                                 : (float)state->steps[env];
}

static int cartpole_step(pv_block* block) {
    cartpole_state state = state_of(block);
    const pv_rows* rows = &block->rows[0];
    move_all(block, &state);
    write_rows(block, &state);
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (PV_LIKELY(!(state.over[env] | rows->terminals[env] | rows->truncations[env])))
            continue;
        pv_block_at(block, env);
        if (state.over[env]) { // next-step autoreset: this turn's action is ignored
            state.episode[env]++;
            begin_episode(block, &state, env);
        } else {
            state.over[env] = 1;
            leave_record(block, &state, env);
        }
    }
    return PV_OK;
}

// ---- 6. save, load, peek, poke ----

// The saved form of one env.
typedef struct cartpole_saved {
    double x, x_dot, theta, theta_dot;
    uint64_t seed, episode;
    int64_t task;
    int32_t steps, over;
} cartpole_saved;

_Static_assert(sizeof(cartpole_saved) == 64, "cartpole_describe counts 64 bytes");

static int cartpole_save(pv_block* block, uint32_t env, uint8_t* out) {
    const cartpole_state state = state_of(block);
    const cartpole_saved saved = {state.x[env],         state.x_dot[env], state.theta[env],
                                  state.theta_dot[env], state.seed[env],  state.episode[env],
                                  state.task[env],      state.steps[env], state.over[env]};
    memcpy(out, &saved, sizeof saved);
    return PV_OK;
}

static int cartpole_load(pv_block* block, uint32_t env, const uint8_t* in) {
    cartpole_state state = state_of(block);
    cartpole_saved saved;
    memcpy(&saved, in, sizeof saved);
    // Comparisons with NaN are false, so NaN is refused too. A fallen pole, or one without steps
    // left, may be saved only between an end and its reset.
    const int over = saved.over != 0;
    const int placed = fabs(saved.x) <= (over ? MOST_LEFT : MOST_X) &&
                       fabs(saved.theta) <= (over ? MOST_LEFT : MOST_THETA);
    const int slow = fabs(saved.x_dot) <= (over ? MOST_LEFT : MOST_X_DOT) &&
                     fabs(saved.theta_dot) <= (over ? MOST_LEFT : MOST_THETA_DOT);
    const int32_t last = config_of(block->context)->max_episode_steps - !over;
    if (!placed || !slow || saved.steps < 0 || saved.steps > last)
        return pv_block_error(block, env,
                              "saved state: x %g, theta %g, steps %d cannot be a state of this env",
                              saved.x, saved.theta, saved.steps);
    state.x[env] = saved.x;
    state.x_dot[env] = saved.x_dot;
    state.theta[env] = saved.theta;
    state.theta_dot[env] = saved.theta_dot;
    state.seed[env] = saved.seed;
    state.episode[env] = saved.episode;
    state.task[env] = saved.task;
    state.steps[env] = saved.steps;
    state.over[env] = saved.over != 0;
    return PV_OK;
}

static int cartpole_peek(pv_block* block, uint32_t env, uint8_t* out) {
    const cartpole_state state = state_of(block);
    const double values[4] = {state.x[env], state.x_dot[env], state.theta[env],
                              state.theta_dot[env]};
    memcpy(out, values, sizeof values);
    memcpy(out + sizeof values, &state.steps[env], sizeof(int32_t));
    return PV_OK;
}

static int cartpole_poke(pv_block* block, uint32_t env, const uint8_t* in) {
    cartpole_state state = state_of(block);
    const pv_rows* rows = &block->rows[0];
    double values[4];
    int32_t steps;
    memcpy(values, in, sizeof values);
    memcpy(&steps, in + sizeof values, sizeof steps);
    const int fell = fabs(values[0]) > MOST_X || fabs(values[2]) > MOST_THETA;
    const int late = !fell && steps >= config_of(block->context)->max_episode_steps;
    if (state.over[env] && !fell && !late) { // its next episode
        state.episode[env]++;
        state.task[env] = block->tasks[env];
    }
    state.x[env] = values[0];
    state.x_dot[env] = values[1];
    state.theta[env] = values[2];
    state.theta_dot[env] = values[3];
    state.steps[env] = steps;
    state.over[env] = fell || late;
    write_observation(block, &state, env);
    rows->rewards[env] = 0.0f;
    rows->terminals[env] = (uint8_t)fell;
    rows->truncations[env] = (uint8_t)late;
    return PV_OK;
}

const pv_env_type pv_cartpole_type = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = "cartpole",
    .config_fields = config_fields,
    .config_count = sizeof config_fields / sizeof config_fields[0],
    .config_bytes = sizeof(cartpole_config),
    .describe = cartpole_describe,
    .bytes = cartpole_bytes,
    .init = cartpole_init,
    .reset = cartpole_reset,
    .step = cartpole_step,
    .save = cartpole_save,
    .load = cartpole_load,
    .peek = cartpole_peek,
    .poke = cartpole_poke,
};

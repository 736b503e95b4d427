// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// covid: save and load, peek and poke. See covid.h.
#include "covid.h"

#include <math.h>

int covid_save(pv_block* block, uint32_t env, uint8_t* out) {
    const covid_block state = covid_state_of(block);
    memcpy(out, &state.envs[env], sizeof(covid_env));
    return PV_OK;
}

// ---- states from outside ----

static int usable(double value) {
    return value >= 0.0 && value <= 1e20;
} // no NaN

// Refuses a state with a number out of bounds.
static int check_state(
    pv_block* block, const covid_block* state, uint32_t index, const covid_env* env, uint32_t s) {
    const covid_table* table = state->table;
    const double people = env->susceptible[s] + env->infected[s] + env->recovered[s];
    const double start = table->susceptible[s] + table->infected[s] + table->recovered[s];
    const double slack = 1e-6 * start; // of people: rounding in other implementations
    const int alive =
        usable(env->susceptible[s]) && usable(env->infected[s]) && usable(env->recovered[s]);
    if (!alive || fabs(people - start) > slack)
        return pv_block_error(block, index,
                              "state %u has %.9g susceptible, %.9g infected and %.9g recovered "
                              "people: they must be %.9g in all, "
                              "as in the data",
                              s, env->susceptible[s], env->infected[s], env->recovered[s], start);
    if (!usable(env->vaccinated[s]) || env->vaccinated[s] > env->recovered[s] + slack)
        return pv_block_error(
            block, index,
            "state %u has %.9g vaccinated people: use 0 to %.9g, those who have recovered", s,
            env->vaccinated[s], env->recovered[s]);
    int fits = usable(env->dead[s]) && usable(env->unemployed[s]) && usable(env->production[s]);
    for (uint32_t f = 0; f < COVID_FILTERS; f++)
        fits &= fabs(env->filters[f][s]) <= 1e4;
    if (!fits)
        return pv_block_error(
            block, index, "state %u has dead, unemployed, production or filters out of range", s);
    if (env->level[s] < 1 || env->level[s] > COVID_MOST_LEVEL)
        return pv_block_error(block, index, "state %u has stringency %d: use 1 to %d", s,
                              env->level[s], COVID_MOST_LEVEL);
    const int32_t cooldown = covid_config_of(block->context)->action_cooldown_period;
    if (env->until[s] < env->time || env->until[s] - env->time > cooldown)
        return pv_block_error(block, index,
                              "state %u keeps its stringency until day %d: use the time, %d, to %d",
                              s, env->until[s], env->time, env->time + cooldown);
    return PV_OK;
}

static int check_env(pv_block* block,
                     const covid_block* state,
                     uint32_t index,
                     const covid_env* env) {
    const covid_config* config = covid_config_of(block->context);
    const int32_t last = config->episode_length - !env->over;
    if (env->time < 0 || env->time > last || env->subsidy_level < 0 ||
        env->subsidy_level > config->num_subsidy_levels)
        return pv_block_error(block, index, "time %d and subsidy level %d: use 0 to %d and 0 to %d",
                              env->time, env->subsidy_level, last, config->num_subsidy_levels);
    for (uint32_t s = 0; s < COVID_STATES; s++) {
        int code = check_state(block, state, index, env, s);
        if (code)
            return code;
    }
    return PV_OK;
}

static int finite_tally(const covid_tally* tally) {
    double all[sizeof *tally / sizeof(double)];
    memcpy(all, tally, sizeof all);
    int finite = 1;
    for (uint32_t i = 0; i < sizeof all / sizeof all[0]; i++)
        finite &= isfinite(all[i]) != 0;
    return finite;
}

// Sets the unused lane to what a reset writes there, whatever a file contains.
static void clear_nobody(const covid_table* table, covid_env* env) {
    const uint32_t s = COVID_LANES - 1;
    double* const numbers[] = {env->susceptible, env->infected,   env->recovered, env->vaccinated,
                               env->dead,        env->unemployed, env->production};
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        numbers[i][s] = 0.0;
    for (uint32_t f = 0; f < COVID_FILTERS; f++)
        env->filters[f][s] = 0.0;
    for (uint32_t d = 0; d < COVID_RING; d++)
        env->ring[d][s] = table->before[0][s];
    env->level[s] = table->before[0][s];
    env->until[s] = env->time;
}

int covid_load(pv_block* block, uint32_t env, const uint8_t* in) {
    const covid_block state = covid_state_of(block);
    covid_env saved;
    memcpy(&saved, in, sizeof saved);
    int code = check_env(block, &state, env, &saved);
    if (code)
        return code;
    int sound =
        finite_tally(&saved.tally) && saved.illegal >= 0 && (saved.over == 0 || saved.over == 1);
    for (uint32_t d = 0; d < COVID_RING; d++) {
        for (uint32_t s = 0; s < COVID_STATES; s++)
            sound &= saved.ring[d][s] >= 1 && saved.ring[d][s] <= COVID_MOST_LEVEL;
    }
    for (uint32_t s = 0; s < COVID_STATES; s++)
        sound &= saved.ring[(uint32_t)saved.time % COVID_RING][s] == saved.level[s];
    if (!sound)
        return pv_block_error(block, env,
                              "saved state: sums or stringency cannot be those of this env");
    clear_nobody(state.table, &saved);
    state.envs[env] = saved;
    state.numbered[env] = 0;
    return PV_OK;
}

// ---- readable state ----

// Copies between an env and the bytes of its readable state, in the order of describe.c. out: 1
// reads the env.
static void copy_fields(const covid_config* config, covid_env* env, uint8_t* bytes, int out) {
#define COPY(member, size) \
    do { \
        if (out) \
            memcpy(bytes, (member), (size)); \
        else \
            memcpy((member), bytes, (size)); \
        bytes += (size); \
    } while (0)
    double* const numbers[] = {env->susceptible, env->infected,   env->recovered, env->vaccinated,
                               env->dead,        env->unemployed, env->production};
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        COPY(numbers[i], COVID_STATES * sizeof(double));
    for (uint32_t f = 0; f < COVID_FILTERS; f++)
        COPY(env->filters[f], COVID_STATES * sizeof(double));
    COPY(&env->time, sizeof(int32_t));
    COPY(&env->subsidy_level, sizeof(int32_t));
    COPY(env->until, COVID_STATES * sizeof(int32_t));
    for (int32_t ago = config->beta_delay - 1; ago >= 0; ago--)
        COPY(env->ring[(uint32_t)(env->time - ago) % COVID_RING], COVID_STATES);
#undef COPY
}

int covid_peek(pv_block* block, uint32_t env, uint8_t* out) {
    const covid_block state = covid_state_of(block);
    copy_fields(covid_config_of(block->context), &state.envs[env], out, 1);
    return PV_OK;
}

// Writes the rows of a state that was set: reward 0, and flags where it ends an episode.
static void write_rows(pv_block* block, const covid_block* state, uint32_t env) {
    for (uint32_t g = 0; g < 2; g++) {
        const uint64_t count = block->spec->groups[g].agents;
        memset(block->rows[g].rewards + env * count, 0, count * sizeof(float));
        memset(block->rows[g].terminals + env * count, state->envs[env].over, count);
        memset(block->rows[g].truncations + env * count, 0, count);
        memset(block->rows[g].masks + env * count, 1, count);
    }
    state->numbered[env] = 0;
    covid_write_rows(block, state, env);
}

int covid_poke(pv_block* block, uint32_t env, const uint8_t* in) {
    const covid_block state = covid_state_of(block);
    const covid_config* config = covid_config_of(block->context);
    covid_env set = state.envs[env];
    uint8_t bytes[sizeof(covid_env)]; // a readable state is smaller
    memcpy(bytes, in, block->spec->state_bytes);
    copy_fields(config, &set, bytes, 0);
    set.over = set.time >= config->episode_length;
    for (uint32_t s = 0; s < COVID_STATES; s++)
        set.level[s] = set.ring[(uint32_t)set.time % COVID_RING][s];
    int code = check_env(block, &state, env, &set);
    if (code)
        return code;
    if (state.envs[env].over && !set.over) { // its next episode
        set.episode++;
        const int32_t over = set.over;
        covid_forget_episode(block, &set, env);
        set.over = over;
    }
    state.envs[env] = set;
    write_rows(block, &state, env);
    return PV_OK;
}

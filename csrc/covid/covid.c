// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// covid: reset, step, records, the table of its functions. See covid.h.
#include "covid.h"

static uint64_t covid_bytes(const pv_context* context, uint32_t env_count) {
    (void)context;
    covid_block unused;
    return covid_lay_out(env_count, NULL, &unused);
}

static int covid_init(pv_block* block) {
    covid_fill_table(block->context, covid_state_of(block).table);
    return PV_OK;
}

// ---- reset ----

// Every episode begins in the state of the last day of the data.
static void start(const covid_table* table, covid_env* env) {
    env->time = env->subsidy_level = 0;
    memcpy(env->susceptible, table->susceptible, sizeof env->susceptible);
    memcpy(env->infected, table->infected, sizeof env->infected);
    memcpy(env->recovered, table->recovered, sizeof env->recovered);
    memcpy(env->vaccinated, table->vaccinated, sizeof env->vaccinated);
    memcpy(env->unemployed, table->unemployed, sizeof env->unemployed);
    memcpy(env->filters, table->filters, sizeof env->filters);
    memset(env->until, 0, sizeof env->until);
    memset(env->production, 0, sizeof env->production);
    for (uint32_t s = 0; s < COVID_LANES; s++) {
        env->dead[s] = table->numbers.death_rate * (table->recovered[s] - table->vaccinated[s]);
        env->level[s] = table->before[COVID_WINDOW][s];
    }
    for (uint32_t ago = 0; ago < COVID_RING; ago++)
        memcpy(env->ring[(0u - ago) % COVID_RING], table->before[COVID_WINDOW - ago], COVID_LANES);
}

// Writes the rewards and flags of all rows of an env whose episode continues.
static void clear_flags(const pv_block* block, uint32_t env) {
    for (uint32_t g = 0; g < 2; g++) {
        const pv_rows* rows = &block->rows[g];
        const uint64_t count = block->spec->groups[g].agents, first = env * count;
        memset(rows->rewards + first, 0, count * sizeof(float));
        memset(rows->terminals + first, 0, count);
        memset(rows->truncations + first, 0, count);
        memset(rows->masks + first, 1, count);
        memset(rows->agent_types + first, (int)g, count);
    }
}

static void begin_episode(pv_block* block, const covid_block* state, uint32_t env) {
    covid_forget_episode(block, &state->envs[env], env);
    start(state->table, &state->envs[env]);
    clear_flags(block, env);
    covid_write_rows(block, state, env);
}

static int covid_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    const covid_block state = covid_state_of(block);
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env])
            continue;
        pv_block_at(block, env);
        state.envs[env].episode = seeds ? 0 : state.envs[env].episode + 1;
        if (seeds)
            state.envs[env].seed = seeds[env];
        begin_episode(block, &state, env);
    }
    return PV_OK;
}

// ---- step ----

// Writes the values of both records of an episode, in the order of `covid_describe`.
static void fill_values(const covid_table* table, const covid_env* env, float* values) {
    const covid_tally* tally = &env->tally;
    const double days = env->time;
    double dead = 0.0, vaccinated = 0.0;
    for (uint32_t s = 0; s < COVID_STATES; s++)
        dead += env->dead[s];
    for (uint32_t s = 0; s < COVID_STATES; s++)
        vaccinated += env->vaccinated[s];
    values[0] = (float)dead;
    values[1] = (float)(100.0 * tally->unemployed / days);
    values[2] = (float)(tally->subsidies * 1e-9);
    values[3] = (float)(tally->stringency / days);
    values[4] = (float)(vaccinated / table->people);
    values[5] = (float)tally->planner_return;
    values[6] = (float)tally->states_return;
    values[7] = (float)(tally->health / days);
    values[8] = (float)(tally->economy / days);
    values[9] = (float)env->illegal;
}

static void leave_records(pv_block* block, const covid_block* state, uint32_t env) {
    const covid_env* of = &state->envs[env];
    for (uint32_t type = 0; type < 2; type++) {
        pv_record* record = pv_block_record(block, env);
        if (!record)
            return;
        record->episode = of->episode;
        record->task = of->task;
        record->slot = record->agent_type = type;
        record->length = (uint32_t)of->time;
        record->episode_return = (float)(type == COVID_GROUP_PLANNER ? of->tally.planner_return
                                                                     : of->tally.states_return);
        fill_values(state->table, of, record->values);
    }
}

static void step_env(pv_block* block, const covid_block* state, uint32_t env) {
    const covid_config* config = covid_config_of(block->context);
    const pv_rows *states = &block->rows[COVID_GROUP_STATES],
                  *planner = &block->rows[COVID_GROUP_PLANNER];
    covid_env* of = &state->envs[env];
    if (PV_UNLIKELY(of->over)) { // next-step autoreset: this turn's actions are ignored
        of->episode++;
        begin_episode(block, state, env);
        return;
    }
    const uint64_t first = (uint64_t)env * COVID_STATES;
    const int32_t before = of->illegal;
    planner->rewards[env] = covid_day(state->table, config, of, states->indices + first,
                                      planner->indices[env], states->rewards + first);
    block->counters[0] += (uint64_t)(of->illegal - before);
    covid_write_rows(block, state, env);
    if (PV_LIKELY(of->time < config->episode_length))
        return;
    of->over = 1;
    memset(states->terminals + first, 1, COVID_STATES);
    planner->terminals[env] = 1;
    leave_records(block, state, env);
}

static int covid_step(pv_block* block) {
    const covid_block state = covid_state_of(block);
    for (uint32_t env = 0; env < block->env_count; env++) {
        pv_block_at(block, env);
        step_env(block, &state, env);
    }
    return PV_OK;
}

const pv_env_type pv_covid_type = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = "covid",
    .config_fields = covid_config_fields,
    .config_count = sizeof(covid_config) / 4,
    .config_bytes = sizeof(covid_config),
    .describe = covid_describe,
    .bytes = covid_bytes,
    .init = covid_init,
    .reset = covid_reset,
    .step = covid_step,
    .save = covid_save,
    .load = covid_load,
    .peek = covid_peek,
    .poke = covid_poke,
};

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Observations and action masks of covid; describe.c names the columns. See covid.h.
#include "envs/kernels.h"
#include "covid.h"

enum {
    SUSCEPTIBLE,
    INFECTED,
    RECOVERED,
    DEAD,
    VACCINATED,
    UNEMPLOYED,
    PRODUCTION,
    IN_FORCE,
    STRINGENCY
};

// The values that rows show, of each state and of the calendar.
typedef struct covid_view {
    float shown[COVID_SHOWN][COVID_LANES];
    float time, subsidy_wait, subsidy, vaccine_wait;
} covid_view;

PV_CLONES static void look(const covid_table* table,
                           const covid_config* config,
                           const covid_env* env,
                           covid_view* view) {
    const double* const people[6] = {env->susceptible, env->infected,   env->recovered,
                                     env->dead,        env->vaccinated, env->unemployed};
    const uint8_t* in_force = covid_in_force(env, config);
    for (uint32_t f = 0; f < 6; f++) {
        const double* from = people[f];
        PV_APART for (uint32_t s = 0; s < COVID_LANES; s++) view->shown[f][s] =
            (float)(from[s] * table->per_person[s]);
    }
    PV_APART for (uint32_t s = 0; s < COVID_LANES; s++) {
        view->shown[PRODUCTION][s] = (float)(env->production[s] * table->per_production[s]);
        view->shown[IN_FORCE][s] = (float)in_force[s] * (1.0f / COVID_MOST_LEVEL);
        view->shown[STRINGENCY][s] = (float)env->level[s] * (1.0f / COVID_MOST_LEVEL);
    }
}

// Returns the day of the next delivery of vaccines after `time`.
static int32_t next_delivery(const covid_config* config, int32_t time) {
    const int32_t start = config->vaccine_delivery_start, every = config->delivery_interval;
    const int32_t from = time >= start ? time + 1 : start;
    return (from + every - 1) / every * every;
}

// Returns the days until the next delivery of vaccines as a share of those from the reset until the
// first one.
static float vaccine_wait(const covid_config* config, int32_t time) {
    return (float)(next_delivery(config, time) - time) / (float)next_delivery(config, 0);
}

static void look_at_calendar(const covid_config* config, const covid_env* env, covid_view* view) {
    view->time = (float)env->time / (float)config->episode_length;
    view->subsidy_wait =
        1.0f - (float)(env->time % config->subsidy_interval) / (float)config->subsidy_interval;
    view->subsidy = (float)env->subsidy_level / (float)config->num_subsidy_levels;
    view->vaccine_wait = vaccine_wait(config, env->time);
}

// Writes the one-hot of each row's state: 51 floats. It never changes, so it is written once.
static void number_rows(float* row) {
    for (uint32_t s = 0; s < COVID_STATES; s++, row += COVID_STATE_FLOATS) {
        memset(row, 0, COVID_STATES * sizeof(float));
        row[s] = 1.0f;
    }
}

static void write_states(const covid_view* view, float* row) {
    for (uint32_t s = 0; s < COVID_STATES; s++, row += COVID_STATE_FLOATS) {
        float* at = row + COVID_STATES;
        for (uint32_t f = 0; f <= IN_FORCE; f++)
            at[f] = view->shown[f][s];
        at[8] = view->time;
        at[9] = view->shown[STRINGENCY][s];
        at[10] = view->subsidy_wait;
        at[11] = view->subsidy;
        at[12] = view->vaccine_wait;
    }
}

static void write_planner(const covid_view* view, float* row) {
    for (uint32_t f = 0; f <= IN_FORCE; f++, row += COVID_STATES)
        memcpy(row, view->shown[f], COVID_STATES * sizeof(float));
    *row++ = view->time;
    memcpy(row, view->shown[STRINGENCY], COVID_STATES * sizeof(float));
    row += COVID_STATES;
    row[0] = view->subsidy_wait;
    row[1] = view->subsidy;
    row[2] = view->vaccine_wait;
}

// Writes action masks: action 0 is always allowed, the others where a state or the planner may act.
static void write_masks(const covid_config* config,
                        const covid_env* env,
                        uint8_t* states,
                        uint8_t* planner) {
    for (uint32_t s = 0; s < COVID_STATES; s++, states += COVID_MOST_LEVEL + 1) {
        states[0] = 1;
        memset(states + 1, env->time >= env->until[s], COVID_MOST_LEVEL);
    }
    planner[0] = 1;
    memset(planner + 1, covid_planner_may_act(config, env), (size_t)config->num_subsidy_levels);
}

void covid_write_rows(const pv_block* block, const covid_block* state, uint32_t env) {
    const covid_config* config = covid_config_of(block->context);
    const pv_rows *states = &block->rows[COVID_GROUP_STATES],
                  *planner = &block->rows[COVID_GROUP_PLANNER];
    const uint64_t first = (uint64_t)env * COVID_STATES;
    float* shown = (float*)(void*)states->observations + first * COVID_STATE_FLOATS;
    covid_view view;
    look(state->table, config, &state->envs[env], &view);
    look_at_calendar(config, &state->envs[env], &view);
    if (!state->numbered[env])
        number_rows(shown);
    state->numbered[env] = 1;
    write_states(&view, shown);
    write_planner(&view,
                  (float*)(void*)planner->observations + (uint64_t)env * COVID_PLANNER_FLOATS);
    write_masks(config, &state->envs[env], states->action_masks + first * (COVID_MOST_LEVEL + 1),
                planner->action_masks + (uint64_t)env * ((uint64_t)config->num_subsidy_levels + 1));
}

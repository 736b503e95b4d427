// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `covid`: the two-level economic environment of Trott, Srinivasa, van der Wal, Haneuse, Zheng,
// "Building a Foundation for Data-Driven, Interpretable, and Robust Policy Design using the AI
// Economist", 2021 (arXiv:2108.02904), called [T] in this folder. 51 states set the stringency of
// their measures, a planner pays subsidies; a step is a day. Written from the paper's formulas.
//
//   tables.c     values derived from data and settings: one table per block, computed at init
//   describe.c   settings, checks, spec
//   layout.c     where the arrays of a block lie
//   model.c      a day: measures, subsidies, vaccines, infections, unemployment, output, rewards
//   rows.c       observations and action masks
//   covid.c      init, reset, step, records
//   saved.c      save, load, peek, poke
//   curves.h     exponential and logarithm
//
// The model is float64, rows are float32. Arrays over states have one lane more than there are
// states, so that loops are whole vectors; in the unused lane all summands are 0. Nothing is
// random.
#pragma once

#include "contract/env.h"

#define COVID_STATES 51
#define COVID_LANES 52
#define COVID_FILTERS 5
#define COVID_WINDOW 600    // days of past stringency that affect unemployment
#define COVID_YEAR 365.0    // days
#define COVID_MOST_LEVEL 10 // of stringency; the least is 1
#define COVID_RING 64       // days of stringency that are kept; more than COVID_MOST_DELAY
#define COVID_MOST_DELAY 60
#define COVID_MOST_SUBSIDY_LEVELS 100
#define COVID_SHOWN 9 // numbers of a state that are observed
#define COVID_STATE_FLOATS 64
#define COVID_PLANNER_FLOATS 463

enum { COVID_GROUP_STATES, COVID_GROUP_PLANNER }; // row groups, and agent types

// Mirrored by CovidConfig (puffervec/envs/covid/settings.py), which documents each member.
typedef struct covid_config {
    int32_t episode_length;
    int32_t action_cooldown_period;
    int32_t subsidy_interval;
    int32_t num_subsidy_levels;
    int32_t vaccine_delivery_start;
    int32_t delivery_interval;
    int32_t beta_delay;
} covid_config;

// The settings that are real numbers. The param "numbers", in this order.
typedef struct covid_numbers {
    double max_annual_subsidy_per_person, daily_vaccines_per_million_people, infectious_days,
        death_rate, infection_too_sick_to_work_rate, pop_between_age_18_65, risk_free_interest_rate,
        gdp_per_capita, health_priority_scaling_agents, health_priority_scaling_planner,
        reward_normalization_factor;
} covid_numbers;

// An agent's weights of health and the economy ([T], social welfare): weight, exponent of utility,
// bounds of both indices.
typedef struct covid_taste {
    double alpha, eta, health_min, health_max, economic_min, economic_max;
} covid_taste;

// The data of one state. The param "states" has 51 of these, "planner" one covid_taste.
typedef struct covid_facts {
    double population, susceptible, infected, recovered, vaccinated, unemployed, beta_intercept,
        beta_slope, unemployment_bias;
    covid_taste taste;
} covid_facts;

// Tastes as the loops use them, a lane per state.
typedef struct covid_scale {
    double exponent[COVID_LANES];      // 1 - eta
    double per_exponent[COVID_LANES];  // 1 / (1 - eta), 0 where eta is 1
    double health_weight[COVID_LANES]; // per unit of the health index, scaled and weighed
    double health_offset[COVID_LANES];
    double economic_weight[COVID_LANES];
    double economic_offset[COVID_LANES];
} covid_scale;

// The planner's taste; its indices are separate, since they are recorded.
typedef struct covid_planner_scale {
    covid_taste taste;
    double health_per, economic_per; // 1 / (max - min + 1e-10)
    double health_weight, economic_weight;
    double deaths_per;     // 1e7 / sum of 365 maxprod
    double production_per; // 1 / sum of maxprod
    double cost_factor;    // 1 + interest
} covid_planner_scale;

// Values that are computed once per block.
typedef struct covid_table {
    covid_numbers numbers;
    double per_day_sick;          // 1 / infectious_days
    double daily;                 // production of a worker in a day, USD
    double people;                // of all states
    double decay[COVID_FILTERS];  // exp(-1 / lambda)
    double forget[COVID_FILTERS]; // exp(-600 / lambda)
    double population[COVID_LANES];
    double per_person[COVID_LANES]; // 1 / population
    double intercept[COVID_LANES];
    double slope[COVID_LANES];
    double bias[COVID_LANES];
    double per_percent[COVID_LANES];    // population / 100
    double workforce[COVID_LANES];      // people of working age
    double doses[COVID_LANES];          // of a delivery
    double subsidy[COVID_LANES];        // USD a day and level
    double per_production[COVID_LANES]; // 1 / maxprod
    double deaths_per[COVID_LANES];     // 1e7 / (365 maxprod)
    double weights[COVID_FILTERS][COVID_LANES];
    covid_scale scale;
    covid_planner_scale planner;
    double susceptible[COVID_LANES], infected[COVID_LANES], recovered[COVID_LANES],
        vaccinated[COVID_LANES],
        unemployed[COVID_LANES];                // at the start
    double filters[COVID_FILTERS][COVID_LANES]; // at the start
    // Stringency of the 601 days until the start; 1 before the data. Day d <= 0 is at COVID_WINDOW
    // + d.
    uint8_t before[COVID_WINDOW + 1][COVID_LANES];
} covid_table;

// Sums over an episode.
typedef struct covid_tally {
    double states_return, planner_return, health, economy, unemployed, subsidies, stringency;
} covid_tally;

// One env. It does not depend on its address, so that saving is a copy.
typedef struct covid_env {
    uint64_t seed, episode;
    int64_t task;
    int32_t time; // days of this episode
    int32_t subsidy_level;
    int32_t over;    // 1: the next step is a reset
    int32_t illegal; // actions of this episode that the masks forbid
    covid_tally tally;
    int32_t level[COVID_LANES]; // stringency, 1 to 10
    int32_t until[COVID_LANES]; // the time from which on it may be changed again
    double susceptible[COVID_LANES], infected[COVID_LANES], recovered[COVID_LANES],
        vaccinated[COVID_LANES], dead[COVID_LANES],
        unemployed[COVID_LANES];    // people
    double production[COVID_LANES]; // USD of the last day, subsidies included; 0 after a reset
    double filters[COVID_FILTERS][COVID_LANES];
    uint8_t ring[COVID_RING][COVID_LANES]; // stringency of day d at d mod COVID_RING, for the last
                                           // beta_delay days
} covid_env;

// The block's state.
typedef struct covid_block {
    covid_table* table;
    covid_env* envs;   // (E,)
    uint8_t* numbered; // (E,) 1: the rows contain the one-hot of their state
} covid_block;

static inline const covid_config* covid_config_of(const pv_context* context) {
    return (const covid_config*)context->config;
}

// layout.c: lays the arrays out from `base` on; returns how many bytes they take.
uint64_t covid_lay_out(uint64_t envs, uint8_t* base, covid_block* state);
covid_block covid_state_of(const pv_block* block);

// Begins the tally of an episode.
static inline void covid_forget_episode(const pv_block* block, covid_env* env, uint32_t index) {
    env->task = block->tasks[index];
    env->illegal = 0;
    env->over = 0;
    env->tally = (covid_tally){0};
}

// Returns the stringency on which the transmission of the next step and the observation of `time`
// depend: that of beta_delay - 1 days ago.
static inline const uint8_t* covid_in_force(const covid_env* env, const covid_config* config) {
    return env->ring[(uint32_t)(env->time - config->beta_delay + 1) % COVID_RING];
}

// describe.c
int covid_describe(const pv_context* context, pv_spec* spec, char* text);
extern const pv_config_field covid_config_fields[];

// tables.c: fills a zeroed table from checked params.
void covid_fill_table(const pv_context* context, covid_table* table);

// model.c: one day. actions: (51,) of the states; planner: its action. rewards: (51,) of the
// states; returns the planner's.
float covid_day(const covid_table* table,
                const covid_config* config,
                covid_env* env,
                const int32_t* actions,
                int32_t planner,
                float* rewards);

// rows.c: observations and action masks of an env, and its flags where its episode has ended.
void covid_write_rows(const pv_block* block, const covid_block* state, uint32_t env);
int covid_planner_may_act(const covid_config* config, const covid_env* env);

// saved.c
int covid_save(pv_block* block, uint32_t env, uint8_t* out);
int covid_load(pv_block* block, uint32_t env, const uint8_t* in);
int covid_peek(pv_block* block, uint32_t env, uint8_t* out);
int covid_poke(pv_block* block, uint32_t env, const uint8_t* in);

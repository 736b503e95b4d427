// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Values derived from covid's data and settings, computed once per block. describe.c has checked
// the params. See covid.h.
#include "covid.h"
#include "curves.h"

#include <math.h>

static const void* param(const pv_context* context, const char* name, uint32_t dtype) {
    uint64_t count;
    return pv_params_find(context->params, name, dtype, &count);
}

static void copy_facts(const covid_facts* facts, covid_table* table) {
    for (uint32_t s = 0; s < COVID_STATES; s++) {
        table->population[s] = facts[s].population;
        table->per_person[s] = 1.0 / facts[s].population;
        table->per_percent[s] = facts[s].population / 100.0;
        table->susceptible[s] = facts[s].susceptible;
        table->infected[s] = facts[s].infected;
        table->recovered[s] = facts[s].recovered;
        table->vaccinated[s] = facts[s].vaccinated;
        table->unemployed[s] = facts[s].unemployed;
        table->intercept[s] = facts[s].beta_intercept;
        table->slope[s] = facts[s].beta_slope;
        table->bias[s] = facts[s].unemployment_bias;
        table->people += facts[s].population;
    }
}

// Computes the days of stringency until the start, and the filters of unemployment over the changes
// in them (model.c, `hire`).
static void fill_history(const pv_context* context, covid_table* table) {
    uint64_t count;
    const uint8_t* levels = pv_params_find(context->params, "stringency", PV_U8, &count);
    const double* lambdas = param(context, "lambdas", PV_F64);
    const double* weights = param(context, "weights", PV_F64);
    const uint32_t days = (uint32_t)(count / COVID_STATES);
    memset(table->before, 1, sizeof table->before);
    for (uint32_t d = 0; d < days; d++)
        memcpy(table->before[COVID_WINDOW + 1 - days + d], levels + d * COVID_STATES, COVID_STATES);
    for (uint32_t f = 0; f < COVID_FILTERS; f++) {
        table->decay[f] = covid_exp(-1.0 / lambdas[f]);
        table->forget[f] = covid_exp(-COVID_WINDOW / lambdas[f]);
        memcpy(table->weights[f], weights + f * COVID_STATES, COVID_STATES * sizeof(double));
        for (uint32_t d = 1; d <= COVID_WINDOW; d++) {
            for (uint32_t s = 0; s < COVID_STATES; s++)
                table->filters[f][s] = table->filters[f][s] * table->decay[f] +
                                       (double)(table->before[d][s] - table->before[d - 1][s]);
        }
    }
}

// Computes the daily production of a worker, and the most that each state can produce: with no one
// infected or dead, and with a stringency that has never changed. [T], economic model.
static void fill_production(covid_table* table, double most[COVID_STATES]) {
    const covid_numbers* n = &table->numbers;
    const double usual = covid_log(2.0); // softplus of no change
    double idle[COVID_STATES], all_idle = 0.0;
    for (uint32_t s = 0; s < COVID_STATES; s++)
        all_idle += idle[s] = (usual + table->bias[s]) * table->per_percent[s];
    const double workers = floor(n->pop_between_age_18_65 * table->people - all_idle);
    table->daily = n->gdp_per_capita / (workers / table->people) / COVID_YEAR;
    for (uint32_t s = 0; s < COVID_STATES; s++)
        most[s] = (table->workforce[s] - idle[s]) * table->daily;
}

// Returns the weight of health; that of the economy adds up to 1 with it: z / (1 + z) with z =
// scale * alpha / (1 - alpha).
static double health_weight_of(double alpha, double scale) {
    const double z = scale * alpha / (1.0 - alpha);
    return z / (1.0 + z);
}

// reward = weight * (index - min) / (max - min + 1e-10) of both indices, as index * weight +
// offset.
static void fill_scale(covid_table* table, const covid_facts* facts) {
    covid_scale* scale = &table->scale;
    const double factor = table->numbers.reward_normalization_factor;
    for (uint32_t s = 0; s < COVID_STATES; s++) {
        const covid_taste* taste = &facts[s].taste;
        const double weight =
            health_weight_of(taste->alpha, table->numbers.health_priority_scaling_agents);
        const double exponent = 1.0 - taste->eta;
        scale->exponent[s] = exponent;
        scale->per_exponent[s] = exponent != 0.0 ? 1.0 / exponent : 0.0;
        scale->health_weight[s] = weight / (taste->health_max - taste->health_min + 1e-10) / factor;
        scale->health_offset[s] = -taste->health_min * scale->health_weight[s];
        scale->economic_weight[s] =
            (1.0 - weight) / (taste->economic_max - taste->economic_min + 1e-10) / factor;
        scale->economic_offset[s] = -taste->economic_min * scale->economic_weight[s];
    }
}

static void fill_planner(const pv_context* context,
                         covid_table* table,
                         const double most[COVID_STATES]) {
    covid_planner_scale* planner = &table->planner;
    const covid_numbers* n = &table->numbers;
    double all = 0.0;
    for (uint32_t s = 0; s < COVID_STATES; s++)
        all += most[s];
    memcpy(&planner->taste, param(context, "planner", PV_F64), sizeof planner->taste);
    const double weight =
        health_weight_of(planner->taste.alpha, n->health_priority_scaling_planner);
    planner->health_weight = weight / n->reward_normalization_factor;
    planner->economic_weight = (1.0 - weight) / n->reward_normalization_factor;
    planner->health_per = 1.0 / (planner->taste.health_max - planner->taste.health_min + 1e-10);
    planner->economic_per =
        1.0 / (planner->taste.economic_max - planner->taste.economic_min + 1e-10);
    planner->deaths_per = 1e7 / (COVID_YEAR * all);
    planner->production_per = 1.0 / all;
    planner->cost_factor = 1.0 + n->risk_free_interest_rate;
}

void covid_fill_table(const pv_context* context, covid_table* table) {
    const covid_config* config = covid_config_of(context);
    const covid_facts* facts = param(context, "states", PV_F64);
    double most[COVID_STATES];
    memcpy(&table->numbers, param(context, "numbers", PV_F64), sizeof table->numbers);
    const covid_numbers* n = &table->numbers;
    table->per_day_sick = 1.0 / n->infectious_days;
    copy_facts(facts, table);
    for (uint32_t s = 0; s < COVID_STATES; s++) {
        table->workforce[s] = n->pop_between_age_18_65 * table->population[s];
        table->doses[s] = floor(config->delivery_interval * table->population[s] / 1e6 *
                                n->daily_vaccines_per_million_people);
        table->subsidy[s] = table->population[s] * n->max_annual_subsidy_per_person / COVID_YEAR /
                            config->num_subsidy_levels;
    }
    fill_history(context, table);
    fill_production(table, most);
    for (uint32_t s = 0; s < COVID_STATES; s++) {
        table->per_production[s] = 1.0 / most[s];
        table->deaths_per[s] = 1e7 / (COVID_YEAR * most[s]);
    }
    fill_scale(table, facts);
    fill_planner(context, table, most);
}

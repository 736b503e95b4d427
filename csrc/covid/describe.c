// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// covid: its settings and data with their bounds, and what its rows, records and readable state
// hold. See covid.h.
#include "covid.h"

#define FIELDS(X) \
    X(episode_length, 1, COVID_WINDOW) \
    X(action_cooldown_period, 1, 10000) \
    X(subsidy_interval, 1, 10000) \
    X(num_subsidy_levels, 1, COVID_MOST_SUBSIDY_LEVELS) \
    X(vaccine_delivery_start, 0, 1000000) \
    X(delivery_interval, 1, 10000) \
    X(beta_delay, 1, COVID_MOST_DELAY)

const pv_config_field covid_config_fields[] = {
#define FIELD(name, low, high) {#name, PV_I32, offsetof(covid_config, name)},
    FIELDS(FIELD)
#undef FIELD
};

static const int32_t config_bounds[][2] = {
#define FIELD(name, low, high) {low, high},
    FIELDS(FIELD)
#undef FIELD
};

static int check_config(const covid_config* config, char* text) {
    for (uint32_t i = 0; i < sizeof config_bounds / sizeof config_bounds[0]; i++) {
        int32_t value;
        memcpy(&value, (const uint8_t*)config + covid_config_fields[i].offset, sizeof value);
        if (value < config_bounds[i][0] || value > config_bounds[i][1])
            return pv_describe_error(text, PV_ERROR_CONFIG, "%s is %d: use %d to %d",
                                     covid_config_fields[i].name, value, config_bounds[i][0],
                                     config_bounds[i][1]);
    }
    return PV_OK;
}

// ---- data ----

typedef struct column {
    const char* name;
    double low, high;
} column;

#define MOST_PEOPLE 1e10
#define UNBOUNDED \
    1e12f // of shares that depend on the data: so large that a policy cannot take it for a bound
#define TASTE \
    {"alpha", 0.0, 0.999}, {"eta", 0.0, 20.0}, {"health_min", -1e9, 1e9}, \
        {"health_max", -1e9, 1e9}, {"economic_min", -1e9, 1e9}, {"economic_max", -1e9, 1e9}

static const column state_columns[] = {
    {"population", 1.0, MOST_PEOPLE}, {"susceptible", 0.0, MOST_PEOPLE},
    {"infected", 0.0, MOST_PEOPLE},   {"recovered", 0.0, MOST_PEOPLE},
    {"vaccinated", 0.0, MOST_PEOPLE}, {"unemployed", 0.0, MOST_PEOPLE},
    {"beta_intercept", -10.0, 10.0},  {"beta_slope", -10.0, 10.0},
    {"unemployment_bias", 0.0, 98.0}, TASTE,
};
static const column planner_columns[] = {TASTE};
static const column number_columns[] = {
    {"max_annual_subsidy_per_person", 0.0, 1e9},
    {"daily_vaccines_per_million_people", 0.0, 1e6},
    {"infectious_days", 1.0, 1e6},
    {"death_rate", 0.0, 1.0},
    {"infection_too_sick_to_work_rate", 0.0, 1.0},
    {"pop_between_age_18_65", 0.01, 1.0},
    {"risk_free_interest_rate", 0.0, 10.0},
    {"gdp_per_capita", 1.0, 1e9},
    {"health_priority_scaling_agents", 0.0, 1e6},
    {"health_priority_scaling_planner", 0.0, 1e6},
    {"reward_normalization_factor", 1e-6, 1e6},
};
static const column weight_columns[] = {{"weights", -1e4, 1e4}};
static const column lambda_columns[] = {{"lambdas", 0.1, 1e6}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// Checks `rows` rows of numbers, column by column.
static int check_table(const pv_context* context,
                       const char* name,
                       const column* columns,
                       uint64_t width,
                       uint64_t rows,
                       char* text) {
    uint64_t found;
    const double* values = pv_params_find(context->params, name, PV_F64, &found);
    if (found != rows * width)
        return pv_describe_error(text, PV_ERROR_CONFIG, "%s has %llu numbers: give %llu", name,
                                 (unsigned long long)found, (unsigned long long)(rows * width));
    for (uint64_t i = 0; i < found; i++) {
        const column* of = &columns[i % width];
        if (!(values[i] >= of->low && values[i] <= of->high)) // or NaN
            return pv_describe_error(
                text, PV_ERROR_CONFIG, "%s of row %llu of %s is %.9g: use %.9g to %.9g", of->name,
                (unsigned long long)(i / width), name, values[i], of->low, of->high);
    }
    return PV_OK;
}

static int check_levels(const pv_context* context, char* text) {
    uint64_t found;
    const uint8_t* levels = pv_params_find(context->params, "stringency", PV_U8, &found);
    if (!found || found % COVID_STATES || found > COVID_WINDOW * COVID_STATES)
        return pv_describe_error(text, PV_ERROR_CONFIG,
                                 "stringency has %llu entries: give 1 to %d days of %d states",
                                 (unsigned long long)found, COVID_WINDOW, COVID_STATES);
    for (uint64_t i = 0; i < found; i++) {
        if (levels[i] < 1 || levels[i] > COVID_MOST_LEVEL)
            return pv_describe_error(
                text, PV_ERROR_CONFIG, "stringency of day %llu is %d: use 1 to %d",
                (unsigned long long)(i / COVID_STATES), levels[i], COVID_MOST_LEVEL);
    }
    return PV_OK;
}

// Checks combinations of numbers: transmission must not be negative, and some people must work.
static int check_facts(const pv_context* context, char* text) {
    uint64_t count;
    const covid_facts* facts = pv_params_find(context->params, "states", PV_F64, &count);
    const covid_numbers* numbers = pv_params_find(context->params, "numbers", PV_F64, &count);
    for (uint32_t s = 0; s < COVID_STATES; s++) {
        const double open = facts[s].beta_intercept + facts[s].beta_slope;
        const double closed = facts[s].beta_intercept + COVID_MOST_LEVEL * facts[s].beta_slope;
        if (!(open >= 0.0 && open <= 1.0 && closed >= 0.0 && closed <= 1.0))
            return pv_describe_error(
                text, PV_ERROR_CONFIG,
                "state %u has transmission from %.9g to %.9g a day: use 0 to 1", s, open, closed);
        if (facts[s].unemployment_bias + 1.0 >= 100.0 * numbers->pop_between_age_18_65)
            return pv_describe_error(text, PV_ERROR_CONFIG,
                                     "state %u has unemployment_bias %.9g, in percent of the "
                                     "people: use less than %.9g, the share "
                                     "of working age",
                                     s, facts[s].unemployment_bias,
                                     100.0 * numbers->pop_between_age_18_65 - 1.0);
        if (facts[s].susceptible + facts[s].infected + facts[s].recovered >
            facts[s].population * (1.0 + 1e-6))
            return pv_describe_error(
                text, PV_ERROR_CONFIG,
                "state %u has more susceptible, infected and recovered people than %.9g", s,
                facts[s].population);
    }
    return PV_OK;
}

static int check_params(const pv_context* context, char* text) {
    int code =
        check_table(context, "states", state_columns, COUNT(state_columns), COVID_STATES, text);
    if (!code)
        code = check_table(context, "planner", planner_columns, COUNT(planner_columns), 1, text);
    if (!code)
        code = check_table(context, "numbers", number_columns, COUNT(number_columns), 1, text);
    if (!code)
        code =
            check_table(context, "weights", weight_columns, 1, COVID_FILTERS * COVID_STATES, text);
    if (!code)
        code = check_table(context, "lambdas", lambda_columns, 1, COVID_FILTERS, text);
    if (!code)
        code = check_levels(context, text);
    return code ? code : check_facts(context, text);
}

_Static_assert(COUNT(state_columns) * sizeof(double) == sizeof(covid_facts),
               "a column for each fact");
_Static_assert(COUNT(planner_columns) * sizeof(double) == sizeof(covid_taste),
               "a column for each number of a taste");
_Static_assert(COUNT(number_columns) * sizeof(double) == sizeof(covid_numbers),
               "a column for each number");

// ---- rows, records, state ----

static void observe(pv_group_spec* group,
                    const char* name,
                    const char* unit,
                    uint32_t count,
                    float high,
                    float scale) {
    pv_add_field(group->fields, &group->field_count, &group->observation_bytes, name, unit, PV_F32,
                 count, 0, 0.0f, high, scale);
}

// Adds the columns of both groups, with `states` numbers for each value of a state: 1 in a state's
// own row, 51 in the planner's.
static void observe_all(const covid_config* config, pv_group_spec* group, uint32_t states) {
    static const char* const people[] = {"susceptible", "infected", "recovered", "dead",
                                         "vaccinated"};
    const float slack = 1.0001f, levels = (float)COVID_MOST_LEVEL; // slack: rounding
    for (uint32_t i = 0; i < COUNT(people); i++)
        observe(group, people[i], "", states, slack, 1.0f);
    observe(group, "unemployed", "", states, UNBOUNDED, 1.0f);
    observe(group, "production", "", states, UNBOUNDED, 1.0f);
    observe(group, "stringency_in_force", "", states, 1.0f, levels);
    observe(group, "time", "d", 0, 1.0f, (float)config->episode_length);
    observe(group, "stringency", "", states, 1.0f, levels);
    observe(group, "subsidy_wait", "d", 0, 1.0f, (float)config->subsidy_interval);
    observe(group, "subsidy_level", "", 0, 1.0f, (float)config->num_subsidy_levels);
    observe(group, "vaccine_wait", "", 0, 1.0f, 1.0f);
}

static void describe_rows(const covid_config* config, pv_spec* spec) {
    pv_group_spec *states = &spec->groups[COVID_GROUP_STATES],
                  *planner = &spec->groups[COVID_GROUP_PLANNER];
    spec->group_count = 2;
    strcpy(states->name, "states");
    states->agents = COVID_STATES;
    observe(states, "state", "", COVID_STATES, 1.0f, 1.0f);
    observe_all(config, states, 1);
    states->action_sizes[0] = states->action_mask_size = COVID_MOST_LEVEL + 1;
    strcpy(planner->name, "planner");
    planner->agents = 1;
    observe_all(config, planner, COVID_STATES);
    planner->action_sizes[0] = planner->action_mask_size = (uint32_t)config->num_subsidy_levels + 1;
    for (uint32_t g = 0; g < 2; g++) {
        spec->groups[g].action_kind = PV_DISCRETE;
        spec->groups[g].action_dims = 1;
    }
}

static void describe_state(const covid_config* config, pv_spec* spec) {
    static const char* const people[] = {"susceptible", "infected", "recovered",
                                         "vaccinated",  "dead",     "unemployed"};
#define ADD(name, unit, type, rows, columns, low, high) \
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, name, unit, type, \
                 rows, columns, low, high, 1.0f)
    for (uint32_t i = 0; i < COUNT(people); i++)
        ADD(people[i], "", PV_F64, COVID_STATES, 0, 0.0f, (float)MOST_PEOPLE);
    ADD("production", "USD/d", PV_F64, COVID_STATES, 0, 0.0f, 1e20f);
    ADD("filters", "", PV_F64, COVID_FILTERS, COVID_STATES, -1e4f, 1e4f);
    ADD("time", "d", PV_I32, 1, 0, 0.0f, (float)config->episode_length);
    ADD("subsidy_level", "", PV_I32, 1, 0, 0.0f, (float)config->num_subsidy_levels);
    ADD("kept_until", "d", PV_I32, COVID_STATES, 0, 0.0f,
        (float)(config->episode_length + config->action_cooldown_period));
    ADD("stringency", "", PV_U8, (uint32_t)config->beta_delay, COVID_STATES, 1.0f,
        (float)COVID_MOST_LEVEL); // oldest first
#undef ADD
    spec->save_bytes = sizeof(covid_env);
}

int covid_describe(const pv_context* context, pv_spec* spec, char* text) {
    const covid_config* config = covid_config_of(context);
    int code = check_config(config, text);
    if (!code)
        code = check_params(context, text);
    if (code)
        return code;
    describe_rows(config, spec);
    describe_state(config, spec);
    static const char* const names[] = {
        "deaths",         "unemployment",  "subsidies",    "stringency",     "vaccinated",
        "social_welfare", "states_return", "health_index", "economic_index", "illegal_actions"};
    for (uint32_t i = 0; i < COUNT(names); i++)
        strcpy(spec->record_names[spec->record_count++], names[i]);
    strcpy(spec->counter_names[spec->counter_count++], "illegal_actions");
    spec->records_per_turn = 2;
    return PV_OK;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// A day of covid, in the order of [T] (see covid.h): measures, subsidy, vaccines, infections,
// unemployment, production, rewards.
#include "covid.h"
#include "curves.h"

#define EACH_LANE(i) PV_APART for (uint32_t i = 0; i < COVID_LANES; i++)

// The results of a day that rewards depend on.
typedef struct covid_today {
    double change[COVID_LANES]; // of stringency
    double deaths[COVID_LANES];
    double
        share[COVID_LANES]; // production with subsidies / a state's largest production without them
    double subsidy_usd;     // paid to all states
    double all_deaths, production; // sums over the states
} covid_today;

// Adds up a lane array, in four parts, in this order on every machine.
PV_INLINE double sum_of(const double* values) {
    double part[4] = {0.0, 0.0, 0.0, 0.0};
    for (uint32_t i = 0; i < COVID_LANES; i += 4) {
        for (uint32_t k = 0; k < 4; k++)
            part[k] += values[i + k];
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
}

// Applies measures: an action of 1 to 10 sets the stringency, 0 keeps it. A new stringency stays
// for action_cooldown_period days; an action in that time counts as 0, and is recorded as illegal.
PV_INLINE void set_measures(const covid_config* config,
                            covid_env* env,
                            const int32_t* actions,
                            covid_today* today) {
    int32_t asked[COVID_LANES] = {0}, illegal = 0;
    memcpy(asked, actions, COVID_STATES * sizeof(int32_t));
    const int32_t now = env->time, cooldown = config->action_cooldown_period;
    EACH_LANE(s) {
        const int32_t may = env->until[s] < now, level = env->level[s];
        const int32_t set = may & (asked[s] != 0), to = set ? asked[s] : level;
        illegal += !may & (asked[s] != 0);
        env->until[s] += may ? (set ? cooldown : 1) : 0;
        env->level[s] = to;
        today->change[s] = (double)(to - level);
    }
    env->illegal += illegal;
    uint8_t* ring = env->ring[(uint32_t)now % COVID_RING];
    EACH_LANE(s) ring[s] = (uint8_t)env->level[s];
}

// Susceptible, infected and recovered people (Kermack and McKendrick, "A Contribution to the
// Mathematical Theory of Epidemics", 1927), by Euler's method with a step of a day, and vaccination
// of the susceptible, as in [T], epidemiology model. Transmission falls linearly with the
// stringency of beta_delay days ago, `in_force`. The dead are a share of those who recover
// unvaccinated.
PV_INLINE void infect(const covid_table* table,
                      covid_env* env,
                      const uint8_t* in_force,
                      int delivery,
                      covid_today* today) {
    const double recovery = table->per_day_sick, death_rate = table->numbers.death_rate,
                 delivered = delivery ? 1.0 : 0.0;
    double* restrict susceptible = env->susceptible;
    double* restrict infected = env->infected;
    double* restrict recovered = env->recovered;
    double* restrict vaccinated = env->vaccinated;
    double* restrict dead = env->dead;
    EACH_LANE(s) {
        const double beta = table->intercept[s] + table->slope[s] * (double)in_force[s];
        const double doses = table->doses[s] * delivered, left = susceptible[s];
        double immune = doses / (left + 1e-10);
        immune = immune < 1.0 ? immune : 1.0;
        const double shots = doses < left ? doses : left;
        const double fewer =
            -beta * (left * table->per_person[s]) * infected[s] * (1.0 - immune) - shots;
        const double more = infected[s] * recovery + shots;
        const double s_next = left + fewer, i_next = infected[s] + (-fewer - more);
        susceptible[s] = s_next > 0.0 ? s_next : 0.0;
        infected[s] = i_next > 0.0 ? i_next : 0.0;
        recovered[s] = recovered[s] + more;
        vaccinated[s] = vaccinated[s] + shots;
        const double unprotected = recovered[s] - vaccinated[s],
                     died = death_rate * (unprotected > 0.0 ? unprotected : 0.0);
        today->deaths[s] = died - dead[s];
        dead[s] = died;
    }
}

// Unemployment, [T], economic model: softplus of the weighted changes of stringency of the last 600
// days, each decayed by exp(-age / lambda) for five lambdas. The sums are updated from those of the
// day before: they decay by a day, lose the change that is now 600 days old, and gain today's.
// `old` and `older` are the days around that change; episodes have at most 600 days, so both are
// days of the data. Agrees with the sum of 600 terms to 4e-14.
PV_INLINE void hire(const covid_table* table,
                    covid_env* env,
                    const uint8_t* old,
                    const uint8_t* older,
                    const covid_today* today) {
    double sum[COVID_LANES] = {0.0};
    for (uint32_t f = 0; f < COVID_FILTERS; f++) {
        const double decay = table->decay[f], forget = table->forget[f];
        double* restrict filter = env->filters[f];
        EACH_LANE(s) {
            const double gone = (double)((int32_t)old[s] - (int32_t)older[s]);
            filter[s] = (filter[s] * decay - forget * gone) + today->change[s];
            sum[s] = sum[s] + table->weights[f][s] * filter[s];
        }
    }
    EACH_LANE(s) {
        const double x = sum[s], soft = covid_log(1.0 + covid_exp(x));
        env->unemployed[s] = ((x > 20.0 ? x : soft) + table->bias[s]) * table->per_percent[s];
    }
}

// Production of those who work, and the subsidy, USD. [T], economic model.
PV_INLINE void produce(const covid_table* table, covid_env* env, covid_today* today) {
    const double level = env->subsidy_level,
                 too_sick = table->numbers.infection_too_sick_to_work_rate;
    const double share = table->numbers.pop_between_age_18_65;
    double subsidy[COVID_LANES];
    EACH_LANE(s) {
        const double missing =
            share * (too_sick * env->infected[s] + env->dead[s]) + env->unemployed[s];
        const double working = table->workforce[s] - missing;
        subsidy[s] = level * table->subsidy[s];
        env->production[s] = (working > 0.0 ? working : 0.0) * table->daily + subsidy[s];
        today->share[s] = env->production[s] * table->per_production[s];
    }
    today->subsidy_usd = sum_of(subsidy);
    today->all_deaths = sum_of(today->deaths);
    today->production = sum_of(env->production);
}

// Returns the utility with constant relative risk aversion (Arrow 1965, Pratt 1964) of a share of
// the usual production, per year. per: 1 / exponent; 0 for an exponent of 0, where the utility is
// the logarithm.
PV_INLINE double utility(double share, double exponent, double per) {
    double x = share < 0.1 ? 0.1 : share;
    x = x > 3.0 ? 3.0 : x;
    const double logarithm = covid_log(x), power = (covid_exp(exponent * logarithm) - 1.0) * per;
    return (1.0 + (per != 0.0 ? power : logarithm)) * (1.0 / COVID_YEAR);
}

// Computes the rewards of the states, [T], social welfare: both indices, scaled and weighted.
PV_INLINE void reward_states(const covid_table* table, const covid_today* today, double* rewards) {
    const covid_scale* scale = &table->scale;
    EACH_LANE(s) {
        const double health = -today->deaths[s] * table->deaths_per[s];
        const double economy = utility(today->share[s], scale->exponent[s], scale->per_exponent[s]);
        rewards[s] = (health * scale->health_weight[s] + scale->health_offset[s]) +
                     (economy * scale->economic_weight[s] + scale->economic_offset[s]);
    }
}

// Returns the planner's reward: that of the whole country, which pays for the subsidies with
// interest.
static double reward_planner(const covid_table* table, covid_env* env, const covid_today* today) {
    const covid_planner_scale* planner = &table->planner;
    const covid_taste* taste = &planner->taste;
    const double exponent = 1.0 - taste->eta,
                 share = (today->production - planner->cost_factor * today->subsidy_usd);
    const double raw_health = -today->all_deaths * planner->deaths_per;
    const double raw_economy =
        utility(share * planner->production_per, exponent, exponent != 0.0 ? 1.0 / exponent : 0.0);
    const double health = (raw_health - taste->health_min) * planner->health_per;
    const double economy = (raw_economy - taste->economic_min) * planner->economic_per;
    env->tally.health += health;
    env->tally.economy += economy;
    return health * planner->health_weight + economy * planner->economic_weight;
}

static void add_up(const covid_table* table,
                   covid_env* env,
                   const covid_today* today,
                   const double* rewards) {
    int32_t levels = 0;
    for (uint32_t s = 0; s < COVID_STATES; s++)
        levels += env->level[s];
    env->tally.states_return += sum_of(rewards) * (1.0 / COVID_STATES);
    env->tally.unemployed += sum_of(env->unemployed) / table->people;
    env->tally.subsidies += today->subsidy_usd;
    env->tally.stringency += levels * (1.0 / COVID_STATES);
}

int covid_planner_may_act(const covid_config* config, const covid_env* env) {
    return env->time % config->subsidy_interval == 0;
}

PV_CLONES float covid_day(const covid_table* table,
                          const covid_config* config,
                          covid_env* env,
                          const int32_t* actions,
                          int32_t planner,
                          float* rewards) {
    covid_today today;
    double paid[COVID_LANES];
    const uint8_t* in_force =
        covid_in_force(env, config); // of yesterday's time: beta_delay days before today
    if (covid_planner_may_act(config, env))
        env->subsidy_level = planner;
    else
        env->illegal += planner != 0;
    env->time++;
    const int delivery =
        env->time >= config->vaccine_delivery_start && env->time % config->delivery_interval == 0;
    set_measures(config, env, actions, &today);
    infect(table, env, in_force, delivery, &today);
    hire(table, env, table->before[env->time], table->before[env->time - 1], &today);
    produce(table, env, &today);
    reward_states(table, &today, paid);
    for (uint32_t s = 0; s < COVID_STATES; s++)
        rewards[s] = (float)paid[s];
    const double reward = reward_planner(table, env, &today);
    add_up(table, env, &today, paid);
    env->tally.planner_return += reward;
    return (float)reward;
}

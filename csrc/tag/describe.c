// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// tag_continuous: its settings with their bounds, and what its rows, records and readable state
// hold.
#include "continuous.h"

#include <math.h>
#include <string.h>

#define FIELDS(X) \
    X(num_taggers, PV_I32, 1, 16384) \
    X(num_runners, PV_I32, 1, 16384) \
    X(grid_length, PV_F32, 1e-3, 1e6) \
    X(episode_length, PV_I32, 1, 10000000) \
    X(max_speed, PV_F32, 0, 1e6) \
    X(skill_level_runner, PV_F32, 0, 1e3) \
    X(skill_level_tagger, PV_F32, 0, 1e3) \
    X(max_acceleration, PV_F32, -1e6, 1e6) \
    X(min_acceleration, PV_F32, -1e6, 1e6) \
    X(max_turn, PV_F32, -1e3, 1e3) \
    X(min_turn, PV_F32, -1e3, 1e3) \
    X(num_acceleration_levels, PV_I32, 1, 10000) \
    X(num_turn_levels, PV_I32, 1, 10000) \
    X(edge_hit_penalty, PV_F32, -1e9, 0) \
    X(use_full_observation, PV_I32, 0, 1) \
    X(num_other_agents_observed, PV_I32, 1, 32768) \
    X(tagging_distance, PV_F32, 0, 1) \
    X(tag_reward_for_tagger, PV_F32, 0, 1e9) \
    X(step_penalty_for_tagger, PV_F32, -1e9, 0) \
    X(tag_penalty_for_runner, PV_F32, -1e9, 0) \
    X(step_reward_for_runner, PV_F32, 0, 1e9) \
    X(end_of_game_reward_for_runner, PV_F32, 0, 1e9) \
    X(runner_exits_game_after_tagged, PV_I32, 0, 1) \
    X(random_starts, PV_I32, 0, 1)

const pv_config_field tag_config_fields[] = {
#define FIELD(name, kind, low, high) {#name, kind, offsetof(tag_config, name)},
    FIELDS(FIELD)
#undef FIELD
};
const uint32_t tag_config_count = sizeof tag_config_fields / sizeof tag_config_fields[0];

static const double bounds[][2] = {
#define FIELD(name, kind, low, high) {low, high},
    FIELDS(FIELD)
#undef FIELD
};

static double value_of(const tag_config* config, const pv_config_field* field) {
    const uint8_t* at = (const uint8_t*)config + field->offset;
    float real;
    int32_t whole;
    memcpy(&real, at, sizeof real);
    memcpy(&whole, at, sizeof whole);
    return field->kind == PV_F32 ? (double)real : (double)whole;
}

static int check(const tag_config* config, char* text) {
    for (uint32_t i = 0; i < tag_config_count; i++) {
        double value = value_of(config, &tag_config_fields[i]);
        if (!(value >= bounds[i][0] && value <= bounds[i][1])) // or NaN
            return pv_describe_error(text, PV_ERROR_CONFIG, "%s is %.9g: use %.9g to %.9g",
                                     tag_config_fields[i].name, value, bounds[i][0], bounds[i][1]);
    }
    uint32_t agents = tag_agents(config);
    if ((uint32_t)config->num_other_agents_observed > agents)
        return pv_describe_error(
            text, PV_ERROR_CONFIG,
            "num_other_agents_observed is %d: use 1 to %u, the number of taggers and runners",
            config->num_other_agents_observed, agents);
    return PV_OK;
}

// Params come from Python, which has checked users' values; these checks keep reads within bounds.
static int check_params(const pv_context* context, char* text) {
    const tag_config* config = tag_config_of(context);
    uint64_t agents = tag_agents(config), found;

    const struct {
        const char* name;
        uint32_t dtype;
        uint64_t count;
        float low, high;
    } wanted[] = {
        {"start_x", PV_F32, agents, 0.0f, config->grid_length},
        {"start_y", PV_F32, agents, 0.0f, config->grid_length},
        {"start_direction", PV_F32, agents, 0.0f, TAG_TWO_PI},
        {"acceleration_changes", PV_F32, (uint64_t)config->num_acceleration_levels + 1, -1e6f,
         1e6f},
        {"turn_changes", PV_F32, (uint64_t)config->num_turn_levels + 1, -1e3f, 1e3f},
        {"margin", PV_F32, 1, 0.0f, 2e6f},
    };

    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const float* values =
            pv_params_find(context->params, wanted[i].name, wanted[i].dtype, &found);
        if (found != wanted[i].count)
            return pv_describe_error(text, PV_ERROR_CONFIG, "%s has %llu entries: give %llu",
                                     wanted[i].name, (unsigned long long)found,
                                     (unsigned long long)wanted[i].count);
        for (uint64_t k = 0; k < found; k++) {
            if (!(values[k] >= wanted[i].low && values[k] <= wanted[i].high))
                return pv_describe_error(text, PV_ERROR_CONFIG,
                                         "entry %llu of %s is %.9g: use %.9g to %.9g",
                                         (unsigned long long)k, wanted[i].name, (double)values[k],
                                         (double)wanted[i].low, (double)wanted[i].high);
        }
    }
    return PV_OK;
}

static int check_types(const pv_context* context, char* text) {
    const tag_config* config = tag_config_of(context);
    uint64_t agents = tag_agents(config), found, taggers = 0;
    const uint8_t* types = pv_params_find(context->params, "types", PV_U8, &found);
    if (found != agents)
        return pv_describe_error(text, PV_ERROR_CONFIG,
                                 "types has %llu entries: give one per agent",
                                 (unsigned long long)found);
    for (uint64_t i = 0; i < agents; i++)
        taggers += types[i] == TAG_TAGGER;
    if (taggers != (uint64_t)config->num_taggers)
        return pv_describe_error(text, PV_ERROR_CONFIG, "types has %llu taggers: num_taggers is %d",
                                 (unsigned long long)taggers, config->num_taggers);
    const double* rewards = pv_params_find(context->params, "rewards", PV_F64, &found);
    if (found != sizeof(tag_rewards) / sizeof(double))
        return pv_describe_error(text, PV_ERROR_CONFIG, "rewards has %llu entries: give 6",
                                 (unsigned long long)found);
    for (uint64_t i = 0; i < found; i++) {
        if (!(fabs(rewards[i]) <= 1e9))
            return pv_describe_error(text, PV_ERROR_CONFIG,
                                     "entry %llu of rewards is %g: use -1e9 to 1e9",
                                     (unsigned long long)i, rewards[i]);
    }
    return PV_OK;
}

static void add(pv_group_spec* group,
                const char* name,
                const char* unit,
                uint32_t count,
                float low,
                float high,
                float scale) {
    pv_add_field(group->fields, &group->field_count, &group->observation_bytes, name, unit, PV_F32,
                 count, 0, low, high, scale);
}

static void describe_rows(const tag_config* config, pv_group_spec* group) {
    uint32_t others = tag_others(config);
    float skill = fmaxf(config->skill_level_runner, config->skill_level_tagger),
          slack = 1.0001f; // rounding
    float diagonal = config->grid_length * 1.41421356f, speed = config->max_speed + 1e-10f;
    strcpy(group->name, "agents");
    group->agents = tag_agents(config);
    add(group, "x", "", others, -0.7072f, 0.7072f, diagonal);
    add(group, "y", "", others, -0.7072f, 0.7072f, diagonal);
    add(group, "speed", "", others, -skill * slack, skill * slack, speed);
    add(group, "acceleration", "", others, -2.0f * skill * slack, 2.0f * skill * slack, speed);
    add(group, "direction", "rad", others, -slack, slack, TAG_TWO_PI);
    add(group, "agent_type", "", others, 0.0f, 1.0f, 1.0f);
    add(group, "still_in_the_game", "", others, 0.0f, 1.0f, 1.0f);
    add(group, "time", "steps", 1, 0.0f, 1.0f, (float)config->episode_length);
    group->action_kind = PV_MULTI_DISCRETE;
    group->action_dims = 2;
    group->action_sizes[0] = (uint32_t)config->num_acceleration_levels + 1;
    group->action_sizes[1] = (uint32_t)config->num_turn_levels + 1;
}

static void add_state(pv_spec* spec,
                      const char* name,
                      const char* unit,
                      uint32_t dtype,
                      uint32_t count,
                      float low,
                      float high) {
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, name, unit, dtype,
                 count, 0, low, high, 1.0f);
}

static void describe_state(const tag_config* config, pv_spec* spec) {
    uint32_t agents = tag_agents(config);
    float cap = config->max_speed * fmaxf(config->skill_level_runner, config->skill_level_tagger);
    add_state(spec, "x", "", PV_F32, agents, 0.0f, config->grid_length);
    add_state(spec, "y", "", PV_F32, agents, 0.0f, config->grid_length);
    add_state(spec, "speed", "", PV_F32, agents, 0.0f, cap);
    add_state(spec, "direction", "rad", PV_F32, agents, 0.0f, TAG_TWO_PI);
    add_state(spec, "acceleration", "", PV_F32, agents, -cap, cap);
    add_state(spec, "still_in_the_game", "", PV_I32, agents, 0.0f, 1.0f);
    add_state(spec, "just_tagged", "", PV_I32, agents, 0.0f,
              1.0f); // left the game in the last step: rows still show it
    add_state(spec, "time", "steps", PV_I32, 1, 0.0f, (float)config->episode_length);
    spec->save_bytes = TAG_SAVED_HEAD + 7 * 4 * agents;
}

int tag_continuous_describe(const pv_context* context, pv_spec* spec, char* text) {
    const tag_config* config = tag_config_of(context);
    int code = check(config, text);
    if (!code)
        code = check_params(context, text);
    if (!code)
        code = check_types(context, text);
    if (code)
        return code;
    spec->group_count = 1;
    describe_rows(config, &spec->groups[0]);
    describe_state(config, spec);
    static const char* const names[] = {"tags", "runners_left", "survival", "agents"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        strcpy(spec->record_names[spec->record_count++], names[i]);
    spec->records_per_turn = 2;
    return PV_OK;
}

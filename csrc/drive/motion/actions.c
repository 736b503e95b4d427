// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Action spaces: the axes of each dynamics model, and the value of a row's action on each axis. A
// discrete action is an index into all combinations of the axes' values, with the last axis varying
// fastest; a multi-discrete one has an index per axis; a continuous one is a Box in the axes'
// units.
//
// Users may set their own values in the params: "action_counts" is the number per axis (0: the
// model's values), and "action_values" lists the values of all axes. drive_env/actions.py writes
// them.
#include "drive/motion/actions.h"

#include "contract/base.h"
#include "contract/env.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"

#include <string.h>

// ---- the models' own values ----

#define COUNT(values) (sizeof(values) / sizeof((values)[0]))
#define NONE NULL, 0

static const float accelerations[] = {-4.0f, -2.667f, -1.333f, 0.0f, 1.333f, 2.667f, 4.0f};
static const float steerings[] = {-1.0f,  -0.833f, -0.667f, -0.5f,  -0.333f, -0.167f, 0.0f,
                                  0.167f, 0.333f,  0.5f,    0.667f, 0.833f,  1.0f};
// GPUDrive's grid covers a full turn (13 values from -pi to pi, rounded).
static const float gpudrive_steerings[] = {-3.142f, -2.618f, -2.094f, -1.571f, -1.047f,
                                           -0.524f, 0.0f,    0.524f,  1.047f,  1.571f,
                                           2.094f,  2.618f,  3.142f};
static const float curvatures[] = {-0.2f,  -0.1f, -0.05f, -0.025f, -0.01f, -0.005f, 0.0f,
                                   0.005f, 0.01f, 0.025f, 0.05f,   0.1f,   0.2f};
// GPUDrive's grids: 20 values from -2 to 2 m and from -3.14 to 3.14 rad, rounded. None of them is
// 0.
static const float shifts[] = {-2.0f,   -1.789f, -1.579f, -1.368f, -1.158f, -0.947f, -0.737f,
                               -0.526f, -0.316f, -0.105f, 0.105f,  0.316f,  0.526f,  0.737f,
                               0.947f,  1.158f,  1.368f,  1.579f,  1.789f,  2.0f};
static const float turns[] = {-3.14f,  -2.809f, -2.479f, -2.148f, -1.818f, -1.487f, -1.157f,
                              -0.826f, -0.496f, -0.165f, 0.165f,  0.496f,  0.826f,  1.157f,
                              1.487f,  1.818f,  2.148f,  2.479f,  2.809f,  3.14f};
// Accelerations that nuPlan's metrics call comfortable; steering angles close to each other around
// 0, where fast cars need them.
static const float car_accelerations[] = {-4.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f};
static const float car_steerings[] = {-0.55f, -0.3f, -0.15f, -0.06f, -0.02f, 0.0f,
                                      0.02f,  0.06f, 0.15f,  0.3f,   0.55f};
static const float long_jerks[] = {-15.0f, -4.0f, 0.0f, 4.0f}, side_jerks[] = {-4.0f, 0.0f, 4.0f};

// In the order of DRIVE_CHOICES_dynamics.
static const pv_drive_model models[] = {
    {"bicycle",
     2,
     {{"acceleration", "m/s^2", -4.0f, 4.0f, accelerations, COUNT(accelerations)},
      {"steering", "rad", -1.0f, 1.0f, steerings, COUNT(steerings)}}},
    {"classic_gpudrive",
     2,
     {{"acceleration", "m/s^2", -4.0f, 4.0f, accelerations, COUNT(accelerations)},
      {"steering", "rad", -1.0f, 1.0f, gpudrive_steerings, COUNT(gpudrive_steerings)}}},
    {"classic_pufferdrive",
     2,
     {{"acceleration", "m/s^2", -4.0f, 4.0f, accelerations, COUNT(accelerations)},
      {"steering", "rad", -1.0f, 1.0f, steerings, COUNT(steerings)}}},
    {"invertible_bicycle",
     2,
     {{"acceleration", "m/s^2", -6.0f, 6.0f, accelerations, COUNT(accelerations)},
      {"curvature", "1/m", -3.0f, 3.0f, curvatures, COUNT(curvatures)}}},
    {"delta_local",
     3,
     {{"dx", "m", -6.0f, 6.0f, shifts, COUNT(shifts)},
      {"dy", "m", -6.0f, 6.0f, shifts, COUNT(shifts)},
      {"dyaw", "rad", -3.14159265f, 3.14159265f, turns, COUNT(turns)}}},
    {"state",
     4,
     {{"x", "m", -1e4f, 1e4f, NONE},
      {"y", "m", -1e4f, 1e4f, NONE},
      {"heading", "rad", -3.14159265f, 3.14159265f, NONE},
      {"speed", "m/s", -100.0f, 100.0f, NONE}}},
    {"jerk",
     2,
     {{"jerk", "m/s^3", -15.0f, 4.0f, long_jerks, COUNT(long_jerks)},
      {"lateral_jerk", "m/s^3", -4.0f, 4.0f, side_jerks, COUNT(side_jerks)}}},
    {"car",
     2,
     {{"acceleration", "m/s^2", -4.0f, 2.0f, car_accelerations, COUNT(car_accelerations)},
      {"steering", "rad", -0.55f, 0.55f, car_steerings, COUNT(car_steerings)}}},
};
_Static_assert(sizeof models / sizeof models[0] == DRIVE_CHOICE_COUNT_dynamics,
               "a model has no axes");
_Static_assert(DRIVE_MAX_AXES* DRIVE_MAX_VALUES <= PV_MAX_AXIS_VALUES,
               "the numbers of all axes do not fit into a group's spec");

const pv_drive_model* pv_drive_models(uint32_t* count) {
    *count = DRIVE_CHOICE_COUNT_dynamics;
    return models;
}

// ---- the axes of a block ----

static int refuse(char* text, const char* what) {
    return pv_describe_error(text, PV_ERROR_CONFIG, "drive: %s", what);
}

// Sets the values of one axis: the user's, or the model's own.
static void fill_axis(const pv_drive_axis* own,
                      const float* given,
                      uint32_t count,
                      drive_axis* out) {
    const float* values = count ? given : own->values;
    out->count = count ? count : own->count;
    out->low = own->low;
    out->high = own->high;
    for (uint32_t i = 0; i < out->count; i++)
        out->values[i] = values[i];
    if (!count)
        return;
    out->low = out->high = given[0];
    for (uint32_t i = 1; i < count; i++) {
        out->low = given[i] < out->low ? given[i] : out->low;
        out->high = given[i] > out->high ? given[i] : out->high;
    }
}

int drive_axes_fill(const pv_context* context, drive_axes* out, char* text) {
    const pv_drive_model* model = &models[drive_config_of(context)->dynamics];
    uint64_t axes = 0, total = 0, taken = 0;
    const uint32_t* counts = pv_params_find(context->params, "action_counts", PV_U32, &axes);
    const float* values = pv_params_find(context->params, "action_values", PV_F32, &total);
    if (counts && axes != model->axis_count)
        return refuse(text, "action_counts must have one number per axis of the model");
    out->count = model->axis_count;
    for (uint32_t i = 0; i < out->count; i++) {
        uint32_t given = counts ? counts[i] : 0;
        if (given > DRIVE_MAX_VALUES || taken + given > total)
            return refuse(text, "action_counts and action_values do not fit each other");
        fill_axis(&model->axes[i], given ? values + taken : NULL, given, &out->axes[i]);
        taken += given;
    }
    return PV_OK;
}

int drive_describe_actions(const pv_context* context, pv_group_spec* group, char* text) {
    static const uint32_t kinds[] = {PV_DISCRETE, PV_MULTI_DISCRETE, PV_CONTINUOUS};
    const pv_drive_config* config = drive_config_of(context);
    drive_axes axes;
    int code = drive_axes_fill(context, &axes, text);
    if (code)
        return code;
    uint64_t product = 1;
    uint32_t values = 0;
    group->action_kind = kinds[config->actions];
    group->action_dims = config->actions == DRIVE_IS_actions_discrete ? 1 : axes.count;
    for (uint32_t i = 0; i < axes.count; i++) {
        product *= axes.axes[i].count;
        if (config->actions == DRIVE_IS_actions_continuous) {
            group->action_low[i] = axes.axes[i].low;
            group->action_high[i] = axes.axes[i].high;
        } else {
            group->action_sizes[i] = group->axis_sizes[i] = axes.axes[i].count;
            memcpy(group->axis_values + values, axes.axes[i].values,
                   axes.axes[i].count * sizeof(float));
            values += axes.axes[i].count;
        }
    }
    if (config->actions == DRIVE_IS_actions_continuous)
        return PV_OK;
    if (!product)
        return pv_describe_error(text, PV_ERROR_CONFIG,
                                 "drive: dynamics=%s has no values to choose from: use "
                                 "actions=continuous, or give action_values",
                                 models[config->dynamics].name);
    group->axis_count = axes.count;
    if (config->actions == DRIVE_IS_actions_multi_discrete)
        return PV_OK;
    if (product > DRIVE_MAX_CHOICES)
        return pv_describe_error(text, PV_ERROR_CONFIG,
                                 "drive: action_values make %llu combinations; a discrete action "
                                 "has at most %d: give fewer, or "
                                 "use actions=multi_discrete",
                                 (unsigned long long)product, DRIVE_MAX_CHOICES);
    group->action_sizes[0] = (uint32_t)product;
    return PV_OK;
}

// ---- a row's action ----

void drive_action_read(const drive_turn* turn, uint32_t row, float* action) {
    const drive_axes* axes = &turn->layout->axes;
    const pv_rows* rows = &turn->block->rows[0];
    const uint64_t at = turn->first_row + row;
    if (turn->config->actions == DRIVE_IS_actions_continuous) {
        memcpy(action, rows->values + at * axes->count, axes->count * sizeof(float));
        return;
    }
    int joint = turn->config->actions == DRIVE_IS_actions_discrete;
    uint32_t left = joint ? (uint32_t)rows->indices[at] : 0;
    for (uint32_t i = axes->count; i-- > 0;) {
        const drive_axis* axis = &axes->axes[i];
        uint32_t index = joint ? left % axis->count : (uint32_t)rows->indices[at * axes->count + i];
        left = joint ? left / axis->count : 0;
        action[i] = axis->values[index];
    }
}

void drive_previous_action(const drive_turn* turn, uint32_t row, float* action) {
    const uint32_t axes = turn->layout->axes.count;
    if (turn->played)
        memcpy(action, turn->played + (size_t)axes * row, axes * sizeof(float));
    else
        drive_action_read(turn, row, action);
}

void drive_action_fit(const pv_drive_config* config, const drive_axes* axes, float* action) {
    for (uint32_t i = 0; i < axes->count; i++) {
        const drive_axis* axis = &axes->axes[i];
        if (config->actions == DRIVE_IS_actions_continuous) {
            action[i] = action[i] < axis->low    ? axis->low
                        : action[i] > axis->high ? axis->high
                                                 : action[i];
            continue;
        }
        float nearest = axis->values[0];
        for (uint32_t n = 1; n < axis->count; n++) {
            float off = axis->values[n] - action[i], least = nearest - action[i];
            if (off * off < least * least)
                nearest = axis->values[n];
        }
        action[i] = nearest;
    }
}

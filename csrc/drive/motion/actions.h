// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What actions mean: the axes of each model, the values that discrete actions choose from.
#pragma once

#include "contract/env.h"
#include "drive/state.h"
#include "drive/tables.h"

/* [cffi] */
// One number of a model's action.
typedef struct pv_drive_axis {
    const char* name;
    const char* unit;
    float low, high;     // bounds of a continuous action
    const float* values; // what discrete actions choose from; NULL: the axis has none
    uint32_t count;
} pv_drive_axis;

typedef struct pv_drive_model {
    const char* name; // of the setting dynamics
    uint32_t axis_count;
    pv_drive_axis axes[4];
} pv_drive_model;

// Returns the models in the order of the setting dynamics; `count` receives their number.
const pv_drive_model* pv_drive_models(uint32_t* count);
/* [/cffi] */

// Fills the axes of the configured model, with the user's values where the params have some.
// Returns an error code with a text.
int drive_axes_fill(const pv_context* context, drive_axes* out, char* text);
int drive_describe_actions(const pv_context* context, pv_group_spec* group, char* text);
// Reads the action of a row, on the axes of the model.
void drive_action_read(const drive_turn* turn, uint32_t row, float* action);
// Reads the action that moved the row in this step.
void drive_previous_action(const drive_turn* turn, uint32_t row, float* action);
// Changes an action to the nearest one of the action space: clipped, or the nearest value.
void drive_action_fit(const pv_drive_config* config, const drive_axes* axes, float* action);

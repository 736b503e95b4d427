// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Expert actions: those by which a model follows an object's log.
#pragma once

#include "contract/env.h"
#include "drive/motion/models.h"
#include "drive/scene/scene.h"
#include "drive/tables.h"

/* [cffi] */
// Moves one body by one step. motion: x, y, heading, speed, acceleration, lateral acceleration,
// steering angle and length, in m, s and rad, updated in place except for the length. type:
// PV_VEHICLE...; action: on the axes of the config's model.
void pv_drive_move(
    const void* config, float dt_s, int32_t type, float* motion, const float* action);

// Rolls one object of a scene along its log, from frame `first` on, with the model and the action
// space of a config. Writes a row of 4 numbers per frame: the actions (in row t the one that leads
// to frame t + 1; the last row is not written) and the poses, x, y, heading and speed, from `first`
// to the last frame. PV_ERROR_STATE: the object does not exist in frame `first`.
int pv_drive_expert_actions(const pv_context* context,
                            uint32_t scene_index,
                            uint32_t object_index,
                            uint32_t first,
                            float* actions,
                            float* poses);
/* [/cffi] */

// Computes the action that leads to the object's logged pose at time t, interpolated in a gap;
// zeros where the log has ended.
void drive_expert_action(const drive_mover* mover,
                         const drive_scene* scene,
                         const pv_object* object,
                         uint32_t t,
                         const drive_motion* body,
                         float* action);
// Returns the speed with which an expert starts at time t.
float drive_expert_start(const pv_drive_config* config,
                         const drive_scene* scene,
                         const pv_object* object,
                         uint32_t t);

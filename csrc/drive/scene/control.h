// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Which objects of a scene are agents.
#pragma once

#include "contract/env.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"

// Returns whether the setting `control` makes an object an agent.
int drive_object_controlled(const pv_context* context,
                            const drive_scene* scene,
                            const pv_object* object);
// Counts the agents of a scene, which may be more than an env has rows.
uint32_t drive_scene_agents(const pv_context* context, uint32_t scene_index);
// Returns whether an object starts within the goal radius of its goal. It can then never reach the
// goal, since it would do so without driving.
int drive_starts_at_goal(const pv_drive_config* config,
                         const pv_object* object,
                         const pv_frame* start);
// Draws, when the slot's scene starts, which of its agents are traffic that no policy drives.
void drive_draw_traffic(const drive_turn* turn);

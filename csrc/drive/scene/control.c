// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Decides which objects of a scene are agents (setting `control`). An agent is in the scene when it
// starts, in frame init_step, and stays an agent for the whole episode; objects whose log begins
// later never are. A share of the vehicles among them (traffic_idm, traffic_log) is traffic for an
// episode: IDM or the log drives it, and its row is empty.
#include "drive/scene/control.h"

#include "contract/base.h"
#include "contract/env.h"
#include "contract/rng.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"

#define MOVE_M 2.0f               // as MOVE_M in drive_env/scenes/schema.py
#define TRAFFIC_DRAWS 0x20000000u // lower draw numbers are the bundle's

static float start_to_goal_square(const pv_object* object, const pv_frame* start) {
    float dx = object->goal_x_m - start->x_m, dy = object->goal_y_m - start->y_m;
    return dx * dx + dy * dy;
}

int drive_starts_at_goal(const pv_drive_config* config,
                         const pv_object* object,
                         const pv_frame* start) {
    return start_to_goal_square(object, start) <= config->goal_radius_m * config->goal_radius_m;
}

// Returns whether the object's goal is at least 2 m from its start. The flag was computed in double
// precision, for frame 0.
static int moves(const pv_drive_config* config, const pv_object* object, const pv_frame* start) {
    if (!config->init_step)
        return (object->flags & PV_OBJECT_MOVES) != 0;
    return start_to_goal_square(object, start) >= MOVE_M * MOVE_M;
}

static int is_listed(const pv_context* context, int32_t id) {
    uint64_t count = 0;
    const int32_t* ids = pv_params_find(context->params, "control_ids", PV_I32, &count);
    for (uint64_t i = 0; i < count; i++) {
        if (ids[i] == id)
            return 1;
    }
    return 0;
}

int drive_object_controlled(const pv_context* context,
                            const drive_scene* scene,
                            const pv_object* object) {
    const pv_drive_config* config = drive_config_of(context);
    const pv_frame* start = drive_frame(scene, object, (uint32_t)config->init_step);
    if (!start || object->type == PV_OTHER)
        return 0;
    if (!config->max_steps && (uint32_t)config->init_step + 1 >= scene->head->frame_count)
        return 0; // no step is left
    switch (config->control) {
    case DRIVE_IS_control_moving:
        if (object->type != PV_VEHICLE || !moves(config, object, start) ||
            (object->flags & PV_OBJECT_EXPERT))
            return 0;
        break;
    case DRIVE_IS_control_valid:
        if (object->type != PV_VEHICLE)
            return 0;
        break;
    case DRIVE_IS_control_all: break;
    case DRIVE_IS_control_predict: return (object->flags & PV_OBJECT_TO_PREDICT) != 0;
    case DRIVE_IS_control_sdc: return (object->flags & PV_OBJECT_SDC) != 0;
    default: return is_listed(context, object->id);
    }
    return !drive_starts_at_goal(config, object, start);
}

uint32_t drive_scene_agents(const pv_context* context, uint32_t scene_index) {
    drive_scene scene;
    uint32_t agents = 0;
    drive_scene_open(context->data, scene_index, &scene);
    for (uint32_t o = 0; o < scene.head->object_count; o++)
        agents += (uint32_t)drive_object_controlled(context, &scene, &scene.objects[o]);
    return agents;
}

// Draws are keyed like those of the rewards: by the bundle's seed, its number, the turn in which
// the episode starts, and the row. If no agent is left to the policy, it gets the one with the
// highest draw.
void drive_draw_traffic(const drive_turn* turn) {
    const drive_env* env = turn->state;
    const drive_agents* agents = &turn->agents;
    const uint64_t seed = drive_bundle_seed(env);
    const float idm = turn->config->traffic_idm, both = idm + turn->config->traffic_log;
    const uint32_t first = turn->slot->row, end = first + turn->slot->count;
    uint32_t left = 0, last = first;
    float most = -1.0f;
    if (!turn->layout->traffic)
        return;
    for (uint32_t row = first; row < end; row++) {
        const float share = pv_rng_f32(seed, env->episode, env->step, TRAFFIC_DRAWS + row);
        if (share >= both || turn->scene.objects[agents->object[row]].type != PV_VEHICLE) {
            left++;
            continue;
        }
        agents->flags[row] =
            (agents->flags[row] & ~DRIVE_ACTIVE) | (share < idm ? DRIVE_BY_IDM : DRIVE_BY_LOG);
        if (share > most)
            most = share, last = row;
    }
    if (!left)
        agents->flags[last] = (agents->flags[last] & ~DRIVE_TRAFFIC) | DRIVE_ACTIVE;
}

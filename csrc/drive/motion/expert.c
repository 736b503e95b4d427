// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Expert actions: the actions by which a model follows an object's log (inverse.c), as the env
// plays them with expert_actions, and rolled out here for Python, without an env. Runs in the
// learner.
#include "drive/motion/expert.h"

#include "contract/base.h"
#include "contract/env.h"
#include "drive/motion/actions.h"
#include "drive/motion/inverse.h"
#include "drive/motion/models.h"
#include "drive/motion/walkers.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"
#include "envs/kernels.h"

#include <string.h>

#define SPEED_FRAMES 2 // speeds of the log are means over this many steps on both sides

// Computes the pose of the log at time t, interpolated where the log has a gap. Returns 0 before
// its first frame and after its last.
static int logged_pose(const drive_scene* scene,
                       const pv_object* object,
                       uint32_t t,
                       drive_aim* out) {
    const uint32_t end = (uint32_t)object->frame_first + object->frame_count;
    uint32_t before = t, after = t;
    if (t < object->frame_first || t >= end)
        return 0;
    while (before > object->frame_first && !drive_frame(scene, object, before))
        before--;
    while (after + 1 < end && !drive_frame(scene, object, after))
        after++;
    const pv_frame *a = drive_frame(scene, object, before), *b = drive_frame(scene, object, after);
    if (!a || !b)
        return 0;
    const float share = after > before ? (float)(t - before) / (float)(after - before) : 0.0f;
    const float heading = (float)a->heading * HEADING_UNIT;
    out->x = a->x_m + share * (b->x_m - a->x_m);
    out->y = a->y_m + share * (b->y_m - a->y_m);
    out->heading =
        drive_wrap(heading + share * drive_wrap((float)b->heading * HEADING_UNIT - heading));
    out->speed = (float)a->speed * SPEED_UNIT;
    return 1;
}

// Returns the speed at which the log's positions change around time t, along the later heading: the
// logged speeds may differ from it.
static float logged_speed(const drive_scene* scene,
                          const pv_object* object,
                          uint32_t t,
                          const drive_aim* at) {
    drive_aim before = *at, after = *at;
    float sine, cosine;
    int steps = 0;
    for (uint32_t i = 1; i <= SPEED_FRAMES && t >= i && logged_pose(scene, object, t - i, &before);
         i++)
        steps++;
    for (uint32_t i = 1; i <= SPEED_FRAMES && logged_pose(scene, object, t + i, &after); i++)
        steps++;
    if (!steps)
        return at->speed;
    pv_sincos(after.heading, &sine, &cosine);
    return ((after.x - before.x) * cosine + (after.y - before.y) * sine) /
           ((float)steps * scene->head->dt_s);
}

float drive_expert_start(const pv_drive_config* config,
                         const drive_scene* scene,
                         const pv_object* object,
                         uint32_t t) {
    drive_aim at;
    if (!logged_pose(scene, object, t, &at))
        return 0.0f;
    int poses = config->dynamics == DRIVE_IS_dynamics_delta_local ||
                config->dynamics == DRIVE_IS_dynamics_state;
    return poses ? at.speed : logged_speed(scene, object, t, &at);
}

void drive_expert_action(const drive_mover* mover,
                         const drive_scene* scene,
                         const pv_object* object,
                         uint32_t t,
                         const drive_motion* body,
                         float* action) {
    drive_aim aim, before;
    memset(action, 0, DRIVE_MAX_AXES * sizeof(float));
    if (!logged_pose(scene, object, t, &aim))
        return;
    aim.turn = t && logged_pose(scene, object, t - 1, &before)
                   ? drive_wrap(aim.heading - before.heading)
                   : 0.0f;
    if (mover->model != DRIVE_IS_dynamics_state)
        aim.speed = logged_speed(scene, object, t, &aim);
    if (object->type == PV_VEHICLE)
        drive_inverse(mover, body, &aim, action);
    else
        drive_inverse_walk(mover, object->type, body, &aim, action);
}

void pv_drive_move(
    const void* config, float dt_s, int32_t type, float* motion, const float* action) {
    const drive_mover mover = drive_mover_of((const pv_drive_config*)config, dt_s);
    drive_motion body = {.x = motion[0],
                         .y = motion[1],
                         .heading = motion[2],
                         .speed = motion[3],
                         .acceleration = motion[4],
                         .lateral = motion[5],
                         .steering = motion[6],
                         .length = motion[7]};
    pv_sincos(body.heading, &body.sine, &body.cosine);
    drive_move_any(&mover, type, &body, action);
    const float moved[] = {body.x,       body.y,       body.heading, body.speed, body.acceleration,
                           body.lateral, body.steering};
    memcpy(motion, moved, sizeof moved);
}

int pv_drive_expert_actions(const pv_context* context,
                            uint32_t scene_index,
                            uint32_t object_index,
                            uint32_t first,
                            float* actions,
                            float* poses) {
    const pv_drive_config* config = drive_config_of(context);
    char text[PV_ERROR_TEXT];
    drive_axes axes;
    drive_scene scene;
    if (drive_axes_fill(context, &axes, text))
        return PV_ERROR_CONFIG;
    drive_scene_open(context->data, scene_index, &scene);
    const pv_object* object = &scene.objects[object_index];
    const pv_frame* start = drive_frame(&scene, object, first);
    if (!start)
        return PV_ERROR_STATE;
    const drive_mover mover = drive_mover_of(config, scene.head->dt_s);
    drive_motion body = {.x = start->x_m,
                         .y = start->y_m,
                         .heading = (float)start->heading * HEADING_UNIT,
                         .speed = drive_expert_start(config, &scene, object, first),
                         .length = object->length_m};
    for (uint32_t t = first; t < scene.head->frame_count;
         t++, poses += 4, actions += DRIVE_MAX_AXES) {
        const float pose[4] = {body.x, body.y, body.heading, body.speed};
        memcpy(poses, pose, sizeof pose);
        if (t + 1 == scene.head->frame_count)
            break;
        pv_sincos(body.heading, &body.sine, &body.cosine);
        drive_expert_action(&mover, &scene, object, t + 1, &body, actions);
        drive_action_fit(config, &axes, actions);
        drive_move_any(&mover, object->type, &body, actions);
    }
    return PV_OK;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Pedestrians and cyclists have separate dynamics (models.h): unicycles (LaValle, Planning
// Algorithms, 2006, section 13.1.2) with limits. Their action space is that of cars: an
// acceleration, and a steering angle that means something different to each.
//
//   pedestrian   turns to the direction heading + steering within 0.5 s, also while it stands, and
//                walks at up to 3 m/s. The 0.5 s and the largest acceleration, from standing to
//                1.34 m/s in that time, are those of Helbing and Molnar, Social force model for
//                pedestrian dynamics, 1995.
//   cyclist      curvature = tan(steering) / wheelbase, limited by a lean of 19 degrees to
//                g tan(lean) / v^2.
//
// In models without a steering angle, actions are converted. A curvature k is the angle k * 1 m for
// pedestrians and the curvature itself for cyclists; a jerk is the acceleration that it produces in
// 0.5 s, a lateral jerk a steering angle of 0.25 rad per m/s^3. Models that set poses set those of
// pedestrians and cyclists too.
#include "drive/motion/walkers.h"

#include "drive/motion/inverse.h"
#include "drive/motion/models.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/tables.h"
#include "envs/kernels.h"

#define TURN_S 0.5f
#define PEDESTRIAN_MPS 3.0f
#define PEDESTRIAN_MPS2 2.7f
#define CYCLIST_MPS 12.0f
#define CYCLIST_MPS2 1.5f
#define CYCLIST_BRAKES_MPS2 3.0f
#define CYCLIST_LATERAL_MPS2 3.4f
#define CYCLIST_STEERING 0.6f // rad
#define JERK_S 0.5f
#define JERK_STEERING 0.25f // rad per m/s^3
#define GAP_M 1e-3f         // steps shorter than this say nothing about a curvature

static float wheelbase_of(const drive_mover* mover, const drive_motion* body) {
    return mover->wheelbase_factor * body->length;
}

// Computes what an action means to a walker: acceleration and steering angle.
static void wish_of(const drive_mover* mover,
                    int type,
                    const drive_motion* body,
                    const float* action,
                    float* wish) {
    wish[0] = action[0];
    wish[1] = action[1];
    if (mover->model == DRIVE_IS_dynamics_jerk) {
        wish[0] = JERK_S * action[0];
        wish[1] = JERK_STEERING * action[1];
    } else if (mover->model == DRIVE_IS_dynamics_invertible_bicycle && type == PV_CYCLIST) {
        wish[1] = drive_atan(action[1] * wheelbase_of(mover, body));
    }
}

static void pedestrian(const drive_mover* mover, drive_motion* body, const float* wish) {
    float a = drive_clamp(wish[0], -PEDESTRIAN_MPS2, PEDESTRIAN_MPS2);
    float v = drive_clamp(body->speed + a * mover->dt_s, 0.0f, PEDESTRIAN_MPS);
    float turn = drive_clamp(wish[1], -DRIVE_PI, DRIVE_PI) * (mover->dt_s / TURN_S);
    body->x += v * mover->dt_s * body->cosine;
    body->y += v * mover->dt_s * body->sine;
    body->heading = drive_wrap(body->heading + turn);
    body->lateral = v * turn / mover->dt_s;
    body->acceleration = (v - body->speed) / mover->dt_s;
    body->speed = v;
}

static void cyclist(const drive_mover* mover, drive_motion* body, const float* wish) {
    float a = drive_clamp(wish[0], -CYCLIST_BRAKES_MPS2, CYCLIST_MPS2), sine, cosine;
    float v = drive_clamp(body->speed + a * mover->dt_s, 0.0f, CYCLIST_MPS);
    body->steering = drive_clamp(wish[1], -CYCLIST_STEERING, CYCLIST_STEERING);
    pv_sincos(body->steering, &sine, &cosine);
    float most = CYCLIST_LATERAL_MPS2 / drive_max(v * v, 1e-6f);
    float curvature = drive_clamp(sine / (cosine * wheelbase_of(mover, body)), -most, most);
    body->x += v * mover->dt_s * body->cosine;
    body->y += v * mover->dt_s * body->sine;
    body->heading = drive_wrap(body->heading + v * mover->dt_s * curvature);
    body->lateral = v * v * curvature;
    body->acceleration = (v - body->speed) / mover->dt_s;
    body->speed = v;
}

void drive_walk(const drive_mover* mover, int type, drive_motion* body, const float* action) {
    float wish[2];
    if (mover->model == DRIVE_IS_dynamics_delta_local || mover->model == DRIVE_IS_dynamics_state ||
        type == PV_OTHER) {
        drive_move(mover, body, action);
        return;
    }
    wish_of(mover, type, body, action, wish);
    if (type == PV_PEDESTRIAN)
        pedestrian(mover, body, wish);
    else
        cyclist(mover, body, wish);
}

void drive_inverse_walk(const drive_mover* mover,
                        int type,
                        const drive_motion* body,
                        const drive_aim* aim,
                        float* action) {
    if (mover->model == DRIVE_IS_dynamics_delta_local || mover->model == DRIVE_IS_dynamics_state ||
        type == PV_OTHER) {
        drive_inverse(mover, body, aim, action);
        return;
    }
    drive_course course = drive_course_to(mover, body, aim, 1, 0.0f);
    action[0] = (course.speed - body->speed) / mover->dt_s;
    action[1] = course.turn * (TURN_S / mover->dt_s);
    if (type == PV_PEDESTRIAN)
        return;
    float curvature = course.distance > GAP_M ? course.turn / course.distance : 0.0f;
    int is_curvature = mover->model == DRIVE_IS_dynamics_invertible_bicycle;
    action[1] = is_curvature ? curvature : drive_atan(curvature * wheelbase_of(mover, body));
}

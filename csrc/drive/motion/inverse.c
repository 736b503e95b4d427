// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Inverse dynamics: the action that brings a body nearest to its logged pose after the step. The
// models delta_local and state reach it exactly. Actions of the other models have two numbers, but
// a pose has three, so they track the log: the speed makes up for half of the lag, and the heading
// aims at the log's path LOOK_S ahead (pure pursuit's error, Coulter 1992). The rule is applied to
// the body's actual pose, not its logged one, so errors do not accumulate.
#include "drive/motion/inverse.h"

#include "drive/motion/models.h"
#include "drive/scalar.h"
#include "drive/tables.h"
#include "envs/kernels.h"

#define CATCH_UP 0.5f      // share of the lag that one step makes up for
#define CATCH_UP_MPS2 3.0f // ... but no faster than this acceleration can undo over the lag
#define LOOK_S 0.3f
#define LOOK_M 1.0f
#define LEAST_M 1e-3f // steps shorter than this say nothing about a curvature

drive_course drive_course_to(const drive_mover* mover,
                             const drive_motion* body,
                             const drive_aim* aim,
                             int moves_with_new,
                             float lever) {
    float dx = aim->x - body->x, dy = aim->y - body->y, dt_s = mover->dt_s;
    float ahead = dx * body->cosine + dy * body->sine, aside = dy * body->cosine - dx * body->sine;
    float planned = moves_with_new ? aim->speed : 0.5f * (body->speed + aim->speed);
    drive_course course;
    float lag = ahead - planned * dt_s, most = drive_sqrt(2.0f * CATCH_UP_MPS2 * drive_abs(lag));
    course.speed = aim->speed + drive_clamp(CATCH_UP * lag / dt_s, -most, most);
    course.speed = drive_clamp(course.speed, -mover->max_reverse, mover->max_speed);
    course.distance = (moves_with_new ? course.speed : 0.5f * (body->speed + course.speed)) * dt_s;
    float look = drive_max(LOOK_S * drive_abs(course.speed), LOOK_M);
    float aims = drive_atan(aside / look);
    // Turning about a point behind it pushes the centre aside, so the longer the lever, the more
    // steps a correction takes.
    float way = drive_abs(course.distance), share = lever > way ? way / lever : 1.0f;
    float off =
        drive_wrap(aim->heading - aim->turn - body->heading) + (course.speed < 0.0f ? -aims : aims);
    course.turn = aim->turn + share * off;
    return course;
}

static float curvature_of(const drive_course* course) {
    return drive_abs(course->distance) > LEAST_M ? course->turn / course->distance : 0.0f;
}

// Returns the steering angle for a curvature of the path of the centre: sin(slip) = curvature *
// wheelbase / 2, tan(steering) = 2 tan(slip).
static float steering_for(float curvature, float wheelbase) {
    float sine = drive_clamp(0.5f * curvature * wheelbase, -0.95f, 0.95f);
    return drive_atan(2.0f * sine / drive_sqrt(1.0f - sine * sine));
}

// Returns the steering angle with slip = tanh(tan(steering) / 2): curvature * wheelbase = cos(slip)
// tan(steering), by fixed-point iteration.
static float pufferdrive_steering_for(float curvature, float wheelbase) {
    float tangent = curvature * wheelbase, sine, cosine = 1.0f;
    for (int i = 0; i < 4; i++) {
        tangent = drive_clamp(curvature * wheelbase / cosine, -2.0f, 2.0f);
        pv_sincos(drive_tanh(0.5f * tangent), &sine, &cosine);
    }
    return drive_atan(tangent);
}

void drive_inverse(const drive_mover* mover,
                   const drive_motion* body,
                   const drive_aim* aim,
                   float* action) {
    float dx = aim->x - body->x, dy = aim->y - body->y;
    float wheelbase = mover->wheelbase_factor * body->length;
    if (mover->model == DRIVE_IS_dynamics_classic_gpudrive)
        wheelbase = body->length;
    if (mover->model == DRIVE_IS_dynamics_classic_pufferdrive)
        wheelbase = DRIVE_PUFFERDRIVE_SIZE * body->length;
    int is_invertible = mover->model == DRIVE_IS_dynamics_invertible_bicycle;
    int moves_with_mean = is_invertible || mover->model == DRIVE_IS_dynamics_classic_gpudrive;
    drive_course course = drive_course_to(mover, body, aim, !moves_with_mean,
                                          is_invertible ? 0.0f : 0.5f * wheelbase);
    switch (mover->model) {
    case DRIVE_IS_dynamics_delta_local:
        action[0] = dx * body->cosine + dy * body->sine;
        action[1] = dy * body->cosine - dx * body->sine;
        action[2] = drive_wrap(aim->heading - body->heading);
        return;
    case DRIVE_IS_dynamics_state:
        action[0] = aim->x;
        action[1] = aim->y;
        action[2] = aim->heading;
        action[3] = aim->speed;
        return;
    case DRIVE_IS_dynamics_classic_pufferdrive:
        action[1] = pufferdrive_steering_for(curvature_of(&course), wheelbase);
        break;
    case DRIVE_IS_dynamics_invertible_bicycle: action[1] = curvature_of(&course); break;
    default: action[1] = steering_for(curvature_of(&course), wheelbase); break;
    }
    action[0] = (course.speed - body->speed) / mover->dt_s;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The bicycle model and its limits, for one body (models.c) and for arrays of them (dynamics.c): it
// has no branches and gives both the same bytes.
//
// Limits, in this order, each with the state that the previous step has left: the acceleration is
// clipped to +-max_acceleration_mps2, then its change to max_jerk_mps3; the change of the steering
// angle to max_steering_rate_radps; the speed to its limits; last the curvature of the path to
// max_lateral_mps2 / v^2 (the tyres slip, the wheels do not turn).
#pragma once

#include "drive/motion/models.h"
#include "drive/scalar.h"
#include "envs/kernels.h"

PV_INLINE float drive_limited_acceleration(const drive_mover* mover,
                                           const drive_motion* body,
                                           float wanted) {
    float change = mover->max_jerk * mover->dt_s,
          a = drive_clamp(wanted, -mover->max_acceleration, mover->max_acceleration);
    return drive_clamp(a, body->acceleration - change, body->acceleration + change);
}

PV_INLINE float drive_limited_steering(const drive_mover* mover,
                                       const drive_motion* body,
                                       float wanted) {
    float change = mover->max_steering_rate * mover->dt_s;
    return drive_clamp(wanted, body->steering - change, body->steering + change);
}

// The effect of the front wheels on a car: slip angle at its centre, and yaw rate per speed and
// inverse wheelbase.
typedef struct drive_wheels {
    float cosine, sine; // of the slip angle
    float turn;         // cos(slip) * tan(steering)
} drive_wheels;

// Computes slip = atan(tan(steering) / 2) without a division by cos(steering).
PV_INLINE drive_wheels drive_wheels_of(float steering) {
    float sine, cosine;
    pv_sincos(drive_wrap(steering), &sine, &cosine);
    float inverse = 1.0f / drive_sqrt(cosine * cosine + 0.25f * sine * sine);
    float turn = drive_sign(1.0f, cosine) * sine * inverse;
    return (drive_wheels){drive_abs(cosine) * inverse, 0.5f * turn, turn};
}

// Limits the turn to the grip of the tyres. slip_follows: the slip angle is that of the path,
// sin(slip) = turn / 2.
PV_INLINE drive_wheels drive_grip(
    const drive_mover* mover, float speed, float wheelbase, int slip_follows, drive_wheels at) {
    float most = mover->max_lateral * wheelbase / drive_max(speed * speed, 1e-6f);
    float turn = drive_clamp(at.turn, -most, most), sine = 0.5f * turn;
    int slips = slip_follows && turn != at.turn;
    float cosine = drive_sqrt(drive_max(1.0f - sine * sine, 0.0f));
    return (drive_wheels){slips ? cosine : at.cosine, slips ? sine : at.sine, turn};
}

PV_INLINE void drive_step_along(drive_motion* body,
                                float distance,
                                drive_wheels at,
                                float wheelbase) {
    body->x += distance * (body->cosine * at.cosine - body->sine * at.sine);
    body->y += distance * (body->sine * at.cosine + body->cosine * at.sine);
    body->heading = drive_wrap(body->heading + distance * at.turn / wheelbase);
}

PV_INLINE void drive_set_speed(const drive_mover* mover,
                               drive_motion* body,
                               float before,
                               float after) {
    body->acceleration = (after - before) / mover->dt_s;
    body->speed = after;
}

PV_INLINE void drive_bicycle(const drive_mover* mover,
                             drive_motion* body,
                             float acceleration,
                             float steering) {
    float a = drive_limited_acceleration(mover, body, acceleration),
          wheelbase = mover->wheelbase_factor * body->length;
    float v = drive_clamp(body->speed + a * mover->dt_s, -mover->max_reverse, mover->max_speed);
    body->steering = drive_limited_steering(mover, body, steering);
    drive_wheels at = drive_grip(mover, v, wheelbase, 1, drive_wheels_of(body->steering));
    drive_step_along(body, v * mover->dt_s, at, wheelbase);
    body->lateral = v * v * at.turn / wheelbase;
    drive_set_speed(mover, body, body->speed, v);
}

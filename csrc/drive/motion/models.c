// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See models.h. Scalar code for one body; no result depends on the width of the machine's vectors.
// bicycle.h has the limits.
#include "drive/motion/models.h"

#include "contract/base.h"
#include "drive/motion/bicycle.h"
#include "drive/scalar.h"
#include "drive/tables.h"
#include "envs/kernels.h"

#define GPUDRIVE_MPS 300.0f    // GPUDrive has no limit; this one keeps numbers finite
#define PUFFERDRIVE_MPS 100.0f // MAX_SPEED
#define INVERTIBLE_MPS2 6.0f   // Waymax and GPUDrive cut the actions to these
#define INVERTIBLE_CURVATURE 3.0f

static float limit(float setting) {
    return setting > 0.0f ? setting : DRIVE_NO_LIMIT;
}

drive_mover drive_mover_of(const pv_drive_config* config, float dt_s) {
    return (drive_mover){.model = config->dynamics,
                         .dt_s = dt_s,
                         .wheelbase_factor = config->wheelbase_factor,
                         .max_speed = config->max_speed_mps,
                         .max_reverse = config->max_reverse_mps,
                         .max_acceleration = limit(config->max_acceleration_mps2),
                         .max_lateral = limit(config->max_lateral_mps2),
                         .max_jerk = limit(config->max_jerk_mps3),
                         .max_steering_rate = limit(config->max_steering_rate_radps)};
}

// ---- models ----

static void bicycle(const drive_mover* mover, drive_motion* body, const float* action) {
    drive_bicycle(mover, body, action[0], action[1]);
}

static void classic_gpudrive(const drive_mover* mover, drive_motion* body, const float* action) {
    float a = drive_limited_acceleration(mover, body, action[0]), speed = drive_abs(body->speed);
    float middle = drive_clamp(speed + 0.5f * a * mover->dt_s, -GPUDRIVE_MPS, GPUDRIVE_MPS);
    body->steering = drive_limited_steering(mover, body, action[1]);
    drive_wheels at = drive_grip(mover, middle, body->length, 1, drive_wheels_of(body->steering));
    drive_step_along(body, middle * mover->dt_s, at, body->length);
    body->lateral = middle * middle * at.turn / body->length;
    drive_set_speed(mover, body, speed,
                    drive_clamp(speed + a * mover->dt_s, -GPUDRIVE_MPS, GPUDRIVE_MPS));
}

// Returns the wheels with slip = tanh(tan(steering) / 2), as in PufferDrive.
static drive_wheels pufferdrive_wheels(float steering) {
    float sine, cosine;
    pv_sincos(drive_wrap(steering), &sine, &cosine);
    float tangent =
        drive_clamp(sine / drive_sign(drive_max(drive_abs(cosine), 1e-6f), cosine), -1e3f, 1e3f);
    drive_wheels found;
    pv_sincos(drive_tanh(0.5f * tangent), &found.sine, &found.cosine);
    found.turn = found.cosine * tangent;
    return found;
}

static void classic_pufferdrive(const drive_mover* mover, drive_motion* body, const float* action) {
    float a = drive_limited_acceleration(mover, body, action[0]), speed = drive_abs(body->speed);
    float v = drive_clamp(speed + a * mover->dt_s, -PUFFERDRIVE_MPS, PUFFERDRIVE_MPS);
    float wheelbase = DRIVE_PUFFERDRIVE_SIZE * body->length;
    body->steering = drive_limited_steering(mover, body, action[1]);
    drive_wheels at = drive_grip(mover, v, wheelbase, 0, pufferdrive_wheels(body->steering));
    drive_step_along(body, v * mover->dt_s, at, wheelbase);
    body->lateral = v * v * at.turn / wheelbase;
    drive_set_speed(mover, body, speed, v);
}

static float tangent_of(float angle) {
    float sine, cosine;
    pv_sincos(angle, &sine, &cosine);
    return sine / cosine;
}

static void invertible_bicycle(const drive_mover* mover, drive_motion* body, const float* action) {
    float a = drive_limited_acceleration(mover, body,
                                         drive_clamp(action[0], -INVERTIBLE_MPS2, INVERTIBLE_MPS2));
    float curvature = drive_clamp(action[1], -INVERTIBLE_CURVATURE, INVERTIBLE_CURVATURE);
    float v = drive_clamp(body->speed + a * mover->dt_s, -mover->max_reverse, mover->max_speed);
    float wheelbase = mover->wheelbase_factor * body->length,
          wanted = drive_atan(curvature * wheelbase);
    body->steering = drive_limited_steering(mover, body, wanted);
    if (body->steering != wanted)
        curvature = tangent_of(body->steering) / wheelbase;
    float most = mover->max_lateral / drive_max(v * v, 1e-6f);
    curvature = drive_clamp(curvature, -most, most);
    float distance = 0.5f * (body->speed + v) * mover->dt_s; // v dt + a dt^2 / 2
    body->x += distance * body->cosine;
    body->y += distance * body->sine;
    body->heading = drive_wrap(body->heading + curvature * distance);
    body->lateral = v * v * curvature;
    drive_set_speed(mover, body, body->speed, v);
}

// The speed is that of the displacement, negative where it leads backward.
static void delta_local(const drive_mover* mover, drive_motion* body, const float* action) {
    float dx = action[0], dy = action[1];
    body->x += dx * body->cosine - dy * body->sine;
    body->y += dx * body->sine + dy * body->cosine;
    body->heading = drive_wrap(body->heading + action[2]);
    drive_set_speed(mover, body, body->speed,
                    drive_sign(drive_sqrt(dx * dx + dy * dy), dx) / mover->dt_s);
}

static void state(const drive_mover* mover, drive_motion* body, const float* action) {
    int stays = action[0] == 0.0f && action[1] == 0.0f && action[2] == 0.0f && action[3] == 0.0f;
    body->x = stays ? body->x : action[0];
    body->y = stays ? body->y : action[1];
    body->heading = stays ? body->heading : drive_wrap(action[2]);
    drive_set_speed(mover, body, body->speed, action[3]);
}

// Returns the acceleration after a step of jerk. If its sign would change, it stops at 0.
static float jerked(float acceleration, float jerk, float dt_s, float low, float high) {
    float after = acceleration + jerk * dt_s;
    return acceleration * after < 0.0f ? 0.0f : drive_clamp(after, low, high);
}

static void jerk(const drive_mover* mover, drive_motion* body, const float* action) {
    const float dt_s = mover->dt_s, before = body->speed;
    const float wheelbase = mover->wheelbase_factor * DRIVE_PUFFERDRIVE_SIZE * body->length;
    const float most = mover->max_acceleration, side = drive_min(4.0f, mover->max_lateral),
                most_jerk = mover->max_jerk;
    float a = jerked(body->acceleration, drive_clamp(action[0], -most_jerk, most_jerk), dt_s,
                     -drive_min(5.0f, most), drive_min(2.5f, most));
    float lateral =
        jerked(body->lateral, drive_clamp(action[1], -most_jerk, most_jerk), dt_s, -side, side);
    float v = before + 0.5f * (a + body->acceleration) * dt_s;
    v = before * v < 0.0f ? 0.0f
                          : drive_clamp(v, -drive_min(2.0f, mover->max_reverse),
                                        drive_min(20.0f, mover->max_speed));
    float curvature = lateral / drive_max(v * v, 1e-5f);
    curvature = drive_sign(drive_max(drive_abs(curvature), 1e-5f), curvature);
    float change = drive_min(0.6f, mover->max_steering_rate) * dt_s,
          steering = drive_atan(curvature * wheelbase);
    steering = drive_clamp(steering, body->steering - change, body->steering + change);
    body->steering = drive_clamp(steering, -0.55f, 0.55f);
    curvature = tangent_of(body->steering) / wheelbase;
    float grips = mover->max_lateral / drive_max(v * v, 1e-6f);
    curvature = drive_clamp(curvature, -grips, grips);
    float distance = 0.5f * (v + before) * dt_s, angle = distance * curvature, ahead = distance,
          aside = 0.0f;
    if (drive_abs(curvature) >= 1e-5f && drive_abs(angle) >= 1e-5f) {
        float sine, cosine, half;
        pv_sincos(drive_wrap(angle), &sine, &cosine);
        ahead = sine / curvature;
        pv_sincos(0.5f * drive_wrap(angle), &half, &cosine);
        aside = 2.0f * half * half /
                curvature; // (1 - cos(angle)) / curvature, without its loss of digits
    }
    body->x += ahead * body->cosine - aside * body->sine;
    body->y += ahead * body->sine + aside * body->cosine;
    body->heading = drive_wrap(body->heading + angle);
    body->lateral = v * v * curvature;
    body->speed = v;
    body->acceleration = a;
}

static void car(const drive_mover* mover, drive_motion* body, const float* action) {
    bicycle(mover, body, action);
}

void drive_move(const drive_mover* mover, drive_motion* body, const float* action) {
    switch (mover->model) {
#define CASE(set, name) \
    case DRIVE_IS_##set##_##name: name(mover, body, action); break;
        DRIVE_CHOICES_dynamics(CASE)
#undef CASE
            default : PV_ASSERT(0);
    }
}

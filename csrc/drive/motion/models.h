// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// How one body moves in one step. `motion` is its state, `action` the numbers that an agent chose,
// in the units of the model's axes (actions.c). All values stay finite if the action is. The models
// of vehicles (docs/drive.md has the table; h is the heading, L the wheelbase):
//
//   bicycle              acceleration a, steering d. Kinematic bicycle with the reference point at
//                        the centre (Rajamani, Vehicle Dynamics and Control, 2nd ed., section 2.2,
//                        with l_f = l_r):
//                            v' = clip(v + a dt)             slip = atan(tan(d) / 2)
//                            x' = x + v' cos(h + slip) dt    h'   = h + v' cos(slip) tan(d) / L dt
//   classic_gpudrive     the bicycle with GPUDrive's differences (src/dynamics.hpp,
//                        forwardKinematics): the speed loses its sign, the step is made with
//                        v + a dt / 2, L is the length, and there is no speed limit.
//   classic_pufferdrive  the bicycle with PufferDrive's differences (drive.h of November 2025,
//                        move_dynamics): the speed loses its sign, slip = tanh(tan(d) / 2), L is
//                        0.7 of the length, speeds end at 100 m/s.
//   invertible_bicycle   acceleration a, curvature k (Waymax, Gulino et al. 2023,
//                        InvertibleBicycleModel; GPUDrive's bicycle):
//                            s  = v dt + a dt^2 / 2    v' = v + a dt
//                            x' = x + s cos(h)         h' = h + k s
//   delta_local          dx, dy, dyaw in the body's frame (Waymax, DeltaLocal; GPUDrive's delta
//                        model)
//   state                x, y, heading, speed are set; four zeros: the body stands still
//   jerk                 longitudinal and lateral jerk (PufferDrive's JERK, drive.h of November
//                        2025): accelerations follow from the jerks, the curvature from the lateral
//                        one, and the step is an exact arc.
//   car                  the bicycle with other values and limits (actions.c, drive_env/config.py)
#pragma once

#include "drive/tables.h"

#define DRIVE_NO_LIMIT 1e30f
#define DRIVE_PUFFERDRIVE_SIZE 0.7f // PufferDrive shrinks cars to this share of their length

// State of one body.
typedef struct drive_motion {
    float x, y, heading, cosine, sine, speed; // cosine and sine are of the heading before the step
    float acceleration; // m/s^2 along the heading, the change of the speed in the last step
    float lateral;      // m/s^2 to the left
    float steering;     // rad, of the front wheels
    float length;       // m
} drive_motion;

// Where a log wants a body to be after the step.
typedef struct drive_aim {
    float x, y, heading, speed;
    float turn; // of the log in this step, rad
} drive_aim;

// Constants of all bodies of a slot. A limit that is off is DRIVE_NO_LIMIT.
typedef struct drive_mover {
    int32_t model; // DRIVE_IS_dynamics_...
    float dt_s, wheelbase_factor, max_speed, max_reverse;
    float max_acceleration, max_lateral, max_jerk, max_steering_rate;
} drive_mover;

drive_mover drive_mover_of(const pv_drive_config* config, float dt_s);
void drive_move(const drive_mover* mover, drive_motion* body, const float* action);

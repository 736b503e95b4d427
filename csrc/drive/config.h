// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Settings of the driving env, mirrored by drive_env/config.py (compared at import). One X-macro list so that the struct and
// the table that Python reads cannot drift apart.
#pragma once

#include "../base.h"

/* [cffi] */
// Never an agent: a vehicle whose goal lies within the goal radius of where it starts.
#define PV_CONTROL_MOVING 0 // vehicles valid at the start, not marked as expert, whose goal is at least 2 m away
#define PV_CONTROL_VALID 1  // all vehicles valid at the start
typedef struct pv_drive_config {
    int32_t num_agents;          // rows of one env (a bundle of scenes)
    int32_t control;             // PV_CONTROL_...
    int32_t resample_steps;      // a bundle is drawn anew after this many steps
    int32_t max_steps;           // steps of one scene episode; 0: the length of the log
    int32_t partners;            // k nearest other objects in the observation
    int32_t lanes, lines, edges; // k nearest road segments per type
    float range_m;               // of everything observed
    float goal_radius_m;
    int32_t remove_at_goal; // 1: reaching the goal is terminal and the car is removed; 0: it drives on
    float reward_goal;
    float reward_collision; // once per contact
    float reward_offroad;   // once per contact
    float reward_progress;  // per metre that the distance to the goal shrinks
    float reward_step;      // every step
    float max_speed_mps;    // forward limit
    float max_reverse_mps;  // backward limit, a positive number
    float wheelbase_factor; // wheelbase = factor * length
    int32_t replay_log;     // 1: agents follow their log, whatever their actions; they are judged as usual
} pv_drive_config;
/* [/cffi] */

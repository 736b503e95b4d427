// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Lists that the driving env shares with Python, each of them once: its settings, the names that
// some of them take, the terms of the reward, and the blocks and columns of an observation. The
// config struct, row offsets, bounds and counters are made from these lists. Python reads them
// through pv_drive_settings, pv_drive_choices, pv_drive_rewards and pv_drive_blocks. docs/drive.md
// says how to add a block.
//
// An observation row is one block after the other, each of float32. A block holds the numbers of
// one thing (ego) or of its k nearest objects (partners), sorted by distance. Missing objects are
// all zeros, and a present one never is. "x" is ahead of the car and "y" to its left; "cos" and
// "sin" are of the angle from the car's heading. A block of size 0 is left out. The last block is a
// picture of bytes, whose columns are its channels.
#pragma once

#include "contract/base.h"

#include <stddef.h>

/* [cffi] */
typedef struct pv_drive_setting {
    const char* name;
    double low, high; // inclusive
} pv_drive_setting;

// A setting that takes a name. In C its value is the position of the name in the list.
typedef struct pv_drive_choice {
    const char* setting;
    const char* const* names;
    uint32_t count;
} pv_drive_choice;

typedef struct pv_drive_column {
    const char* name;
    const char* unit; // of the stored value times scale
    float scale;
    float most; // largest magnitude in the unit that a byte shows; 0: range_m
    const char* meaning;
} pv_drive_column;

#define PV_DRIVE_WRONG_WAY_M \
    6 // an agent that drives farther than this against its lane has driven the wrong way

// The driver of an object that an agent touches.
#define PV_DRIVE_BY_LOG 0    // its log, or nothing
#define PV_DRIVE_BY_POLICY 1 // it is an agent
#define PV_DRIVE_BY_IDM 2    // it is a follower

// Return the lists below; `count` receives their length.
const pv_drive_setting* pv_drive_settings(uint32_t* count);
const pv_drive_choice* pv_drive_choices(uint32_t* count);
/* [/cffi] */

#define DRIVE_MAX_AGENTS 4096   // rows of one env
#define DRIVE_MAX_K 64          // objects of one block
#define DRIVE_MAX_RASTER 1024   // pixels along a side of the raster
#define DRIVE_MAX_ROADS 256     // segments of a block for all types
#define DRIVE_MAX_RAYS 256      // of the lidar
#define DRIVE_MAX_AXES 4        // of an action
#define DRIVE_MAX_VALUES 64     // of one axis of an action
#define DRIVE_MAX_CHOICES 65536 // of a discrete action

// Rows of bytes: 0 for missing objects, else DRIVE_BYTE_ZERO + value / (the column's most) *
// (DRIVE_BYTE_ZERO - 2), rounded. The bound of 254 keeps tables of bytes from being mistaken for
// pictures.
#define DRIVE_BYTE_ZERO 128.0f
#define DRIVE_BYTE_MOST 254.0f

// ---- rewards ----

// The parts of a step that are measured where a term of the reward or the metrics need them
// (measure.c).
#define DRIVE_PART_MOTION 1u // accelerations
#define DRIVE_PART_LANE 2u   // the car's lane
#define DRIVE_PART_LIGHT 4u  // red lights
#define DRIVE_PART_LOG 8u    // where the log has the car
#define DRIVE_PART_AHEAD 16u // the object that it drives towards
#define DRIVE_PART_YIELD 32u // those who go first where ways meet
#define DRIVE_PARTS 63u

// The reward of a step is the sum of weight * value over these terms, in this order. TERM(X, name,
// part, unit of the value, meaning): the setting reward_<name> is the weight, value_<name> in
// reward.c computes the value. X is passed on.
#define DRIVE_REWARDS(X, TERM) DRIVE_REWARDS_ALWAYS(X, TERM) DRIVE_REWARDS_ASKED(X, TERM)
#define DRIVE_REWARDS_ALWAYS(X, TERM) \
    TERM(X, step, 0, "", "1 in every step") \
    TERM(X, collision, 0, "", "contacts that begin") \
    TERM(X, offroad, 0, "", "1 in a step with a departure") \
    TERM(X, progress, 0, "m", "by which the goal comes nearer, until it is reached") \
    TERM(X, goal, 0, "", "1 in the step that reaches the goal")
#define DRIVE_REWARDS_ASKED(X, TERM) \
    TERM(X, acceleration, DRIVE_PART_MOTION, "m/s^2", \
         "size of the acceleration along the heading") \
    TERM(X, jerk, DRIVE_PART_MOTION, "m/s^3", \
         "size of its change per second; 0 in the first step") \
    TERM(X, lateral, DRIVE_PART_MOTION, "m/s^2", "size of speed * yaw rate") \
    TERM(X, lane_align, DRIVE_PART_LANE, "", \
         "cosine of the angle between the car's direction and its lane; 0 without a lane") \
    TERM(X, lane_center, DRIVE_PART_LANE, "m", \
         "distance from the lane's centre line; 4 without a lane") \
    TERM(X, speed_limit, DRIVE_PART_LANE, "m/s", "by which the speed is above the lane's limit") \
    TERM(X, red_light, DRIVE_PART_LIGHT, "", "1 in a step that crosses a stop line at red") \
    TERM(X, log, DRIVE_PART_LOG, "m", \
         "distance from where the log has the car; 0 where it has no such frame") \
    TERM(X, haste, 0, "m/s", \
         "speed above twice that which reaches the goal in time; 0 once it is reached") \
    TERM(X, yield, DRIVE_PART_YIELD, "", \
         "1 in a step that enters the way of a body that goes first and is less than 3 s from it")

#define DRIVE_REWARD_SETTING(X, name, part, unit, meaning) X(float, reward_##name, -1000, 1000)
#define DRIVE_REWARD_NUMBER(X, name, part, unit, meaning) DRIVE_REWARD_##name,

enum { DRIVE_REWARDS(, DRIVE_REWARD_NUMBER) DRIVE_REWARD_COUNT };

// ---- settings ----

// Names that a setting takes: X(setting, name), the default first, or at the position that older
// runs store; new ones go to the end. DRIVE_CHOICES(setting) is the highest value of the setting,
// and each name is a constant: DRIVE_IS_control_moving = 0 ...
//
// control: which objects are agents, of the vehicles, pedestrians and cyclists that are in the
// scene at the start (control.c). With the first three an object whose goal lies within
// goal_radius_m of its start is not an agent.
#define DRIVE_CHOICES_control(X) \
    X(control, \
      moving) /* vehicles that are not marked as expert and whose goal is at least 2 m away */ \
    X(control, valid)   /* all vehicles */ \
    X(control, all)     /* pedestrians and cyclists too */ \
    X(control, predict) /* the data set's tracks to predict */ \
    X(control, sdc)     /* its self-driving car */ \
    X(control, ids)     /* those whose track id is in control_ids */

#define DRIVE_CHOICES_observation(X) \
    X(observation, compact) \
    X(observation, pufferdrive) /* the rows of PufferDrive: 1848 numbers */ \
    X(observation, gpudrive)    /* the rows of GPUDrive: 2984 numbers */ \
    X(observation, far)         /* compact, with segments spread over the range */ \
    X(observation, driver) /* compact, with everything that a driver has to see in real scenes */

#define DRIVE_CHOICES_segments(X) \
    X(segments, nearest) \
    X(segments, spread) /* a share of them from each of four rings; see segments.c */

// raster_channels: which channels the bird's-eye view has (DRIVE_COLUMNS_channel).
#define DRIVE_CHOICES_raster_channels(X) \
    X(raster_channels, \
      basic) /* those up to `others`, which all runs had before there was a choice */ \
    X(raster_channels, traffic) /* and crosswalks, lights and stop lines */

#define DRIVE_CHOICES_row_dtype(X) X(row_dtype, float32) X(row_dtype, float16) X(row_dtype, uint8)

// others: what moves objects that are not agents (bodies.c).
#define DRIVE_CHOICES_others(X) \
    X(others, log)    /* their log */ \
    X(others, static) /* nothing: they stay where they start */ \
    X(others, idm)    /* vehicles that move in the log drive by the intelligent driver model; the \
                         rest follow their log */

// goal_behavior: what happens to an agent that reaches its goal. In older runs this is
// remove_at_goal, 0 or 1.
#define DRIVE_CHOICES_goal_behavior(X) \
    X(goal_behavior, drive_on) \
    X(goal_behavior, remove) \
    X(goal_behavior, stop) /* its row ends and its car stays as an obstacle */ \
    X(goal_behavior, \
      respawn) /* its row ends and begins again at its start; from then on it drives alone */ \
    X(goal_behavior, next) /* it gets another goal, farther along its lane */

// collision_behavior, offroad_behavior: what happens after a contact, or a departure from the road.
#define DRIVE_CHOICES_collision_behavior(X) \
    X(collision_behavior, ignore) \
    X(collision_behavior, stop) \
    X(collision_behavior, remove)
#define DRIVE_CHOICES_offroad_behavior(X) \
    X(offroad_behavior, ignore) \
    X(offroad_behavior, stop) \
    X(offroad_behavior, remove)

// Models of motion; models.h has the formulas.
#define DRIVE_CHOICES_dynamics(X) \
    X(dynamics, bicycle) \
    X(dynamics, classic_gpudrive) \
    X(dynamics, classic_pufferdrive) \
    X(dynamics, invertible_bicycle) \
    X(dynamics, delta_local) \
    X(dynamics, state) \
    X(dynamics, jerk) \
    X(dynamics, car)

#define DRIVE_CHOICES_actions(X) \
    X(actions, discrete) X(actions, multi_discrete) X(actions, continuous)

// How scenes are drawn.
#define DRIVE_CHOICES_scene_draws(X) \
    X(scene_draws, independent) /* by their weights, whatever was drawn before */ \
    X(scene_draws, passes)      /* each once, in random order, then again in another order */

#define DRIVE_CHOICE_SETS(X) \
    X(control) \
    X(observation) \
    X(segments) \
    X(raster_channels) \
    X(row_dtype) \
    X(others) \
    X(goal_behavior) X(collision_behavior) X(offroad_behavior) X(dynamics) X(actions) X(scene_draws)

#define CHOICE(set, name) DRIVE_IS_##set##_##name,
#define CHOICES(set) enum { DRIVE_CHOICES_##set(CHOICE) DRIVE_CHOICE_COUNT_##set };
DRIVE_CHOICE_SETS(CHOICES)
#undef CHOICES
#undef CHOICE
#define DRIVE_CHOICES(set) (DRIVE_CHOICE_COUNT_##set - 1)

// X(type, name, lowest, highest), in the order of DriveConfig (drive_env/config.py), which explains
// them.
#define DRIVE_SETTINGS(X) \
    X(int32_t, num_agents, 1, DRIVE_MAX_AGENTS) \
    X(int32_t, control, 0, DRIVE_CHOICES(control)) \
    X(int32_t, resample_steps, 1, 1000000) \
    X(int32_t, max_steps, 0, 1000000) \
    X(int32_t, partners, 0, DRIVE_MAX_K) \
    X(int32_t, lanes, 0, DRIVE_MAX_K) \
    X(int32_t, lines, 0, DRIVE_MAX_K) \
    X(int32_t, edges, 0, DRIVE_MAX_K) \
    X(int32_t, observe_previous_action, 0, 1) \
    X(int32_t, observe_motion, 0, 1) \
    X(int32_t, raster, 0, DRIVE_MAX_RASTER) \
    X(float, raster_pixel_m, 0.1, 10) \
    X(float, raster_ahead, 0, 1) \
    X(int32_t, raster_alone, 0, 1) \
    X(int32_t, raster_channels, 0, DRIVE_CHOICES(raster_channels)) \
    X(float, range_m, 1, 500) \
    X(float, goal_radius_m, 0.1, 100) \
    X(int32_t, goal_behavior, 0, DRIVE_CHOICES(goal_behavior)) \
    DRIVE_REWARDS(X, DRIVE_REWARD_SETTING) \
    X(float, unknown_speed_limit_mps, 0, 100) \
    X(int32_t, observe_weights, 0, 1) \
    X(int32_t, draw_rewards, 0, 1) \
    X(float, max_speed_mps, 1, 100) \
    X(float, max_reverse_mps, 0, 100) \
    X(float, wheelbase_factor, 0.2, 1) \
    X(int32_t, replay_log, 0, 1) \
    X(int32_t, metrics, 0, 1) \
    /* observations */ \
    X(int32_t, observation, 0, DRIVE_CHOICES(observation)) \
    X(int32_t, row_dtype, 0, DRIVE_CHOICES(row_dtype)) \
    X(int32_t, segments, 0, DRIVE_CHOICES(segments)) \
    X(int32_t, roads, 0, DRIVE_MAX_ROADS) \
    X(int32_t, partner_types, 0, 1) \
    X(int32_t, route, 0, DRIVE_MAX_K) \
    X(float, route_step_m, 0.5, 50) \
    X(int32_t, controls, 0, DRIVE_MAX_K) \
    X(int32_t, conflicts, 0, DRIVE_MAX_K) \
    X(int32_t, lidar_rays, 0, DRIVE_MAX_RAYS) \
    X(float, lidar_fov_deg, 1, 360) \
    X(float, lidar_range_m, 1, 500) \
    /* what moves, when it begins, and what ends an agent's row */ \
    X(int32_t, others, 0, DRIVE_CHOICES(others)) \
    X(int32_t, init_step, 0, 65533) \
    X(int32_t, collision_behavior, 0, DRIVE_CHOICES(collision_behavior)) \
    X(int32_t, offroad_behavior, 0, DRIVE_CHOICES(offroad_behavior)) \
    X(float, box_scale, 0.1, 1) \
    X(float, respawn_goal_share, 0, 1) \
    X(float, next_goal_m, 1, 500) \
    X(int32_t, idm_agents, 0, 1) \
    X(float, idm_speed_mps, 0, 60) \
    X(float, idm_headway_s, 0, 10) \
    X(float, idm_gap_m, 0.1, 20) \
    X(float, idm_acceleration_mps2, 0.1, 10) \
    X(float, idm_braking_mps2, 0.1, 10) \
    X(float, traffic_idm, 0, 1) \
    X(float, traffic_log, 0, 1) \
    /* dynamics and actions; a limit of 0 is off */ \
    X(int32_t, dynamics, 0, DRIVE_CHOICES(dynamics)) \
    X(int32_t, actions, 0, DRIVE_CHOICES(actions)) \
    X(int32_t, expert_actions, 0, 1) \
    X(float, max_acceleration_mps2, 0, 100) \
    X(float, max_lateral_mps2, 0, 100) \
    X(float, max_jerk_mps3, 0, 1000) \
    X(float, max_steering_rate_radps, 0, 100) \
    /* which scenes */ \
    X(int32_t, scene_draws, 0, DRIVE_CHOICES(scene_draws)) \
    X(float, replay_failed, 0, 1)

typedef struct pv_drive_config {
#define MEMBER(type, name, low, high) type name;
    DRIVE_SETTINGS(MEMBER)
#undef MEMBER
} pv_drive_config;

// The weights follow each other: &config->reward_step is the array of them.
#define CHECK(X, name, part, unit, meaning) \
    _Static_assert(offsetof(pv_drive_config, reward_##name) - \
                           offsetof(pv_drive_config, reward_step) == \
                       sizeof(float) * DRIVE_REWARD_##name, \
                   "weights are an array");
DRIVE_REWARDS(, CHECK)
#undef CHECK

// ---- columns ----

#define DRIVE_GOAL_NEAR_M 20.0f // goal_nearness is 1 at the goal and one half this far from it

#define DRIVE_NEEDED_MPS \
    30.0f // largest needed_speed: in the last steps it would be a hundred times what any car can
          // drive

#define DRIVE_ROAD_WIDTH_M \
    0.1f // PufferDrive and GPUDrive show this width (and height) for each segment
#define DRIVE_SHRUNK (1.0f / 0.7f) // they show objects at 0.7 of their size
#define DRIVE_SIZE_BOUND \
    8.0f // least bound of the stored values of partners, which covers their sizes and speeds
#define DRIVE_TURN 6.28318530717958647692f

// X(set of columns, name, unit, scale, most, meaning). most: see pv_drive_column.
#define DRIVE_COLUMNS_ego(X) \
    X(ego, speed, "m/s", 10.0f, 30, "along the heading, negative backward") \
    X(ego, width, "m", 2.0f, 5, "of the car") \
    X(ego, length, "m", 5.0f, 20, "of the car") \
    X(ego, goal_x, "m", 50.0f, 250, "where the goal is") \
    X(ego, goal_y, "m", 50.0f, 250, "") \
    X(ego, goal_cos, "", 1.0f, 1, "direction to the goal; (0, 0) on it") \
    X(ego, goal_sin, "", 1.0f, 1, "") \
    X(ego, goal_distance, "m", 50.0f, 250, "from the car's centre") \
    X(ego, goal_nearness, "", 1.0f, 1, "20 / (20 + distance in m): fine where it matters") \
    X(ego, needed_speed, "m/s", 10.0f, 30, "distance / time left, at most 30") \
    X(ego, time_left, "", 1.0f, 1, "share of the episode") \
    X(ego, collided, "", 1.0f, 1, "1 while it touches an object") \
    X(ego, offroad, "", 1.0f, 1, "1 while it touches a road edge")

#define DRIVE_COLUMNS_partner(X) \
    X(partner, x, "m", 20.0f, 0, "centre") \
    X(partner, y, "m", 20.0f, 0, "") \
    X(partner, cos, "", 1.0f, 1, "its heading") \
    X(partner, sin, "", 1.0f, 1, "") \
    X(partner, velocity_x, "m/s", 10.0f, 40, "relative to the car") \
    X(partner, velocity_y, "m/s", 10.0f, 40, "") \
    X(partner, width, "m", 2.0f, 5, "") \
    X(partner, length, "m", 5.0f, 20, "")

#define DRIVE_COLUMNS_segment(X) \
    X(segment, x, "m", 20.0f, 0, "midpoint") \
    X(segment, y, "m", 20.0f, 0, "") \
    X(segment, half_length, "m", 10.0f, 10, "") \
    X(segment, cos, "", 1.0f, 1, "its direction") \
    X(segment, sin, "", 1.0f, 1, "") \
    X(segment, distance, "m", 10.0f, 0, "from the car's centre to the segment") \
    X(segment, lateral, "m", 5.0f, 50, \
      "of the car from the segment's line, positive to the left of it")

#define DRIVE_COLUMNS_action(X) \
    X(action, acceleration, "m/s^2", 4.0f, 4, \
      "what the agent chose in the last step; 0 in the first row of an episode") \
    X(action, steering, "rad", 1.0f, 1, "")

// The state that limits act on (models.h): a policy has to know it to predict the effect of its
// next action.
#define DRIVE_COLUMNS_motion(X) \
    X(motion, acceleration, "m/s^2", 4.0f, 8, \
      "along the heading, in the last step; 0 in the first row of an episode") \
    X(motion, lateral, "m/s^2", 4.0f, 8, "to the left, in the last step") \
    X(motion, steering, "rad", 0.5f, 1, \
      "of the front wheels, which max_steering_rate_radps holds back")

// The weights of an agent within their ranges: -1 lowest, 1 highest; 0 for one without a range.
#define DRIVE_COLUMNS_weight(X) DRIVE_REWARDS(X, DRIVE_WEIGHT_COLUMN)
#define DRIVE_WEIGHT_COLUMN(X, name, part, unit, meaning) \
    X(weight, name, "", 1.0f, 1, "the weight reward_" #name)
#define DRIVE_COLUMNS_typed_partner(X) \
    X(typed_partner, x, "m", 20.0f, 0, "centre") \
    X(typed_partner, y, "m", 20.0f, 0, "") \
    X(typed_partner, cos, "", 1.0f, 1, "its heading") \
    X(typed_partner, sin, "", 1.0f, 1, "") \
    X(typed_partner, velocity_x, "m/s", 10.0f, 40, "relative to the car") \
    X(typed_partner, velocity_y, "m/s", 10.0f, 40, "") \
    X(typed_partner, width, "m", 2.0f, 5, "") \
    X(typed_partner, length, "m", 5.0f, 20, "") \
    X(typed_partner, vehicle, "", 1.0f, 1, "1: it is one") \
    X(typed_partner, pedestrian, "", 1.0f, 1, "") \
    X(typed_partner, cyclist, "", 1.0f, 1, "")

#define DRIVE_COLUMNS_pufferdrive_ego(X) \
    X(pufferdrive_ego, goal_x, "m", 200.0f, 250, "where the goal is") \
    X(pufferdrive_ego, goal_y, "m", 200.0f, 250, "") \
    X(pufferdrive_ego, speed, "m/s", 100.0f, 30, "magnitude") \
    X(pufferdrive_ego, width, "m", 15.0f * DRIVE_SHRUNK, 5, "of the car") \
    X(pufferdrive_ego, length, "m", 30.0f * DRIVE_SHRUNK, 20, "of the car") \
    X(pufferdrive_ego, collided, "", 1.0f, 1, "1 while it touches an object or a road edge") \
    X(pufferdrive_ego, respawned, "", 1.0f, 1, \
      "1 after it was put back to its start in this episode")

#define DRIVE_COLUMNS_pufferdrive_jerk_ego(X) \
    X(pufferdrive_jerk_ego, goal_x, "m", 200.0f, 250, \
      "as in pufferdrive_ego; instead of that block under dynamics=jerk") \
    X(pufferdrive_jerk_ego, goal_y, "m", 200.0f, 250, "") \
    X(pufferdrive_jerk_ego, speed, "m/s", 100.0f, 30, "") \
    X(pufferdrive_jerk_ego, width, "m", 15.0f * DRIVE_SHRUNK, 5, "") \
    X(pufferdrive_jerk_ego, length, "m", 30.0f * DRIVE_SHRUNK, 20, "") \
    X(pufferdrive_jerk_ego, collided, "", 1.0f, 1, "") \
    X(pufferdrive_jerk_ego, steering, "rad", DRIVE_TURN / 2, 0.55f, "angle of the front wheels") \
    X(pufferdrive_jerk_ego, acceleration, "m/s^2", 4.0f, 4, \
      "along the heading; below 0 it is shown times 4/15") \
    X(pufferdrive_jerk_ego, lateral, "m/s^2", 4.0f, 4, "acceleration to the left") \
    X(pufferdrive_jerk_ego, respawned, "", 1.0f, 1, "")

#define DRIVE_COLUMNS_pufferdrive_partner(X) \
    X(pufferdrive_partner, x, "m", 50.0f, 0, "centre") \
    X(pufferdrive_partner, y, "m", 50.0f, 0, "") \
    X(pufferdrive_partner, width, "m", 15.0f * DRIVE_SHRUNK, 5, "") \
    X(pufferdrive_partner, length, "m", 30.0f * DRIVE_SHRUNK, 20, "") \
    X(pufferdrive_partner, cos, "", 1.0f, 1, "its heading") \
    X(pufferdrive_partner, sin, "", 1.0f, 1, "") \
    X(pufferdrive_partner, speed, "m/s", 100.0f, 30, "magnitude")

#define DRIVE_COLUMNS_pufferdrive_road(X) \
    X(pufferdrive_road, x, "m", 50.0f, 0, "midpoint") \
    X(pufferdrive_road, y, "m", 50.0f, 0, "") \
    X(pufferdrive_road, half_length, "m", 100.0f, 10, "") \
    X(pufferdrive_road, width, "m", 100.0f, 1, "always 0.1") \
    X(pufferdrive_road, cos, "", 1.0f, 1, "its direction") \
    X(pufferdrive_road, sin, "", 1.0f, 1, "") \
    X(pufferdrive_road, type, "", 1.0f, 2, "0 lane, 1 line, 2 edge")

#define DRIVE_COLUMNS_gpudrive_ego(X) \
    X(gpudrive_ego, speed, "m/s", 100.0f, 30, "magnitude") \
    X(gpudrive_ego, length, "m", 30.0f * DRIVE_SHRUNK, 20, "of the car") \
    X(gpudrive_ego, width, "m", 15.0f * DRIVE_SHRUNK, 5, "of the car") \
    X(gpudrive_ego, goal_x, "m", 1000.0f, 250, "where the goal is") \
    X(gpudrive_ego, goal_y, "m", 1000.0f, 250, "") \
    X(gpudrive_ego, collided, "", 1.0f, 1, "1 while it touches an object or a road edge")

#define DRIVE_COLUMNS_gpudrive_partner(X) \
    X(gpudrive_partner, speed, "m/s", 100.0f, 30, "magnitude") \
    X(gpudrive_partner, x, "m", 1000.0f, 0, "centre") \
    X(gpudrive_partner, y, "m", 1000.0f, 0, "") \
    X(gpudrive_partner, heading, "rad", DRIVE_TURN, 3.1416f, "from the car's heading") \
    X(gpudrive_partner, length, "m", 30.0f * DRIVE_SHRUNK, 20, "") \
    X(gpudrive_partner, width, "m", 15.0f * DRIVE_SHRUNK, 5, "")

#define DRIVE_COLUMNS_gpudrive_road(X) \
    X(gpudrive_road, x, "m", 1000.0f, 0, "midpoint") \
    X(gpudrive_road, y, "m", 1000.0f, 0, "") \
    X(gpudrive_road, half_length, "m", 100.0f, 10, "") \
    X(gpudrive_road, width, "m", 100.0f, 1, "always 0.1") \
    X(gpudrive_road, height, "m", 100.0f, 1, "always 0.1") \
    X(gpudrive_road, heading, "rad", DRIVE_TURN, 3.1416f, "from the car's heading") \
    X(gpudrive_road, none, "", 1.0f, 1, \
      "always 0; in GPUDrive 1 where there is no further segment") \
    X(gpudrive_road, edge, "", 1.0f, 1, "1: it is one") \
    X(gpudrive_road, line, "", 1.0f, 1, "") \
    X(gpudrive_road, lane, "", 1.0f, 1, "") \
    X(gpudrive_road, crosswalk, "", 1.0f, 1, "always 0, as the next two") \
    X(gpudrive_road, speed_bump, "", 1.0f, 1, "") \
    X(gpudrive_road, stop_sign, "", 1.0f, 1, "")

#define DRIVE_COLUMNS_route(X) \
    X(route, x, "m", 50.0f, 250, "a point of the way to the goal") \
    X(route, y, "m", 50.0f, 250, "") \
    X(route, cos, "", 1.0f, 1, "direction of the lane there") \
    X(route, sin, "", 1.0f, 1, "")

#define DRIVE_COLUMNS_control(X) \
    X(control, x, "m", 20.0f, 0, "where traffic stops") \
    X(control, y, "m", 20.0f, 0, "") \
    X(control, cos, "", 1.0f, 1, "heading of the traffic that it stops") \
    X(control, sin, "", 1.0f, 1, "") \
    X(control, left_x, "m", 20.0f, 0, \
      "ends of the stop line; both where traffic stops if it is unknown") \
    X(control, left_y, "m", 20.0f, 0, "") \
    X(control, right_x, "m", 20.0f, 0, "") \
    X(control, right_y, "m", 20.0f, 0, "") \
    X(control, sign, "", 1.0f, 1, "1: a stop or yield sign, 0: a traffic light") \
    X(control, red, "", 1.0f, 1, "1: it shows that") \
    X(control, yellow, "", 1.0f, 1, "") \
    X(control, green, "", 1.0f, 1, "")

// Where the car's way crosses or joins that of another (search/conflicts.c).
#define DRIVE_COLUMNS_conflict(X) \
    X(conflict, distance, "m", 20.0f, 0, \
      "along the way from the car's front to the shared area, below 0 within it") \
    X(conflict, time, "s", 5.0f, 10, "to it at constant speed, at most 10") \
    X(conflict, other_distance, "m", 20.0f, 0, "the same of the other") \
    X(conflict, other_time, "s", 5.0f, 10, "") \
    X(conflict, x, "m", 20.0f, 0, "where the ways meet") \
    X(conflict, y, "m", 20.0f, 0, "") \
    X(conflict, cos, "", 1.0f, 1, "direction in which the other gets there") \
    X(conflict, sin, "", 1.0f, 1, "") \
    X(conflict, joins, "", 1.0f, 1, "1: both go on along the same lane; 0: the ways cross") \
    X(conflict, walks, "", 1.0f, 1, "1: the other is a pedestrian") \
    X(conflict, goes, "", 1.0f, 1, "1: the car goes first") \
    X(conflict, yields, "", 1.0f, 1, "1: the other goes first") \
    X(conflict, unknown, "", 1.0f, 1, "1: it cannot be known who goes first")

#define DRIVE_COLUMNS_ray(X) \
    X(ray, distance, "m", 50.0f, 0, "from the car's centre to the first thing that the ray meets") \
    X(ray, edge, "", 1.0f, 1, "1: that is a road edge") \
    X(ray, vehicle, "", 1.0f, 1, "1: a vehicle or an object of no known type") \
    X(ray, pedestrian, "", 1.0f, 1, "") \
    X(ray, cyclist, "", 1.0f, 1, "")

// The previous action in the units of the other models. Values beyond the bounds of their block are
// clipped.
#define DRIVE_COLUMNS_curvature(X) \
    X(curvature, acceleration, "m/s^2", 6.0f, 6, "the same of dynamics=invertible_bicycle") \
    X(curvature, curvature, "1/m", 0.3f, 3, "")

#define DRIVE_COLUMNS_delta(X) \
    X(delta, dx, "m", 2.0f, 6, "the same of dynamics=delta_local") \
    X(delta, dy, "m", 2.0f, 6, "") \
    X(delta, dyaw, "rad", 1.0f, 3.14f, "")

#define DRIVE_COLUMNS_jerk(X) \
    X(jerk, jerk, "m/s^3", 15.0f, 15, "the same of dynamics=jerk") \
    X(jerk, lateral_jerk, "m/s^3", 4.0f, 4, "")

// Channels of the raster, in the order of its planes. To add one, add a line at the end, a call in
// raster.c and a choice of raster_channels that has it: policies trained on the other choices keep
// their channels.
#define DRIVE_COLUMNS_channel(X) \
    X(channel, edges, "", 1.0f, 1, "road edges") \
    X(channel, lines, "", 1.0f, 1, "painted lines") \
    X(channel, lanes, "", 1.0f, 1, "lane centre lines") \
    X(channel, goal, "", 1.0f, 1, "disc of the goal radius; 128: straight line to it") \
    X(channel, own, "", 1.0f, 1, "box of the car") \
    X(channel, vehicles, "", 1.0f, 1, "boxes of other vehicles") \
    X(channel, pedestrians, "", 1.0f, 1, "") \
    X(channel, cyclists, "", 1.0f, 1, "") \
    X(channel, others, "", 1.0f, 1, "boxes of what is none of these") \
    X(channel, crosswalks, "", 1.0f, 1, \
      "their areas; this and the next ones with raster_channels=traffic") \
    X(channel, red, "", 1.0f, 1, "stop lines of lights that are red") \
    X(channel, yellow, "", 1.0f, 1, "... yellow") \
    X(channel, green, "", 1.0f, 1, "... green") \
    X(channel, stops, "", 1.0f, 1, "stop lines of stop signs; 128: of yield signs")

// clang-format off
#define DRIVE_COLUMN_SETS(X) \
    X(ego) \
    X(partner) \
    X(segment) \
    X(action) \
    X(curvature) \
    X(delta) \
    X(jerk) \
    X(channel) \
    X(typed_partner) \
    X(pufferdrive_ego) \
    X(pufferdrive_partner) \
    X(pufferdrive_road) \
    X(gpudrive_ego) \
    X(gpudrive_partner) \
    X(gpudrive_road) \
    X(pufferdrive_jerk_ego) \
    X(ray) \
    X(weight) \
    X(route) \
    X(control) \
    X(motion) \
    X(conflict)
// clang-format on

#define DRIVE_MOST_COLUMNS 32 // of a block

// Column numbers DRIVE_ego_speed = 0 ..., how many there are (DRIVE_COUNT_ego), and scales
// DRIVE_SCALE_ego_speed ...
#define COLUMN(set, name, unit, scale, most, meaning) DRIVE_##set##_##name,
#define NUMBERS(set) enum { DRIVE_COLUMNS_##set(COLUMN) DRIVE_COUNT_##set };
DRIVE_COLUMN_SETS(NUMBERS)
#undef NUMBERS
#undef COLUMN
#define SCALE(set, name, unit, scale, most, meaning) \
    static const float DRIVE_SCALE_##set##_##name __attribute__((unused)) = scale;
#define SCALES(set) DRIVE_COLUMNS_##set(SCALE)
DRIVE_COLUMN_SETS(SCALES)
#undef SCALES
#undef SCALE

// ---- blocks ----

#define DRIVE_ONE 0     // the numbers of one thing: a field of shape (columns,)
#define DRIVE_OBJECTS 1 // the nearest objects: a field of shape (k, columns)
#define DRIVE_PICTURE \
    2 // a field of bytes of shape (columns, k, k); after all others, which have to be aligned

// k of the blocks of numbers: of all presets, of one, of those with compact columns.
#define DRIVE_NUMBERS(k) (config->raster_alone ? 0 : (k))
#define DRIVE_OF(preset, k) \
    DRIVE_NUMBERS(config->observation == DRIVE_IS_observation_##preset ? (k) : 0)
#define DRIVE_COMPACT(k) DRIVE_NUMBERS(drive_is_compact(config) ? (k) : 0)

static inline int drive_is_compact(const pv_drive_config* config) {
    return config->observation != DRIVE_IS_observation_pufferdrive &&
           config->observation != DRIVE_IS_observation_gpudrive;
}

// Blocks of the previous action: each belongs to some models of dynamics.
#define DRIVE_STEERED \
    (config->dynamics <= DRIVE_IS_dynamics_classic_pufferdrive || \
     config->dynamics == DRIVE_IS_dynamics_car)
#define DRIVE_JERKS (config->dynamics == DRIVE_IS_dynamics_jerk)
#define DRIVE_PREVIOUS(model) \
    DRIVE_NUMBERS(config->observe_previous_action && config->dynamics == DRIVE_IS_dynamics_##model)

// X(block, set of columns, kind, k, bound of the stored values), in the order of a row. k is 0
// where the block is left out, and 1 for DRIVE_ONE. k and bound are expressions over `config`.
// observe.c has a function write_<block> for each block.
#define DRIVE_BLOCKS(X) \
    X(ego, ego, DRIVE_ONE, DRIVE_COMPACT(1), 20.0f) \
    X(partners, partner, DRIVE_OBJECTS, \
      DRIVE_COMPACT(config->partner_types ? 0 : config->partners), range_bound(config)) \
    X(lanes, segment, DRIVE_OBJECTS, DRIVE_NUMBERS(config->lanes), range_bound(config)) \
    X(lines, segment, DRIVE_OBJECTS, DRIVE_NUMBERS(config->lines), range_bound(config)) \
    X(edges, segment, DRIVE_OBJECTS, DRIVE_NUMBERS(config->edges), range_bound(config)) \
    X(previous_action, action, DRIVE_ONE, \
      DRIVE_NUMBERS(DRIVE_STEERED && config->observe_previous_action), 1.0f) \
    X(previous_curvature, curvature, DRIVE_ONE, DRIVE_PREVIOUS(invertible_bicycle), 10.0f) \
    X(previous_delta, delta, DRIVE_ONE, DRIVE_PREVIOUS(delta_local), 4.0f) \
    X(previous_jerk, jerk, DRIVE_ONE, DRIVE_PREVIOUS(jerk), 1.0f) \
    X(typed_partners, typed_partner, DRIVE_OBJECTS, \
      DRIVE_COMPACT(config->partner_types ? config->partners : 0), range_bound(config)) \
    X(pufferdrive_ego, pufferdrive_ego, DRIVE_ONE, DRIVE_OF(pufferdrive, !DRIVE_JERKS), 20.0f) \
    X(pufferdrive_jerk_ego, pufferdrive_jerk_ego, DRIVE_ONE, DRIVE_OF(pufferdrive, DRIVE_JERKS), \
      20.0f) \
    X(pufferdrive_partners, pufferdrive_partner, DRIVE_OBJECTS, \
      DRIVE_OF(pufferdrive, config->partners), range_bound(config)) \
    X(pufferdrive_roads, pufferdrive_road, DRIVE_OBJECTS, DRIVE_OF(pufferdrive, config->roads), \
      range_bound(config)) \
    X(gpudrive_ego, gpudrive_ego, DRIVE_ONE, DRIVE_OF(gpudrive, 1), 20.0f) \
    X(gpudrive_partners, gpudrive_partner, DRIVE_OBJECTS, DRIVE_OF(gpudrive, config->partners), \
      range_bound(config)) \
    X(gpudrive_roads, gpudrive_road, DRIVE_OBJECTS, DRIVE_OF(gpudrive, config->roads), \
      range_bound(config)) \
    X(route, route, DRIVE_OBJECTS, DRIVE_NUMBERS(config->route), 20.0f) \
    X(controls, control, DRIVE_OBJECTS, DRIVE_NUMBERS(config->controls), range_bound(config)) \
    X(lidar, ray, DRIVE_OBJECTS, DRIVE_NUMBERS(config->lidar_rays), lidar_bound(config)) \
    X(weights, weight, DRIVE_ONE, DRIVE_NUMBERS(config->observe_weights), 1.0f) \
    X(motion, motion, DRIVE_ONE, DRIVE_NUMBERS(config->observe_motion), 4.0f) \
    X(conflicts, conflict, DRIVE_OBJECTS, DRIVE_NUMBERS(config->conflicts), range_bound(config)) \
    X(raster, channel, DRIVE_PICTURE, config->raster, 255.0f)

#define NUMBER(block, set, kind, k, bound) DRIVE_BLOCK_##block,

enum { DRIVE_BLOCKS(NUMBER) DRIVE_BLOCK_COUNT };

#undef NUMBER

// Returns how many of the `listed` columns a block has with a config.
static inline uint32_t drive_columns(const pv_drive_config* config, int block, uint32_t listed) {
    const int basic =
        block == DRIVE_BLOCK_raster && config->raster_channels == DRIVE_IS_raster_channels_basic;
    return basic ? DRIVE_channel_others + 1 : listed;
}

// The counters of blocks of objects: how many were seen, how many were within the range and did not
// fit, and the distance of the last one in cm.
#define DRIVE_COUNTED(X) X(partners) X(lanes) X(lines) X(edges) X(roads) X(controls)

// Running counters of an env, three at the end for each of DRIVE_COUNTED.
#define COUNTERS(counted) \
    DRIVE_COUNTER_##counted, DRIVE_COUNTER_AFTER_##counted = DRIVE_COUNTER_##counted + 2,

enum {
    DRIVE_COUNTER_ACTIVE,  // rows with an agent in its scene
    DRIVE_COUNTER_IDLE,    // rows whose agent is done
    DRIVE_COUNTER_PADDING, // rows without an agent
    DRIVE_COUNTER_SAMPLED, // rows over which the following counters are summed
    DRIVE_COUNTED(COUNTERS) DRIVE_COUNTER_COUNT
};

#undef COUNTERS
_Static_assert(DRIVE_COUNTER_COUNT <= PV_COUNTERS, "counters do not fit");

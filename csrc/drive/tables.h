// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What the driving env shares with Python, each list once: its settings, the names that some of them take, the terms of the reward,
// and the blocks and columns of an observation. The config struct, row offsets, bounds and counters are made from these lists. Python
// reads them through pv_drive_settings, pv_drive_choices, pv_drive_rewards and pv_drive_blocks. docs/drive.md says how to add a block.
//
// An observation row is one block after the other, each of float32. A block holds the numbers of one thing (ego) or of its k
// nearest objects (partners), sorted by distance. Missing objects are all zeros, and a present one never is. "x" is ahead of
// the car and "y" to its left; "cos" and "sin" are of the angle from the car's heading. A block of size 0 is left out. The last
// block is a picture of bytes, whose columns are its channels.
#pragma once

#include "../base.h"

/* [cffi] */
typedef struct pv_drive_setting {
    const char* name;
    double low, high; // inclusive
} pv_drive_setting;

// A setting that takes a name. In C it is the name's place in the list.
typedef struct pv_drive_choice {
    const char* setting;
    const char* const* names;
    uint32_t count;
} pv_drive_choice;

typedef struct pv_drive_column {
    const char* name;
    const char* unit; // of the stored value times scale
    float scale;
    const char* meaning;
} pv_drive_column;

typedef struct pv_drive_observation_block {
    const char* name;
    const pv_drive_column* columns; // of the block, or of one of its objects; channels of a picture
    uint32_t column_count;
} pv_drive_observation_block;

typedef struct pv_drive_reward {
    const char* name;
    const char* unit; // of the value that the weight reward_<name> is multiplied with
    const char* meaning;
} pv_drive_reward;

// The lists below; `count` receives their length.
const pv_drive_setting* pv_drive_settings(uint32_t* count);
const pv_drive_choice* pv_drive_choices(uint32_t* count);
const pv_drive_reward* pv_drive_rewards(uint32_t* count);
const pv_drive_observation_block* pv_drive_blocks(uint32_t* count);
/* [/cffi] */

#define DRIVE_MAX_AGENTS 4096 // rows of one env
#define DRIVE_MAX_K 64        // objects of one block
#define DRIVE_MAX_RASTER 1024 // pixels along a side of the raster

// ---- rewards ------------------------------------------------------------------------------------------------------

// What is measured of a step where a term of the reward or the metrics ask for it (measure.c).
#define DRIVE_PART_MOTION 1u // accelerations
#define DRIVE_PART_LANE 2u   // the car's lane
#define DRIVE_PART_LIGHT 4u  // red lights
#define DRIVE_PART_LOG 8u    // where the log has the car
#define DRIVE_PART_AHEAD 16u // what it drives towards
#define DRIVE_PARTS 31u

// The reward of a step is the sum of weight * value over these terms, in this order. TERM(X, name, part, unit of the value,
// meaning): the setting reward_<name> is the weight, value_<name> in reward.c gives the value. X is handed through.
#define DRIVE_REWARDS(X, TERM) DRIVE_REWARDS_ALWAYS(X, TERM) DRIVE_REWARDS_ASKED(X, TERM)
#define DRIVE_REWARDS_ALWAYS(X, TERM)                                                                                          \
    TERM(X, step, 0, "", "1 in every step")                                                                                    \
    TERM(X, collision, 0, "", "contacts that begin")                                                                           \
    TERM(X, offroad, 0, "", "1 in a step with a departure")                                                                    \
    TERM(X, progress, 0, "m", "by which the goal comes nearer, until it is reached")                                           \
    TERM(X, goal, 0, "", "1 in the step that reaches the goal")
#define DRIVE_REWARDS_ASKED(X, TERM)                                                                                           \
    TERM(X, acceleration, DRIVE_PART_MOTION, "m/s^2", "size of the acceleration along the heading")                            \
    TERM(X, jerk, DRIVE_PART_MOTION, "m/s^3", "size of its change per second; 0 in the first step")                            \
    TERM(X, lateral, DRIVE_PART_MOTION, "m/s^2", "size of speed * yaw rate")                                                   \
    TERM(X, lane_align, DRIVE_PART_LANE, "", "cosine of the angle between the car's motion and its lane; 0 without a lane")    \
    TERM(X, lane_center, DRIVE_PART_LANE, "m", "distance from the lane's centre line; 4 without a lane")                       \
    TERM(X, log, DRIVE_PART_LOG, "m", "distance from where the log has the car; 0 where it has no such frame")

#define DRIVE_REWARD_SETTING(X, name, part, unit, meaning) X(float, reward_##name, -1000, 1000)
#define DRIVE_REWARD_NUMBER(X, name, part, unit, meaning) DRIVE_REWARD_##name,
enum { DRIVE_REWARDS(, DRIVE_REWARD_NUMBER) DRIVE_REWARD_COUNT };

// ---- settings -----------------------------------------------------------------------------------------------------

// Names that a setting takes: X(setting, name), the default first or where older runs have it; new ones go to the end. The
// setting has DRIVE_CHOICES(setting) as its highest value, and each name is a constant: DRIVE_IS_control_moving = 0 ...
#define DRIVE_CHOICES_control(X)                                                                                               \
    X(control, moving) /* vehicles valid at the start, not marked as expert, whose goal is at least 2 m away */                \
    X(control, valid)  /* all vehicles valid at the start */

#define DRIVE_CHOICE_SETS(X) X(control)

#define CHOICE(set, name) DRIVE_IS_##set##_##name,
#define CHOICES(set) enum { DRIVE_CHOICES_##set(CHOICE) DRIVE_CHOICE_COUNT_##set };
DRIVE_CHOICE_SETS(CHOICES)
#undef CHOICES
#undef CHOICE
#define DRIVE_CHOICES(set) (DRIVE_CHOICE_COUNT_##set - 1)

// X(type, name, lowest, highest), in the order of DriveConfig (drive_env/config.py), which says what they mean.
#define DRIVE_SETTINGS(X)                                                                                                      \
    X(int32_t, num_agents, 1, DRIVE_MAX_AGENTS)                                                                                \
    X(int32_t, control, 0, DRIVE_CHOICES(control))                                                                             \
    X(int32_t, resample_steps, 1, 1000000)                                                                                     \
    X(int32_t, max_steps, 0, 1000000)                                                                                          \
    X(int32_t, partners, 0, DRIVE_MAX_K)                                                                                       \
    X(int32_t, lanes, 0, DRIVE_MAX_K)                                                                                          \
    X(int32_t, lines, 0, DRIVE_MAX_K)                                                                                          \
    X(int32_t, edges, 0, DRIVE_MAX_K)                                                                                          \
    X(int32_t, observe_previous_action, 0, 1)                                                                                  \
    X(int32_t, raster, 0, DRIVE_MAX_RASTER)                                                                                    \
    X(float, raster_pixel_m, 0.1, 10)                                                                                          \
    X(float, raster_ahead, 0, 1)                                                                                               \
    X(int32_t, raster_alone, 0, 1)                                                                                             \
    X(float, range_m, 1, 500)                                                                                                  \
    X(float, goal_radius_m, 0.1, 100)                                                                                          \
    X(int32_t, remove_at_goal, 0, 1)                                                                                           \
    DRIVE_REWARDS(X, DRIVE_REWARD_SETTING)                                                                                     \
    X(int32_t, draw_rewards, 0, 1)                                                                                             \
    X(float, max_speed_mps, 1, 100)                                                                                            \
    X(float, max_reverse_mps, 0, 100)                                                                                          \
    X(float, wheelbase_factor, 0.2, 1)                                                                                         \
    X(int32_t, replay_log, 0, 1)                                                                                               \
    X(int32_t, metrics, 0, 1)

typedef struct pv_drive_config {
#define MEMBER(type, name, low, high) type name;
    DRIVE_SETTINGS(MEMBER)
#undef MEMBER
} pv_drive_config;

// The weights follow each other: &config->reward_step is the array of them.
#define CHECK(X, name, part, unit, meaning)                                                                                    \
    _Static_assert(offsetof(pv_drive_config, reward_##name) - offsetof(pv_drive_config, reward_step) ==                        \
                       sizeof(float) * DRIVE_REWARD_##name, "weights are an array");
DRIVE_REWARDS(, CHECK)
#undef CHECK

// ---- columns ------------------------------------------------------------------------------------------------------

#define DRIVE_GOAL_NEAR_M 20.0f // goal_nearness is 1 at the goal and one half this far from it

// X(set of columns, name, unit, scale, meaning)
#define DRIVE_COLUMNS_ego(X)                                                                                                   \
    X(ego, speed, "m/s", 10.0f, "along the heading, negative backward")                                                        \
    X(ego, width, "m", 2.0f, "of the car")                                                                                     \
    X(ego, length, "m", 5.0f, "of the car")                                                                                    \
    X(ego, goal_x, "m", 50.0f, "where the goal is")                                                                            \
    X(ego, goal_y, "m", 50.0f, "")                                                                                             \
    X(ego, goal_cos, "", 1.0f, "direction to the goal; (0, 0) on it")                                                          \
    X(ego, goal_sin, "", 1.0f, "")                                                                                             \
    X(ego, goal_distance, "m", 50.0f, "from the car's centre")                                                                 \
    X(ego, goal_nearness, "", 1.0f, "20 / (20 + distance in m): fine where it matters")                                        \
    X(ego, needed_speed, "m/s", 10.0f, "distance / time left")                                                                 \
    X(ego, time_left, "", 1.0f, "share of the episode")                                                                        \
    X(ego, collided, "", 1.0f, "1 while it touches an object")                                                                 \
    X(ego, offroad, "", 1.0f, "1 while it touches a road edge")

#define DRIVE_COLUMNS_partner(X)                                                                                               \
    X(partner, x, "m", 20.0f, "centre")                                                                                        \
    X(partner, y, "m", 20.0f, "")                                                                                              \
    X(partner, cos, "", 1.0f, "its heading")                                                                                   \
    X(partner, sin, "", 1.0f, "")                                                                                              \
    X(partner, velocity_x, "m/s", 10.0f, "relative to the car")                                                                \
    X(partner, velocity_y, "m/s", 10.0f, "")                                                                                   \
    X(partner, width, "m", 2.0f, "")                                                                                           \
    X(partner, length, "m", 5.0f, "")

#define DRIVE_COLUMNS_segment(X)                                                                                               \
    X(segment, x, "m", 20.0f, "midpoint")                                                                                      \
    X(segment, y, "m", 20.0f, "")                                                                                              \
    X(segment, half_length, "m", 10.0f, "")                                                                                    \
    X(segment, cos, "", 1.0f, "its direction")                                                                                 \
    X(segment, sin, "", 1.0f, "")                                                                                              \
    X(segment, distance, "m", 10.0f, "from the car's centre to the segment")                                                   \
    X(segment, lateral, "m", 5.0f, "of the car from the segment's line, positive to the left of it")

#define DRIVE_COLUMNS_action(X)                                                                                                \
    X(action, acceleration, "m/s^2", 4.0f, "what the agent chose in the last step; 0 in the first row of an episode")          \
    X(action, steering, "rad", 1.0f, "")

// Channels of the raster, in the order of its planes. Another one is a line here, at the end, and a call in raster.c; policies
// that were trained on fewer channels do not fit then.
#define DRIVE_COLUMNS_channel(X)                                                                                               \
    X(channel, edges, "", 1.0f, "road edges")                                                                                  \
    X(channel, lines, "", 1.0f, "painted lines")                                                                               \
    X(channel, lanes, "", 1.0f, "lane centre lines")                                                                           \
    X(channel, goal, "", 1.0f, "disc of the goal radius; 128: straight line to it")                                            \
    X(channel, own, "", 1.0f, "box of the car")                                                                                \
    X(channel, vehicles, "", 1.0f, "boxes of other vehicles")                                                                  \
    X(channel, pedestrians, "", 1.0f, "")                                                                                      \
    X(channel, cyclists, "", 1.0f, "")                                                                                         \
    X(channel, others, "", 1.0f, "boxes of what is none of these")

#define DRIVE_COLUMN_SETS(X) X(ego) X(partner) X(segment) X(action) X(channel)

// Column numbers DRIVE_ego_speed = 0 ..., how many there are (DRIVE_COUNT_ego), and scales DRIVE_SCALE_ego_speed ...
#define COLUMN(set, name, unit, scale, meaning) DRIVE_##set##_##name,
#define NUMBERS(set) enum { DRIVE_COLUMNS_##set(COLUMN) DRIVE_COUNT_##set };
DRIVE_COLUMN_SETS(NUMBERS)
#undef NUMBERS
#undef COLUMN
#define SCALE(set, name, unit, scale, meaning) static const float DRIVE_SCALE_##set##_##name __attribute__((unused)) = scale;
#define SCALES(set) DRIVE_COLUMNS_##set(SCALE)
DRIVE_COLUMN_SETS(SCALES)
#undef SCALES
#undef SCALE

// ---- blocks -------------------------------------------------------------------------------------------------------

#define DRIVE_ONE 0     // the numbers of one thing: a field of shape (columns,)
#define DRIVE_OBJECTS 1 // the nearest objects: a field of shape (k, columns), and three counters
#define DRIVE_PICTURE 2 // a field of bytes of shape (columns, k, k); behind all others, which need aligned places

#define DRIVE_NUMBERS(k) (config->raster_alone ? 0 : (k)) // k of the blocks of float32

// X(block, set of columns, kind, k, bound of the stored values), in the order of a row. k is 0 where the block is left out, and
// 1 for DRIVE_ONE. k and bound are expressions over `config`. observe.c has a function write_<block> for each block.
#define DRIVE_BLOCKS(X)                                                                                                        \
    X(ego, ego, DRIVE_ONE, DRIVE_NUMBERS(1), 20.0f)                                                                            \
    X(partners, partner, DRIVE_OBJECTS, DRIVE_NUMBERS(config->partners), range_bound(config))                                  \
    X(lanes, segment, DRIVE_OBJECTS, DRIVE_NUMBERS(config->lanes), range_bound(config))                                        \
    X(lines, segment, DRIVE_OBJECTS, DRIVE_NUMBERS(config->lines), range_bound(config))                                        \
    X(edges, segment, DRIVE_OBJECTS, DRIVE_NUMBERS(config->edges), range_bound(config))                                        \
    X(previous_action, action, DRIVE_ONE, DRIVE_NUMBERS(config->observe_previous_action), 1.0f)                                \
    X(raster, channel, DRIVE_PICTURE, config->raster, 255.0f)

#define NUMBER(block, set, kind, k, bound) DRIVE_BLOCK_##block,
enum { DRIVE_BLOCKS(NUMBER) DRIVE_BLOCK_COUNT };
#undef NUMBER

// Running counters of an env. The last ones are of the blocks of objects: how many were seen, how many were within the range
// and did not fit, and the distance of the last one in cm.
#define COUNTERS(block, set, kind, k, bound)                                                                                \
    DRIVE_COUNTER_##block, DRIVE_COUNTER_AFTER_##block = DRIVE_COUNTER_##block + 3 * (kind == DRIVE_OBJECTS) - 1,
enum {
    DRIVE_COUNTER_ACTIVE,  // rows with an agent in its scene
    DRIVE_COUNTER_IDLE,    // rows whose agent is done
    DRIVE_COUNTER_PADDING, // rows without an agent
    DRIVE_COUNTER_SAMPLED, // rows that the following ones were summed over
    DRIVE_BLOCKS(COUNTERS) DRIVE_COUNTER_COUNT
};
#undef COUNTERS
_Static_assert(DRIVE_COUNTER_COUNT <= PV_COUNTERS, "counters do not fit");

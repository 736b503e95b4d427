// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// State of the driving env over a block of envs. Runs in workers; the block owns the memory.
//
//   block->state: | drive_block | agents[] order[] sizes[] waste[] | scratch | env 0 | env 1 | ...
//
//   env: | drive_env | drive_slot[slots]
//        | x[A] y[A] ...                    one array per field of DRIVE_AGENT_FIELDS
//        | DRIVE_JUDGED_FIELDS              the same; these and the next three only if needed
//        | weights[A][DRIVE_REWARD_COUNT]
//        | DRIVE_MOTION_FIELDS              the same
//        | played[A][axes]
//        | DRIVE_FOLLOWER_FIELDS            the same for all followers; only if there are any
//
// Parts start on 64 bytes.
//
// An env is flat and holds indices only, so saving and loading copy bytes. Scratch keeps nothing
// from one turn to the next. A row belongs to one agent for as long as its scene stays in the
// bundle; the rows of a scene (slot) are consecutive, in the order of its objects.
#pragma once

#include "contract/base.h"
#include "contract/env.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/tables.h"

#define DRIVE_CACHE_LINE 64
#define DRIVE_SAMPLE_STEPS 32 // the counters look at every 32nd step of a scene
#define DRIVE_KINDS 6         // kinds of drivers (kinds.c)

// Agent flags.
#define DRIVE_ACTIVE 1u   // in the scene: acts, is seen, collides
#define DRIVE_COLLIDED 2u // touches an object
#define DRIVE_OFFROAD 4u  // touches a road edge, or crossed one in this step
#define DRIVE_REACHED 8u  // reached its goal in this episode
#define DRIVE_SCORED 16u  // ... without an earlier contact or departure
#define DRIVE_BLANK 32u   // done, and its observation row is zeros already
#define DRIVE_ALONE 64u   // has respawned: it and the other agents ignore each other
#define DRIVE_NO_GOAL \
    128u // starts at its goal: does not count as reaching it, since it has not driven
#define DRIVE_ENDED (7u << DRIVE_END_SHIFT) // how its row has ended, in this step or an earlier one
#define DRIVE_END_SHIFT 8
#define DRIVE_BY_IDM \
    (1u << 11) // traffic: in this episode no policy drives it, but IDM or its log; not active
#define DRIVE_BY_LOG (1u << 12)
#define DRIVE_TRAFFIC (DRIVE_BY_IDM | DRIVE_BY_LOG)
#define DRIVE_AGAIN_SHIFT 16 // above: how often it reached its goal after the first time

// How a row ends.
#define DRIVE_END_GONE 1u  // terminal; the agent disappears in the next step
#define DRIVE_END_STAYS 2u // terminal, and the agent stays where it is, as an obstacle
#define DRIVE_END_CUT \
    3u // truncation, since the log that it follows has ended; it disappears in the next step
#define DRIVE_END_RETURNS 4u // terminal, and a new row of it begins at its start

// What happened to an agent in a step.
#define DRIVE_EVENT_CONTACT 1u   // a contact began
#define DRIVE_EVENT_DEPARTURE 2u // it began to touch a road edge, or crossed one
#define DRIVE_EVENT_GOAL 4u      // it reached its goal

#define DRIVE_LANE_REACH_M 4.0f  // farther from a lane's centre line a car is in no lane
#define DRIVE_ALIGNED 0.9659258f // cosine of 15 degrees: within them a car is aligned with its lane
#define DRIVE_MOST_TTC_S 5.0f    // no time to collision is longer
#define DRIVE_SHORT_TTC_S 0.95f  // ... and those below are short

// Per agent, by row: first the values that change with every step, then those that are set when the
// scene starts, last the sums of the episode.
#define DRIVE_AGENT_FIELDS(X) \
    X(float, x) /* m, scene frame */ \
    X(float, y) \
    X(float, heading) /* rad, [-pi, pi) */ \
    X(float, cosine)  /* of heading */ \
    X(float, sine) \
    X(float, speed)         /* m/s, signed, along the heading */ \
    X(float, goal_distance) /* m, from the centre */ \
    X(uint32_t, flags)      /* DRIVE_ACTIVE ... */ \
    X(float, length)        /* m */ \
    X(float, width) \
    X(float, goal_x) /* m, scene frame */ \
    X(float, goal_y) \
    X(float, \
      ground) /* height of the ground under it, m; follows the road where the scene has levels */ \
    X(uint32_t, surface) /* segment that it stands next to, or DRIVE_NO_SEGMENT */ \
    X(uint32_t, object)  /* index in the scene */ \
    X(uint32_t, slot) \
    X(float, episode_return) \
    X(float, progress)      /* m by which goal_distance shrank */ \
    X(uint32_t, contacts)   /* contacts that began */ \
    X(uint32_t, departures) /* times it began to touch an edge */ \
    X(uint32_t, goal_step)  /* clock at which the goal was reached first */ \
    X(float, seen_x)        /* m: where it was when its road block was last filled */ \
    X(float, seen_y) \
    X(float, seen_reach) /* m: and how far that reached, 0: unknown; speeds up the search and \
                            changes no result */

#define DRIVE_NO_SEGMENT UINT32_MAX

// The values that a model of dynamics or a limit keeps from step to step. They exist only where
// drive_block.motion is set and are NULL otherwise: states of the default have nothing to save
// here.
#define DRIVE_MOTION_FIELDS(X) \
    X(float, acceleration) /* m/s^2 along the heading, of the last step */ \
    X(float, lateral)      /* m/s^2 to the left */ \
    X(float, steering)     /* rad, of the front wheels */

typedef struct drive_agents {
#define FIELD(type, name) type* name; // (A,)
    DRIVE_AGENT_FIELDS(FIELD)
    DRIVE_MOTION_FIELDS(FIELD)
#undef FIELD
} drive_agents;

// Per agent, by row; they exist only if a term of the reward or the metrics needs a part of a step
// (DRIVE_PART_...). All but the first two are sums of the episode. X(type, code, name, unit,
// highest); the lowest value is minus the highest, or 0 for a count.
#define DRIVE_JUDGED_FIELDS(X) \
    X(float, PV_F32, acceleration, "m/s^2", 1e5f) /* of the last step */ \
    X(float, PV_F32, displacement, "m", 1e7f)     /* distance from the log, as it was last */ \
    X(uint32_t, PV_U32, judged_steps, "", 1e9f) \
    X(float, PV_F32, displacement_sum, "m", 1e12f) \
    X(uint32_t, PV_U32, displacement_steps, "", 1e9f) \
    X(uint32_t, PV_U32, lane_steps, "", 1e9f) \
    X(uint32_t, PV_U32, aligned_steps, "", 1e9f) \
    X(float, PV_F32, lane_offset_sum, "m", 1e10f) \
    X(float, PV_F32, wrong_way, "m", 1e10f) \
    X(uint32_t, PV_U32, limit_steps, "", 1e9f) \
    X(uint32_t, PV_U32, speeding_steps, "", 1e9f) \
    X(uint32_t, PV_U32, red_lights, "", 1e9f)     /* crossed */ \
    X(uint32_t, PV_U32, faults, "", 1e9f)         /* contacts that were its fault */ \
    X(uint32_t, PV_U32, contact_step, "", 1e9f)   /* clock of the first contact; 0: none */ \
    X(uint32_t, PV_U32, departure_step, "", 1e9f) /* ... departure */ \
    X(float, PV_F32, span_speed, "m/s", \
      1e5f) /* where the last span ended: speed, heading, its mean acceleration */ \
    X(float, PV_F32, span_heading, "rad", 4.0f) \
    X(float, PV_F32, span_acceleration, "m/s^2", 1e5f) \
    X(uint32_t, PV_U32, spans, "", 1e9f) \
    X(uint32_t, PV_U32, comfortable_spans, "", 1e9f) \
    X(float, PV_F32, path_sum, "m", \
      1e12f) /* at the ends of spans: distances from the log's path */ \
    X(float, PV_F32, peak_acceleration, "m/s^2", 1e5f) \
    X(float, PV_F32, peak_braking, "m/s^2", 1e5f) \
    X(float, PV_F32, peak_lateral, "m/s^2", 1e5f) \
    X(float, PV_F32, peak_jerk, "m/s^3", 1e7f) \
    X(uint32_t, PV_U32, short_ttc_steps, "", 1e9f) \
    X(float, PV_F32, least_ttc, "s", DRIVE_MOST_TTC_S) \
    X(float, PV_F32, since_stop, "m", 1e9f) /* driven since it last stood, or since the start */ \
    X(uint32_t, PV_U32, signs_run, "", 1e9f) \
    X(float, PV_F32, most_over_limit, "m/s", 1e5f) \
    X(uint32_t, PV_U32, red_light_step, "", \
      1e9f) /* clock at the first red light that was run; 0: none */ \
    X(uint32_t, PV_U32, stop_sign_step, "", 1e9f) /* ... stop sign */ \
    X(uint32_t, PV_U32, yields_failed, "", 1e9f)  /* entered the way of a body that went first */ \
    X(uint32_t, PV_U32, yield_step, "", 1e9f)     /* clock at the first of them; 0: none */ \
    X(uint32_t, PV_U32, contact_object, "", \
      1e9f) /* 1 + the object of the first contact; 0: none. The next fields describe it: */ \
    X(uint32_t, PV_U32, contact_driver, "", 2.0f) /* who moves that object: PV_DRIVE_BY_... */ \
    X(uint32_t, PV_U32, contact_fault, "", 1.0f)  /* it was the agent's fault */ \
    X(float, PV_F32, contact_x, "m", \
      1e7f) /* the agent before that step, and its speed after it */ \
    X(float, PV_F32, contact_y, "m", 1e7f) \
    X(float, PV_F32, contact_heading, "rad", 4.0f) \
    X(float, PV_F32, contact_speed, "m/s", 1e5f) \
    X(float, PV_F32, other_x, "m", 1e7f) /* the same of the other body */ \
    X(float, PV_F32, other_y, "m", 1e7f) \
    X(float, PV_F32, other_heading, "rad", 4.0f) \
    X(float, PV_F32, other_speed, "m/s", 1e5f)

// The fields of DRIVE_AGENT_FIELDS that the readable state shows in addition.
#define DRIVE_SUM_FIELDS(X) \
    X(float, PV_F32, episode_return, "", 1e30f) \
    X(float, PV_F32, progress, "m", 1e9f) \
    X(uint32_t, PV_U32, contacts, "", 1e9f) \
    X(uint32_t, PV_U32, departures, "", 1e9f) \
    X(uint32_t, PV_U32, goal_step, "", 1e9f)

typedef struct drive_judged {
#define FIELD(type, code, name, unit, high) type* name; // (A,)
    DRIVE_JUDGED_FIELDS(FIELD)
#undef FIELD
} drive_judged;

#define FIELD(type, code, name, unit, high) +1

enum { DRIVE_JUDGED_FIELD_COUNT = 0 DRIVE_JUDGED_FIELDS(FIELD) };

#undef FIELD

// What an agent did in a step. Parts that are not measured are 0.
typedef struct drive_outcome {
    uint32_t begun;                    // contacts that began
    int departed;                      // began to touch a road edge, or crossed one
    int arrived;                       // reached its goal
    float goal_share;                  // the reward for that, as a share of reward_goal
    float nearer;                      // m by which the distance to the goal shrank
    float acceleration, jerk, lateral; // MOTION: m/s^2 along the heading, m/s^3, m/s^2 to the left
    float yaw_rate;                    // MOTION: rad/s
    int in_lane;                       // LANE: a lane is in reach
    float lane_cos;      // LANE: of the angle between the car's direction and the lane
    float lane_offset;   // LANE: m from its centre line, DRIVE_LANE_REACH_M without one
    int has_limit;       // LANE: it has a speed limit
    float over_limit;    // LANE: m/s by which the car is faster
    int red_light;       // LIGHT: crossed a stop line at red
    int must_stop;       // LIGHT: crossed one at which every car has to stop
    float haste;         // m/s above HASTE times the speed that reaches the goal in time
    float log_distance;  // LOG: m
    int logged;          // LOG: the log has a frame
    float ttc;           // AHEAD: s to a collision with the object ahead, at most DRIVE_MOST_TTC_S
    int failed_to_yield; // YIELD: entered the way of a body that goes first
} drive_outcome;

#define FIELD(type, name) +1

enum {
    DRIVE_AGENT_FIELD_COUNT = 0 DRIVE_AGENT_FIELDS(FIELD),
    DRIVE_MOTION_FIELD_COUNT = 0 DRIVE_MOTION_FIELDS(FIELD)
};

#undef FIELD

// Followers (followers.c), by slot and in object order. X(type, code, name, unit, low, high): the
// values that a step changes,
#define DRIVE_FOLLOWER_WAITS 0 // for its log to begin
#define DRIVE_FOLLOWS_LOG 1
#define DRIVE_FOLLOWS_LANE 2
#define DRIVE_FOLLOWER_GONE 3
#define DRIVE_FOLLOWER_FIELDS(X) \
    X(uint32_t, PV_U32, phase, "", 0.0f, 3.0f) /* DRIVE_FOLLOWER_... */ \
    X(uint32_t, PV_U32, to, "", 0.0f, \
      65535.0f) /* where the piece of its path ends: a frame, or a lane segment */ \
    X(uint32_t, PV_U32, served, "", 0.0f, \
      65536.0f)                                /* 1 + the stop sign that it last stopped at */ \
    X(float, PV_F32, from_x, "m", -1e6f, 1e6f) /* where that piece starts */ \
    X(float, PV_F32, from_y, "m", -1e6f, 1e6f) \
    X(float, PV_F32, from_heading, "rad", -DRIVE_PI, DRIVE_PI) \
    X(float, PV_F32, along, "m", 0.0f, 1e5f)     /* from there */ \
    X(float, PV_F32, speed, "m/s", 0.0f, 400.0f) /* along the path */
// ... and those that stay the same for an episode.
#define DRIVE_FOLLOWER_CONSTANTS(X) \
    X(uint32_t, object) \
    X(uint32_t, join) /* lane segment on which its path continues after the log */ \
    X(float, wanted)  /* m/s, when nothing is in the way */

typedef struct drive_followers {
#define FIELD(type, code, name, unit, low, high) type* name; // (layout->followers,)
    DRIVE_FOLLOWER_FIELDS(FIELD)
#undef FIELD
#define FIELD(type, name) type* name;
    DRIVE_FOLLOWER_CONSTANTS(FIELD)
#undef FIELD
} drive_followers;

#define FIELD(...) +1

enum {
    DRIVE_FOLLOWER_FIELD_COUNT = 0 DRIVE_FOLLOWER_FIELDS(FIELD) DRIVE_FOLLOWER_CONSTANTS(FIELD)
};

#undef FIELD

// A scene of the bundle.
typedef struct drive_slot {
    uint32_t scene;
    uint32_t row;                      // its first row
    uint32_t count;                    // its rows
    uint32_t clock;                    // steps of this episode
    uint32_t over;                     // the episode ended: the next turn starts another
    uint32_t follower, follower_count; // its followers (follow.c): the first, and how many
    uint32_t failed;                   // an agent did not score in the last complete episode
    uint32_t repeats;                  // how often it was drawn again in a row
} drive_slot;

typedef struct drive_env {
    uint64_t seed;
    uint64_t episode; // number of the bundle
    uint64_t drawn;   // scenes drawn so far under scene_draws=passes
    int64_t task;     // scene that it holds alone, or -1
    uint32_t step;    // turns since the bundle was filled
    uint32_t slots;   // scenes in it
    uint32_t rows;    // rows assigned to agents; the rest is padding
    uint32_t over;    // the next turn fills a new bundle
    uint64_t poked;   // seed ^ drive_bundle_seed; states that older versions saved have 0 here
} drive_env;

// The values of one axis of the model from which actions choose (actions.c).
typedef struct drive_axis {
    uint32_t count;
    float low, high; // of a continuous action
    float values[DRIVE_MAX_VALUES];
} drive_axis;

typedef struct drive_axes {
    uint32_t count;
    drive_axis axes[DRIVE_MAX_AXES];
} drive_axes;

// Offsets of the parts, in bytes from block->state, and constants of the block. It lies at the
// front of block->state.
typedef struct drive_block {
    uint32_t agents;         // A: rows per env
    uint32_t agent_stride;   // A rounded up, elements between two agent arrays
    uint32_t slots;          // most scenes in a bundle
    uint32_t scenes;         // eligible scenes
    uint32_t bodies;         // room for the objects of any eligible scene, rounded up
    uint32_t segments;       // room for the segments of any eligible scene, rounded up
    uint32_t groups;         // room for the groups of segments of any eligible scene, rounded up
    uint32_t numbers;        // in the largest block
    uint32_t blocks;         // of a row, a bit each
    uint64_t agents_offset;  // uint32_t[all scenes]: rows that a scene needs, 0: cannot be drawn
    uint64_t checked_offset; // uint8_t[all scenes]: 1 once drive_scene_verify has passed it
    uint64_t opened_offset;  // drive_scene[all scenes]: of those that it has passed
    uint64_t order_offset;   // uint32_t[scenes]: eligible scenes by size, then by index
    uint64_t
        sizes_offset; // uint32_t[A + 2]: scenes of n agents are order[sizes[n] .. sizes[n + 1])
    uint64_t waste_offset;  // uint32_t[A + 1]: fewest rows that stay empty of n free ones
    uint64_t shares_offset; // double[scenes + 1]: sums of the weights of order[0 .. n); 0: all
                            // scenes weigh the same
    uint64_t scratch_offset;
    uint64_t envs_offset;
    uint64_t env_bytes;
    uint64_t bytes; // of all
    uint64_t slots_offset, arrays_offset, judged_offset,
        weights_offset;                   // within an env; the last two are 0 where not needed
    uint32_t followers;                   // room for the followers of a bundle
    uint64_t followers_offset;            // within an env
    uint32_t parts;                       // DRIVE_PART_... that are measured
    uint32_t paid;                        // bit t: term t has a weight
    uint32_t conditioned;                 // bit t: the weight of term t is drawn for each agent
    float ranges[DRIVE_REWARD_COUNT][2];  // of the weights: lowest, highest
    uint32_t observed[DRIVE_BLOCK_COUNT]; // where each block starts in an observation row, in bytes
    uint32_t motion;                      // agents have DRIVE_MOTION_FIELDS
    uint32_t traffic;                     // some of them may be traffic
    uint32_t ways;                        // the ways of bodies are laid out
    uint32_t kinds;                       // the kinds of followers' drivers are drawn
    float kind_shares[DRIVE_KINDS];       // the sum of the shares up to each kind
    uint32_t repeats;                     // scenes may be drawn again
    uint64_t motion_offset;               // ... within an env
    uint64_t played_offset;               // the same, under expert_actions, else 0
    drive_axes axes;
} drive_block;

// A piece of the way of a body (search/conflicts.c).
#define DRIVE_WAY_PIECES 40u

typedef struct drive_way_piece {
    float x, y, ux, uy; // its first point, m, and its direction
    float length;       // m
    float at;           // m along the way from the body's centre to the first point
    uint32_t segment;   // of a lane, or DRIVE_NO_SEGMENT
    uint32_t rule;      // DRIVE_RULE_...: what controls the traffic there
} drive_way_piece;

// Rows of bodies that are not agents.
#define DRIVE_LOGGED_ROW (-1)   // an object that follows its log
#define DRIVE_STANDING_ROW (-2) // an agent that stays where its row has ended
#define DRIVE_FOLLOWER_ROW (-3) // and downward: a follower
#define DRIVE_NOWHERE_M 1e9f    // coordinate of an object that is not in the scene

// Objects that are in the scene at this step, agents and others, in object order.
typedef struct drive_bodies {
    float *x, *y, *heading, *cosine, *sine, *speed, *half_length, *half_width, *radius; // (bodies,)
    float* ground;    // (bodies,) height of its underside, m
    uint32_t* object; // (bodies,)
    int32_t* row;     // (bodies,) the agent's row, or DRIVE_..._ROW
    uint32_t count;   // entries beyond it, up to a multiple of 16, are far away
    uint32_t* driven; // (bodies,) those that no log places, ascending
    uint32_t driven_count;
} drive_bodies;

// Work space of a block; every pointer aims into block->state.
typedef struct drive_scratch {
    drive_bodies bodies;
    float *old_x, *old_y, *old_cosine, *old_sine; // (A,) agents' poses before this step
    float* old_ground;              // (A,) ... and heights, where the scene has levels
    float *old_speed, *old_heading; // (A,) the same, where a step's motion is measured
    uint32_t* body_frames;          // (bodies,) of those that follow their log
    float *was_x, *was_y, *was_heading,
        *was_ground;        // (bodies,) followers before this step; x: DRIVE_NOWHERE_M if not there
    float* planned;         // (bodies,) their accelerations, m/s^2
    uint32_t* new_contacts; // (A,) of this step
    float* square;          // (max(segments, bodies),) squared distances
    uint32_t* index;        // (max(segments, bodies),)
    uint32_t *road_groups, *close_groups; // (all groups of a scene,)
    int32_t* road_keys;                   // (all groups of a scene * 16,)
    float* body_rows;                     // (bodies, 8)
    float* numbers;                       // (of the largest block,) before they are encoded
    uint8_t* touch;                       // (bodies,)
    // The ways of bodies, where the layout has them:
    drive_way_piece* pieces; // (bodies, DRIVE_WAY_PIECES)
    uint32_t* piece_count;   // (bodies,)
    float* way_box;          // (bodies, 4) low x and y, high x and y
    uint32_t* body_of;       // (A,) the bodies of agents, or DRIVE_NO_SEGMENT
} drive_scratch;

// The nearest objects of a search: sorted by distance, ties by index.
typedef struct drive_near {
    uint32_t count;
    uint32_t most;  // how many the search looked for
    float within_m; // of unsorted edges: all that are this near are listed
    uint32_t index[DRIVE_MAX_K];
    float square[DRIVE_MAX_K]; // squared distances, m^2
} drive_near;

// Where an agent looks from.
typedef struct drive_pose {
    float x, y, cosine, sine;
    float bound; // of the values that are written
} drive_pose;

// The things that most functions of a turn need; set once per slot.
typedef struct drive_turn {
    pv_block* block;
    const drive_block* layout;
    const pv_drive_config* config;
    uint32_t env;       // within the block
    uint64_t first_row; // of the env, in the block's rows
    drive_env* state;
    drive_slot* slots;   // (layout->slots,)
    drive_agents agents; // (A,)
    drive_judged judged; // (A,), where layout->parts
    float* weights;      // (A, DRIVE_REWARD_COUNT) where layout->conditioned
    float* played; // (A, axes) actions of experts in this step; NULL: actions come from outside
    drive_followers followers; // (layout->followers,)
    drive_scratch scratch;
    drive_slot* slot;  // the current slot
    uint32_t start;    // turn of the bundle in which the slot's episode began (episode.c)
    drive_scene scene; // its scene
} drive_turn;

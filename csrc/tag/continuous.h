// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `tag_continuous`: Tag in the plane, equal to TagContinuous of WarpDrive (Lan, Srinivasa, Wang,
// Zheng, "Extremely Fast End-to-End Deep Multi-Agent RL on a GPU", 2021), step by step. Taggers
// (type 1) chase runners (type 0) in a square of side grid_length. An agent chooses a change of its
// acceleration and a turn; a runner that is nearer to a tagger than the tagging distance is tagged.
//
// Our additions: a runner that leaves the game ends with a terminal, and its rows are masked from
// the next step on; an episode ends with a terminal where no runner is left and with a truncation
// at the time limit; starts may be random.
//
//   describe.c     settings, bounds, spec
//   layout.c       where the arrays of a block lie
//   continuous.c   reset, step: moves, tags, rewards, records
//   observe.c      observations of all others
//   neighbours.c   observations of the K nearest
//   saved.c        save, load, peek, poke
//
// State arrays have one entry per row, in the order of the block's rows (env, then agent), so that
// moving takes a few flat loops. A step processes tiles of a few envs, so that the results for a
// tile stay in the first-level cache until they are used.
#pragma once

#include "contract/env.h"

#define TAG_TWO_PI 6.28318530717958648f
#define TAG_RUNNER 0
#define TAG_TAGGER 1

// Mirrored by TagContinuousConfig (puffervec/envs/tag_continuous.py), which documents each member.
typedef struct tag_config {
    int32_t num_taggers;
    int32_t num_runners;
    float grid_length;
    int32_t episode_length;
    float max_speed;
    float skill_level_runner;
    float skill_level_tagger;
    float max_acceleration;
    float min_acceleration;
    float max_turn;
    float min_turn;
    int32_t num_acceleration_levels;
    int32_t num_turn_levels;
    float edge_hit_penalty;
    int32_t use_full_observation;
    int32_t num_other_agents_observed;
    float tagging_distance;
    float tag_reward_for_tagger;
    float step_penalty_for_tagger;
    float tag_penalty_for_runner;
    float step_reward_for_runner;
    float end_of_game_reward_for_runner;
    int32_t runner_exits_game_after_tagged;
    int32_t random_starts;
} tag_config;

// The param "rewards", in this order. Rewards are added in float64 and rounded once, as in NumPy.
typedef struct tag_rewards {
    double edge_hit, tagger_step, runner_step, tagger_tag, runner_tag, runner_end;
} tag_rewards;

// Values that are computed once per block.
typedef struct tag_constants {
    tag_rewards rewards;
    float margin;      // tagging_distance * grid_length
    float cap[2];      // top speed by agent type
    double base[2][2]; // reward of a step without a tag, by agent type and whether it hit the edge
    float per_length;  // factors that scale differences to observations
    float per_speed;
    float per_turn;
} tag_constants;

#define TAG_SHOWN 5
#define TAG_TILE 256 // rows of a tile, unless an env has more
#define TAG_SLACK 64 // entries behind an array that may be read

static inline const tag_config* tag_config_of(const pv_context* context) {
    return (const tag_config*)context->config;
}

static inline uint32_t tag_agents(const tag_config* config) {
    return (uint32_t)(config->num_taggers + config->num_runners);
}

static inline uint32_t tag_tile_envs(const tag_config* config) {
    uint32_t envs = TAG_TILE / tag_agents(config);
    return envs ? envs : 1;
}

// The block's state: pointers into one allocation, made anew from its base at each call. E envs, N
// agents.
typedef struct tag_state {
    tag_constants* constants;   // (1,)
    float* acceleration_change; // (num_acceleration_levels + 1,) action tables
    float* turn_change;         // (num_turn_levels + 1,) within (-2 pi, 2 pi)
    int32_t* ids;               // (N,) taggers ascending, then runners ascending
    float* tagger;              // (tile,) 1: a tagger, 0: a runner; the same in all envs
    double* sums;               // (N,) rewards of an env in which something happened
    uint64_t* seed;             // (E,)
    uint64_t* episode;          // (E,)
    int64_t* task;              // (E,) of the running episode
    int32_t* time;              // (E,) steps of this episode; 0 after a reset
    int32_t* left;              // (E,) runners still in the game
    int32_t* tags;              // (E,) of this episode
    uint8_t* over;              // (E,) 1: the next step is a reset
    float* returns;             // (E, 2) of this episode, summed over the agents of a type
    float* x;                   // (E*N,) 0 to grid_length
    float* y;                   // (E*N,)
    float* speed;               // (E*N,) 0 to the cap of the type
    float* direction;           // (E*N,) 0 to 2 pi
    float* acceleration;        // (E*N,)
    float* alive;               // (E*N,) 1: still in the game, else 0
    int32_t* left_at;           // (E*N,) the time at which a runner left the game
    float* guess; // (E*N,) a guess of the squared distance within which the K nearest are; the rows
                  // do not depend on it
    uint8_t* stale; // (E,) 1: agents have left or entered the game since observations were written
    // Scratch of a tile: index 0 is its first row. All arrays have room behind for loads of whole
    // vectors.
    float* shown[TAG_SHOWN]; // (tile,) x, y, speed, acceleration, direction, scaled as observed
    float* seen;             // (tile,) 1: in the game as observations show it
    int32_t* edge;           // (tile,) 1: hit the edge in this step
    float* faster;           // (tile,) change of acceleration
    float* turn;             // (tile,) change of direction
    float* px;               // (N,) places of an env's agents; those that are out are far away
    float* py;               // (N,)
    uint32_t* start;         // (N + 2,) of a crowd: where the agents of a cell begin
    uint32_t* place;         // (N,) of a crowd: where an agent is in the three arrays that follow
    float* sorted_x;         // (N,) places by cell
    float* sorted_y;         // (N,)
    uint32_t* sorted_id;     // (N,)
    float* near_x;           // (N,) places in the cells around one agent
    float* near_y;           // (N,)
    uint32_t* near_id;       // (N,)
    float* square;           // (N,) squared distances from one agent
    uint32_t* index;         // (N,) agents that may be among its nearest
    uint64_t* near;          // (N,) agents by distance
    float* records;          // (N, 8) what observations show of each agent
} tag_state;

// Returns M, how many others an agent observes.
static inline uint32_t tag_others(const tag_config* config) {
    return config->use_full_observation ? tag_agents(config) - 1
                                        : (uint32_t)config->num_other_agents_observed;
}

// layout.c: lays the arrays out from `base` on; returns how many bytes they take.
uint64_t tag_lay_out(const tag_config* config, uint64_t envs, uint8_t* base, tag_state* state);
tag_state tag_state_of(const pv_block* block);

// Resets what is counted over an episode.
static inline void tag_forget_episode(pv_block* block, const tag_state* state, uint32_t env) {
    state->task[env] = block->tasks[env];
    state->over[env] = 0;
    state->tags[env] = 0;
    state->returns[2 * (uint64_t)env] = state->returns[2 * (uint64_t)env + 1] = 0.0f;
}

// Flags the rows of those who were in the game when the episode ended; runners tagged in the last
// step have their flag.
static inline void tag_end_rows(const pv_block* block, const tag_state* state, uint32_t env) {
    const pv_rows* rows = &block->rows[0];
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const uint64_t first = (uint64_t)env * agents;
    uint8_t* flags = state->left[env] ? rows->truncations : rows->terminals;
    for (uint64_t r = first; r < first + agents; r++)
        flags[r] |= state->alive[r] != 0.0f;
}

// describe.c
int tag_continuous_describe(const pv_context* context, pv_spec* spec, char* text);
extern const pv_config_field tag_config_fields[];
extern const uint32_t tag_config_count;

// observe.c: fills state->shown from the state of `count` rows from `first` on; these become the
// tile's rows from `at` on.
void tag_scale(const tag_state* state, uint64_t first, uint64_t at, uint64_t count);
// Writes the observations of the envs [first, first + count), which are the tile: shown and seen
// are up to date.
void tag_observe(const pv_block* block, const tag_state* state, uint32_t first, uint32_t count);

// The data of one env's observations.
typedef struct tag_view {
    const float* shown[TAG_SHOWN]; // (N,) each
    const float* tagger;           // (N,)
    const float* seen;             // (N,)
    float time;                    // share of the episode
    float* out;                    // (N, 7 M + 1)
} tag_view;

// Returns the view of an env of the tile that begins with env `tile`.
static inline tag_view tag_view_of(const pv_block* block,
                                   const tag_state* state,
                                   uint32_t tile,
                                   uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const uint64_t agents = tag_agents(config), at = (env - tile) * agents,
                   floats_of_env = agents * (7 * tag_others(config) + 1);
    tag_view view = {.tagger = state->tagger,
                     .seen = state->seen + at,
                     .time = (float)state->time[env] / (float)config->episode_length,
                     .out = (float*)(void*)block->rows[0].observations + env * floats_of_env};
    for (int f = 0; f < TAG_SHOWN; f++)
        view.shown[f] = state->shown[f] + at;
    return view;
}

// neighbours.c: writes the observations of the K nearest of the envs [first, first + count), which
// are the tile.
void tag_observe_nearest(const pv_block* block,
                         const tag_state* state,
                         uint32_t first,
                         uint32_t count);

// saved.c
#define TAG_SAVED_HEAD 48
int tag_continuous_save(pv_block* block, uint32_t env, uint8_t* out);
int tag_continuous_load(pv_block* block, uint32_t env, const uint8_t* in);
int tag_continuous_peek(pv_block* block, uint32_t env, uint8_t* out);
int tag_continuous_poke(pv_block* block, uint32_t env, const uint8_t* in);

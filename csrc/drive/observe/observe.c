// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Writes observation rows (tables.h) directly into the slab. Stop 1 of an observation's path
// (ARCHITECTURE.md): its first bytes are written here.
//
// Objects are computed as structure of arrays, 16 entries at a time, and stored column by column
// into their rows. All values are clipped to the bounds that the field declares, and are finite
// because the state is.
#include "drive/observe/observe.h"

#include "contract/base.h"
#include "contract/env.h"
#include "drive/judge/reward.h"
#include "drive/motion/actions.h"
#include "drive/observe/ahead.h"
#include "drive/observe/encode.h"
#include "drive/observe/lidar.h"
#include "drive/observe/raster.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/partners.h"
#include "drive/search/roads.h"
#include "drive/search/segments.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"
#include "envs/kernels.h"

#include <string.h>

// ---- columns and blocks ----

#define COLUMN(set, name, unit, scale, most, meaning) {#name, unit, scale, most, meaning},
#define COLUMNS(set) static const pv_drive_column set##_columns[] = {DRIVE_COLUMNS_##set(COLUMN)};
DRIVE_COLUMN_SETS(COLUMNS)
#undef COLUMNS
#undef COLUMN

const pv_drive_observation_block* pv_drive_blocks(uint32_t* count) {
    static const pv_drive_observation_block blocks[] = {
#define BLOCK(block, set, kind, k, bound) {#block, set##_columns, DRIVE_COUNT_##set},
        DRIVE_BLOCKS(BLOCK)
#undef BLOCK
    };
    *count = DRIVE_BLOCK_COUNT;
    return blocks;
}

// ---- describe ----

// Positions are at most the range away (midpoints a little more), in units of their scale. Values
// that the range does not bound need no more than 8 scales (80 m/s, 40 m to the side of a line).
static float range_bound(const pv_drive_config* config) {
    return drive_max(8.0f, config->range_m * (1.0f / DRIVE_SCALE_partner_x) + 1.0f);
}

static float lidar_bound(const pv_drive_config* config) {
    return drive_max(1.0f, config->lidar_range_m * (1.0f / DRIVE_SCALE_ray_distance));
}

static void add_block(const pv_drive_config* config,
                      const char* name,
                      uint32_t k,
                      uint32_t columns,
                      int kind,
                      float bound,
                      pv_group_spec* group) {
    static const uint32_t dtypes[] = {[DRIVE_IS_row_dtype_float32] = PV_F32,
                                      [DRIVE_IS_row_dtype_float16] = PV_F16,
                                      [DRIVE_IS_row_dtype_uint8] = PV_U8};
    const int bytes = config->row_dtype == DRIVE_IS_row_dtype_uint8;
    if (!k)
        return;
    if (kind == DRIVE_PICTURE) {
        const uint32_t shape[3] = {columns, k, k};
        pv_add_array(group->fields, &group->field_count, &group->observation_bytes, name, "", PV_U8,
                     3, shape, 0.0f, bound, 1.0f);
        return;
    }
    pv_add_field(group->fields, &group->field_count, &group->observation_bytes, name, "",
                 dtypes[config->row_dtype], kind == DRIVE_OBJECTS ? k : 0, columns,
                 bytes ? 0.0f : -bound, bytes ? DRIVE_BYTE_MOST : bound, 1.0f);
}

void drive_describe_observation(const pv_drive_config* config,
                                const drive_block* layout,
                                pv_group_spec* group) {
#define ADD(block, set, kind, k, bound) \
    PV_ASSERT(group->observation_bytes == layout->observed[DRIVE_BLOCK_##block]); \
    add_block(config, #block, (uint32_t)(k), \
              drive_columns(config, DRIVE_BLOCK_##block, DRIVE_COUNT_##set), kind, bound, group);
    DRIVE_BLOCKS(ADD)
#undef ADD
    if (layout->observed[DRIVE_BLOCK_raster]) // the next row's numbers need an aligned place too
        group->observation_bytes =
            (uint32_t)pv_align_up(group->observation_bytes, drive_number_bytes(config));
}

void drive_describe_counters(pv_spec* spec) {
#define NAME(name) strcpy(spec->counter_names[spec->counter_count++], name);
#define NAMES(counted) \
    NAME(#counted "_seen") \
    NAME(#counted "_cut") \
    NAME(#counted "_reach_cm")
    NAME("active_rows")
    NAME("idle_rows")
    NAME("padding_rows")
    NAME("sampled_rows")
    DRIVE_COUNTED(NAMES)
#undef NAMES
#undef NAME
    PV_ASSERT(spec->counter_count == DRIVE_COUNTER_COUNT);
}

// ---- writers ----

// The arguments of a block's writer, which writes k objects with the block's columns.
typedef struct drive_look {
    const drive_turn* turn;
    uint32_t row; // of the agent, within the env
    uint32_t k;
    drive_pose at;    // the agent's, with the block's bound
    drive_near* near; // the objects that the writer has found
} drive_look;

static int sampled(const drive_turn* turn) {
    return turn->slot->clock % DRIVE_SAMPLE_STEPS == 0;
}

static void count_objects(
    const drive_look* look, uint32_t counter, uint32_t count, float reach_m, uint32_t in_range) {
    uint64_t* counters = &look->turn->block->counters[counter];
    counters[0] += count;
    counters[1] += in_range - count;
    if (count)
        counters[2] += (uint64_t)(reach_m * 100.0f + 0.5f);
}

static float reach_of(const drive_near* near) {
    return near->count ? drive_sqrt(near->square[near->count - 1]) : 0.0f;
}

static void write_ego(drive_look* look, float* out) {
    const drive_turn* turn = look->turn;
    const drive_agents* agents = &turn->agents;
    const drive_pose* at = &look->at;
    const uint32_t row = look->row;
    float dx = agents->goal_x[row] - at->x, dy = agents->goal_y[row] - at->y,
          distance = agents->goal_distance[row];
    float ahead = dx * at->cosine + dy * at->sine, aside = dy * at->cosine - dx * at->sine;
    float inverse = distance > 1e-3f ? 1.0f / distance : 0.0f;
    float v[DRIVE_COUNT_ego]; // clipped together, which the compiler does with vectors
#define PUT(column, value) v[DRIVE_ego_##column] = (value) * (1.0f / DRIVE_SCALE_ego_##column)
    PUT(speed, agents->speed[row]);
    PUT(width, agents->width[row]);
    PUT(length, agents->length[row]);
    PUT(goal_x, ahead);
    PUT(goal_y, aside);
    PUT(goal_cos, ahead * inverse);
    PUT(goal_sin, aside * inverse);
    PUT(goal_distance, distance);
    PUT(goal_nearness, DRIVE_GOAL_NEAR_M / (DRIVE_GOAL_NEAR_M + distance));
    PUT(needed_speed, drive_min(distance / drive_left_s(turn), DRIVE_NEEDED_MPS));
    PUT(time_left, (float)drive_left_steps(turn) / (float)drive_episode_steps(turn));
    PUT(collided, agents->flags[row] & DRIVE_COLLIDED ? 1.0f : 0.0f);
    PUT(offroad, agents->flags[row] & DRIVE_OFFROAD ? 1.0f : 0.0f);
#undef PUT
    for (int i = 0; i < DRIVE_COUNT_ego; i++)
        out[i] = drive_clamp(v[i], -at->bound, at->bound);
}

static void write_pufferdrive_ego(drive_look* look, float* out) {
    const drive_agents* agents = &look->turn->agents;
    const drive_pose* at = &look->at;
    const uint32_t row = look->row;
    float dx = agents->goal_x[row] - at->x, dy = agents->goal_y[row] - at->y;
    float v[DRIVE_COUNT_pufferdrive_ego];
#define PUT(column, value) \
    v[DRIVE_pufferdrive_ego_##column] = (value) * (1.0f / DRIVE_SCALE_pufferdrive_ego_##column)
    PUT(goal_x, dx * at->cosine + dy * at->sine);
    PUT(goal_y, dy * at->cosine - dx * at->sine);
    PUT(speed, drive_abs(agents->speed[row]));
    PUT(width, agents->width[row]);
    PUT(length, agents->length[row]);
    PUT(collided, agents->flags[row] & (DRIVE_COLLIDED | DRIVE_OFFROAD) ? 1.0f : 0.0f);
    PUT(respawned, agents->flags[row] & DRIVE_ALONE ? 1.0f : 0.0f);
#undef PUT
    for (int i = 0; i < DRIVE_COUNT_pufferdrive_ego; i++)
        out[i] = drive_clamp(v[i], -at->bound, at->bound);
}

static void write_pufferdrive_jerk_ego(drive_look* look, float* out) {
    const drive_agents* agents = &look->turn->agents;
    const uint32_t row = look->row;
    float plain[DRIVE_COUNT_pufferdrive_ego], acceleration = agents->acceleration[row];
    if (acceleration < 0.0f)
        acceleration *= 4.0f / 15.0f; // there in units of the largest jerk of its sign
    float v[DRIVE_COUNT_pufferdrive_jerk_ego];
    write_pufferdrive_ego(look, plain);
    memcpy(v, plain, sizeof plain);
#define PUT(column, value) \
    v[DRIVE_pufferdrive_jerk_ego_##column] = \
        (value) * (1.0f / DRIVE_SCALE_pufferdrive_jerk_ego_##column)
    PUT(steering, agents->steering[row]);
    PUT(acceleration, acceleration);
    PUT(lateral, agents->lateral[row]);
#undef PUT
    v[DRIVE_pufferdrive_jerk_ego_respawned] = plain[DRIVE_pufferdrive_ego_respawned];
    for (int i = 0; i < DRIVE_COUNT_pufferdrive_jerk_ego; i++)
        out[i] = drive_clamp(v[i], -look->at.bound, look->at.bound);
}

static void write_gpudrive_ego(drive_look* look, float* out) {
    const drive_agents* agents = &look->turn->agents;
    const drive_pose* at = &look->at;
    const uint32_t row = look->row;
    float dx = agents->goal_x[row] - at->x, dy = agents->goal_y[row] - at->y;
    float v[DRIVE_COUNT_gpudrive_ego];
#define PUT(column, value) \
    v[DRIVE_gpudrive_ego_##column] = (value) * (1.0f / DRIVE_SCALE_gpudrive_ego_##column)
    PUT(speed, drive_abs(agents->speed[row]));
    PUT(length, agents->length[row]);
    PUT(width, agents->width[row]);
    PUT(goal_x, dx * at->cosine + dy * at->sine);
    PUT(goal_y, dy * at->cosine - dx * at->sine);
    PUT(collided, agents->flags[row] & (DRIVE_COLLIDED | DRIVE_OFFROAD) ? 1.0f : 0.0f);
#undef PUT
    for (int i = 0; i < DRIVE_COUNT_gpudrive_ego; i++)
        out[i] = drive_clamp(v[i], -at->bound, at->bound);
}

static void write_others(drive_look* look, int columns, float* out) {
    static const drive_bodies nobody;
    const drive_turn* turn = look->turn;
    const int alone = (turn->agents.flags[look->row] & DRIVE_ALONE) != 0;
    const drive_bodies* bodies = alone ? &nobody : &turn->scratch.bodies;
    const float range_m = turn->config->range_m;
    const drive_partner_search search = {.bodies = bodies,
                                         .rows = turn->scratch.body_rows,
                                         .objects = turn->scene.objects,
                                         .at = &look->at,
                                         .row = (int32_t)look->row,
                                         .speed = turn->agents.speed[look->row],
                                         .heading = turn->agents.heading[look->row],
                                         .k = look->k,
                                         .range_m = range_m};
    drive_write_partners(&search, columns, &turn->scratch, out, look->near);
    if (sampled(turn) && !alone) // minus one: the agent itself
        count_objects(look, DRIVE_COUNTER_partners, look->near->count, reach_of(look->near),
                      drive_body_count(bodies, look->at.x, look->at.y, range_m) - 1);
}

static void write_partners(drive_look* look, float* out) {
    write_others(look, DRIVE_PLAIN, out);
}

static void write_typed_partners(drive_look* look, float* out) {
    write_others(look, DRIVE_TYPED, out);
}

static void write_pufferdrive_partners(drive_look* look, float* out) {
    write_others(look, DRIVE_PUFFERDRIVE, out);
}

static void write_gpudrive_partners(drive_look* look, float* out) {
    write_others(look, DRIVE_GPUDRIVE, out);
}

static void write_segments(drive_look* look, float* out, int type, uint32_t counter) {
    const drive_turn* turn = look->turn;
    const float range_m = turn->config->range_m;
    const int spread = turn->config->segments == DRIVE_IS_segments_spread;
    (spread ? drive_write_spread : drive_write_segments)(&turn->scene, type, &look->at, look->k,
                                                         range_m, &turn->scratch, out, look->near);
    if (sampled(turn))
        count_objects(look, counter, look->near->count, reach_of(look->near),
                      drive_segment_count(&turn->scene, type, look->at.x, look->at.y, range_m));
}

static void write_lanes(drive_look* look, float* out) {
    write_segments(look, out, PV_LANE, DRIVE_COUNTER_lanes);
}

static void write_lines(drive_look* look, float* out) {
    write_segments(look, out, PV_LINE, DRIVE_COUNTER_lines);
}

static void write_edges(drive_look* look, float* out) {
    write_segments(look, out, PV_EDGE, DRIVE_COUNTER_edges);
}

#define EDGES_BESIDE_M 1.0f // around a car: more than it needs, unless it is fast and short

static void write_roads(drive_look* look, int gpudrive, float* out) {
    const drive_turn* turn = look->turn;
    const drive_agents* agents = &turn->agents;
    const uint32_t row = look->row;
    float dx = look->at.x - agents->seen_x[row], dy = look->at.y - agents->seen_y[row],
          reach = agents->seen_reach[row];
    const drive_roads_search search = {.at = &look->at,
                                       .heading = agents->heading[row],
                                       .k = look->k,
                                       .range_m = turn->config->range_m,
                                       .guess_m = agents->seen_reach[row],
                                       .edges_m = drive_circle_of(agents, row) + EDGES_BESIDE_M,
                                       .gpudrive = gpudrive,
                                       .exact_reach = sampled(turn)};
    if (reach > 0.0f)
        reach += drive_sqrt(dx * dx + dy * dy) + DRIVE_REACH_SLACK_M;
    uint32_t count =
        drive_write_roads(&turn->scene, &search, &turn->scratch, out, &reach, look->near);
    agents->seen_x[row] = look->at.x;
    agents->seen_y[row] = look->at.y;
    agents->seen_reach[row] = count < look->k ? 0.0f : reach;
    if (sampled(turn))
        count_objects(
            look, DRIVE_COUNTER_roads, count, reach,
            drive_road_count(&turn->scene, &look->at, turn->config->range_m, &turn->scratch));
}

static void write_pufferdrive_roads(drive_look* look, float* out) {
    write_roads(look, 0, out);
}

static void write_gpudrive_roads(drive_look* look, float* out) {
    write_roads(look, 1, out);
}

static void write_route(drive_look* look, float* out) {
    drive_write_route(look->turn, look->row, &look->at, look->k, out);
}

static void write_controls(drive_look* look, float* out) {
    uint32_t in_range = drive_write_controls(look->turn, &look->at, look->k, out, look->near);
    if (sampled(look->turn))
        count_objects(look, DRIVE_COUNTER_controls, look->near->count, reach_of(look->near),
                      in_range);
}

static void write_conflicts(drive_look* look, float* out) {
    drive_write_conflicts(look->turn, look->row, &look->at, look->k, out);
}

static void write_lidar(drive_look* look, float* out) {
    drive_write_lidar(look->turn, look->row, &look->at, out);
}

static void write_weights(drive_look* look, float* out) {
    drive_conditions(look->turn, look->row, out);
}

static void write_motion(drive_look* look, float* out) {
    const drive_agents* agents = &look->turn->agents;
    out[DRIVE_motion_acceleration] =
        agents->acceleration[look->row] / DRIVE_SCALE_motion_acceleration;
    out[DRIVE_motion_lateral] = agents->lateral[look->row] / DRIVE_SCALE_motion_lateral;
    out[DRIVE_motion_steering] = agents->steering[look->row] / DRIVE_SCALE_motion_steering;
    for (uint32_t i = 0; i < DRIVE_COUNT_motion; i++)
        out[i] = drive_clamp(out[i], -look->at.bound, look->at.bound);
}

// Writes the action of this step, multiplied by the inverse scales; zeros in the first row of an
// episode.
static void write_action(drive_look* look, const float* inverses, uint32_t count, float* out) {
    const drive_turn* turn = look->turn;
    float action[DRIVE_MAX_AXES] = {0};
    if (turn->slot->clock)
        drive_previous_action(turn, look->row, action);
    for (uint32_t i = 0; i < count; i++)
        out[i] = drive_clamp(action[i] * inverses[i], -look->at.bound, look->at.bound);
}

#define INVERSE(set, name, unit, scale, most, meaning) 1.0f / (scale),
#define WRITER(set) \
    static void write_previous_##set(drive_look* look, float* out) { \
        static const float inverses[] = {DRIVE_COLUMNS_##set(INVERSE)}; \
        write_action(look, inverses, DRIVE_COUNT_##set, out); \
    }
WRITER(action)
WRITER(curvature)
WRITER(delta)
WRITER(jerk)
#undef WRITER
#undef INVERSE

static void write_raster(drive_look* look, void* out) {
    drive_write_raster(look->turn, look->row, &look->at, out);
}

// ---- rows ----

static uint8_t* row_at(const drive_turn* turn, uint32_t row) {
    const pv_rows* rows = &turn->block->rows[0];
    return rows->observations + (turn->first_row + row) * rows->observation_bytes;
}

static drive_look look_of(const drive_turn* turn, uint32_t row, drive_near* near) {
    const drive_agents* agents = &turn->agents;
    drive_pose at = {agents->x[row], agents->y[row], agents->cosine[row], agents->sine[row], 0.0f};
    return (drive_look){.turn = turn, .row = row, .at = at, .near = near};
}

// Writes a block to its place in the row. Types other than float32 are converted from scratch.
PV_INLINE void write_block(drive_look* look, uint32_t block) {
    const drive_turn* turn = look->turn;
    const pv_drive_config* config = turn->config;
    void* out = row_at(turn, look->row) + turn->layout->observed[block];
    const int encoded =
        config->row_dtype != DRIVE_IS_row_dtype_float32 && block != DRIVE_BLOCK_raster;
    void* to = encoded ? turn->scratch.numbers : out;
    switch (block) {
#define WRITE(block, set, kind, count, limit) \
    case DRIVE_BLOCK_##block: \
        look->k = (uint32_t)(count); \
        look->at.bound = limit; \
        if (!look->k) \
            return; \
        write_##block(look, to); \
        if (PV_UNLIKELY(encoded)) \
            drive_encode(config, set##_columns, DRIVE_COUNT_##set, look->k, kind == DRIVE_OBJECTS, \
                         turn->scratch.numbers, out); \
        break;
        DRIVE_BLOCKS(WRITE)
#undef WRITE
    }
}

// Blocks that are written before the agent is judged, because judging needs the edges around it.
#define SEEN_BEFORE \
    (1u << DRIVE_BLOCK_edges | 1u << DRIVE_BLOCK_pufferdrive_roads | \
     1u << DRIVE_BLOCK_gpudrive_roads)

void drive_observe_edges(const drive_turn* turn, uint32_t row, drive_near* edges) {
    drive_look look = look_of(turn, row, edges);
    edges->count = edges->most = 0;
    edges->within_m = 0.0f;
    for (uint32_t left = turn->layout->blocks & SEEN_BEFORE; left; left &= left - 1)
        write_block(&look, (uint32_t)__builtin_ctz(left));
    if (turn->config->segments != DRIVE_IS_segments_nearest)
        edges->most = 0; // they are not the nearest
}

void drive_observe(const drive_turn* turn, uint32_t row) {
    drive_near near;
    drive_look look = look_of(turn, row, &near);
    if (sampled(turn))
        turn->block->counters[DRIVE_COUNTER_SAMPLED]++;
    for (uint32_t left = turn->layout->blocks & ~SEEN_BEFORE; left; left &= left - 1)
        write_block(&look, (uint32_t)__builtin_ctz(left));
}

#define ROADS_OF_ALL_TYPES (1u << DRIVE_BLOCK_pufferdrive_roads | 1u << DRIVE_BLOCK_gpudrive_roads)
#define PREFETCHED_BYTES 2048 // of a row; longer ones are written faster than they are fetched

// Scenes and rows of many envs do not fit in the fast caches, and each look-up depends on the one
// before it (cell, list, segments), so they are prefetched.
void drive_prefetch(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    uint32_t last = turn->slot->row + turn->slot->count, next = row + 1, after = row + 2;
    const int by_cells = !(turn->layout->blocks & ROADS_OF_ALL_TYPES);
    if (by_cells && after < last && agents->flags[after] & DRIVE_ACTIVE)
        drive_prefetch_cell(&turn->scene, agents->x[after], agents->y[after]);
    if (next >= last || !(agents->flags[next] & DRIVE_ACTIVE))
        return;
    if (by_cells)
        drive_prefetch_lists(&turn->scene, agents->x[next], agents->y[next]);
    const uint8_t* out = row_at(turn, next);
    const uint32_t end_of_numbers =
        turn->layout->observed[DRIVE_BLOCK_raster]; // a picture is too large to be fetched ahead
    const uint32_t end = end_of_numbers < PREFETCHED_BYTES ? end_of_numbers : PREFETCHED_BYTES;
    for (uint32_t at = 0; at < end; at += DRIVE_CACHE_LINE)
        __builtin_prefetch(out + at, 1);
}

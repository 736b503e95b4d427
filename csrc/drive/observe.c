// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Writes observation rows (columns: observe.h) straight into the slab. Path stop 1: the observation's first bytes are written
// here.
//
// Each block is computed as structure of arrays, 16 entries at a time, and stored column by column into its rows. All values
// are clipped to the bounds that the field declares, and are finite because the state is.
#include "observe.h"

#include "kernels.h"
#include "state.h"

// For values that are not bounded by the range: 8 scales (80 m/s, 40 m beside a line) tell as much as more would.
#define LEAST_BOUND 8.0f
#define EGO_BOUND 20.0f

static const pv_drive_column columns[] = {
#define COLUMN(block, name, unit, scale) {#block, #name, unit, scale},
    DRIVE_COLUMNS(COLUMN)
#undef COLUMN
};

const pv_drive_column* pv_drive_columns(uint32_t* count) {
    *count = sizeof columns / sizeof columns[0];
    return columns;
}

// Positions are at most the range away (midpoints a little more), in units of their scale.
static float entry_bound(const pv_drive_config* config) {
    return drive_max(LEAST_BOUND, config->range_m * (1.0f / DRIVE_SCALE_partners_x) + 1.0f);
}

void drive_describe_observation(const pv_drive_config* config, pv_group_spec* group) {
    float bound = entry_bound(config);
    const struct {
        const char* name;
        int32_t rows;
        uint32_t columns;
    } blocks[] = {{"partners", config->partners, DRIVE_PARTNER},
                  {"lanes", config->lanes, DRIVE_SEGMENT},
                  {"lines", config->lines, DRIVE_SEGMENT},
                  {"edges", config->edges, DRIVE_SEGMENT}};
    pv_add_field(group->fields, &group->field_count, &group->observation_bytes, "ego", "", PV_F32, DRIVE_EGO, 0, -EGO_BOUND,
                 EGO_BOUND, 1.0f);
    for (uint32_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (!blocks[i].rows) continue;
        pv_add_field(group->fields, &group->field_count, &group->observation_bytes, blocks[i].name, "", PV_F32,
                     (uint32_t)blocks[i].rows, blocks[i].columns, -bound, bound, 1.0f);
    }
}

static float* row_at(const drive_turn* turn, uint32_t row) {
    const pv_rows* rows = &turn->block->rows[0];
    return (float*)(void*)(rows->observations + (turn->first_row + row) * rows->observation_bytes);
}

static drive_pose pose_of(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    return (drive_pose){agents->x[row], agents->y[row], agents->cosine[row], agents->sine[row], entry_bound(turn->config)};
}

static float* write_ego(const drive_turn* turn, uint32_t row, const drive_pose* at, float* out) {
    const drive_agents* agents = &turn->agents;
    uint32_t limit = turn->config->max_steps ? (uint32_t)turn->config->max_steps : turn->scene.head->frame_count - 1;
    float left = limit > turn->slot->clock ? (float)(limit - turn->slot->clock) : 0.0f;
    float dx = agents->goal_x[row] - at->x, dy = agents->goal_y[row] - at->y, distance = agents->goal_distance[row];
    float ahead = dx * at->cosine + dy * at->sine, aside = dy * at->cosine - dx * at->sine;
    float inverse = distance > 1e-3f ? 1.0f / distance : 0.0f;
    float left_s = drive_max(left, 1.0f) * turn->scene.head->dt_s;
    float v[DRIVE_EGO];
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
    PUT(needed_speed, distance / left_s);
    PUT(time_left, left / (float)limit);
    PUT(collided, agents->flags[row] & DRIVE_COLLIDED ? 1.0f : 0.0f);
    PUT(offroad, agents->flags[row] & DRIVE_OFFROAD ? 1.0f : 0.0f);
#undef PUT
    for (int i = 0; i < DRIVE_EGO; i++) out[i] = drive_clamp(v[i], -EGO_BOUND, EGO_BOUND);
    return out + DRIVE_EGO;
}

// ---- counters: how much was seen, what did not fit ----------------------------------------------------------------

static int sampled(const drive_turn* turn) { return turn->slot->clock % DRIVE_SAMPLE_STEPS == 0; }

static void count_block(const drive_turn* turn, uint32_t block, const drive_near* near, uint32_t in_range) {
    uint64_t* counters = &turn->block->counters[DRIVE_COUNTER_BLOCKS + 3 * block];
    counters[0] += near->count;
    counters[1] += in_range - near->count;
    if (near->count) counters[2] += (uint64_t)(drive_sqrt(near->square[near->count - 1]) * 100.0f + 0.5f);
}

// ---- rows ---------------------------------------------------------------------------------------------------------

static void observe_segments(const drive_turn* turn, int type, const drive_pose* at, uint32_t k, float* out, drive_near* near) {
    drive_write_segments(&turn->scene, type, at, k, turn->config->range_m, &turn->scratch, out, near);
    if (!k || !sampled(turn)) return;
    count_block(turn, 1 + (uint32_t)type, near, drive_segment_count(&turn->scene, type, at->x, at->y, turn->config->range_m));
}

// Scenes and rows of many envs do not fit in the fast caches, and each look-up waits for the one before it (cell, list,
// segments), so they are asked for ahead of their use.
void drive_prefetch(const drive_turn* turn, uint32_t row) {
    const drive_agents* agents = &turn->agents;
    uint32_t end = turn->slot->row + turn->slot->count, next = row + 1, after = row + 2;
    if (after < end && agents->flags[after] & DRIVE_ACTIVE)
        drive_prefetch_cell(&turn->scene, agents->x[after], agents->y[after]);
    if (next >= end || !(agents->flags[next] & DRIVE_ACTIVE)) return;
    drive_prefetch_lists(&turn->scene, agents->x[next], agents->y[next]);
    const uint8_t* out = (const uint8_t*)row_at(turn, next);
    for (uint64_t at = 0; at < turn->block->rows[0].observation_bytes; at += DRIVE_CACHE_LINE) __builtin_prefetch(out + at, 1);
}

void drive_observe_edges(const drive_turn* turn, uint32_t row, drive_near* edges) {
    uint32_t k = (uint32_t)turn->config->edges;
    drive_pose at = pose_of(turn, row);
    uint64_t floats = turn->block->rows[0].observation_bytes / sizeof(float);
    observe_segments(turn, PV_EDGE, &at, k, row_at(turn, row) + floats - k * DRIVE_SEGMENT, edges);
}

void drive_observe(const drive_turn* turn, uint32_t row) {
    const pv_drive_config* config = turn->config;
    uint32_t partners = (uint32_t)config->partners, lanes = (uint32_t)config->lanes, lines = (uint32_t)config->lines;
    drive_pose at = pose_of(turn, row);
    drive_near near;
    float* out = write_ego(turn, row, &at, row_at(turn, row));
    drive_write_partners(&turn->scratch.bodies, &at, (int32_t)row, turn->agents.speed[row], partners, config->range_m,
                         &turn->scratch, out, &near);
    if (sampled(turn)) {
        turn->block->counters[DRIVE_COUNTER_SAMPLED]++;
        // minus one: the agent itself
        if (partners) count_block(turn, 0, &near, drive_body_count(&turn->scratch.bodies, at.x, at.y, config->range_m) - 1);
    }
    out += partners * DRIVE_PARTNER;
    observe_segments(turn, PV_LANE, &at, lanes, out, &near);
    out += lanes * DRIVE_SEGMENT;
    observe_segments(turn, PV_LINE, &at, lines, out, &near);
}

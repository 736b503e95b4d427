// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Writes observation rows (columns: observe.h) straight into the slab. Path stop 1: the observation's first bytes are written here.
//
// Each block is computed as structure of arrays, 16 entries at a time, and stored column by column into its rows. All values are
// clipped to the bounds that the field declares, and are finite because the state is.
#include "observe.h"

#include "kernels.h"
#include "state.h"

// For values that are not bounded by the range: 8 scales (80 m/s, 40 m beside a line) tell as much as more would.
#define LEAST_BOUND 8.0f
#define EGO_BOUND 20.0f

#define SCALE(block, name, unit, scale) scale,
static const float ego_scale[] = {DRIVE_EGO_COLUMNS(SCALE)};
static const float partner_scale[] = {DRIVE_PARTNER_COLUMNS(SCALE)};
static const float segment_scale[] = {DRIVE_SEGMENT_COLUMNS(SCALE)};
#undef SCALE

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
    return drive_max(LEAST_BOUND, config->range_m / partner_scale[DRIVE_partners_x] + 1.0f);
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

// Where a row looks from.
typedef struct pose {
    float x, y, cosine, sine, bound;
} pose;

static float* write_ego(const drive_turn* turn, uint32_t row, float* out) {
    const drive_agents* agents = &turn->agents;
    uint32_t limit = turn->config->max_steps ? (uint32_t)turn->config->max_steps : turn->scene.head->frame_count - 1;
    float left = limit > turn->slot->clock ? (float)(limit - turn->slot->clock) : 0.0f;
    float dx = agents->goal_x[row] - agents->x[row], dy = agents->goal_y[row] - agents->y[row];
    float c = agents->cosine[row], s = agents->sine[row], distance = agents->goal_distance[row];
    float ahead = dx * c + dy * s, aside = dy * c - dx * s;
    float inverse = distance > 1e-3f ? 1.0f / distance : 0.0f;
    float dt_s = turn->scene.head->dt_s;
    float v[DRIVE_EGO];
    v[DRIVE_ego_speed] = agents->speed[row] / ego_scale[DRIVE_ego_speed];
    v[DRIVE_ego_width] = agents->width[row] / ego_scale[DRIVE_ego_width];
    v[DRIVE_ego_length] = agents->length[row] / ego_scale[DRIVE_ego_length];
    v[DRIVE_ego_goal_x] = ahead / ego_scale[DRIVE_ego_goal_x];
    v[DRIVE_ego_goal_y] = aside / ego_scale[DRIVE_ego_goal_y];
    v[DRIVE_ego_goal_cos] = ahead * inverse;
    v[DRIVE_ego_goal_sin] = aside * inverse;
    v[DRIVE_ego_goal_distance] = distance / ego_scale[DRIVE_ego_goal_distance];
    v[DRIVE_ego_goal_nearness] = DRIVE_GOAL_NEAR_M / (DRIVE_GOAL_NEAR_M + distance);
    v[DRIVE_ego_needed_speed] = distance / (drive_max(left, 1.0f) * dt_s) / ego_scale[DRIVE_ego_needed_speed];
    v[DRIVE_ego_time_left] = left / (float)limit;
    v[DRIVE_ego_collided] = agents->flags[row] & DRIVE_COLLIDED ? 1.0f : 0.0f;
    v[DRIVE_ego_offroad] = agents->flags[row] & DRIVE_OFFROAD ? 1.0f : 0.0f;
    for (int i = 0; i < DRIVE_EGO; i++) out[i] = drive_clamp(v[i], -EGO_BOUND, EGO_BOUND);
    return out + DRIVE_EGO;
}

// Stores n entries of `width` columns, given as values[column][entry], clipped.
DRIVE_INLINE void store_entries(float* out, float values[][LANES], uint32_t n, uint32_t width, float bound) {
    for (uint32_t f = 0; f < width; f++) {
        for (uint32_t i = 0; i < LANES; i++) values[f][i] = drive_clamp(values[f][i], -bound, bound);
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t f = 0; f < width; f++) out[i * width + f] = values[f][i];
    }
}

PV_CLONES static void write_segments(const drive_scene* scene, const drive_near* near, pose at, uint32_t k, float* out) {
    for (uint32_t base = 0; base < near->count; base += LANES) {
        uint32_t n = near->count - base < LANES ? near->count - base : LANES;
        float cx[LANES] = {0}, cy[LANES] = {0}, ux[LANES] = {0}, uy[LANES] = {0}, half[LANES] = {0};
        float v[DRIVE_SEGMENT][LANES];
        for (uint32_t i = 0; i < n; i++) {
            uint32_t s = near->index[base + i];
            cx[i] = scene->x[s];
            cy[i] = scene->y[s];
            ux[i] = scene->ux[s];
            uy[i] = scene->uy[s];
            half[i] = scene->half[s];
        }
        for (uint32_t i = 0; i < LANES; i++) {
            float dx = cx[i] - at.x, dy = cy[i] - at.y;
            v[DRIVE_segments_x][i] = (dx * at.cosine + dy * at.sine) * (1.0f / segment_scale[DRIVE_segments_x]);
            v[DRIVE_segments_y][i] = (dy * at.cosine - dx * at.sine) * (1.0f / segment_scale[DRIVE_segments_y]);
            v[DRIVE_segments_half_length][i] = half[i] * (1.0f / segment_scale[DRIVE_segments_half_length]);
            v[DRIVE_segments_cos][i] = ux[i] * at.cosine + uy[i] * at.sine;
            v[DRIVE_segments_sin][i] = uy[i] * at.cosine - ux[i] * at.sine;
            v[DRIVE_segments_distance][i] = drive_sqrt(near->square[base + i]) * (1.0f / segment_scale[DRIVE_segments_distance]);
            v[DRIVE_segments_lateral][i] = (dx * uy[i] - dy * ux[i]) * (1.0f / segment_scale[DRIVE_segments_lateral]);
        }
        store_entries(out + base * DRIVE_SEGMENT, v, n, DRIVE_SEGMENT, at.bound);
    }
    memset(out + near->count * DRIVE_SEGMENT, 0, (k - near->count) * DRIVE_SEGMENT * sizeof(float));
}

PV_CLONES static void write_partners(const drive_bodies* bodies, const drive_near* near, pose at, float speed, uint32_t k, float* out) {
    for (uint32_t base = 0; base < near->count; base += LANES) {
        uint32_t n = near->count - base < LANES ? near->count - base : LANES;
        float px[LANES] = {0}, py[LANES] = {0}, c[LANES] = {0}, s[LANES] = {0}, ps[LANES] = {0}, w[LANES] = {0}, l[LANES] = {0};
        float v[DRIVE_PARTNER][LANES];
        for (uint32_t i = 0; i < n; i++) {
            uint32_t b = near->index[base + i];
            px[i] = bodies->x[b];
            py[i] = bodies->y[b];
            c[i] = bodies->cosine[b];
            s[i] = bodies->sine[b];
            ps[i] = bodies->speed[b];
            w[i] = bodies->half_width[b];
            l[i] = bodies->half_length[b];
        }
        for (uint32_t i = 0; i < LANES; i++) {
            float dx = px[i] - at.x, dy = py[i] - at.y;
            float cosine = c[i] * at.cosine + s[i] * at.sine, sine = s[i] * at.cosine - c[i] * at.sine;
            v[DRIVE_partners_x][i] = (dx * at.cosine + dy * at.sine) * (1.0f / partner_scale[DRIVE_partners_x]);
            v[DRIVE_partners_y][i] = (dy * at.cosine - dx * at.sine) * (1.0f / partner_scale[DRIVE_partners_y]);
            v[DRIVE_partners_cos][i] = cosine;
            v[DRIVE_partners_sin][i] = sine;
            v[DRIVE_partners_velocity_x][i] = (ps[i] * cosine - speed) * (1.0f / partner_scale[DRIVE_partners_velocity_x]);
            v[DRIVE_partners_velocity_y][i] = ps[i] * sine * (1.0f / partner_scale[DRIVE_partners_velocity_y]);
            v[DRIVE_partners_width][i] = w[i] * (2.0f / partner_scale[DRIVE_partners_width]);
            v[DRIVE_partners_length][i] = l[i] * (2.0f / partner_scale[DRIVE_partners_length]);
        }
        store_entries(out + base * DRIVE_PARTNER, v, n, DRIVE_PARTNER, at.bound);
    }
    memset(out + near->count * DRIVE_PARTNER, 0, (k - near->count) * DRIVE_PARTNER * sizeof(float));
}

// ---- counters: how much was seen, what did not fit -----------------------------------------------------------------------------

static void count_block(uint64_t* counters, uint32_t block, const drive_near* near, uint32_t in_range) {
    uint64_t* block_counters = &counters[DRIVE_COUNTER_BLOCKS + 3 * block];
    block_counters[0] += near->count;
    block_counters[1] += in_range - near->count;
    if (near->count) block_counters[2] += (uint64_t)(drive_sqrt(near->square[near->count - 1]) * 100.0f + 0.5f);
}

static uint32_t segments_in_range(const drive_turn* turn, int type, const drive_near* near, uint32_t k, float x, float y) {
    return k ? drive_segment_count(&turn->scene, type, x, y, turn->config->range_m) : near->count;
}

void drive_observe(const drive_turn* turn, uint32_t row, const drive_near* edges) {
    const pv_drive_config* config = turn->config;
    const drive_agents* agents = &turn->agents;
    const pv_rows* rows = &turn->block->rows[0];
    const uint32_t k[PV_SEGMENT_TYPES] = {(uint32_t)config->lanes, (uint32_t)config->lines, (uint32_t)config->edges};
    pose at = {agents->x[row], agents->y[row], agents->cosine[row], agents->sine[row], entry_bound(config)};
    int sampled = turn->slot->clock % DRIVE_SAMPLE_STEPS == 0;
    uint64_t* counters = turn->block->counters;
    drive_near found;
    float* out = (float*)(void*)(rows->observations + (turn->first_row + row) * rows->observation_bytes);
    out = write_ego(turn, row, out);
    drive_nearest_bodies(&turn->scratch.bodies, at.x, at.y, (int32_t)row, (uint32_t)config->partners, config->range_m, &turn->scratch,
                         &found);
    write_partners(&turn->scratch.bodies, &found, at, agents->speed[row], (uint32_t)config->partners, out);
    if (sampled) {
        counters[DRIVE_COUNTER_SAMPLED]++;
        // minus one: the agent itself
        uint32_t in_range = config->partners ? drive_body_count(&turn->scratch.bodies, at.x, at.y, config->range_m) - 1 : 0;
        count_block(counters, 0, &found, in_range);
    }
    out += (uint32_t)config->partners * DRIVE_PARTNER;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        const drive_near* near = type == PV_EDGE ? edges : &found;
        if (type != PV_EDGE) drive_nearest_segments(&turn->scene, type, at.x, at.y, k[type], config->range_m, &turn->scratch, &found);
        write_segments(&turn->scene, near, at, k[type], out);
        if (sampled) count_block(counters, (uint32_t)type + 1, near, segments_in_range(turn, type, near, k[type], at.x, at.y));
        out += k[type] * DRIVE_SEGMENT;
    }
}

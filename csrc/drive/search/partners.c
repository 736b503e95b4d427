// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The exact k nearest other objects (by distance between centres, ties to the smaller object index)
// and their observation entries.
#include "drive/search/partners.h"

#include "contract/base.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/vectors.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "envs/kernels.h"
#include "envs/nearest.h"
#include "envs/transpose.h"

#include <string.h>

// Computes squared distances to all bodies, +infinity for the own row and beyond the range. Returns
// a limit (as bits) within which at least the k nearest lie: the k-th smallest among the minima of
// 16 interleaved groups.
PV_INLINE int32_t measure(const drive_bodies* bodies,
                          const drive_pose* at,
                          int32_t row,
                          uint32_t k,
                          float range_square,
                          float* restrict square) {
    int32_t least[PV_LANES], keys[PV_LANES];
    for (uint32_t i = 0; i < PV_LANES; i++)
        least[i] = PV_FAR_BITS;
    for (uint32_t base = 0; base < bodies->count; base += PV_LANES) {
        float value[PV_LANES];
        for (uint32_t i = 0; i < PV_LANES; i++) {
            float dx = bodies->x[base + i] - at->x, dy = bodies->y[base + i] - at->y;
            value[i] = dx * dx + dy * dy;
        }
        for (uint32_t i = 0; i < PV_LANES; i++) {
            int far = (value[i] > range_square) | (bodies->row[base + i] == row);
            keys[i] = far ? PV_FAR_BITS : pv_bits_of(value[i]);
        }
        for (uint32_t i = 0; i < PV_LANES; i++)
            least[i] = keys[i] < least[i] ? keys[i] : least[i];
        memcpy(square + base, keys, sizeof keys);
    }
    uint32_t order[PV_LANES];
    if (k > PV_LANES || bodies->count <= PV_LANES)
        return PV_FAR_BITS - 1;
    pv_rank_keys(least, PV_LANES, order);
    int32_t limit = least[order[k - 1]];
    return limit < PV_FAR_BITS ? limit : PV_FAR_BITS - 1;
}

// Moves the distances up to the limit to the front and returns how many there are. Points behind
// the last body are far away.
PV_INLINE uint32_t keep_near(const drive_bodies* bodies,
                             int32_t limit,
                             float* square,
                             uint32_t* index) {
    uint32_t n = 0;
    for (uint32_t base = 0; base < bodies->count; base += PV_LANES) {
        int32_t keys[PV_LANES];
        memcpy(keys, square + base, sizeof keys);
        const flags16 near = flags_within(keys, -1, limit);
        FOR_EACH_FLAG(near, i) {
            square[n] = square[base + i];
            index[n++] = base + (uint32_t)i;
        }
    }
    return n;
}

enum {
    RAW_x,
    RAW_y,
    RAW_cosine,
    RAW_sine,
    RAW_speed,
    RAW_half_width,
    RAW_half_length,
    RAW_heading,
    RAW_type,
    RAW_COUNT
};

#define MOST_COLUMNS DRIVE_COUNT_typed_partner

static const uint32_t column_counts[] = {[DRIVE_PLAIN] = DRIVE_COUNT_partner,
                                         [DRIVE_TYPED] = DRIVE_COUNT_typed_partner,
                                         [DRIVE_PUFFERDRIVE] = DRIVE_COUNT_pufferdrive_partner,
                                         [DRIVE_GPUDRIVE] = DRIVE_COUNT_gpudrive_partner};
_Static_assert((int)DRIVE_typed_partner_length == (int)DRIVE_partner_length,
               "typed partners begin as the others");

#define PUT(set, column, value) \
    v[DRIVE_##set##_##column][i] = \
        drive_clamp((value) * (1.0f / DRIVE_SCALE_##set##_##column), -at->bound, at->bound)

// Columns of 16 candidates, v[column][candidate].
PV_INLINE void compute_columns(const drive_partner_search* search,
                               int columns,
                               float (*restrict v)[PV_RANKED],
                               const float (*restrict raw)[PV_RANKED],
                               uint32_t base) {
    const drive_pose* at = search->at;
    const float speed = search->speed, heading = search->heading;
    for (uint32_t i = base; i < base + PV_LANES; i++) {
        float dx = raw[RAW_x][i] - at->x, dy = raw[RAW_y][i] - at->y;
        float ahead = dx * at->cosine + dy * at->sine, aside = dy * at->cosine - dx * at->sine;
        float cosine = raw[RAW_cosine][i] * at->cosine + raw[RAW_sine][i] * at->sine;
        float sine = raw[RAW_sine][i] * at->cosine - raw[RAW_cosine][i] * at->sine;
        float width = 2.0f * raw[RAW_half_width][i], length = 2.0f * raw[RAW_half_length][i];
        if (columns == DRIVE_GPUDRIVE) {
            PUT(gpudrive_partner, speed, drive_abs(raw[RAW_speed][i]));
            PUT(gpudrive_partner, x, ahead);
            PUT(gpudrive_partner, y, aside);
            PUT(gpudrive_partner, heading, drive_wrap(raw[RAW_heading][i] - heading));
            PUT(gpudrive_partner, length, length);
            PUT(gpudrive_partner, width, width);
        } else {
            PUT(partner, x, ahead);
            PUT(partner, y, aside);
            PUT(partner, cos, cosine);
            PUT(partner, sin, sine);
            PUT(partner, velocity_x, raw[RAW_speed][i] * cosine - speed);
            PUT(partner, velocity_y, raw[RAW_speed][i] * sine);
            PUT(partner, width, width);
            PUT(partner, length, length);
        }
        if (columns == DRIVE_TYPED) {
            PUT(typed_partner, vehicle, raw[RAW_type][i] == (float)PV_VEHICLE ? 1.0f : 0.0f);
            PUT(typed_partner, pedestrian, raw[RAW_type][i] == (float)PV_PEDESTRIAN ? 1.0f : 0.0f);
            PUT(typed_partner, cyclist, raw[RAW_type][i] == (float)PV_CYCLIST ? 1.0f : 0.0f);
        }
    }
}

#undef PUT

PV_INLINE void write_entries(const drive_partner_search* search,
                             int columns,
                             const drive_scratch* scratch,
                             float* out,
                             drive_near* near) {
    const drive_bodies* bodies = search->bodies;
    const uint32_t k = search->k, column_count = column_counts[columns];
    _Alignas(64) float raw[RAW_COUNT][PV_RANKED], v[MOST_COLUMNS][PV_RANKED];
    _Alignas(64) int32_t keys[PV_RANKED];
    uint32_t order[PV_RANKED];
    float* square = scratch->square;
    uint32_t* index = scratch->index;
    int32_t limit =
        measure(bodies, search->at, search->row, k, search->range_m * search->range_m, square);
    uint32_t n = keep_near(bodies, limit, square, index);
    if (n > PV_RANKED)
        n = pv_narrow(square, n, index, k);
    uint32_t padded = (n + PV_LANES - 1) / PV_LANES * PV_LANES;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t b = index[i];
        raw[RAW_x][i] = bodies->x[b];
        raw[RAW_y][i] = bodies->y[b];
        raw[RAW_cosine][i] = bodies->cosine[b];
        raw[RAW_sine][i] = bodies->sine[b];
        raw[RAW_speed][i] = bodies->speed[b];
        raw[RAW_half_width][i] = bodies->half_width[b];
        raw[RAW_half_length][i] = bodies->half_length[b];
        if (columns == DRIVE_GPUDRIVE)
            raw[RAW_heading][i] = bodies->heading[b];
        if (columns == DRIVE_TYPED)
            raw[RAW_type][i] = (float)search->objects[bodies->object[b]].type;
        keys[i] = pv_bits_of(square[i]);
    }
    for (uint32_t i = n; i < padded; i++) {
        keys[i] = PV_FAR_BITS;
        for (int f = 0; f < RAW_COUNT; f++)
            raw[f][i] = 0.0f;
    }
    for (uint32_t base = 0; base < padded; base += PV_LANES)
        compute_columns(search, columns, v, (const float (*)[PV_RANKED])raw, base);
    pv_rank_keys(keys, n, order);
    uint32_t count = k < n ? k : n;
    for (uint32_t r = 0; r < count; r++) {
        uint32_t i = order[r];
        near->index[r] = index[i];
        near->square[r] = square[i];
        for (uint32_t f = 0; f < column_count; f++)
            out[r * column_count + f] = v[f][i];
    }
    near->count = count;
    memset(out + count * column_count, 0, (k - count) * column_count * sizeof(float));
}

#define PER(column) (1.0f / DRIVE_SCALE_pufferdrive_partner_##column)

PV_CLONES static void lay_out(const drive_bodies* bodies,
                              float (*restrict rows)[PV_EIGHT],
                              float bound) {
    for (uint64_t base = 0; base < bodies->count;
         base += PV_EIGHT) { // with 32 bits base + i might wrap: no vectors
        float v[PV_EIGHT][PV_EIGHT] = {0};
        for (uint32_t i = 0; i < PV_EIGHT; i++) {
            v[0][i] = bodies->x[base + i];
            v[1][i] = bodies->y[base + i];
            v[2][i] = drive_min(2.0f * bodies->half_width[base + i] * PER(width), bound);
            v[3][i] = drive_min(2.0f * bodies->half_length[base + i] * PER(length), bound);
            v[4][i] = bodies->cosine[base + i];
            v[5][i] = bodies->sine[base + i];
            v[6][i] = drive_min(drive_abs(bodies->speed[base + i]) * PER(speed), bound);
        }
        transpose_half((const float (*)[PV_EIGHT])v, rows + base);
        transpose_half((const float (*)[PV_EIGHT])(v + 4), (float (*)[PV_EIGHT])(rows[base] + 4));
    }
}

void drive_lay_out_bodies(drive_turn* turn) {
    if (turn->config->observation == DRIVE_IS_observation_pufferdrive && turn->config->partners)
        lay_out(&turn->scratch.bodies, (float (*)[PV_EIGHT])(void*)turn->scratch.body_rows,
                DRIVE_SIZE_BOUND);
}

// Lists the bodies within the range, except that of `row`, with their squared distances and
// indices. Returns their number.
PV_INLINE uint32_t find_bodies(const drive_partner_search* search,
                               float* restrict square,
                               uint32_t* restrict index) {
    const drive_bodies* bodies = search->bodies;
    const float x = search->at->x, y = search->at->y,
                range_square = search->range_m * search->range_m;
    const uint32_t vectors =
        (bodies->count + PV_LANES - 1) / PV_LANES; // points behind the last one are far away
    for (uint32_t i = 0; i < vectors * PV_LANES; i++) {
        const float dx = bodies->x[i] - x, dy = bodies->y[i] - y, all = dx * dx + dy * dy;
        square[i] = bodies->row[i] == search->row ? __builtin_inff() : all;
    }
    return keep_up_to(square, vectors, pv_bits_of(range_square), index);
}

typedef int16_t codes __attribute__((vector_size(4 * PV_WIDTH)));

enum { CODES_OF_ONE = 2 * PV_WIDTH };

// Counts how many of n codes are less than each of the first CODES_OF_ONE * pieces codes.
PV_INLINE void rank_codes(const int16_t* all, uint32_t n, int pieces, uint16_t* ranks) {
    codes code[PV_RANKED / CODES_OF_ONE], rank[PV_RANKED / CODES_OF_ONE];
    memcpy(code, all, sizeof code);
    for (int p = 0; p < pieces; p++)
        rank[p] = (codes){0};
#pragma GCC unroll 4
    for (uint32_t i = 0; i < n; i++) {
        for (int p = 0; p < pieces; p++)
            rank[p] -= code[p] > all[i];
    }
    memcpy(ranks, rank, (uint32_t)pieces * sizeof rank[0]);
}

// Sorts the places of n <= PV_RANKED squared distances up to `most`: order[r] is the r-th. They are
// ranked as in nearest.h, but rounded to 16 bits, which takes half the time. Returns 0 if that
// makes two of them equal.
PV_INLINE int sort_rounded(const float* square, uint32_t n, float most, uint32_t* order) {
    _Alignas(64) int16_t all[PV_RANKED];
    _Alignas(64) uint16_t ranks[PV_RANKED];
    const float scale = 65535.0f / most;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < PV_RANKED; i++)
        all[i] = (int16_t)((int32_t)(square[i] * scale) - 32768);
    if (n <= PV_RANKED / 2)
        rank_codes(all, n, PV_RANKED / CODES_OF_ONE / 2, ranks);
    else
        rank_codes(all, n, PV_RANKED / CODES_OF_ONE, ranks);
    for (uint32_t i = 0; i < n; i++) {
        order[ranks[i]] = i;
        sum += ranks[i]; // of the pairs one comes first, unless they are equal
    }
    return sum == n * (n - 1) / 2;
}

// The columns of PufferDrive, straight from the rows that were laid out for all agents of the
// scene. `near` receives only the distance of the last entry, and their number.
PV_CLONES static void write_pufferdrive(const drive_partner_search* search,
                                        const drive_scratch* scratch,
                                        float* out,
                                        drive_near* near) {
    const drive_pose* at = search->at;
    const uint32_t k = search->k, columns = DRIVE_COUNT_pufferdrive_partner;
    const float c = at->cosine, s = at->sine;
    const frame_change how = {.origin = {at->x, at->y, 0, 0, 0, 0, 0, 0},
                              .straight = {c * PER(x), c * PER(y), 1, 1, c, c, 1, 0},
                              .crossed = {s * PER(x), -s * PER(y), 0, 0, s, -s, 0, 0}};
    _Alignas(64) float nearest[PV_RANKED] = {0};
    _Alignas(64) int32_t keys[PV_RANKED];
    uint32_t order[PV_RANKED] = {0};
    float* square = scratch->square;
    uint32_t* index = scratch->index;
    uint32_t n = find_bodies(search, square, index);
    if (n > PV_RANKED)
        n = pv_narrow(square, n, index, k);
    memcpy(nearest, square, n * sizeof(float));
    if (PV_UNLIKELY(!sort_rounded(nearest, n, search->range_m * search->range_m, order))) {
        memcpy(keys, square, n * sizeof(float));
        for (uint32_t i = n; i % PV_LANES; i++)
            keys[i] = PV_FAR_BITS;
        pv_rank_keys(keys, n, order);
    }
    const uint32_t count = k < n ? k : n;
    if (count)
        near->square[count - 1] = square[order[count - 1]];
    const entry_rows from = {search->rows, order, index};
    write_row_entries(&how, &from, count, k, columns, out);
    near->count = count;
    memset(out + count * columns, 0, (k - count) * columns * sizeof(float));
}

#undef PER

#define WRITER(name, columns) \
    PV_CLONES static void write_##name(const drive_partner_search* search, \
                                       const drive_scratch* scratch, float* out, \
                                       drive_near* near) { \
        write_entries(search, columns, scratch, out, near); \
    }
WRITER(plain, DRIVE_PLAIN)
WRITER(typed, DRIVE_TYPED)
WRITER(gpudrive, DRIVE_GPUDRIVE)
#undef WRITER

void drive_write_partners(const drive_partner_search* search,
                          int columns,
                          const drive_scratch* scratch,
                          float* out,
                          drive_near* near) {
    switch (columns) {
    case DRIVE_PLAIN: write_plain(search, scratch, out, near); break;
    case DRIVE_TYPED: write_typed(search, scratch, out, near); break;
    case DRIVE_PUFFERDRIVE: write_pufferdrive(search, scratch, out, near); break;
    default: write_gpudrive(search, scratch, out, near);
    }
}

PV_CLONES uint32_t drive_body_count(const drive_bodies* bodies, float x, float y, float radius_m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < bodies->count; i++) {
        float dx = bodies->x[i] - x, dy = bodies->y[i] - y;
        count += (uint32_t)(dx * dx + dy * dy <= radius_m * radius_m);
    }
    return count;
}

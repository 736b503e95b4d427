// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The exact k nearest other objects (by distance between centres, ties to the smaller object index) and their observation
// entries.
#include "../nearest.h"
#include "kernels.h"
#include "state.h"

// Squared distances to all bodies, +infinity for the own row and beyond the range. Returns a limit (as bits) that keeps at
// least the k nearest: the k-th smallest of the least distances of 16 interleaved groups, since each group holds one as near as
// its least.
PV_INLINE int32_t measure(const drive_bodies* bodies, const drive_pose* at, int32_t row, uint32_t k, float range_square,
                             float* restrict square) {
    int32_t least[PV_LANES], keys[PV_LANES];
    for (uint32_t i = 0; i < PV_LANES; i++) least[i] = PV_FAR_BITS;
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
        for (uint32_t i = 0; i < PV_LANES; i++) least[i] = keys[i] < least[i] ? keys[i] : least[i];
        memcpy(square + base, keys, sizeof keys);
    }
    uint32_t order[PV_LANES];
    if (k > PV_LANES || bodies->count <= PV_LANES) return PV_FAR_BITS - 1;
    pv_rank_keys(least, PV_LANES, order);
    int32_t limit = least[order[k - 1]];
    return limit < PV_FAR_BITS ? limit : PV_FAR_BITS - 1;
}

// Columns of 16 candidates, v[column][candidate].
PV_INLINE void compute_columns(float (*restrict v)[PV_RANKED], const float (*restrict raw)[PV_RANKED], uint32_t base,
                                  const drive_pose* at, float speed) {
    for (uint32_t i = base; i < base + PV_LANES; i++) {
        float dx = raw[0][i] - at->x, dy = raw[1][i] - at->y;
        float cosine = raw[2][i] * at->cosine + raw[3][i] * at->sine, sine = raw[3][i] * at->cosine - raw[2][i] * at->sine;
#define PUT(column, value)                                                                                                     \
    v[DRIVE_partner_##column][i] = drive_clamp((value) * (1.0f / DRIVE_SCALE_partner_##column), -at->bound, at->bound)
        PUT(x, dx * at->cosine + dy * at->sine);
        PUT(y, dy * at->cosine - dx * at->sine);
        PUT(cos, cosine);
        PUT(sin, sine);
        PUT(velocity_x, raw[4][i] * cosine - speed);
        PUT(velocity_y, raw[4][i] * sine);
        PUT(width, 2.0f * raw[5][i]);
        PUT(length, 2.0f * raw[6][i]);
#undef PUT
    }
}

PV_CLONES void drive_write_partners(const drive_bodies* bodies, const drive_pose* at, int32_t row, float speed, uint32_t k,
                                    float range_m, const drive_scratch* scratch, float* out, drive_near* near) {
    _Alignas(64) float raw[7][PV_RANKED], v[DRIVE_COUNT_partner][PV_RANKED];
    _Alignas(64) int32_t keys[PV_RANKED];
    uint32_t order[PV_RANKED];
    float* square = scratch->square;
    uint32_t* index = scratch->index;
    near->count = 0;
    if (!k) return;
    int32_t limit = measure(bodies, at, row, k, range_m * range_m, square);
    uint32_t n = 0;
    for (uint32_t i = 0; i < bodies->count; i++) {
        float value = square[i];
        square[n] = value;
        index[n] = i;
        n += (uint32_t)(pv_bits_of(value) <= limit);
    }
    if (n > PV_RANKED) n = pv_narrow(square, n, index, k);
    uint32_t padded = (n + PV_LANES - 1) / PV_LANES * PV_LANES;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t b = index[i];
        raw[0][i] = bodies->x[b];
        raw[1][i] = bodies->y[b];
        raw[2][i] = bodies->cosine[b];
        raw[3][i] = bodies->sine[b];
        raw[4][i] = bodies->speed[b];
        raw[5][i] = bodies->half_width[b];
        raw[6][i] = bodies->half_length[b];
        keys[i] = pv_bits_of(square[i]);
    }
    for (uint32_t i = n; i < padded; i++) {
        keys[i] = PV_FAR_BITS;
        for (int f = 0; f < 7; f++) raw[f][i] = 0.0f;
    }
    for (uint32_t base = 0; base < padded; base += PV_LANES)
        compute_columns(v, (const float (*)[PV_RANKED])raw, base, at, speed);
    pv_rank_keys(keys, n, order);
    uint32_t count = k < n ? k : n;
    for (uint32_t r = 0; r < count; r++) {
        uint32_t i = order[r];
        near->index[r] = index[i];
        near->square[r] = square[i];
        for (uint32_t f = 0; f < DRIVE_COUNT_partner; f++) out[r * DRIVE_COUNT_partner + f] = v[f][i];
    }
    near->count = count;
    memset(out + count * DRIVE_COUNT_partner, 0, (k - count) * DRIVE_COUNT_partner * sizeof(float));
}

PV_CLONES uint32_t drive_body_count(const drive_bodies* bodies, float x, float y, float radius_m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < bodies->count; i++) {
        float dx = bodies->x[i] - x, dy = bodies->y[i] - y;
        count += (uint32_t)(dx * dx + dy * dy <= radius_m * radius_m);
    }
    return count;
}

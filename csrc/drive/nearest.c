// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The exact k nearest: road segments of a type by distance to the segment, other objects by distance between centres. Ties go to
// the smaller index. Half of the env's time is spent here. Path stop: between the state of a step and its observation.
//
// Where the scene's index covers the point, its cell lists a few dozen candidates; else all segments are scanned. Either way the
// squared distances of what is left are ranked by counting, for each entry, how many come before it: n^2 comparisons, but without
// a branch and 16 at a time, which for n < 64 beats any sorting. Larger n are narrowed first.
#include "kernels.h"
#include "state.h"

#define RANKED 64             // more than this are narrowed before they are ranked
#define FAR_BITS 0x7F800000   // +infinity as bits: beyond the range

// Floats >= 0 have the order of their bits.
DRIVE_INLINE int32_t bits_of(float v) {
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

// Squared distance from (px, py) to the segment with midpoint (x, y), unit direction (ux, uy) and half length.
DRIVE_INLINE float segment_square(float x, float y, float ux, float uy, float half, float px, float py) {
    float dx = x - px, dy = y - py;
    float over = drive_max(drive_abs(dx * ux + dy * uy) - half, 0.0f);
    float across = dx * uy - dy * ux;
    return over * over + across * across;
}

// order[r] = position of the r-th smallest of n keys, equal ones in order of position. keys is readable up to a multiple of 16 and
// its rest is FAR_BITS; order has room for that many. Within a vector j of keys, an entry i before the vector precedes it if
// key_i <= key_j, an entry behind it if key_i < key_j.
DRIVE_INLINE void rank_keys(const int32_t* keys, uint32_t n, uint32_t* order) {
    const drive_i16 iota = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (uint32_t j = 0; j < n; j += LANES) {
        drive_i16 key, rank = {0};
        memcpy(&key, keys + j, sizeof key);
        drive_i16 or_equal = key + 1;
        uint32_t end = j + LANES < n ? j + LANES : n;
        for (uint32_t i = 0; i < j; i++) rank -= keys[i] < or_equal;
        for (uint32_t i = j; i < end; i++) rank -= keys[i] < key - (iota > (int32_t)(i - j));
        for (uint32_t i = end; i < n; i++) rank -= keys[i] < key;
        int32_t ranks[LANES];
        memcpy(ranks, &rank, sizeof rank);
        for (uint32_t i = j; i < end; i++) order[ranks[i - j]] = i;
    }
}

// Sorted result from n <= RANKED entries: their squared distances (beyond the range: +infinity) and indices.
DRIVE_INLINE void finish(float* square, uint32_t n, const uint32_t* index, uint32_t k, drive_near* out) {
    int32_t keys[RANKED + LANES];
    uint32_t order[RANKED + LANES];
    uint32_t padded = (n + LANES - 1) / LANES * LANES;
    for (uint32_t i = n; i < padded; i++) square[i] = __builtin_inff();
    memcpy(keys, square, padded * sizeof(float));
    rank_keys(keys, n, order);
    uint32_t count = 0;
    for (uint32_t most = k < n ? k : n; count < most; count++) {
        uint32_t at = order[count];
        if (keys[at] == FAR_BITS) break;
        out->index[count] = index[at];
        out->square[count] = square[at];
    }
    out->count = count;
}

// Number of the n values whose bits are at most `limit`.
DRIVE_INLINE uint32_t count_within(const float* square, uint32_t n, int32_t limit) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) count += (uint32_t)(bits_of(square[i]) <= limit);
    return count;
}

// Sorted result from any number of entries: finds by bisection a limit that at least k of them keep, as few more as possible.
DRIVE_INLINE void narrow_and_finish(float* square, uint32_t n, uint32_t* index, uint32_t k, drive_near* out) {
    int32_t low = -1, high = FAR_BITS - 1; // count_within(low) < k <= count_within(high)
    uint32_t kept = n;
    while (kept > RANKED && high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        uint32_t count = count_within(square, n, middle);
        if (count >= k) high = middle, kept = count;
        else low = middle;
    }
    uint32_t count = 0, ties = 0;
    // Should more than RANKED remain, all but k - 1 of them are equal, and the first in order of index win.
    uint32_t below = kept > RANKED ? count_within(square, n, high - 1) : 0;
    for (uint32_t i = 0; i < n; i++) {
        int32_t bits = bits_of(square[i]);
        int tie = kept > RANKED && bits == high;
        if (bits > high || (tie && ties++ >= k - below)) continue;
        square[count] = square[i];
        index[count++] = index[i];
    }
    finish(square, count, index, k, out);
}

// Candidates of the point's cell, or NULL where the index does not answer.
DRIVE_INLINE const uint16_t* cell_list(const drive_scene* scene, int type, float x, float y, uint32_t k, float range_m,
                                       uint32_t* count) {
    const pv_scene* head = scene->head;
    float column = (x - head->grid_x0_m) * scene->cells_per_m, line = (y - head->grid_y0_m) * scene->cells_per_m;
    int inside = column >= 0.0f && line >= 0.0f && column < (float)head->grid_nx && line < (float)head->grid_ny;
    if (!inside || k > scene->index_k[type] || range_m > scene->index_range_m) return NULL;
    const pv_cell* cell = &scene->cells[(uint64_t)(uint32_t)line * head->grid_nx + (uint32_t)column];
    if (cell->first == PV_CELL_EMPTY) return NULL;
    uint32_t first = cell->first;
    for (int t = 0; t < type; t++) first += cell->count[t];
    *count = cell->count[type];
    return &scene->candidates[first];
}

// Squared distances of up to 16 candidates from `list` on. Those beyond the range become +infinity.
DRIVE_INLINE void list_squares(const drive_scene* scene, const uint16_t* list, uint32_t n, float x, float y, float range_square,
                               float* square, uint32_t* index) {
    float cx[LANES] = {0}, cy[LANES] = {0}, ux[LANES] = {0}, uy[LANES] = {0}, half[LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = list[i];
        index[i] = s;
        cx[i] = scene->x[s];
        cy[i] = scene->y[s];
        ux[i] = scene->ux[s];
        uy[i] = scene->uy[s];
        half[i] = scene->half[s];
    }
    for (uint32_t i = 0; i < LANES; i++) {
        float value = segment_square(cx[i], cy[i], ux[i], uy[i], half[i], x, y);
        square[i] = value <= range_square ? value : __builtin_inff();
    }
}

// Appends the segments of [first, end) within the range. Returns how many.
DRIVE_INLINE uint32_t scan_segments(const drive_scene* scene, uint32_t first, uint32_t end, float x, float y, float range_square,
                                    float* square, uint32_t* index) {
    uint32_t kept = 0;
    float values[4 * LANES];
    for (uint32_t base = first; base < end; base += 4 * LANES) {
        uint32_t n = end - base < 4 * LANES ? end - base : 4 * LANES;
        uint32_t hits = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t s = base + i;
            values[i] = segment_square(scene->x[s], scene->y[s], scene->ux[s], scene->uy[s], scene->half[s], x, y);
            hits += (uint32_t)(values[i] <= range_square);
        }
        if (!hits) continue;
        for (uint32_t i = 0; i < n; i++) {
            square[kept] = values[i];
            index[kept] = base + i;
            kept += (uint32_t)(values[i] <= range_square);
        }
    }
    return kept;
}

PV_CLONES void drive_nearest_segments(const drive_scene* scene, int type, float x, float y, uint32_t k, float range_m,
                                      const drive_scratch* scratch, drive_near* out) {
    uint32_t n = 0;
    out->count = 0;
    if (!k || scene->first[type] == scene->first[type + 1]) return;
    const uint16_t* list = cell_list(scene, type, x, y, k, range_m, &n);
    float* square = scratch->distance;
    uint32_t* index = scratch->index;
    if (list) {
        for (uint32_t i = 0; i < n; i += LANES)
            list_squares(scene, list + i, n - i < LANES ? n - i : LANES, x, y, range_m * range_m, square + i, index + i);
    } else {
        n = scan_segments(scene, scene->first[type], scene->first[type + 1], x, y, range_m * range_m, square, index);
    }
    if (n <= RANKED) finish(square, n, index, k, out);
    else narrow_and_finish(square, n, index, k, out);
}

PV_CLONES void drive_nearest_bodies(const drive_bodies* bodies, float x, float y, int32_t row, uint32_t k, float range_m,
                                    const drive_scratch* scratch, drive_near* out) {
    float* square = scratch->distance;
    float range_square = range_m * range_m;
    uint32_t kept = 0;
    out->count = 0;
    if (!k) return;
    for (uint32_t base = 0; base < bodies->count; base += LANES) {
        float values[LANES];
        uint32_t n = bodies->count - base < LANES ? bodies->count - base : LANES;
        for (uint32_t i = 0; i < LANES; i++) { // the arrays are readable up to a multiple of 16
            float dx = bodies->x[base + i] - x, dy = bodies->y[base + i] - y;
            float value = dx * dx + dy * dy;
            values[i] = bodies->row[base + i] == row ? __builtin_inff() : value;
        }
        for (uint32_t i = 0; i < n; i++) {
            square[kept] = values[i];
            scratch->index[kept] = base + i;
            kept += (uint32_t)(values[i] <= range_square);
        }
    }
    if (kept <= RANKED) finish(square, kept, scratch->index, k, out);
    else narrow_and_finish(square, kept, scratch->index, k, out);
}

PV_CLONES uint32_t drive_segments_within(const drive_scene* scene, int type, float x, float y, float radius_m, uint32_t* index) {
    uint32_t kept = 0;
    for (uint32_t s = scene->first[type]; s < scene->first[type + 1]; s++) {
        index[kept] = s;
        kept += (uint32_t)(segment_square(scene->x[s], scene->y[s], scene->ux[s], scene->uy[s], scene->half[s], x, y) <=
                           radius_m * radius_m);
    }
    return kept;
}

PV_CLONES uint32_t drive_segment_count(const drive_scene* scene, int type, float x, float y, float radius_m) {
    uint32_t count = 0;
    for (uint32_t s = scene->first[type]; s < scene->first[type + 1]; s++) {
        count += (uint32_t)(segment_square(scene->x[s], scene->y[s], scene->ux[s], scene->uy[s], scene->half[s], x, y) <=
                            radius_m * radius_m);
    }
    return count;
}

PV_CLONES uint32_t drive_body_count(const drive_bodies* bodies, float x, float y, float radius_m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < bodies->count; i++) {
        float dx = bodies->x[i] - x, dy = bodies->y[i] - y;
        count += (uint32_t)(dx * dx + dy * dy <= radius_m * radius_m);
    }
    return count;
}

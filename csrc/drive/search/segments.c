// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The exact k nearest road segments of a type (by distance to the segment, ties to the smaller
// index) and their observation entries. Half of the env's time is spent here.
//
//     cell's list, or all segments     find_candidates: at most PV_RANKED, the k nearest among them
//     columns and distances            compute_columns: of every candidate, 8 at a time
//     order                            pv_rank_keys (nearest.h)
//     entries                          copies of the rows of the k nearest, in that order
//
// Where the scene's index covers the point, its cell lists a few dozen candidates; elsewhere all
// segments are scanned.
#include "drive/search/segments.h"

#include "contract/base.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/roads.h"
#include "drive/search/vectors.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "envs/kernels.h"
#include "envs/nearest.h"
#include "envs/transpose.h"

#include <string.h>

// A search for the nearest segments of a type.
typedef struct search {
    const drive_scene* scene;
    int type;
    const drive_pose* at;
    uint32_t k;
    float range_m;
} search;

// Returns the squared distance from (px, py) to the segment with midpoint (x, y), unit direction
// (ux, uy) and half length.
PV_INLINE float segment_square(
    float x, float y, float ux, float uy, float half, float px, float py) {
    float dx = x - px, dy = y - py;
    float over = drive_max(drive_abs(dx * ux + dy * uy) - half, 0.0f);
    float across = dx * uy - dy * ux;
    return over * over + across * across;
}

PV_INLINE float square_of(const drive_scene* scene, uint32_t s, float x, float y) {
    return segment_square(scene->x[s], scene->y[s], scene->ux[s], scene->uy[s], scene->half[s], x,
                          y);
}

// Returns the cell of a point, or NULL outside the grid.
PV_INLINE const pv_cell* cell_at(const drive_scene* scene, float x, float y) {
    const pv_scene* head = scene->head;
    float column = (x - head->grid_x0_m) * scene->cells_per_m,
          line = (y - head->grid_y0_m) * scene->cells_per_m;
    int inside = column >= 0.0f && line >= 0.0f && column < (float)head->grid_nx &&
                 line < (float)head->grid_ny;
    return inside ? &scene->cells[(uint64_t)(uint32_t)line * head->grid_nx + (uint32_t)column]
                  : NULL;
}

// Returns the candidates of the point's cell, or NULL if the index does not cover the search.
PV_INLINE const uint16_t* cell_list(const drive_scene* scene,
                                    int type,
                                    float x,
                                    float y,
                                    uint32_t k,
                                    float range_m,
                                    uint32_t* count) {
    const pv_cell* cell = cell_at(scene, x, y);
    if (!cell || cell->first == PV_CELL_EMPTY || k > scene->index_k[type] ||
        range_m > scene->index_range_m)
        return NULL;
    uint32_t first = cell->first;
    for (int t = 0; t < type; t++)
        first += cell->count[t];
    *count = cell->count[type];
    return &scene->candidates[first];
}

#define SCANNED 32 // segments whose distances are computed together

// Returns the k-th smallest of the least distances of SCANNED interleaved groups. Each group holds
// a segment as near as its least distance, so at least k segments are within the result.
PV_INLINE float limit_of(const float* least, uint32_t k) {
    enum { PIECES = SCANNED / PV_WIDTH };

    pv_ints key[PIECES], nearer[PIECES];
    int32_t keys[SCANNED], limit = 0;
    memcpy(keys, least, sizeof keys);
    memcpy(key, least, sizeof key);
    for (int p = 0; p < PIECES; p++)
        nearer[p] = (pv_ints){0};
    for (uint32_t i = 0; i < SCANNED; i++) {
        for (int p = 0; p < PIECES; p++)
            nearer[p] -= keys[i] < key[p];
    }
    for (int p = 0; p < PIECES; p++)
        key[p] &= nearer[p] < (int32_t)k;
    memcpy(keys, key, sizeof keys);
    for (uint32_t i = 0; i < SCANNED; i++)
        limit = keys[i] > limit ? keys[i] : limit;
    float metres;
    memcpy(&metres, &limit, sizeof metres);
    return metres;
}

// Writes the squared distances of `count` segments, starting with segment `first`.
PV_INLINE void measure(const drive_scene* scene,
                       uint64_t first,
                       uint32_t count,
                       float px,
                       float py,
                       float* restrict square) {
    const float *x = scene->x + first, *y = scene->y + first, *ux = scene->ux + first,
                *uy = scene->uy + first;
    const float* half = scene->half + first;
    for (uint32_t i = 0; i < count; i++)
        square[i] = segment_square(x[i], y[i], ux[i], uy[i], half[i], px, py);
}

#define PIECE PV_EIGHT // candidates whose columns are computed together

// Assembles the floats of 8 segments in registers: a vector load from memory to which smaller
// pieces were just stored would have to wait for the stores (no store forwarding).
PV_INLINE pv_eight gather8(const float* of, const uint16_t* index) {
    return (pv_eight){of[index[0]], of[index[1]], of[index[2]], of[index[3]],
                      of[index[4]], of[index[5]], of[index[6]], of[index[7]]};
}

// Loads five floats of each of 8 segments: x, y, ux, uy, half.
PV_INLINE void load_eight(const drive_scene* scene, const uint16_t* index, float (*raw)[PIECE]) {
    const pv_eight of[5] = {gather8(scene->x, index), gather8(scene->y, index),
                            gather8(scene->ux, index), gather8(scene->uy, index),
                            gather8(scene->half, index)};
    memcpy(raw, of, sizeof of);
}

// Returns the 8 numbers of a list that begin at `base`. If fewer are left, copies them to `last`
// and pads them with the first one.
PV_INLINE const uint16_t* eight_from(const uint16_t* list,
                                     uint32_t base,
                                     uint32_t count,
                                     uint16_t* last) {
    if (count - base >= PIECE)
        return list + base;
    for (uint32_t i = 0; i < PIECE; i++)
        last[i] = list[base + i < count ? base + i : base];
    return last;
}

// Filters `count` squared distances: keeps all that are within the range, or if those are too many
// a subset that contains the k smallest, and writes their positions to `index`. Returns their
// number.
PV_INLINE uint32_t
keep_nearest(uint32_t count, uint32_t k, float range_square, float* square, uint32_t* index) {
    float least[SCANNED];
    for (uint32_t i = 0; i < SCANNED; i++)
        least[i] = range_square;
    for (uint32_t base = 0; base + SCANNED <= count; base += SCANNED) {
        for (uint32_t i = 0; i < SCANNED; i++)
            least[i] = drive_min(square[base + i], least[i]);
    }
    const float limit = count > SCANNED && k <= SCANNED ? limit_of(least, k) : range_square;
    for (uint32_t i = count; i % PV_LANES; i++)
        square[i] = __builtin_inff();
    return keep_up_to(square, (count + PV_LANES - 1) / PV_LANES, pv_bits_of(limit), index);
}

// Writes the segments of [first, end) within the range, or a subset that contains the k nearest, to
// `square` and `index`. Returns their number.
PV_CLONES static uint32_t scan_segments(const drive_scene* scene,
                                        uint32_t first,
                                        uint32_t end,
                                        float x,
                                        float y,
                                        uint32_t k,
                                        float range_square,
                                        float* square,
                                        uint32_t* index) {
    const uint32_t count = end - first;
    uint32_t base = 0;
    for (; base + SCANNED <= count; base += SCANNED)
        measure(scene, (uint64_t)first + base, SCANNED, x, y, square + base);
    if (base < count && base) // the last ones, some of them once more
        measure(scene, (uint64_t)end - SCANNED, SCANNED, x, y, square + count - SCANNED);
    else
        measure(scene, first, count - base, x, y, square);
    const uint32_t kept = keep_nearest(count, k, range_square, square, index);
    for (uint32_t i = 0; i < kept; i++)
        index[i] += first;
    return kept;
}

// Like the function above, for the segments of a list.
PV_CLONES static uint32_t scan_list(const drive_scene* scene,
                                    const uint16_t* list,
                                    uint32_t count,
                                    float x,
                                    float y,
                                    uint32_t k,
                                    float range_square,
                                    float* square,
                                    uint32_t* index) {
    uint16_t last[PIECE];
    for (uint32_t base = 0; base < count; base += PIECE) {
        const uint16_t* eight = eight_from(list, base, count, last);
        _Alignas(32) float raw[5][PIECE];
        load_eight(scene, eight, raw);
        for (uint32_t i = 0; i < PIECE; i++)
            square[base + i] =
                segment_square(raw[0][i], raw[1][i], raw[2][i], raw[3][i], raw[4][i], x, y);
    }
    const uint32_t kept = keep_nearest(count, k, range_square, square, index);
    for (uint32_t i = 0; i < kept; i++)
        index[i] = list[index[i]];
    return kept;
}

// Returns at most PV_RANKED segments, among them the k nearest within the range: the cell's list
// itself, or the filtered result of a longer list or of all segments, which is written to `found`.
PV_INLINE const uint16_t* find_candidates(const search* wanted,
                                          const drive_scratch* scratch,
                                          uint16_t* found,
                                          uint32_t* count) {
    const drive_scene* scene = wanted->scene;
    const float x = wanted->at->x, y = wanted->at->y,
                range_square = wanted->range_m * wanted->range_m;
    const uint16_t* list = cell_list(scene, wanted->type, x, y, wanted->k, wanted->range_m, count);
    if (list && *count <= PV_RANKED)
        return list;
    uint32_t n =
        list ? scan_list(scene, list, *count, x, y, wanted->k, range_square, scratch->square,
                         scratch->index)
             : scan_segments(scene, scene->first[wanted->type], scene->first[wanted->type + 1], x,
                             y, wanted->k, range_square, scratch->square, scratch->index);
    if (n > PV_RANKED)
        n = pv_narrow(scratch->square, n, scratch->index, wanted->k);
    for (uint32_t i = 0; i < n; i++)
        found[i] = (uint16_t)scratch->index[i];
    *count = n;
    return found;
}

// The data from which the entries of up to PV_RANKED candidates are made.
typedef struct entries {
    _Alignas(64) float rows[PV_RANKED][PIECE]; // a candidate's columns, and one number more
    _Alignas(
        64) int32_t keys[PV_RANKED]; // bits of its squared distance, PV_FAR_BITS beyond the range
    uint32_t order[PV_RANKED];
} entries;

_Static_assert(DRIVE_COUNT_segment == PIECE - 1, "rows hold an entry's columns");

// Computes the columns of 8 segments, v[column][segment], and the bits of their squared distances.
PV_INLINE void compute_columns(const drive_scene* scene,
                               const uint16_t* index,
                               const drive_pose* at,
                               float range_square,
                               float (*restrict v)[PIECE],
                               int32_t* restrict keys) {
    _Alignas(32) float raw[5][PIECE];
    load_eight(scene, index, raw);
    for (uint32_t i = 0; i < PIECE; i++) {
        float dx = raw[0][i] - at->x, dy = raw[1][i] - at->y, ux = raw[2][i], uy = raw[3][i],
              half = raw[4][i];
        float over = drive_max(drive_abs(dx * ux + dy * uy) - half, 0.0f);
        float across = dx * uy - dy * ux;
        float value = over * over + across * across; // as in segment_square
        keys[i] = value <= range_square ? pv_bits_of(value) : PV_FAR_BITS;
#define PUT(column, value) \
    v[DRIVE_segment_##column][i] = \
        drive_clamp((value) * (1.0f / DRIVE_SCALE_segment_##column), -at->bound, at->bound)
        PUT(x, dx * at->cosine + dy * at->sine);
        PUT(y, dy * at->cosine - dx * at->sine);
        PUT(half_length, half);
        PUT(cos, ux * at->cosine + uy * at->sine);
        PUT(sin, uy * at->cosine - ux * at->sine);
        PUT(distance, drive_sqrt(value));
        PUT(lateral, across);
#undef PUT
    }
}

// Fills e->rows and e->keys of n candidates. A transposed pair of halves makes 8 rows:
//
//     v[column][segment]         e->rows[segment][column]
//     x    x0 x1 .. x7           x0 y0 half0 .. lateral0 -
//     y    y0 y1 .. y7     -->   x1 y1 half1 .. lateral1 -
//     ..                         ..
PV_INLINE void fill_rows(const search* wanted, const uint16_t* index, uint32_t n, entries* e) {
    _Alignas(32) float v[PIECE][PIECE] = {0};
    const float range_square = wanted->range_m * wanted->range_m;
    for (uint32_t base = 0; base < n; base += PIECE) {
        uint16_t last[PIECE];
        const uint16_t* eight = eight_from(index, base, n, last);
        compute_columns(wanted->scene, eight, wanted->at, range_square, v, e->keys + base);
        transpose_half((const float (*)[PIECE])v, e->rows + base);
        transpose_half((const float (*)[PIECE])(v + 4), (float (*)[PIECE])(e->rows[base] + 4));
    }
    for (uint32_t i = n; i % PV_LANES; i++)
        e->keys[i] = PV_FAR_BITS;
}

// Writes entry number r. The copy is one number longer than an entry; the next entry overwrites
// this number, and the last entry is cut.
PV_INLINE void copy_entry(const float* row, uint32_t r, uint32_t k, float* out) {
    const uint32_t columns = DRIVE_COUNT_segment;
    memcpy(out + r * columns, row, 4 * sizeof(float));
    memcpy(out + r * columns + 4, row + 4, (r + 1 < k ? 4 : 3) * sizeof(float));
}

// Writes the k nearest of n candidates within the range, sorted.
PV_INLINE void write_nearest(
    const search* wanted, const uint16_t* index, uint32_t n, float* out, drive_near* near) {
    const uint32_t k = wanted->k, columns = DRIVE_COUNT_segment;
    entries e;
    fill_rows(wanted, index, n, &e);
    pv_rank_keys(e.keys, n, e.order);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += e.keys[i] != PV_FAR_BITS;
    count = count < k ? count : k;
    for (uint32_t r = 0; r < count; r++) {
        const uint32_t i = e.order[r];
        near->index[r] = index[i];
        memcpy(&near->square[r], &e.keys[i], sizeof(float));
        copy_entry(e.rows[i], r, k, out);
    }
    near->count = count;
    if (count < k)
        memset(out + count * columns, 0, (k - count) * columns * sizeof(float));
}

PV_CLONES void drive_write_segments(const drive_scene* scene,
                                    int type,
                                    const drive_pose* at,
                                    uint32_t k,
                                    float range_m,
                                    const drive_scratch* scratch,
                                    float* out,
                                    drive_near* near) {
    const search wanted = {scene, type, at, k, range_m};
    uint16_t found[PV_RANKED];
    uint32_t n = 0;
    near->count = 0;
    near->most = k;
    const uint16_t* index = find_candidates(&wanted, scratch, found, &n);
    write_nearest(&wanted, index, n, out, near);
}

// ---- spread over the range ----

#define RINGS 4 // up to 1/8, 1/4, 1/2 and all of the range

// Returns the number with its 16 bits in reverse order. If the segments of a consecutive run
// are sorted by these, the first few are spread evenly over the run.
PV_INLINE uint32_t reversed(uint32_t v) {
    v = (v & 0x5555u) << 1 | (v >> 1 & 0x5555u);
    v = (v & 0x3333u) << 2 | (v >> 2 & 0x3333u);
    v = (v & 0x0F0Fu) << 4 | (v >> 4 & 0x0F0Fu);
    return (v & 0x00FFu) << 8 | (v >> 8 & 0x00FFu);
}

// Computes how many segments to take from each ring: a quarter of k if it has that many. The
// remainder is taken from the nearest rings that have more.
static void share_out(const uint32_t* there, uint32_t k, uint32_t* share) {
    uint32_t left = k;
    for (int ring = 0; ring < RINGS; ring++) {
        share[ring] = there[ring] < k / RINGS ? there[ring] : k / RINGS;
        left -= share[ring];
    }
    for (int ring = 0; ring < RINGS; ring++) {
        uint32_t more = there[ring] - share[ring] < left ? there[ring] - share[ring] : left;
        share[ring] += more;
        left -= more;
    }
}

// Replaces the squared distances of n segments by their keys, ring * 65536 + reversed number
// (exact, since they are below 2^24), and counts how many each ring has.
PV_INLINE void key_by_ring(
    const search* wanted, uint32_t n, const uint32_t* index, float* square, uint32_t* there) {
    const float limits[RINGS - 1] = {wanted->range_m * 0.125f, wanted->range_m * 0.25f,
                                     wanted->range_m * 0.5f};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ring = 0;
        for (int r = 0; r < RINGS - 1; r++)
            ring += (uint32_t)(square[i] > limits[r] * limits[r]);
        there[ring]++;
        square[i] =
            (float)(ring * 65536u + reversed(index[i] - wanted->scene->first[wanted->type]));
    }
}

// Inserts a number into an ascending list that keeps the `room` smallest ones. Returns the new
// length of the list.
PV_INLINE uint32_t insert_least(uint32_t* list, uint32_t count, uint32_t room, uint32_t number) {
    if (count == room && (!count || list[count - 1] <= number))
        return count;
    uint32_t place = count == room ? count - 1 : count++;
    for (; place && list[place - 1] > number; place--)
        list[place] = list[place - 1];
    list[place] = number;
    return count;
}

static void sort_numbers(uint16_t* numbers, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        uint16_t number = numbers[i];
        uint32_t place = i;
        for (; place && numbers[place - 1] > number; place--)
            numbers[place] = numbers[place - 1];
        numbers[place] = number;
    }
}

// Takes from each ring the segments with the smallest bit-reversed numbers (within the type), so
// that the same ones are chosen while the car drives. They are returned in the order of the scene,
// so that ties in distance go to the first.
PV_CLONES void drive_write_spread(const drive_scene* scene,
                                  int type,
                                  const drive_pose* at,
                                  uint32_t k,
                                  float range_m,
                                  const drive_scratch* scratch,
                                  float* out,
                                  drive_near* near) {
    const search wanted = {scene, type, at, k, range_m};
    uint32_t there[RINGS] = {0}, share[RINGS], filled[RINGS] = {0}, first[RINGS] = {0},
             kept[DRIVE_MAX_K];
    uint16_t found[PV_RANKED];
    near->count = 0;
    near->most = 0;
    const uint32_t n =
        scan_segments(scene, scene->first[type], scene->first[type + 1], at->x, at->y, UINT32_MAX,
                      range_m * range_m, scratch->square, scratch->index);
    key_by_ring(&wanted, n, scratch->index, scratch->square, there);
    share_out(there, k, share);
    for (int ring = 1; ring < RINGS; ring++)
        first[ring] = first[ring - 1] + share[ring - 1];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t key = (uint32_t)scratch->square[i], ring = key >> 16;
        filled[ring] = insert_least(kept + first[ring], filled[ring], share[ring], key & 0xFFFFu);
    }
    const uint32_t count = first[RINGS - 1] + share[RINGS - 1];
    for (uint32_t i = 0; i < count; i++)
        found[i] = (uint16_t)(scene->first[type] + reversed(kept[i]));
    sort_numbers(found, count);
    write_nearest(&wanted, found, count, out, near);
}

PV_CLONES uint32_t drive_segments_near(const drive_scene* scene,
                                       int type,
                                       float x,
                                       float y,
                                       float radius_m,
                                       const drive_scratch* scratch) {
    uint32_t count = 0, kept = 0;
    const uint16_t* list = cell_list(scene, type, x, y, scene->index_k[type], radius_m, &count);
    for (uint32_t i = 0; list && i < count; i++) {
        float value = square_of(scene, list[i], x, y);
        scratch->square[kept] = value;
        scratch->index[kept] = list[i];
        kept += (uint32_t)(value <= radius_m * radius_m);
    }
    // The list contains the index_k nearest: if fewer are within the radius, none is missing.
    if (list && kept < scene->index_k[type])
        return kept;
    return drive_segments_within(scene, 1u << type, x, y, radius_m, scratch);
}

PV_CLONES uint32_t
drive_segment_count(const drive_scene* scene, int type, float x, float y, float radius_m) {
    uint32_t count = 0;
    for (uint32_t s = scene->first[type]; s < scene->first[type + 1]; s++) {
        count += (uint32_t)(square_of(scene, s, x, y) <= radius_m * radius_m);
    }
    return count;
}

void drive_prefetch_cell(const drive_scene* scene, float x, float y) {
    const pv_cell* cell = cell_at(scene, x, y);
    if (cell)
        __builtin_prefetch(cell);
}

void drive_prefetch_lists(const drive_scene* scene, float x, float y) {
    const pv_cell* cell = cell_at(scene, x, y);
    if (!cell || cell->first == PV_CELL_EMPTY)
        return;
    const uint8_t* list = (const uint8_t*)&scene->candidates[cell->first];
    uint32_t bytes = 2 * ((uint32_t)cell->count[0] + cell->count[1] + cell->count[2]);
    for (uint32_t at = 0; at < bytes; at += DRIVE_CACHE_LINE)
        __builtin_prefetch(list + at);
}

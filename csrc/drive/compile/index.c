// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See index.h. Why the lists are complete: let c be the centre of a square with half diagonal h,
// d(c, s) the distance from c to segment s and d_k(c) the k-th smallest of them. A point p of the
// square is at most h from c, so d_k(p) <= d_k(c) + h, and a segment among the k nearest of p has
// d(p, s) <= d_k(p), hence d(c, s) <= d_k(c) + 2 h. Likewise d(p, s) <= range gives d(c, s) <=
// range + h. The bound is tight only for small squares, so each cell is cut into SUB x SUB of them
// and its list is the union of theirs: about half as long as the list of the whole cell, at the
// same size of the grid.
//
// The same bound holds for any circle of radius h. So the segments that matter to the smallest
// circle around the circles of a strip of ROW cells are collected first, and those that matter to a
// cell are chosen among them: the lists are the same, in a third of the time. Distances are
// computed from several points simultaneously: the centres of the cells of a strip, then those of
// the squares of a cell, row by row. The segments of a cell are roughly sorted by their distance
// from its centre, so that the k nearest come early and most others are skipped after one
// comparison.
#include "drive/compile/index.h"

#include "contract/base.h"
#include "drive/scene/scene.h"
#include "envs/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROW 4
#define SUB ROW
#define WIDTH 8 // points from which distances are computed simultaneously: two rows
#define SQUARES (SUB * SUB)
#define HALF_DIAGONAL 0.70710678118654752
#define BINS 64 // number of distance classes by which the segments of a cell are sorted

// Margins for the rounding of float32 distances and of the cell in which a point lies, which grows
// with the grid: far larger than both, far smaller than anything that matters.
#define MARGIN_M 0.01
#define MARGIN_PER_M 1e-6

// Some segments of one type as arrays, so that several distances are computed at a time.
typedef struct index_set {
    uint32_t count;
    uint32_t* segment;              // (count,) their numbers, ascending
    double *x, *y, *ux, *uy, *half; // (count,)
} index_set;

// The requirements on one type's lists.
typedef struct index_demand {
    uint32_t k;
    double range_m, margin_m;
} index_demand;

typedef struct index_scratch {
    index_set all[PV_SEGMENT_TYPES];   // the segments of each type
    index_set strip[PV_SEGMENT_TYPES]; // those that may matter to the current strip
    index_set
        near; // those of one type that may matter to the current cell, by distance from its centre
    uint32_t* place; // (entries of near,) their positions in the set they come from, ascending
    double* square;  // (entries of a set,) squared distances from a point, m^2
    double* squares; // (entries of near, WIDTH) the same from the centres of two rows of squares
                     // of a cell
    double* across[PV_SEGMENT_TYPES]; // (entries of strip, WIDTH) the same from the centres of its
                                      // cells; half of them unused
    double limit[PV_SEGMENT_TYPES]
                [ROW];     // the largest distance at which a segment can matter to a cell
    uint8_t *chosen, *bin; // per place
} index_scratch;

typedef double doubles __attribute__((vector_size(8 * WIDTH)));
typedef int64_t longs __attribute__((vector_size(8 * WIDTH)));
typedef int8_t marks __attribute__((vector_size(WIDTH)));

// Returns the k-th smallest (k >= 1) of n values, +infinity if there are fewer. Keeps a sorted list
// of the k smallest so far.
static double kth_smallest(const double* values, uint32_t n, uint32_t k) {
    double sorted[PV_INDEX_MAX_K];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (count == k && values[i] >= sorted[k - 1])
            continue;
        uint32_t at = count < k ? count++ : k - 1;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return count == k ? sorted[k - 1] : (double)INFINITY;
}

// Writes the squared distances of a set's segments from the point (px, py) to `square`.
PV_CLONES static void measure(const index_set* set, double px, double py, double* restrict square) {
    const double *x = set->x, *y = set->y, *ux = set->ux, *uy = set->uy, *half = set->half;
    for (uint32_t i = 0; i < set->count; i++) {
        double dx = x[i] - px, dy = y[i] - py;
        double over = fabs(dx * ux[i] + dy * uy[i]) - half[i];
        double across = dx * uy[i] - dy * ux[i];
        over = over < 0.0 ? 0.0 : over;
        square[i] = over * over + across * across;
    }
}

// Returns the entries of `a` where the mask is -1, and those of `b` where it is 0.
PV_INLINE doubles choose(longs mask, doubles a, doubles b) {
    longs one, other, both;
    doubles v;
    memcpy(&one, &a, sizeof one);
    memcpy(&other, &b, sizeof other);
    both = (one & mask) | (other & ~mask);
    memcpy(&v, &both, sizeof v);
    return v;
}

// Returns whether any entry of a mask is -1.
PV_INLINE int any_of(longs mask) {
    marks narrow = __builtin_convertvector(mask, marks);
    uint64_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits != 0;
}

// Like `measure`, but from WIDTH points at once: two rows of ROW points, `step` apart in x and y;
// (px, py) is the lower left one. Writes the squared distances to `squares` (count, WIDTH) and the
// k-th smallest one of each point to `kth` (WIDTH,), +infinity if there are fewer than k. Keeps a
// sorted list of the k smallest so far for each point.
PV_CLONES static void measure_rows(const index_set* set,
                                   uint32_t k,
                                   double px,
                                   double py,
                                   double step,
                                   double* restrict squares,
                                   double* restrict kth) {
    doubles sorted[PV_INDEX_MAX_K], atx, aty, zero = {0.0}, none = zero + (double)INFINITY;
    for (int c = 0; c < WIDTH; c++)
        atx[c] = px + c % ROW * step, aty[c] = py + c / ROW * step;
    for (uint32_t j = 0; j < k; j++)
        sorted[j] = none;
    for (uint32_t i = 0; i < set->count; i++) {
        doubles dx = set->x[i] - atx, dy = set->y[i] - aty;
        doubles over = dx * set->ux[i] + dy * set->uy[i],
                across = dx * set->uy[i] - dy * set->ux[i];
        over = choose(over < zero, -over, over) - set->half[i];
        over = choose(over < zero, zero, over);
        doubles v = over * over + across * across;
        memcpy(squares + (size_t)i * WIDTH, &v, sizeof v);
        if (!any_of(v < sorted[k - 1]))
            continue;
        uint32_t filled = i < k ? i + 1 : k;
        for (uint32_t j = 0; j < filled; j++) {
            doubles a = sorted[j];
            longs stays = a < v;
            sorted[j] = choose(stays, a, v);
            v = choose(stays, v, a);
        }
    }
    memcpy(kth, &sorted[k - 1], sizeof sorted[0]);
}

// Returns the square of the largest distance from a point at which a segment can matter to any
// point at most h away from it. kth: the square of the k-th smallest distance from the point.
static double limit_of(const index_demand* demand, double kth, double h) {
    double nearest = sqrt(kth) + 2.0 * h, reach = demand->range_m + h;
    double limit = (nearest < reach ? nearest : reach) + demand->margin_m;
    return limit * limit;
}

static void copy_segment(
    const index_set* from, uint32_t i, index_set* to, uint32_t at, uint32_t segment) {
    to->segment[at] = segment;
    to->x[at] = from->x[i], to->y[at] = from->y[i];
    to->ux[at] = from->ux[i], to->uy[at] = from->uy[i];
    to->half[at] = from->half[i];
}

// Writes the indices of all squared distances <= limit to `place`, ascending, and returns their
// number. stride: distance of consecutive entries in `squares`.
static uint32_t places_within(
    const double* squares, uint32_t stride, uint32_t n, double limit, uint32_t* restrict place) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) { // without a branch, which would be hard to predict
        place[count] = i;
        count += squares[(size_t)i * stride] <= limit;
    }
    return count;
}

// Finds the segments of one type that may matter to the ROW cells from the one with the lower left
// corner (x0, y0) on, and how near they are to each.
static void collect_strip(int type,
                          const index_demand* demand,
                          double x0,
                          double y0,
                          double cell_m,
                          index_scratch* scratch) {
    double h =
        (0.5 * (ROW - 1) + HALF_DIAGONAL) * cell_m; // covers the circles around all of its cells
    const index_set* all = &scratch->all[type];
    index_set* strip = &scratch->strip[type];
    index_demand wider = *demand;
    wider.margin_m *= 2.0;
    measure(all, x0 + 0.5 * ROW * cell_m, y0 + 0.5 * cell_m, scratch->square);
    double limit = limit_of(&wider, kth_smallest(scratch->square, all->count, demand->k), h);
    strip->count = places_within(scratch->square, 1, all->count, limit, scratch->place);
    for (uint32_t i = 0; i < strip->count; i++)
        copy_segment(all, scratch->place[i], strip, i, all->segment[scratch->place[i]]);
    double kth[WIDTH], *limits = scratch->limit[type];
    measure_rows(strip, demand->k, x0 + 0.5 * cell_m, y0 + 0.5 * cell_m, cell_m,
                 scratch->across[type], kth);
    for (int c = 0; c < ROW; c++)
        limits[c] = limit_of(demand, kth[c], HALF_DIAGONAL * cell_m);
}

// Collects in scratch->near the segments that may matter to cell number c of the strip; its numbers
// are indices of scratch->place.
static void collect_cell(int type, uint32_t c, index_scratch* scratch) {
    const index_set* strip = &scratch->strip[type];
    const double* across = scratch->across[type] + c;
    uint32_t first[BINS + 1] = {0};
    double limit = scratch->limit[type][c], scale = (BINS - 1) / limit;
    uint32_t count = places_within(across, WIDTH, strip->count, limit, scratch->place);
    for (uint32_t i = 0; i < count; i++) {
        scratch->bin[i] = (uint8_t)(across[(size_t)scratch->place[i] * WIDTH] * scale);
        first[scratch->bin[i] + 1]++;
    }
    for (int bin = 0; bin < BINS; bin++)
        first[bin + 1] += first[bin];
    for (uint32_t i = 0; i < count; i++)
        copy_segment(strip, scratch->place[i], &scratch->near, first[scratch->bin[i]]++, i);
    scratch->near.count = count;
}

// Marks the segments of a cell that may matter to any of two rows of its squares.
PV_CLONES static void mark(const index_set* near,
                           const double* squares,
                           const double* limit,
                           uint8_t* restrict chosen) {
    doubles most, v;
    memcpy(&most, limit, sizeof most);
    for (uint32_t i = 0; i < near->count; i++) {
        memcpy(&v, squares + (size_t)i * WIDTH, sizeof v);
        chosen[near->segment[i]] |= (uint8_t)any_of(v <= most);
    }
}

// A cell, and where its candidates go.
typedef struct index_cell {
    uint32_t number; // within its strip
    double x0, y0;   // lower left corner, m
    double cell_m;
    uint16_t* candidates;
    uint64_t room;
} index_cell;

// Writes the candidates of one type for a cell, as far as there is room. Returns how many there
// are.
static uint32_t cell_candidates(int type,
                                const index_demand* demand,
                                const index_cell* cell,
                                index_scratch* scratch) {
    double step = cell->cell_m / SUB, limit[WIDTH];
    const uint32_t* segment = scratch->strip[type].segment;
    collect_cell(type, cell->number, scratch);
    memset(scratch->chosen, 0, scratch->near.count);
    for (int row = 0; row < SUB; row += WIDTH / ROW) {
        measure_rows(&scratch->near, demand->k, cell->x0 + 0.5 * step,
                     cell->y0 + (row + 0.5) * step, step, scratch->squares, limit);
        for (int s = 0; s < WIDTH; s++)
            limit[s] = limit_of(demand, limit[s], HALF_DIAGONAL * cell->cell_m / SUB);
        mark(&scratch->near, scratch->squares, limit, scratch->chosen);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < scratch->near.count; i++) {
        if (!scratch->chosen[i])
            continue;
        if (kept < cell->room)
            cell->candidates[kept] = (uint16_t)segment[scratch->place[i]];
        kept++;
    }
    return kept;
}

static int set_init(index_set* set, uint32_t capacity) {
    size_t count = capacity ? capacity : 1;
    double* numbers = malloc(5 * count * sizeof(double));
    *set = (index_set){.segment = malloc(count * sizeof(uint32_t)), .x = numbers};
    if (!numbers || !set->segment)
        return 0;
    set->y = numbers + count, set->ux = numbers + 2 * count, set->uy = numbers + 3 * count,
    set->half = numbers + 4 * count;
    return 1;
}

static void set_close(index_set* set) {
    free(set->segment);
    free(set->x);
}

static int scratch_init(index_scratch* scratch, const uint32_t* segment_count) {
    size_t most = 1;
    int ok = 1;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        uint32_t count = segment_count[type];
        if (count > most)
            most = count;
        ok &= set_init(&scratch->all[type], count) & set_init(&scratch->strip[type], count);
        scratch->across[type] = malloc((count ? count : 1) * WIDTH * sizeof(double));
        ok &= scratch->across[type] != NULL;
    }
    ok &= set_init(&scratch->near, (uint32_t)most);
    scratch->place = malloc(most * sizeof(uint32_t));
    scratch->square = malloc(most * sizeof(double));
    scratch->squares = malloc(most * WIDTH * sizeof(double));
    scratch->chosen = malloc(most);
    scratch->bin = malloc(most);
    return ok && scratch->place && scratch->square && scratch->squares && scratch->chosen &&
           scratch->bin;
}

static void scratch_close(index_scratch* scratch) {
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        set_close(&scratch->all[type]);
        set_close(&scratch->strip[type]);
        free(scratch->across[type]);
    }
    set_close(&scratch->near);
    free(scratch->place);
    free(scratch->square);
    free(scratch->squares);
    free(scratch->chosen);
    free(scratch->bin);
}

static int arguments_ok(const pv_index_build* build) {
    uint64_t segments = 0;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        if (build->k[type] > PV_INDEX_MAX_K)
            return 0;
        segments += build->segment_count[type];
    }
    return segments <= UINT16_MAX && build->nx > 0 && build->ny > 0 && isfinite(build->range_m) &&
           build->range_m > 0.0f && isfinite(build->cell_m) && build->cell_m > 0.0f;
}

static int any(const uint8_t* wanted, uint32_t count) {
    int found = 0;
    for (uint32_t i = 0; i < count; i++)
        found |= wanted[i];
    return found;
}

// Copies `count` segments of one type, from number `first` on, into a set.
static void set_fill(index_set* set, const float* const* arrays, uint32_t first, uint32_t count) {
    double* const numbers[5] = {set->x, set->y, set->ux, set->uy, set->half};
    for (uint32_t i = 0; i < count; i++) {
        set->segment[i] = first + i;
        for (int a = 0; a < 5; a++)
            numbers[a][i] = (double)arrays[a][first + i];
    }
    set->count = count;
}

// Copies the segments of each type into scratch->all, and sets the requirements on their lists.
static void begin(const pv_index_build* build, index_demand* demand, index_scratch* scratch) {
    const float* const arrays[5] = {build->x, build->y, build->ux, build->uy, build->half};
    const uint32_t longer = build->nx > build->ny ? build->nx : build->ny;
    const double margin_m = MARGIN_M + MARGIN_PER_M * (double)longer * (double)build->cell_m;
    uint32_t first = 0;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        demand[type] = (index_demand){build->k[type], (double)build->range_m, margin_m};
        set_fill(&scratch->all[type], arrays, first, build->segment_count[type]);
        first += build->segment_count[type];
    }
}

// Finds the segments that may matter to the strip that begins with cell (ix, iy).
static void begin_strip(const pv_index_build* build,
                        const index_demand* demand,
                        uint32_t ix,
                        uint32_t iy,
                        index_scratch* scratch) {
    const double cell_m = (double)build->cell_m, left = (double)build->x0_m + (double)ix * cell_m,
                 bottom = (double)build->y0_m + (double)iy * cell_m;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        if (demand[type].k)
            collect_strip(type, &demand[type], left, bottom, cell_m, scratch);
    }
}

// Lists the candidates of cell (ix, iy), whose first one is number `total`. Returns how many there
// are.
static uint32_t list_cell(const pv_index_build* build,
                          const index_demand* demand,
                          uint32_t ix,
                          uint32_t iy,
                          uint64_t total,
                          index_scratch* scratch) {
    pv_cell* out = &build->cells[(uint64_t)iy * build->nx + ix];
    index_cell cell = {.number = ix % ROW, .cell_m = (double)build->cell_m};
    cell.x0 = (double)build->x0_m + (double)ix * cell.cell_m;
    cell.y0 = (double)build->y0_m + (double)iy * cell.cell_m;
    const uint64_t before = total;
    out->first = (uint32_t)total;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        if (scratch->strip[type].count == 0)
            continue;
        const uint64_t used = total < build->capacity ? total : build->capacity;
        cell.candidates = build->candidates + used;
        cell.room = build->capacity - used;
        const uint32_t count = cell_candidates(type, &demand[type], &cell, scratch);
        out->count[type] = (uint16_t)count;
        total += count;
    }
    return (uint32_t)(total - before);
}

int64_t pv_drive_index_build(const pv_index_build* build) {
    index_scratch scratch = {0};
    index_demand demand[PV_SEGMENT_TYPES];
    uint64_t total = 0;
    if (!arguments_ok(build))
        return -1;
    if (!scratch_init(&scratch, build->segment_count)) {
        scratch_close(&scratch);
        return -2;
    }
    begin(build, demand, &scratch);
    for (uint64_t i = 0; i < (uint64_t)build->nx * build->ny && total <= build->capacity; i++) {
        const uint32_t ix = (uint32_t)(i % build->nx), iy = (uint32_t)(i / build->nx);
        const uint32_t ahead = build->nx - ix < ROW ? build->nx - ix : ROW;
        if (ix % ROW == 0 && any(&build->wanted[i], ahead))
            begin_strip(build, demand, ix, iy, &scratch);
        build->cells[i] = (pv_cell){.first = PV_CELL_EMPTY};
        if (build->wanted[i])
            total += list_cell(build, demand, ix, iy, total, &scratch);
    }
    scratch_close(&scratch);
    return total < PV_CELL_EMPTY ? (int64_t)total : -1;
}

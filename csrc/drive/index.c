// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See index.h. Why the lists are complete: let c be the centre of a square with half diagonal h, d(c, s) the distance from c to
// segment s and d_k(c) the k-th smallest of them. A point p of the square is at most h from c, so d_k(p) <= d_k(c) + h, and a
// segment among the k nearest of p has d(p, s) <= d_k(p), hence d(c, s) <= d_k(c) + 2 h. Likewise d(p, s) <= range gives
// d(c, s) <= range + h. The bound is tight only for small squares, so each cell is cut into SUB x SUB of them and its list is
// the union of theirs: about half as long as the list of the whole cell, at the same size of the grid.
//
// The same bound holds for any circle of radius h. So segments that matter to the smallest circle around those of a row of STRIP
// cells are found first, among all, and those that matter to a cell among these: the lists are the same, in a third of the time.
#include "index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUB 4
#define STRIP 8
#define HALF_DIAGONAL 0.70710678118654752

// For the rounding of float32 distances and of the cell that a point falls in, which grows with the grid: far above both, far
// below anything that matters.
#define MARGIN_M 0.01
#define MARGIN_PER_M 1e-6

// Some segments of one type, side by side, so that distances are computed several at a time.
typedef struct index_set {
    uint32_t count;
    uint32_t* segment;            // (count,) their numbers, ascending
    double *x, *y, *ux, *uy, *half; // (count,)
} index_set;

// What is asked of one type's lists.
typedef struct index_demand {
    uint32_t k;
    double range_m, margin_m;
} index_demand;

typedef struct index_scratch {
    index_set all[PV_SEGMENT_TYPES];   // the segments of each type
    index_set strip[PV_SEGMENT_TYPES]; // those that may matter to the strip at work
    index_set cell;                    // those of one type that may matter to the cell at work
    uint8_t* chosen;                   // per entry of cell
    double* distance;                  // per entry of a set
    double* sorted;                    // work space of kth_smallest
} index_scratch;

// The k-th smallest (k >= 1) of n values, +infinity if there are fewer: a sorted list of the k smallest so far.
static double kth_smallest(const double* values, uint32_t n, uint32_t k, double* sorted) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (count == k && values[i] >= sorted[k - 1]) continue;
        uint32_t at = count < k ? count++ : k - 1;
        for (; at > 0 && sorted[at - 1] > values[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return count == k ? sorted[k - 1] : (double)INFINITY;
}

// Writes the distances of a set's segments from a point to scratch->distance, metres. Returns the largest one at which a
// segment can matter to a point that is at most h away.
static double measure(const index_set* set, const index_demand* demand, double px, double py, double h, index_scratch* scratch) {
    const double *x = set->x, *y = set->y, *ux = set->ux, *uy = set->uy, *half = set->half;
    double* restrict distance = scratch->distance;
    for (uint32_t i = 0; i < set->count; i++) {
        double dx = x[i] - px, dy = y[i] - py;
        double over = fabs(dx * ux[i] + dy * uy[i]) - half[i];
        double across = dx * uy[i] - dy * ux[i];
        over = over < 0.0 ? 0.0 : over;
        distance[i] = sqrt(over * over + across * across);
    }
    double nearest = kth_smallest(distance, set->count, demand->k, scratch->sorted) + 2.0 * h;
    double reach = demand->range_m + h;
    return (nearest < reach ? nearest : reach) + demand->margin_m;
}

// Makes `out` the segments of `set` that may matter to a point at most h from (cx, cy).
static void collect(const index_set* set, const index_demand* demand, double cx, double cy, double h, index_scratch* scratch,
                    index_set* out) {
    double limit = measure(set, demand, cx, cy, h, scratch);
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (scratch->distance[i] > limit) continue;
        out->segment[count] = set->segment[i];
        out->x[count] = set->x[i], out->y[count] = set->y[i];
        out->ux[count] = set->ux[i], out->uy[count] = set->uy[i];
        out->half[count++] = set->half[i];
    }
    out->count = count;
}

// Candidates of one type for the cell whose lower left corner is (x0, y0), left in scratch->cell.segment. Returns how many.
static uint32_t cell_candidates(const index_set* strip, const index_demand* demand, double x0, double y0, double cell_m,
                                index_scratch* scratch) {
    double h = HALF_DIAGONAL * cell_m, step = cell_m / SUB;
    index_set* near = &scratch->cell;
    collect(strip, demand, x0 + 0.5 * cell_m, y0 + 0.5 * cell_m, h, scratch, near);
    memset(scratch->chosen, 0, near->count);
    for (int s = 0; s < SUB * SUB; s++) {
        double limit = measure(near, demand, x0 + (s % SUB + 0.5) * step, y0 + (s / SUB + 0.5) * step, h / SUB, scratch);
        for (uint32_t i = 0; i < near->count; i++) scratch->chosen[i] |= (uint8_t)(scratch->distance[i] <= limit);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < near->count; i++) {
        if (scratch->chosen[i]) near->segment[kept++] = near->segment[i];
    }
    return kept;
}

static int set_init(index_set* set, uint32_t capacity) {
    size_t count = capacity ? capacity : 1;
    double* numbers = malloc(5 * count * sizeof(double));
    *set = (index_set){.segment = malloc(count * sizeof(uint32_t)), .x = numbers};
    if (!numbers || !set->segment) return 0;
    set->y = numbers + count, set->ux = numbers + 2 * count, set->uy = numbers + 3 * count, set->half = numbers + 4 * count;
    return 1;
}

static void set_close(index_set* set) {
    free(set->segment);
    free(set->x);
}

static int scratch_init(index_scratch* scratch, const uint32_t* segment_count) {
    uint32_t most = 1;
    int ok = 1;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        if (segment_count[type] > most) most = segment_count[type];
        ok &= set_init(&scratch->all[type], segment_count[type]) & set_init(&scratch->strip[type], segment_count[type]);
    }
    ok &= set_init(&scratch->cell, most);
    scratch->chosen = malloc(most);
    scratch->distance = malloc(most * sizeof(double));
    scratch->sorted = malloc(PV_INDEX_MAX_K * sizeof(double));
    return ok && scratch->chosen && scratch->distance && scratch->sorted;
}

static void scratch_close(index_scratch* scratch) {
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        set_close(&scratch->all[type]);
        set_close(&scratch->strip[type]);
    }
    set_close(&scratch->cell);
    free(scratch->chosen);
    free(scratch->distance);
    free(scratch->sorted);
}

static int arguments_ok(const uint32_t* segment_count, const uint32_t* k, float range_m, float cell_m, uint32_t nx,
                        uint32_t ny) {
    uint64_t segments = 0;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        if (k[type] > PV_INDEX_MAX_K) return 0;
        segments += segment_count[type];
    }
    return segments <= UINT16_MAX && nx > 0 && ny > 0 && isfinite(range_m) && range_m > 0.0f && isfinite(cell_m) &&
           cell_m > 0.0f;
}

static int any(const uint8_t* wanted, uint32_t count) {
    int found = 0;
    for (uint32_t i = 0; i < count; i++) found |= wanted[i];
    return found;
}

// Copies `count` segments of one type, from number `first` on, into a set.
static void set_fill(index_set* set, const float* const* arrays, uint32_t first, uint32_t count) {
    double* const numbers[5] = {set->x, set->y, set->ux, set->uy, set->half};
    for (uint32_t i = 0; i < count; i++) {
        set->segment[i] = first + i;
        for (int a = 0; a < 5; a++) numbers[a][i] = (double)arrays[a][first + i];
    }
    set->count = count;
}

// Finds the segments of each type that may matter to the STRIP cells from the one with the lower left corner (x0, y0) on.
static void collect_strip(const index_demand* demand, double x0, double y0, double cell_m, index_scratch* scratch) {
    double h = (0.5 * (STRIP - 1) + HALF_DIAGONAL) * cell_m; // covers the circles around all of its cells
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        index_demand wider = demand[type];
        wider.margin_m *= 2.0;
        if (wider.k == 0) continue;
        collect(&scratch->all[type], &wider, x0 + 0.5 * STRIP * cell_m, y0 + 0.5 * cell_m, h, scratch, &scratch->strip[type]);
    }
}

int64_t pv_drive_index_build(const float* x, const float* y, const float* ux, const float* uy, const float* half,
                             const uint32_t* segment_count, const uint32_t* k, float range_m, float x0_m, float y0_m,
                             float cell_m, uint32_t nx, uint32_t ny, const uint8_t* wanted, pv_cell* cells,
                             uint16_t* candidates, uint64_t capacity) {
    if (!arguments_ok(segment_count, k, range_m, cell_m, nx, ny)) return -1;
    const float* const arrays[5] = {x, y, ux, uy, half};
    index_scratch scratch = {0};
    index_demand demand[PV_SEGMENT_TYPES];
    double size_m = (double)cell_m, margin_m = MARGIN_M + MARGIN_PER_M * (double)(nx > ny ? nx : ny) * size_m;
    int64_t total = scratch_init(&scratch, segment_count) ? 0 : -2;
    for (uint32_t type = 0, first = 0; type < PV_SEGMENT_TYPES && total >= 0; first += segment_count[type++]) {
        demand[type] = (index_demand){k[type], (double)range_m, margin_m};
        set_fill(&scratch.all[type], arrays, first, segment_count[type]);
    }
    for (uint64_t cell = 0; cell < (uint64_t)nx * ny && total >= 0; cell++) {
        pv_cell* out = &cells[cell];
        uint32_t ix = (uint32_t)(cell % nx), ahead = nx - ix < STRIP ? nx - ix : STRIP;
        double left = (double)x0_m + (double)ix * size_m, bottom = (double)y0_m + (double)(cell / nx) * size_m;
        if (ix % STRIP == 0 && any(&wanted[cell], ahead)) collect_strip(demand, left, bottom, size_m, &scratch);
        memset(out, 0, sizeof *out);
        out->first = PV_CELL_EMPTY;
        if (!wanted[cell]) continue;
        out->first = (uint32_t)total;
        for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
            if (scratch.strip[type].count == 0) continue;
            uint32_t count = cell_candidates(&scratch.strip[type], &demand[type], left, bottom, size_m, &scratch);
            for (uint32_t i = 0; i < count; i++, total++) {
                if ((uint64_t)total < capacity) candidates[total] = (uint16_t)scratch.cell.segment[i];
            }
            out->count[type] = (uint16_t)count;
        }
        if ((uint64_t)total > capacity) break;
    }
    scratch_close(&scratch);
    return total < (int64_t)PV_CELL_EMPTY ? total : -1;
}

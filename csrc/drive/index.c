// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See index.h. Why the lists are complete: let c be the centre of a square with half diagonal h, d(c, s) the distance from c to
// segment s and d_k(c) the k-th smallest of them. A point p of the square is at most h from c, so d_k(p) <= d_k(c) + h, and a
// segment among the k nearest of p has d(p, s) <= d_k(p), hence d(c, s) <= d_k(c) + 2 h. Likewise d(p, s) <= range gives
// d(c, s) <= range + h. The bound is tight only for small squares, so each cell is cut into SUB x SUB of them and its list is
// the union of theirs: about half as long as the list of the whole cell, at the same size of the grid.
#include "index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SUB 4

// For the rounding of float32 distances and of the cell that a point falls in, which grows with the grid: far above both, far
// below anything that matters.
#define MARGIN_M 0.01
#define MARGIN_PER_M 1e-6

typedef struct index_segments {
    const float *x, *y, *ux, *uy, *half;
} index_segments;

// What is asked of one type's lists.
typedef struct index_demand {
    uint32_t first, end; // segments of the type
    uint32_t k;
    double range_m, margin_m;
} index_demand;

typedef struct index_scratch {
    uint32_t* near;   // segments that may matter to the cell, ascending
    uint8_t* chosen;  // per entry of near
    double* distance; // per entry of near (or per segment)
    double* sorted;   // work space of kth_smallest
} index_scratch;

// Distance from a point to segment s, metres.
static double distance_to(const index_segments* segments, uint32_t s, double px, double py) {
    double dx = (double)segments->x[s] - px, dy = (double)segments->y[s] - py;
    double ux = (double)segments->ux[s], uy = (double)segments->uy[s];
    double over = fabs(dx * ux + dy * uy) - (double)segments->half[s];
    double across = dx * uy - dy * ux;
    if (over < 0.0) over = 0.0;
    return sqrt(over * over + across * across);
}

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

// Largest distance from the centre of a square with half diagonal h at which a segment can matter to a point of the square.
static double bound(const double* distance, uint32_t n, const index_demand* demand, double h, double* sorted) {
    double nearest = kth_smallest(distance, n, demand->k, sorted) + 2.0 * h;
    double reach = demand->range_m + h;
    return (nearest < reach ? nearest : reach) + demand->margin_m;
}

// Leaves in scratch->near the segments that may matter to the square around (cx, cy). Returns how many.
static uint32_t collect_near(const index_segments* segments, const index_demand* demand, double cx, double cy, double h,
                             index_scratch* scratch) {
    uint32_t first = demand->first, end = demand->end, count = 0;
    for (uint32_t s = first; s < end; s++) scratch->distance[s - first] = distance_to(segments, s, cx, cy);
    double limit = bound(scratch->distance, end - first, demand, h, scratch->sorted);
    for (uint32_t s = first; s < end; s++) {
        if (scratch->distance[s - first] <= limit) scratch->near[count++] = s;
    }
    return count;
}

// Marks in scratch->chosen which of the near segments matter to the square around (cx, cy).
static void choose(const index_segments* segments, const index_demand* demand, uint32_t count, double cx, double cy, double h,
                   index_scratch* scratch) {
    for (uint32_t i = 0; i < count; i++) scratch->distance[i] = distance_to(segments, scratch->near[i], cx, cy);
    double limit = bound(scratch->distance, count, demand, h, scratch->sorted);
    for (uint32_t i = 0; i < count; i++) scratch->chosen[i] |= (uint8_t)(scratch->distance[i] <= limit);
}

// Candidates of one type for the cell whose lower left corner is (x0, y0), left at the front of scratch->near. Returns how
// many.
static uint32_t cell_candidates(const index_segments* segments, const index_demand* demand, double x0, double y0, double cell_m,
                                index_scratch* scratch) {
    if (demand->k == 0 || demand->first == demand->end) return 0;
    const double half_diagonal = 0.70710678118654752;
    double h = half_diagonal * cell_m;
    uint32_t count = collect_near(segments, demand, x0 + 0.5 * cell_m, y0 + 0.5 * cell_m, h, scratch);
    memset(scratch->chosen, 0, count);
    double step = cell_m / SUB;
    for (int i = 0; i < SUB * SUB; i++) {
        double cx = x0 + (i % SUB + 0.5) * step, cy = y0 + (i / SUB + 0.5) * step;
        choose(segments, demand, count, cx, cy, h / SUB, scratch);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (scratch->chosen[i]) scratch->near[kept++] = scratch->near[i];
    }
    return kept;
}

static int scratch_init(index_scratch* scratch, uint32_t segments) {
    size_t count = segments ? segments : 1;
    scratch->near = malloc(count * sizeof(uint32_t));
    scratch->chosen = malloc(count);
    scratch->distance = malloc(count * sizeof(double));
    scratch->sorted = malloc(PV_INDEX_MAX_K * sizeof(double));
    return scratch->near && scratch->chosen && scratch->distance && scratch->sorted;
}

static void scratch_close(index_scratch* scratch) {
    free(scratch->near);
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

int64_t pv_drive_index_build(const float* x, const float* y, const float* ux, const float* uy, const float* half,
                             const uint32_t* segment_count, const uint32_t* k, float range_m, float x0_m, float y0_m,
                             float cell_m, uint32_t nx, uint32_t ny, const uint8_t* wanted, pv_cell* cells,
                             uint16_t* candidates, uint64_t capacity) {
    if (!arguments_ok(segment_count, k, range_m, cell_m, nx, ny)) return -1;
    index_segments segments = {x, y, ux, uy, half};
    index_demand demand = {.range_m = (double)range_m};
    demand.margin_m = MARGIN_M + MARGIN_PER_M * (double)(nx > ny ? nx : ny) * (double)cell_m;
    index_scratch scratch = {0};
    int64_t total = scratch_init(&scratch, segment_count[0] + segment_count[1] + segment_count[2]) ? 0 : -2;
    for (uint64_t cell = 0; cell < (uint64_t)nx * ny && total >= 0; cell++) {
        pv_cell* out = &cells[cell];
        memset(out, 0, sizeof *out);
        out->first = PV_CELL_EMPTY;
        if (!wanted[cell]) continue;
        out->first = (uint32_t)total;
        double left = (double)x0_m + (double)(cell % nx) * (double)cell_m;
        double bottom = (double)y0_m + (double)(cell / nx) * (double)cell_m;
        demand.end = 0;
        for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
            demand.first = demand.end;
            demand.end += segment_count[type];
            demand.k = k[type];
            uint32_t count = cell_candidates(&segments, &demand, left, bottom, (double)cell_m, &scratch);
            for (uint32_t i = 0; i < count; i++, total++) {
                if ((uint64_t)total < capacity) candidates[total] = (uint16_t)scratch.near[i];
            }
            out->count[type] = (uint16_t)count;
        }
    }
    scratch_close(&scratch);
    return total < (int64_t)PV_CELL_EMPTY ? total : -1;
}

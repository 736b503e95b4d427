// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See beside.h. Consecutive probes lie close together, so segments are searched for around CHUNK of
// them together.
#include "drive/compile/beside.h"

#include <math.h>
#include <stdlib.h>

#define CHUNK 32 // probes

typedef struct probe {
    uint32_t segment;
    double x, y, metres;
} probe;

typedef struct search {
    const pv_lane_segments* segments;
    uint32_t* some;    // (count,) segments close to the current chunk, ascending
    uint64_t* seen_by; // (2, lanes) the last probe, counted from 1, that has seen a lane to its
                       // right, to its left
    pv_lane_sight* sights;
    uint64_t room, found;
} sight_search;

// Lists the segments that may lie next to a probe of the chunk. Returns their number.
static uint32_t collect(const sight_search* search, const probe* probes, uint32_t count) {
    const pv_lane_segments* s = search->segments;
    double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        left = fmin(left, probes[i].x), right = fmax(right, probes[i].x);
        low = fmin(low, probes[i].y), high = fmax(high, probes[i].y);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        float reach = s->half[i] + s->ahead_m +
                      (float)s->farthest_m; // no probe farther from the midpoint is next to it
        search->some[found] = i;
        found += ((double)(s->x[i] + reach) >= left) & ((double)(s->x[i] - reach) <= right) &
                 ((double)(s->y[i] + reach) >= low) & ((double)(s->y[i] - reach) <= high);
    }
    return found;
}

// Adds the lanes that lie next to one probe, number `number` counted from 1.
static void look(sight_search* search, const probe* from, uint64_t number, uint32_t some) {
    const pv_lane_segments* s = search->segments;
    uint32_t own = from->segment;
    for (uint32_t n = 0; n < some; n++) {
        uint32_t i = search->some[n];
        double dx = (double)s->x[i] - from->x, dy = (double)s->y[i] - from->y,
               ux = (double)s->ux[i], uy = (double)s->uy[i];
        double lateral = dy * ux - dx * uy,
               aside = fabs(lateral); // of the other lane, positive to the left
        if (s->lane[i] == s->lane[own] || aside < s->nearest_m || aside > s->farthest_m)
            continue;
        if ((double)(s->ux[i] * s->ux[own] + s->uy[i] * s->uy[own]) < s->least_cosine)
            continue;
        if (fabs(dx * ux + dy * uy) > (double)(s->half[i] + s->ahead_m) ||
            fabsf(s->z[i] - s->z[own]) > s->level_m)
            continue;
        uint64_t* seen_by = &search->seen_by[(lateral > 0.0 ? s->lanes : 0) + s->lane[i]];
        if (*seen_by == number)
            continue;
        *seen_by = number;
        if (search->found < search->room)
            search->sights[search->found] =
                (pv_lane_sight){s->lane[own], s->lane[i], lateral, from->metres};
        search->found++;
    }
}

// Cuts segments into at most CHUNK probes, starting at piece `piece` of segment `segment`. Returns
// the number of probes.
static uint32_t cut(const pv_lane_segments* s,
                    const uint32_t* pieces,
                    uint32_t* segment,
                    uint32_t* piece,
                    probe* out) {
    uint32_t count = 0;
    while (*segment < s->count && count < CHUNK) {
        uint32_t i = *segment, all = pieces[i];
        if (*piece == all) {
            *segment += 1, *piece = 0;
            continue;
        }
        double along =
            (double)s->half[i] * ((double)(2 * (uint64_t)(*piece)++ + 1) / (double)all - 1.0);
        out[count++] = (probe){i, (double)s->x[i] + along * (double)s->ux[i],
                               (double)s->y[i] + along * (double)s->uy[i],
                               (double)(2.0f * s->half[i]) / (double)all};
    }
    return count;
}

int64_t pv_drive_lanes_beside(const pv_lane_segments* segments,
                              const uint32_t* pieces,
                              uint64_t most,
                              pv_lane_sight* sights,
                              uint64_t room) {
    sight_search search = {.segments = segments, .sights = sights, .room = room};
    probe probes[CHUNK];
    uint32_t segment = 0, piece = 0, count;
    uint64_t compared = 0, number = 0;
    search.some = malloc((segments->count + 1) * sizeof(uint32_t));
    search.seen_by = calloc(2 * (size_t)segments->lanes + 1, sizeof(uint64_t));
    int ok = search.some && search.seen_by, few = 1;
    while (ok && few && (count = cut(segments, pieces, &segment, &piece, probes)) > 0) {
        uint32_t some = collect(&search, probes, count);
        compared += (uint64_t)count * some;
        few = compared <= most;
        for (uint32_t i = 0; i < count && few; i++)
            look(&search, &probes[i], ++number, some);
    }
    free(search.some);
    free(search.seen_by);
    return !ok ? -2 : few ? (int64_t)search.found : -1;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The exact k nearest road segments of all types together, for the presets that have one block for
// all of them, and those of some types within a radius.
//
// The scene stores its segments in groups of 16 neighbours (scene.h). Groups whose box is too far
// away are skipped; for the others all squared distances are computed, 16 at a time. A row needs
// the nearest ones in any order, so nothing is sorted: the search is for a limit such that k
// distances are within it. The entries are written in the order of the groups, 8 floats at a
// time, from rows that contain everything that does not depend on the agent.
//
// Each agent remembers how far its k nearest reached and where it stood. After a move of m metres
// the k nearest are at most m farther away, so most groups can be skipped. The result does not
// depend on it: if fewer than k are within that distance, all groups are searched.
#include "drive/search/roads.h"

#include "contract/base.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/search/vectors.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "envs/kernels.h"
#include "envs/nearest.h"

#include <string.h>

#define LANES PV_GROUP_LANES
#define SLACK_M 0.05f // far above the rounding of a distance

_Static_assert(LANES == PV_LANES, "groups are vectors");

// The groups that are near enough, and the squared distances of their segments as bits; PV_FAR_BITS
// for distances beyond the limit.
typedef struct candidates {
    uint32_t* groups;
    int32_t* keys; // (all groups * LANES,), of those found
    uint32_t count;
} candidates;

PV_INLINE int32_t* keys_of(const candidates* found, uint32_t g) {
    return found->keys + (uint64_t)found->groups[g] * LANES;
}

// ---- search ----

// Writes the squared distances from a point to the boxes of all groups, as keys of vectors, and
// returns how many vectors there are. Boxes behind the last one are far away.
PV_INLINE uint32_t measure_boxes(const drive_scene* scene,
                                 float x,
                                 float y,
                                 int32_t* restrict keys) {
    const float *low_x = scene->boxes, *low_y = low_x + scene->box_stride;
    const float *high_x = low_y + scene->box_stride, *high_y = high_x + scene->box_stride;
    const uint32_t vectors = (scene->group_count + LANES - 1) / LANES;
    for (uint32_t i = 0; i < vectors * LANES; i++) {
        float dx = drive_max(drive_max(low_x[i] - x, x - high_x[i]), 0.0f);
        float dy = drive_max(drive_max(low_y[i] - y, y - high_y[i]), 0.0f);
        keys[i] = pv_bits_of(dx * dx + dy * dy);
    }
    return vectors;
}

// Lists the groups whose boxes come within a radius and a little more, after measure_boxes. Returns
// how many there are.
PV_INLINE uint32_t find_groups(const drive_scene* scene,
                               const int32_t* keys,
                               uint32_t vectors,
                               float radius_m,
                               uint32_t* groups) {
    const float reach = radius_m + SLACK_M;
    uint32_t count = list_up_to(keys, NULL, vectors, pv_bits_of(reach * reach), groups);
    while (count && groups[count - 1] >= scene->group_count)
        count--;
    return count;
}

// Computes the keys of the listed groups.
PV_INLINE void measure(
    const drive_scene* scene, float x, float y, float limit_square, const candidates* found) {
    for (uint32_t g = 0; g < found->count; g++) {
        const pv_road_group* group = &scene->groups[found->groups[g]];
        int32_t* restrict keys = keys_of(found, g);
        for (uint32_t i = 0; i < LANES; i++) {
            float dx = group->x[i] - x, dy = group->y[i] - y, ux = group->ux[i], uy = group->uy[i];
            float over = drive_max(drive_abs(dx * ux + dy * uy) - group->half[i], 0.0f);
            float across = dx * uy - dy * ux;
            float square = over * over + across * across; // as in segments.c
            keys[i] = square <= limit_square ? pv_bits_of(square) : PV_FAR_BITS;
        }
    }
}

PV_INLINE uint32_t sum_of(const pv_ints counts[PV_PIECES]) {
    int32_t all[LANES], sum = 0;
    memcpy(all, counts, sizeof all);
    for (uint32_t i = 0; i < LANES; i++)
        sum += all[i];
    return (uint32_t)sum;
}

// Returns the number of keys up to a limit.
PV_INLINE uint32_t count_keys(const candidates* found, int32_t limit) {
    pv_ints counts[PV_PIECES];
    for (int p = 0; p < PV_PIECES; p++)
        counts[p] = (pv_ints){0};
    for (uint32_t g = 0; g < found->count; g++) {
        for (int p = 0; p < PV_PIECES; p++)
            counts[p] -= load_ints(keys_of(found, g) + p * PV_WIDTH) <= limit;
    }
    return sum_of(counts);
}

PV_INLINE float float_of(int32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// Returns the next key: the least one above `from` (way 1), or the largest one up to it (way -1).
PV_INLINE int32_t next_key(const candidates* found, int32_t from, int way) {
    pv_ints best[PV_PIECES];
    int32_t all[LANES], next = way > 0 ? PV_FAR_BITS : -1;
    for (int p = 0; p < PV_PIECES; p++)
        best[p] = (pv_ints){0} + next;
    for (uint32_t g = 0; g < found->count; g++) {
        for (int p = 0; p < PV_PIECES; p++) {
            const pv_ints key = load_ints(keys_of(found, g) + p * PV_WIDTH);
            const pv_ints better =
                way > 0 ? (key > from) & (key < best[p]) : (key <= from) & (key > best[p]);
            best[p] = choose_ints(better, key, best[p]);
        }
    }
    memcpy(all, best, sizeof all);
    for (uint32_t i = 0; i < LANES; i++)
        next = way > 0 ? (all[i] < next ? all[i] : next) : all[i] > next ? all[i] : next;
    return next;
}

#define STEPS 2 // up to this many keys too few or too many are stepped through one by one
#define ROUNDS 10

// Up to `low` there are `below` keys, fewer than k; up to `high` there are `above`, more than k.
typedef struct bracket {
    int32_t low, high;
    uint32_t below, above;
} bracket;

// Roads fill the plane roughly evenly, so counts grow roughly with the square of the distance.
PV_INLINE int32_t interpolated(const bracket* in, uint32_t k) {
    const float from = in->low < 0 ? 0.0f : float_of(in->low);
    const float share = ((float)(k - in->below) + 0.5f) / (float)(in->above - in->below);
    return pv_bits_of(from + (float_of(in->high) - from) * share);
}

PV_INLINE void narrow(bracket* in, uint32_t k, int32_t middle, uint32_t count) {
    if (count > k)
        in->high = middle, in->above = count;
    else
        in->low = middle, in->below = count;
}

// Returns a limit such that k keys are within it, or would be if no two were equal. guess_m: an
// estimate of the k-th distance, or 0.
PV_INLINE int32_t limit_of(const candidates* found, uint32_t k, bracket in, float guess_m) {
    int32_t middle = guess_m > 0.0f ? pv_bits_of(guess_m * guess_m) : interpolated(&in, k);
    for (int round = 0; round < ROUNDS; round++) {
        if (in.above - k <= STEPS) {
            for (; in.above > k; in.above--)
                in.high = next_key(found, in.high, -1) - 1;
            return in.high;
        }
        if (k - in.below <= STEPS) {
            for (; in.below < k; in.below++)
                in.low = next_key(found, in.low, 1);
            return in.low;
        }
        middle = middle <= in.low ? in.low + 1 : middle >= in.high ? in.high - 1 : middle;
        const uint32_t count = count_keys(found, middle);
        if (count == k)
            return middle;
        narrow(&in, k, middle, count);
        middle = interpolated(&in, k);
    }
    return in.high;
}

// A choice: all keys up to `limit`, but only the first `ties` of those equal to it.
typedef struct choice {
    int32_t limit;
    uint32_t ties;
} choice;

// Returns the choice of k keys, some of which may be equal, from a limit that `count` keys are
// within.
PV_CLONES static choice choose(const candidates* found, uint32_t k, int32_t limit, uint32_t count) {
    for (;;) {
        const int32_t key = next_key(found, limit, count > k ? -1 : 1);
        const uint32_t below = count > k ? count_keys(found, key - 1) : count,
                       above = count > k ? count : count_keys(found, key);
        if (below <= k && k <= above)
            return (choice){key, k - below};
        limit = count > k ? key - 1 : key;
        count = count > k ? below : above;
    }
}

// ---- entries ----

#define PER(set, column) (1.0f / DRIVE_SCALE_##set##_##column)

PV_INLINE frame_change pufferdrive_view(const drive_pose* at) {
    const float c = at->cosine, s = at->sine, metre = PER(pufferdrive_road, x);
    return (frame_change){.origin = {at->x, at->y, 0, 0, 0, 0, 0, 0},
                          .straight = {c * metre, c * metre, PER(pufferdrive_road, half_length),
                                       DRIVE_ROAD_WIDTH_M * PER(pufferdrive_road, width), c, c,
                                       1.0f, 0.0f},
                          .crossed = {s * metre, -s * metre, 0, 0, s, -s, 0, 0}};
}

PV_INLINE frame_change gpudrive_view(const drive_pose* at) {
    const float c = at->cosine, s = at->sine, metre = PER(gpudrive_road, x);
    return (frame_change){.origin = {at->x, at->y, 0, 0, 0, 0, 0, 0},
                          .straight = {c * metre, c * metre, PER(gpudrive_road, half_length),
                                       DRIVE_ROAD_WIDTH_M * PER(gpudrive_road, width), 0, 0, 0, 0},
                          .crossed = {s * metre, -s * metre, 0, 0, 0, 0, 0, 0}};
}

PV_INLINE void write_gpudrive_entry(const frame_change* how,
                                    const float* row,
                                    float heading,
                                    float* out) {
    pv_eight v = entry_in_frame(how, row);
    const float type = row[6];
    memcpy(out, &v, 4 * sizeof(float));
    out[DRIVE_gpudrive_road_height] = DRIVE_ROAD_WIDTH_M * PER(gpudrive_road, height);
    out[DRIVE_gpudrive_road_heading] = drive_wrap(row[7] - heading) * PER(gpudrive_road, heading);
    memset(out + DRIVE_gpudrive_road_none, 0,
           (DRIVE_COUNT_gpudrive_road - DRIVE_gpudrive_road_none) * sizeof(float));
    out[DRIVE_gpudrive_road_edge] = type == (float)PV_EDGE ? 1.0f : 0.0f;
    out[DRIVE_gpudrive_road_line] = type == (float)PV_LINE ? 1.0f : 0.0f;
    out[DRIVE_gpudrive_road_lane] = type == (float)PV_LANE ? 1.0f : 0.0f;
}

// Returns which of a group's keys are chosen, where some are equal to the limit.
PV_INLINE flags16 flags_of_choice(const int32_t* keys, choice* chosen) {
    flags16 taken = flags_up_to(keys, chosen->limit);
    const flags16 equal = flags_within(keys, chosen->limit - 1, chosen->limit);
    FOR_EACH_FLAG(equal, i) {
        if (chosen->ties)
            chosen->ties--;
        else
            taken.halves[i / 8] &= ~(UINT64_C(1) << 8 * (i % 8));
    }
    return taken;
}

// Writes where the chosen segments are in the scene's rows to `places`. Returns how many there are.
PV_INLINE uint32_t take(const candidates* found, choice chosen, uint32_t* places) {
    if (PV_LIKELY(chosen.ties == UINT32_MAX))
        return list_up_to(found->keys, found->groups, found->count, chosen.limit, places);
    uint32_t count = 0;
    for (uint32_t g = 0; g < found->count; g++)
        count += append_places(flags_of_choice(keys_of(found, g), &chosen),
                               found->groups[g] * LANES, places + count);
    return count;
}

// Writes entries in the columns of PufferDrive.
PV_INLINE void write_pufferdrive(const float* rows,
                                 const drive_roads_search* search,
                                 const uint32_t* places,
                                 uint32_t count,
                                 float* out) {
    const frame_change how = pufferdrive_view(search->at);
    const entry_rows from = {rows, places, NULL};
    write_row_entries(&how, &from, count, search->k, DRIVE_COUNT_pufferdrive_road, out);
}

// Writes entries in the columns of GPUDrive.
PV_INLINE void write_gpudrive(const float* rows,
                              const drive_roads_search* search,
                              const uint32_t* places,
                              uint32_t count,
                              float* out) {
    const frame_change how = gpudrive_view(search->at);
    for (uint32_t i = 0; i < count; i++)
        write_gpudrive_entry(&how, rows + 8 * (uint64_t)places[i], search->heading,
                             out + i * DRIVE_COUNT_gpudrive_road);
}

// Returns which of a group's keys are up to a limit and belong to segments of some types, a bit
// each.
PV_INLINE flags16 flags_of_types(const pv_road_group* group,
                                 const int32_t* keys,
                                 uint32_t types,
                                 int32_t limit) {
    pv_ints masks[PV_PIECES];
    for (int p = 0; p < PV_PIECES; p++) {
        const uint32_t at = (uint32_t)p * PV_WIDTH;
        const pv_ints type = load_ints(group->type + at);
        pv_ints wanted = {0};
        for (int t = 0; t < PV_SEGMENT_TYPES; t++)
            wanted |= (type == t) & -(int32_t)(types >> t & 1);
        masks[p] = wanted & (load_ints(keys + at) <= limit);
    }
    return flags_of(masks);
}

// Lists the near segments of some types among the listed groups, in no order. Returns how many
// there are.
PV_INLINE uint32_t list_types(const drive_scene* scene,
                              const candidates* found,
                              uint32_t types,
                              uint32_t* places) {
    uint32_t count = 0;
    for (uint32_t g = 0; g < found->count; g++) {
        const flags16 near = flags_of_types(&scene->groups[found->groups[g]], keys_of(found, g),
                                            types, PV_FAR_BITS - 1);
        count += append_places(near, found->groups[g] * LANES, places + count);
    }
    return count;
}

// Lists the road edges within a distance in `edges`, from groups whose keys are computed. They are
// few.
PV_INLINE void list_edges(const drive_scene* scene,
                          const candidates* close,
                          float within_m,
                          drive_near* edges) {
    const int32_t limit = pv_bits_of(within_m * within_m);
    uint32_t count = 0;
    for (uint32_t g = 0; g < close->count; g++) {
        const pv_road_group* group = &scene->groups[close->groups[g]];
        const int32_t* keys = keys_of(close, g);
        const flags16 near = flags_of_types(group, keys, 1u << PV_EDGE, limit);
        FOR_EACH_FLAG(near, i) {
            if (count == DRIVE_MAX_K)
                return; // too many
            edges->index[count] = group->segment[i];
            edges->square[count++] = float_of(keys[i]);
        }
    }
    edges->within_m = within_m;
    edges->count = count;
}

PV_CLONES uint32_t drive_write_roads(const drive_scene* scene,
                                     const drive_roads_search* search,
                                     const drive_scratch* scratch,
                                     float* out,
                                     float* reach_m,
                                     drive_near* edges) {
    const drive_pose* at = search->at;
    const uint32_t k = search->k, columns = search->gpudrive ? DRIVE_COUNT_gpudrive_road
                                                             : DRIVE_COUNT_pufferdrive_road;
    candidates found = {scratch->road_groups, scratch->road_keys, 0};
    candidates close = {scratch->close_groups, scratch->road_keys, 0};
    choice chosen = {PV_FAR_BITS - 1, UINT32_MAX};
    uint32_t kept = 0;
    float reach = *reach_m > 0.0f && *reach_m < search->range_m ? *reach_m : search->range_m;
    for (;;) {
        const uint32_t vectors = measure_boxes(scene, at->x, at->y, found.keys);
        found.count = find_groups(scene, found.keys, vectors, reach, found.groups);
        close.count = find_groups(scene, found.keys, vectors, drive_min(search->edges_m, reach),
                                  close.groups);
        measure(scene, at->x, at->y, reach * reach, &found);
        kept = count_keys(&found, PV_FAR_BITS - 1);
        if (kept >= k || reach == search->range_m)
            break;
        reach = search->range_m;
    }
    list_edges(scene, &close, drive_min(search->edges_m, reach), edges);
    const bracket all = {-1, pv_bits_of(reach * reach), 0, kept};
    if (kept > k)
        chosen.limit = limit_of(&found, k, all, search->guess_m);
    uint32_t* places = scratch->index;
    uint32_t count = take(&found, chosen, places);
    if (PV_UNLIKELY(kept > k && count != k)) {
        chosen = choose(&found, k, chosen.limit, count);
        count = take(&found, chosen, places);
    }
    if (search->gpudrive)
        write_gpudrive(scene->rows, search, places, count, out);
    else
        write_pufferdrive(scene->rows, search, places, count, out);
    *reach_m = kept > k ? drive_sqrt(float_of(chosen.limit)) : kept == k ? reach : 0.0f;
    if (search->exact_reach && count)
        *reach_m = drive_sqrt(float_of(next_key(&found, chosen.limit, -1)));
    memset(out + count * columns, 0, (k - count) * columns * sizeof(float));
    return count;
}

PV_CLONES uint32_t drive_road_count(const drive_scene* scene,
                                    const drive_pose* at,
                                    float range_m,
                                    const drive_scratch* scratch) {
    candidates found = {scratch->road_groups, scratch->road_keys, 0};
    found.count = find_groups(scene, found.keys, measure_boxes(scene, at->x, at->y, found.keys),
                              range_m, found.groups);
    measure(scene, at->x, at->y, range_m * range_m, &found);
    return count_keys(&found, PV_FAR_BITS - 1);
}

PV_CLONES uint32_t drive_segments_within(const drive_scene* scene,
                                         uint32_t types,
                                         float x,
                                         float y,
                                         float radius_m,
                                         const drive_scratch* scratch) {
    candidates found = {scratch->road_groups, scratch->road_keys, 0};
    found.count = find_groups(scene, found.keys, measure_boxes(scene, x, y, found.keys), radius_m,
                              found.groups);
    measure(scene, x, y, radius_m * radius_m, &found);
    const uint32_t count = list_types(scene, &found, types, scratch->index);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t place = scratch->index[i];
        scratch->index[i] = scene->groups[place / LANES].segment[place % LANES];
        scratch->square[i] = float_of(found.keys[place]);
    }
    return count;
}

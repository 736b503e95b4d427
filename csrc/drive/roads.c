// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The exact k nearest road segments of all types together, for the presets that have one block for all of them, and those of
// some types within a radius.
//
// The scene holds its segments in groups of 16 neighbours (scene.h). Groups whose box is too far away are skipped; of the others
// all squared distances are computed, 16 at a time. A row wants the nearest in any order, so nothing is sorted: one looks for a
// limit that k of the distances keep. The entries are written in the order of the groups, 8 numbers at a time, from rows that
// hold all that does not depend on the agent.
//
// Each agent keeps how far its k nearest reached and where it stood. After a move of m metres the k nearest are at most m farther
// away, so that most groups need no look. The result does not depend on it: where fewer than k are found, all are searched.
#include "../nearest.h"
#include "state.h"
#include "vectors.h"

#define LANES PV_GROUP_LANES
#define SLACK_M 0.05f // far above the rounding of a distance
#define FEW 24        // so many keys are sorted rather than counted once more

_Static_assert(LANES == PV_LANES, "groups are vectors");

// What is near enough: groups, and the squared distances of their segments as bits, PV_FAR_BITS beyond the limit.
typedef struct candidates {
    uint32_t* groups;
    int32_t* keys; // (all groups * LANES,), of those found
    uint32_t count;
} candidates;

PV_INLINE int32_t* keys_of(const candidates* found, uint32_t g) { return found->keys + (uint64_t)found->groups[g] * LANES; }

// ---- search -----------------------------------------------------------------------------------------------------------

// Groups close to a car: enough for its edges. More than MOST_CLOSE are not kept.
#define MOST_CLOSE 32
typedef struct close_groups {
    float reach;
    uint32_t count;
    uint32_t groups[MOST_CLOSE + LANES];
} close_groups;

// Squared distances from a point to 16 boxes, from number `base`. Those behind the last one are far away.
PV_INLINE void measure_boxes(const drive_scene* scene, float x, float y, uint32_t base, float* square) {
    const float *low_x = scene->boxes + base, *low_y = low_x + scene->box_stride;
    const float *high_x = low_y + scene->box_stride, *high_y = high_x + scene->box_stride;
    for (uint32_t i = 0; i < LANES; i++) {
        float dx = drive_max(drive_max(low_x[i] - x, x - high_x[i]), 0.0f);
        float dy = drive_max(drive_max(low_y[i] - y, y - high_y[i]), 0.0f);
        square[i] = dx * dx + dy * dy;
    }
}

// Groups whose box comes within a radius of a point, and a little more. Returns how many. close: receives those within close->reach,
// which is not more; or NULL.
PV_INLINE uint32_t find_groups(const drive_scene* scene, float x, float y, float radius_m, uint32_t* restrict groups,
                               close_groups* close) {
    const float reach = radius_m + SLACK_M;
    uint32_t count = 0;
    for (uint32_t base = 0; base < scene->group_count; base += LANES) {
        float square[LANES];
        measure_boxes(scene, x, y, base, square);
        count += put_places(at_most(square, reach * reach), base, groups + count);
        if (!close) continue;
        const float beside = close->reach + SLACK_M;
        const sixteen near = at_most(square, beside * beside);
        if (PV_LIKELY(!(near.halves[0] | near.halves[1]))) continue; // most are far
        close->count += put_places(near, base, close->groups + close->count);
        close->count = close->count < MOST_CLOSE ? close->count : MOST_CLOSE;
    }
    while (count && groups[count - 1] >= scene->group_count) count--;
    while (close && close->count && close->groups[close->count - 1] >= scene->group_count) close->count--;
    return count;
}

// Fills keys for the groups found.
PV_INLINE void measure(const drive_scene* scene, float x, float y, float limit_square, const candidates* found) {
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
    for (uint32_t i = 0; i < LANES; i++) sum += all[i];
    return (uint32_t)sum;
}

// Number of the keys up to a limit.
PV_INLINE uint32_t count_keys(const candidates* found, int32_t limit) {
    pv_ints counts[PV_PIECES];
    for (int p = 0; p < PV_PIECES; p++) counts[p] = (pv_ints){0};
    for (uint32_t g = 0; g < found->count; g++) {
        for (int p = 0; p < PV_PIECES; p++) counts[p] -= load_ints(keys_of(found, g) + p * PV_WIDTH) <= limit;
    }
    return sum_of(counts);
}

PV_INLINE float float_of(int32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// What is taken: all keys up to `limit`, but only the first `ties` of those equal to it.
typedef struct choice {
    int32_t limit;
    uint32_t ties;
} choice;

// Of the few keys in (low, high], the one that is the `rank`-th smallest, from 1.
PV_INLINE choice choose_among(const candidates* found, uint32_t rank, int32_t low, int32_t high) {
    int32_t sorted[FEW];
    uint32_t count = 0, first = rank - 1;
    for (uint32_t g = 0; g < found->count; g++) {
        const int32_t* keys = keys_of(found, g);
        const sixteen few = keys_within(keys, low, high);
        EACH_SET(few, i) {
            int32_t key = keys[i];
            uint32_t at = count++;
            for (; at && sorted[at - 1] > key; at--) sorted[at] = sorted[at - 1];
            sorted[at] = key;
        }
    }
    while (first && sorted[first - 1] == sorted[rank - 1]) first--;
    int all = rank == count || sorted[rank] != sorted[rank - 1];
    return (choice){sorted[rank - 1], all ? UINT32_MAX : rank - first};
}

// Takes k of the keys, of which `kept`, more than k, are up to `high`. guess_m: about how far the k-th is, or 0.
PV_INLINE choice choose(const candidates* found, uint32_t k, uint32_t kept, int32_t high, float guess_m) {
    int32_t low = -1;
    uint32_t below = 0, above = kept; // counts of keys up to low and up to high
    for (int round = 0; high - low > 1; round++) {
        if (above - below <= FEW) return choose_among(found, k - below, low, high);
        // Roads fill the plane about evenly, so that counts grow about as the square; every third step halves the bits.
        float from = low < 0 ? 0.0f : float_of(low), share = ((float)(k - below) + 0.5f) / (float)(above - below);
        int32_t middle = round % 3 == 2 ? low + (high - low) / 2 : pv_bits_of(from + (float_of(high) - from) * share);
        if (round == 0 && guess_m > 0.0f) middle = pv_bits_of(guess_m * guess_m);
        middle = middle <= low ? low + 1 : middle >= high ? high - 1 : middle;
        uint32_t count = count_keys(found, middle);
        if (count == k) return (choice){middle, UINT32_MAX};
        if (count > k)
            high = middle, above = count;
        else
            low = middle, below = count;
    }
    return (choice){high, k - below};
}

// ---- entries ----------------------------------------------------------------------------------------------------------

#define PER(set, column) (1.0f / DRIVE_SCALE_##set##_##column)

PV_INLINE turned pufferdrive_view(const drive_pose* at) {
    const float c = at->cosine, s = at->sine, metre = PER(pufferdrive_road, x);
    return (turned){.origin = {at->x, at->y, 0, 0, 0, 0, 0, 0},
                    .straight = {c * metre, c * metre, PER(pufferdrive_road, half_length),
                                 DRIVE_ROAD_WIDTH_M * PER(pufferdrive_road, width), c, c, 1.0f, 0.0f},
                    .crossed = {s * metre, -s * metre, 0, 0, s, -s, 0, 0}};
}

PV_INLINE turned gpudrive_view(const drive_pose* at) {
    const float c = at->cosine, s = at->sine, metre = PER(gpudrive_road, x);
    return (turned){.origin = {at->x, at->y, 0, 0, 0, 0, 0, 0},
                    .straight = {c * metre, c * metre, PER(gpudrive_road, half_length),
                                 DRIVE_ROAD_WIDTH_M * PER(gpudrive_road, width), 0, 0, 0, 0},
                    .crossed = {s * metre, -s * metre, 0, 0, 0, 0, 0, 0}};
}

PV_INLINE void write_gpudrive_entry(const turned* how, const float* row, float heading, float* out) {
    numbers v = entry_of(how, row);
    const float type = row[6];
    memcpy(out, &v, 4 * sizeof(float));
    out[DRIVE_gpudrive_road_height] = DRIVE_ROAD_WIDTH_M * PER(gpudrive_road, height);
    out[DRIVE_gpudrive_road_heading] = drive_wrap(row[7] - heading) * PER(gpudrive_road, heading);
    memset(out + DRIVE_gpudrive_road_none, 0, (DRIVE_COUNT_gpudrive_road - DRIVE_gpudrive_road_none) * sizeof(float));
    out[DRIVE_gpudrive_road_edge] = type == (float)PV_EDGE ? 1.0f : 0.0f;
    out[DRIVE_gpudrive_road_line] = type == (float)PV_LINE ? 1.0f : 0.0f;
    out[DRIVE_gpudrive_road_lane] = type == (float)PV_LANE ? 1.0f : 0.0f;
}

// Which of a group's keys are taken.
PV_INLINE sixteen taken_of(const int32_t* keys, choice* chosen) {
    sixteen taken = keys_up_to(keys, chosen->limit);
    if (PV_LIKELY(chosen->ties == UINT32_MAX)) return taken;
    const sixteen equal = keys_within(keys, chosen->limit - 1, chosen->limit);
    EACH_SET(equal, i) {
        if (chosen->ties)
            chosen->ties--;
        else
            taken.halves[i / 8] &= ~(UINT64_C(1) << 8 * (i % 8));
    }
    return taken;
}

// Fills `places` with where the chosen segments stand in the scene's rows. Returns how many.
PV_INLINE uint32_t take(const candidates* found, choice chosen, uint32_t* places) {
    uint32_t count = 0;
    for (uint32_t g = 0; g < found->count; g++)
        count += put_places(taken_of(keys_of(found, g), &chosen), found->groups[g] * LANES, places + count);
    return count;
}

// Writes entries in the columns of PufferDrive.
PV_INLINE void write_pufferdrive(const float* rows, const drive_roads_search* search, const uint32_t* places, uint32_t count,
                                 float* out) {
    const turned how = pufferdrive_view(search->at);
    put_entries(&how, rows, places, NULL, count, search->k, DRIVE_COUNT_pufferdrive_road, out);
}

// The same in the columns of GPUDrive.
PV_INLINE void write_gpudrive(const float* rows, const drive_roads_search* search, const uint32_t* places, uint32_t count,
                              float* out) {
    const turned how = gpudrive_view(search->at);
    for (uint32_t i = 0; i < count; i++)
        write_gpudrive_entry(&how, rows + 8 * (uint64_t)places[i], search->heading, out + i * DRIVE_COUNT_gpudrive_road);
}

// Largest of the keys up to a limit.
PV_INLINE int32_t largest_within(const candidates* found, int32_t limit) {
    int32_t most = 0;
    for (uint32_t g = 0; g < found->count; g++) {
        const int32_t* keys = keys_of(found, g);
        for (uint32_t i = 0; i < LANES; i++) most = keys[i] <= limit && keys[i] > most ? keys[i] : most;
    }
    return most;
}

// Which of a group's keys are up to a limit and belong to segments of some types, a bit each.
PV_INLINE sixteen of_types(const pv_road_group* group, const int32_t* keys, uint32_t types, int32_t limit) {
    pv_ints masks[PV_PIECES];
    for (int p = 0; p < PV_PIECES; p++) {
        const uint32_t at = (uint32_t)p * PV_WIDTH;
        const pv_ints type = load_ints(group->type + at);
        pv_ints wanted = {0};
        for (int t = 0; t < PV_SEGMENT_TYPES; t++) wanted |= (type == t) & -(int32_t)(types >> t & 1);
        masks[p] = wanted & (load_ints(keys + at) <= limit);
    }
    return packed(masks);
}

// Hands out the road edges up to close->reach.
PV_INLINE void list_edges(const drive_scene* scene, const candidates* found, const close_groups* close, drive_near* edges) {
    const int32_t limit = pv_bits_of(close->reach * close->reach);
    uint32_t places[(MOST_CLOSE + 1) * LANES], count = 0;
    for (uint32_t c = 0; c < close->count; c++) {
        const uint32_t g = close->groups[c];
        const int32_t* keys = found->keys + (uint64_t)g * LANES;
        count += put_places(of_types(&scene->groups[g], keys, 1u << PV_EDGE, limit), g * LANES, places + count);
    }
    edges->within_m = close->count < MOST_CLOSE && count <= DRIVE_MAX_K ? close->reach : 0.0f;
    edges->count = count <= DRIVE_MAX_K ? count : 0;
    for (uint32_t i = 0; i < edges->count; i++) {
        edges->index[i] = scene->groups[places[i] / LANES].segment[places[i] % LANES];
        edges->square[i] = float_of(found->keys[places[i]]);
    }
}

PV_CLONES uint32_t drive_write_roads(const drive_scene* scene, const drive_roads_search* search, const drive_scratch* scratch,
                                     float* out, float* reach_m, drive_near* edges) {
    const drive_pose* at = search->at;
    const uint32_t k = search->k, columns = search->gpudrive ? DRIVE_COUNT_gpudrive_road : DRIVE_COUNT_pufferdrive_road;
    candidates found = {scratch->road_groups, scratch->road_keys, 0};
    choice chosen = {PV_FAR_BITS - 1, UINT32_MAX};
    close_groups close;
    uint32_t kept = 0;
    float reach = *reach_m > 0.0f && *reach_m < search->range_m ? *reach_m : search->range_m;
    for (;;) {
        close.reach = drive_min(search->edges_m, reach);
        close.count = 0;
        found.count = find_groups(scene, at->x, at->y, reach, found.groups, &close);
        measure(scene, at->x, at->y, reach * reach, &found);
        kept = count_keys(&found, PV_FAR_BITS - 1);
        if (kept >= k || reach == search->range_m) break;
        reach = search->range_m;
    }
    list_edges(scene, &found, &close, edges);
    if (kept > k) chosen = choose(&found, k, kept, pv_bits_of(reach * reach), search->guess_m);
    uint32_t places[DRIVE_MAX_ROADS + LANES];
    const uint32_t count = take(&found, chosen, places);
    if (search->gpudrive)
        write_gpudrive(scene->rows, search, places, count, out);
    else
        write_pufferdrive(scene->rows, search, places, count, out);
    *reach_m = kept > k ? drive_sqrt(float_of(chosen.limit)) : kept == k ? reach : 0.0f;
    if (search->exact_reach && count) *reach_m = drive_sqrt(float_of(largest_within(&found, chosen.limit)));
    memset(out + count * columns, 0, (k - count) * columns * sizeof(float));
    return count;
}

PV_CLONES uint32_t drive_road_count(const drive_scene* scene, const drive_pose* at, float range_m, const drive_scratch* scratch) {
    candidates found = {scratch->road_groups, scratch->road_keys, 0};
    found.count = find_groups(scene, at->x, at->y, range_m, found.groups, NULL);
    measure(scene, at->x, at->y, range_m * range_m, &found);
    return count_keys(&found, PV_FAR_BITS - 1);
}

PV_CLONES uint32_t drive_segments_within(const drive_scene* scene, uint32_t types, float x, float y, float radius_m,
                                         const drive_scratch* scratch) {
    candidates found = {scratch->road_groups, scratch->road_keys, 0};
    uint32_t count = 0;
    found.count = find_groups(scene, x, y, radius_m, found.groups, NULL);
    measure(scene, x, y, radius_m * radius_m, &found);
    for (uint32_t g = 0; g < found.count; g++)
        count += put_places(of_types(&scene->groups[found.groups[g]], keys_of(&found, g), types, PV_FAR_BITS - 1),
                            found.groups[g] * LANES, scratch->index + count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t place = scratch->index[i];
        scratch->index[i] = scene->groups[place / LANES].segment[place % LANES];
        scratch->square[i] = float_of(found.keys[place]);
    }
    return count;
}

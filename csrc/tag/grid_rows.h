// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Observations of one env of tag_grid, and the test for tags: for grid.c, inlined into its vector
// variants. Positions are one array per axis, in the order of the agents; whole vectors are read,
// so arrays continue for LANES numbers behind the last agent.
#pragma once

#include "envs/kernels.h"

#include <string.h>

#define LANES 8
#define MOST_TAGGERS 16383

typedef int32_t ints __attribute__((vector_size(4 * LANES))); // any bits, floats too

// Masks and bits for the vector in which the agents end; they are the same for all envs.
typedef struct tag_ends {
    int32_t agents[LANES];  // -1: an agent's lane
    int32_t taggers[LANES]; // -1: a tagger's lane, in the vector in which the taggers end
    float types[LANES];     // the other lanes: in a full row, agent types follow the positions
} tag_ends;

PV_INLINE uint32_t last_vector(uint32_t count) {
    return (count - 1) / LANES * LANES;
}

static inline void fill_ends(tag_ends* ends, uint32_t agents) {
    for (uint32_t i = 0; i < LANES; i++) {
        ends->agents[i] = last_vector(agents) + i < agents ? -1 : 0;
        ends->taggers[i] = last_vector(agents - 1) + i < agents - 1 ? -1 : 0;
        ends->types[i] =
            last_vector(agents) + i == 2 * agents - 1 ? 1.0f : 0.0f; // the runner's, the last one
    }
}

PV_INLINE ints load(const void* from) {
    ints loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

PV_INLINE void store(void* to, ints stored) {
    memcpy(to, &stored, sizeof stored);
}

// Returns whether a tagger is on the runner's cell.
PV_INLINE int is_tagged(const tag_ends* ends,
                        const int32_t* x,
                        const int32_t* y,
                        uint32_t taggers) {
    const uint32_t last = last_vector(taggers);
    ints found =
        (load(x + last) == x[taggers]) & (load(y + last) == y[taggers]) & load(ends->taggers);
    for (uint32_t i = 0; i < last; i += LANES)
        found |= (load(x + i) == x[taggers]) & (load(y + i) == y[taggers]);
    uint64_t parts[LANES / 2], any = 0;
    memcpy(parts, &found, sizeof parts);
    for (int i = 0; i < LANES / 2; i++)
        any |= parts[i];
    return any != 0;
}

// Writes the parts of an env's full rows that never change: agent types and the one-hot of self.
static inline void write_constants(float* row, uint32_t agents) {
    for (uint32_t self = 0; self < agents; self++, row += 4 * agents + 1) {
        memset(row + 2 * agents, 0, 2 * agents * sizeof(float));
        row[3 * agents - 1] = 1.0f; // the last agent is the runner
        row[3 * agents + self] = 1.0f;
    }
}

// Writes the other parts: all positions, and the time. The store of y overwrites what that of x
// writes beyond the agents, and its last vector ends with agent types.
PV_INLINE void write_full(
    const tag_ends* ends, float* row, const float* x, const float* y, uint32_t agents, float time) {
    const uint32_t length = 4 * agents + 1, last = last_vector(agents);
    if (last + LANES > 2 * agents) { // few agents: a vector would reach into the one-hot
        for (uint32_t self = 0; self < agents; self++, row += length) {
            for (uint32_t i = 0; i < agents; i++)
                row[i] = x[i];
            for (uint32_t i = 0; i < agents; i++)
                row[agents + i] = y[i];
            row[4 * agents] = time;
        }
        return;
    }
    const ints end = (load(y + last) & load(ends->agents)) | load(ends->types), begin = load(x);
    for (uint32_t self = 0; self < agents; self++, row += length) {
        if (last) { // rows of many agents leave gaps, which the CPU does not prefetch across
            for (uint32_t i = 0; i < 2 * agents + 16; i += 16)
                __builtin_prefetch(row + 4 * length + i, 1);
            __builtin_prefetch(row + 5 * length - 1, 1);
        }
        store(row, begin);
        for (uint32_t i = LANES; i < agents; i += LANES)
            store(row + i, load(x + i));
        for (uint32_t i = 0; i < last; i += LANES)
            store(row + agents + i, load(y + i));
        store(row + agents + last, end);
        row[4 * agents] = time;
    }
}

// Returns the tagger nearest to the runner by squared distance, ties to the lowest id: the minimum
// of numbers that combine both.
PV_INLINE uint32_t nearest_tagger(const int32_t* x, const int32_t* y, uint32_t taggers) {
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < taggers; i++) {
        int32_t dx = x[i] - x[taggers], dy = y[i] - y[taggers];
        int64_t number = ((int64_t)dx * dx + (int64_t)dy * dy) * (MOST_TAGGERS + 1) + i;
        least = number < least ? number : least;
    }
    return (uint32_t)(least % (MOST_TAGGERS + 1));
}

// Writes partial rows: own position, the other's, own type, time. Taggers see the runner, and the
// runner sees the nearest tagger.
PV_INLINE void write_partial(
    float* row, const float* x, const float* y, uint32_t runner, uint32_t nearest, float time) {
    const float of_tagger[4] = {x[runner], y[runner], 0.0f, time},
                of_runner[4] = {x[nearest], y[nearest], 1.0f, time};
    for (uint32_t self = 0; self <= runner; self++, row += 6) {
        row[0] = x[self];
        row[1] = y[self];
        memcpy(row + 2, of_tagger, sizeof of_tagger);
    }
    memcpy(row - 4, of_runner, sizeof of_runner);
}

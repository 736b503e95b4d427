// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The K nearest agents of an agent, exact: by Euclidean distance in float32 (the root is taken, since roots of different squares may
// be equal), ties to the lowest id.
#include "continuous.h"

#include <math.h>
#include <string.h>

// Distance and id as one number with the order of both: floats >= 0 have the order of their bits.
static uint64_t key_of(float distance, uint32_t id) {
    uint32_t bits;
    memcpy(&bits, &distance, sizeof bits);
    return (uint64_t)bits << 32 | id;
}

uint32_t tag_nearest(const tag_state* state, uint64_t first, uint32_t agents, uint32_t self, uint32_t most) {
    uint64_t* near = state->near;
    uint32_t found = 0;
    for (uint32_t other = 0; other < agents; other++) {
        if (other == self || state->alive[first + other] == 0.0f) continue;
        float dx = state->x[first + other] - state->x[first + self], dy = state->y[first + other] - state->y[first + self];
        uint64_t key = key_of(sqrtf(dx * dx + dy * dy), other);
        if (found == most && key > near[found - 1]) continue;
        uint32_t at = found < most ? found++ : found - 1;
        for (; at > 0 && near[at - 1] > key; at--) near[at] = near[at - 1];
        near[at] = key;
    }
    return found;
}

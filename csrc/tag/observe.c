// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The observations of tag_continuous. A row is feature by feature: differences to M other agents in x, y, speed, acceleration and
// direction, then their types, whether they are still in the game, and the time. Each feature is scaled per agent first and then
// subtracted, as NumPy's WarpDrive does it.
#include "../kernels.h"
#include "continuous.h"

#include <string.h>

#define DIFFERENCES 5 // features that are differences; types, presence and time follow

PV_CLONES void tag_scale(const tag_state* state, uint64_t first, uint64_t count) {
    const tag_constants constants = *state->constants;
    for (uint64_t r = first; r < first + count; r++) {
        state->shown[0][r] = state->x[r] * constants.per_length;
        state->shown[1][r] = state->y[r] * constants.per_length;
        state->shown[2][r] = state->speed[r] * constants.per_speed;
        state->shown[3][r] = state->acceleration[r] * constants.per_speed;
        state->shown[4][r] = state->direction[r] * constants.per_turn;
    }
}

static void observe_full(const tag_state* state, uint64_t first, uint32_t agents, uint32_t self, float time, float* out) {
    const uint32_t others = agents - 1;
    const int in_game = state->alive[first + self] != 0.0f;
    for (uint32_t i = 0; i < others; i++) {
        uint64_t row = first + i + (i >= self);
        for (uint32_t f = 0; f < DIFFERENCES; f++)
            out[f * others + i] = in_game ? state->shown[f][row] - state->shown[f][first + self] : 0.0f;
        out[5 * others + i] = (float)state->type[row];
        out[6 * others + i] = state->alive[row];
    }
    out[7 * others] = in_game ? time : 0.0f;
}

static void observe_nearest(const tag_state* state, uint64_t first, uint32_t agents, uint32_t self, uint32_t most, float time,
                            float* out) {
    memset(out, 0, (7 * most + 1) * sizeof(float));
    if (state->alive[first + self] == 0.0f) return;
    uint32_t found = tag_nearest(state, first, agents, self, most);
    for (uint32_t i = 0; i < found; i++) {
        uint64_t row = first + (uint32_t)state->near[i];
        for (uint32_t f = 0; f < DIFFERENCES; f++) out[f * most + i] = state->shown[f][row] - state->shown[f][first + self];
        out[5 * most + i] = (float)state->type[row];
        out[6 * most + i] = 1.0f;
    }
    out[7 * most] = time;
}

void tag_observe(const pv_block* block, const tag_state* state, uint32_t first, uint32_t count) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config), others = tag_others(config);
    for (uint32_t env = first; env < first + count; env++) {
        const float time = (float)state->time[env] / (float)config->episode_length;
        const uint64_t row = (uint64_t)env * agents;
        for (uint32_t self = 0; self < agents; self++) {
            float* out = (float*)(void*)block->rows[0].observations + (row + self) * (7 * others + 1);
            if (config->use_full_observation) observe_full(state, row, agents, self, time, out);
            else observe_nearest(state, row, agents, self, others, time, out);
        }
    }
}

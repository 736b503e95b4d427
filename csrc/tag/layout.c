// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// tag_continuous: where the arrays of a block lie.
#include "continuous.h"

uint64_t tag_lay_out(const tag_config* config, uint64_t envs, uint8_t* base, tag_state* state) {
    const uint64_t agents = tag_agents(config), rows = envs * agents,
                   tile = agents > TAG_TILE ? agents : TAG_TILE;
    uint64_t at = 0;
#define TAKE(member, count) \
    state->member = (void*)(base + at); \
    at = pv_align_up(at + ((count) + TAG_SLACK) * sizeof *state->member, 64)
    TAKE(constants, 1);
    TAKE(acceleration_change, (uint64_t)config->num_acceleration_levels + 1);
    TAKE(turn_change, (uint64_t)config->num_turn_levels + 1);
    TAKE(ids, agents);
    TAKE(tagger, tile);
    TAKE(sums, agents);
    TAKE(seed, envs);
    TAKE(episode, envs);
    TAKE(task, envs);
    TAKE(time, envs);
    TAKE(left, envs);
    TAKE(tags, envs);
    TAKE(over, envs);
    TAKE(stale, envs);
    TAKE(returns, 2 * envs);
    float** const by_row[] = {
        &state->x,    &state->y, &state->speed, &state->direction, &state->acceleration,
        &state->alive};
    for (size_t i = 0; i < sizeof by_row / sizeof by_row[0]; i++) {
        *by_row[i] = (float*)(void*)(base + at);
        at = pv_align_up(at + (rows + TAG_SLACK) * sizeof(float), 64);
    }
    TAKE(left_at, rows);
    TAKE(guess, rows);
    for (int f = 0; f < TAG_SHOWN; f++) {
        TAKE(shown[f], tile);
    }
    TAKE(seen, tile);
    TAKE(edge, tile);
    TAKE(faster, tile);
    TAKE(turn, tile);
    TAKE(px, agents);
    TAKE(py, agents);
    TAKE(start, agents + 2);
    TAKE(place, agents);
    TAKE(sorted_x, agents);
    TAKE(sorted_y, agents);
    TAKE(sorted_id, agents);
    TAKE(near_x, agents);
    TAKE(near_y, agents);
    TAKE(near_id, agents);
    TAKE(square, agents);
    TAKE(index, agents);
    TAKE(near, agents);
    TAKE(records, 8 * agents);
#undef TAKE
    return at;
}

tag_state tag_state_of(const pv_block* block) {
    tag_state state;
    tag_lay_out(tag_config_of(block->context), block->env_count, block->state, &state);
    return state;
}

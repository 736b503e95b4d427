// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// covid: where the arrays of a block lie.
#include "covid.h"

uint64_t covid_lay_out(uint64_t envs, uint8_t* base, covid_block* state) {
    uint64_t at = 0;
#define TAKE(member, count) \
    state->member = (void*)(base + at); \
    at = pv_align_up(at + (count) * sizeof *state->member, 64)
    TAKE(table, 1);
    TAKE(envs, envs);
    TAKE(numbered, envs);
#undef TAKE
    return at;
}

covid_block covid_state_of(const pv_block* block) {
    covid_block state;
    covid_lay_out(block->env_count, block->state, &state);
    return state;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The observations of tag_continuous. A row is feature by feature: differences to M other agents in
// x, y, speed, acceleration and direction, then their types, whether they are still in the game,
// and the time. Each feature is scaled per agent first and then subtracted, as NumPy's WarpDrive
// does it. Observations of all others are written here, those of the nearest in neighbours.c.
#include "envs/kernels.h"
#include "continuous.h"

#include <string.h>

PV_CLONES void tag_scale(const tag_state* state, uint64_t first, uint64_t at, uint64_t count) {
    const tag_constants constants = *state->constants;
    const float* restrict from[TAG_SHOWN] = {state->x + first, state->y + first,
                                             state->speed + first, state->acceleration + first,
                                             state->direction + first};
    const float by[TAG_SHOWN] = {constants.per_length, constants.per_length, constants.per_speed,
                                 constants.per_speed, constants.per_turn};
    for (int f = 0; f < TAG_SHOWN; f++) {
        float* restrict to = state->shown[f] + at;
        PV_APART for (uint64_t r = 0; r < count; r++) to[r] = from[f][r] * by[f];
    }
    memcpy(state->seen + at, state->alive + first, count * sizeof(float));
}

// Returns the entries at[0], at[1], ... without the one at `self`, as a vector: those before it,
// then those behind.
PV_INLINE pv_floats without(const float* at, int32_t self) {
    static const int32_t numbers[PV_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    pv_ints lane;
    memcpy(&lane, numbers, sizeof lane);
    return pv_choose(lane < self, pv_load(at), pv_load(at + 1));
}

PV_INLINE pv_floats keep_if(pv_floats v, int32_t mask) {
    return pv_choose((pv_ints){0} + mask, v, (pv_floats){0});
}

// Handles few others (at most PV_WIDTH): a vector holds a feature. The next store overwrites what a
// vector stores behind its M entries; the last ones of the env are stored exactly.
PV_INLINE void observe_few(const tag_view* view, uint32_t others) {
    const uint32_t agents = others + 1, row = 7 * others + 1;
    for (uint32_t self = 0; self < agents; self++) {
        const float* const features[7] = {view->shown[0], view->shown[1], view->shown[2],
                                          view->shown[3], view->shown[4], view->tagger,
                                          view->seen};
        float* out = view->out + self * row;
        const uint32_t room = (agents - self) * row;
        const int32_t in_game = view->seen[self] != 0.0f ? -1 : 0;
        for (uint32_t f = 0; f < 7; f++) {
            pv_floats v = without(features[f], (int32_t)self);
            if (f < TAG_SHOWN)
                v = keep_if(v - features[f][self], in_game);
            if (f * others + PV_WIDTH <= room)
                memcpy(out + f * others, &v, sizeof v);
            else
                memcpy(out + f * others, &v, others * sizeof(float));
        }
        out[7 * others] = in_game ? view->time : 0.0f;
    }
}

// Writes one feature of many others (at least PV_WIDTH): the last vector overlaps the one before.
PV_INLINE void observe_feature(
    const float* feature, uint32_t others, uint32_t self, float own, int32_t in_game, float* out) {
    for (uint32_t k = 0; k < others; k += PV_WIDTH) {
        const uint32_t at = k + PV_WIDTH <= others ? k : others - PV_WIDTH;
        const pv_floats v =
            keep_if(without(feature + at, (int32_t)self - (int32_t)at) - own, in_game);
        memcpy(out + at, &v, sizeof v);
    }
}

// Handles many others. Types, and whether they are in the game, are in the rows already unless they
// are stale.
PV_INLINE void observe_many(const tag_view* view, uint32_t others, int stale) {
    for (uint32_t self = 0; self <= others; self++) {
        float* out = view->out + self * (7 * others + 1);
        const int32_t in_game = view->seen[self] != 0.0f ? -1 : 0;
        for (uint32_t f = 0; f < TAG_SHOWN; f++)
            observe_feature(view->shown[f], others, self, view->shown[f][self], in_game,
                            out + f * others);
        if (stale) {
            observe_feature(view->tagger, others, self, 0.0f, -1, out + 5 * others);
            observe_feature(view->seen, others, self, 0.0f, -1, out + 6 * others);
        }
        out[7 * others] = in_game ? view->time : 0.0f;
    }
}

PV_CLONES static void observe_all(const pv_block* block,
                                  const tag_state* state,
                                  uint32_t first,
                                  uint32_t count) {
    const uint32_t others = tag_others(tag_config_of(block->context));
    for (uint32_t env = first; env < first + count; env++) {
        const tag_view view = tag_view_of(block, state, first, env);
        if (others == 4)
            observe_few(
                &view,
                4); // five agents, as in the paper's figures: lengths are known to the compiler
        else if (others < PV_WIDTH)
            observe_few(&view, others);
        else
            observe_many(&view, others, state->stale[env]);
    }
}

void tag_observe(const pv_block* block, const tag_state* state, uint32_t first, uint32_t count) {
    if (tag_config_of(block->context)->use_full_observation)
        observe_all(block, state, first, count);
    else
        tag_observe_nearest(block, state, first, count);
    memset(state->stale + first, 0, count);
}

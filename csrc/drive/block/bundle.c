// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Fills an env's rows with whole scenes. Scenes are drawn by their weights (equal ones, unless the
// params have "scene_weights", a float32 above 0 for each scene) until one does not fit. From then
// on only those scenes are drawn that leave the fewest rows empty (the table "waste", indexed by
// the number of free rows, is computed once). Up to ATTEMPTS fillings are tried, and the first with
// the fewest empty rows is taken. So all scenes are drawn about equally often, and few rows stay
// empty. Draws are keyed by the env's seed and the number of the bundle.
//
// With scene_draws=passes an env goes through all scenes in a random order, then in another one,
// and so on. A bundle takes the next scenes until one does not fit. An order is a Feistel network
// of ROUNDS rounds over the smallest square of a power of two that is not less than the number of
// scenes; a result that is no scene's number goes through it again (Black and Rogaway 2002,
// "Ciphers with arbitrary finite domains"). So no list of scenes is stored, and the order depends
// only on the env's seed and the pass.
//
// Sets of scenes may have weights ("set_ends": where each set ends among all scenes, uint32;
// "set_shares", double: its share of the draws that earlier sets leave over). Each set then has
// its own passes, and the sets take turns in proportion: floor(n * share) of the draws 0 to n are
// from the first set, and the rest are divided among the others in the same way.
//
// With replay_failed a scene in whose last episode an agent failed is drawn again with that
// probability, at most MOST_REPEATS times in a row. Such scenes come first; others fill the rows
// that are left.
#include "drive/block/bundle.h"

#include "contract/base.h"
#include "contract/env.h"
#include "contract/rng.h"
#include "drive/block/layout.h"
#include "drive/motion/followers.h"
#include "drive/scene/control.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"

#include <string.h>

#define ATTEMPTS 8
#define MOST_REPEATS 3           // so that an unsolvable scene does not stay for ever
#define REPEAT_DRAWS 0x10000000u // lower draw numbers are for scenes
#define ROUNDS 6
#define LEAST_BITS 4          // bits of half a number: with fewer the rounds do not mix well
#define PASS_STEP 0xFFFFFFFFu // in place of the step in the key of these draws

typedef struct bundle_tables {
    uint32_t *agents, *order, *sizes, *waste;
    const double* shares; // NULL: all scenes weigh the same
} bundle_tables;

static bundle_tables tables_of(const drive_block* block) {
    uint8_t* state = (uint8_t*)(uintptr_t)block;
    return (bundle_tables){
        (uint32_t*)(void*)(state + block->agents_offset),
        (uint32_t*)(void*)(state + block->order_offset),
        (uint32_t*)(void*)(state + block->sizes_offset),
        (uint32_t*)(void*)(state + block->waste_offset),
        block->shares_offset ? (const double*)(void*)(state + block->shares_offset) : NULL};
}

// The sets of weighted passes; count 0: there are none.
typedef struct drawn_sets {
    uint64_t count;
    const uint32_t* ends;
    const double* shares;
} drawn_sets;

static drawn_sets sets_of(const pv_context* context) {
    drawn_sets sets;
    uint64_t shares = 0;
    sets.ends = pv_params_find(context->params, "set_ends", PV_U32, &sets.count);
    sets.shares = pv_params_find(context->params, "set_shares", PV_F64, &shares);
    if (sets.count != shares) // one of the two params is missing
        sets.count = 0;
    return sets;
}

static void sum_weights(const float* weights,
                        const uint32_t* order,
                        uint32_t count,
                        double* shares) {
    shares[0] = 0.0;
    for (uint32_t i = 0; i < count; i++)
        shares[i + 1] = shares[i] + (double)weights[order[i]];
}

uint32_t drive_scene_rows(const drive_block* block, uint32_t scene_index) {
    return tables_of(block).agents[scene_index];
}

int drive_scene_verify(pv_block* block, uint32_t env, uint32_t scene_index) {
    uint8_t* checked = (uint8_t*)block->state + ((const drive_block*)block->state)->checked_offset;
    char text[PV_ERROR_TEXT];
    uint64_t count;
    if (checked[scene_index])
        return PV_OK;
    if (!pv_params_find(block->context->params, "scenes_checked", PV_U8, &count) &&
        pv_drive_scene_check(block->context->data, block->context->data_bytes, scene_index, 1,
                             text))
        return pv_block_error(block, env, "%s", text);
    drive_scene_open(block->context->data, scene_index,
                     drive_opened((const drive_block*)block->state) + scene_index);
    checked[scene_index] = 1;
    return PV_OK;
}

void drive_bundle_init(const pv_context* context, drive_block* block) {
    bundle_tables tables = tables_of(block);
    uint32_t count = drive_set(context->data)->scene_count;
    memset((uint8_t*)block + block->checked_offset, 0, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t agents = drive_scene_agents(context, i);
        tables.agents[i] = agents <= block->agents ? agents : 0;
    }
    // Counting sort by size; waste serves as the list of where the next scene of each size goes.
    memset(tables.sizes, 0, (block->agents + 2) * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = tables.agents[i];
        if (size)
            tables.sizes[size + 1]++;
    }
    for (uint32_t n = 1; n <= block->agents + 1; n++)
        tables.sizes[n] += tables.sizes[n - 1];
    memcpy(tables.waste, tables.sizes, (block->agents + 1) * sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = tables.agents[i];
        if (size)
            tables.order[tables.waste[size]++] = i;
    }
    if (sets_of(context).count) { // ordered set by set instead of by size
        for (uint32_t i = 0, n = 0; i < count; i++) {
            if (tables.agents[i])
                tables.order[n++] = i;
        }
    }
    for (uint32_t n = 0; n <= block->agents; n++) {
        tables.waste[n] = n;
        for (uint32_t size = 1; size <= n; size++) {
            int there = tables.sizes[size + 1] > tables.sizes[size];
            if (there && tables.waste[n - size] < tables.waste[n])
                tables.waste[n] = tables.waste[n - size];
        }
    }
    if (block->shares_offset)
        sum_weights(drive_scene_weights(context), tables.order, block->scenes,
                    (double*)(void*)((uint8_t*)block + block->shares_offset));
}

// Draws a number in [0, 1) for this bundle, a multiple of 2^-53.
static double draw_share(const drive_turn* turn, uint32_t draw) {
    return (double)(pv_rng_u64(turn->state->seed, turn->state->episode, 0, draw) >> 11) * 0x1p-53;
}

// Returns the place in order[first, end) at which the sum of the weights from `first` on exceeds
// `target`.
static uint32_t place_at(const double* shares, uint32_t first, uint32_t end, double target) {
    uint32_t low = first, high = end - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (shares[middle + 1] - shares[first] > target)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Does what draw_fitting does, by weight.
static uint32_t draw_fitting_share(const drive_turn* turn,
                                   const bundle_tables* tables,
                                   uint32_t free,
                                   uint32_t draw) {
    double total = 0.0;
    uint32_t last = 0;
    for (uint32_t size = 1; size <= free; size++) {
        uint32_t first = tables->sizes[size], end = tables->sizes[size + 1];
        if (tables->waste[free - size] != tables->waste[free] || first == end)
            continue;
        total += tables->shares[end] - tables->shares[first];
        last = size;
    }
    double target = draw_share(turn, draw) * total;
    for (uint32_t size = 1;; size++) {
        uint32_t first = tables->sizes[size], end = tables->sizes[size + 1];
        if (tables->waste[free - size] != tables->waste[free] || first == end)
            continue;
        double share = tables->shares[end] - tables->shares[first];
        if (target < share || size == last)
            return tables->order[place_at(tables->shares, first, end, target)];
        target -= share;
    }
}

// Draws, by weight, one of the scenes that leave the fewest of `free` rows empty; only called if
// some scene fits.
static uint32_t draw_fitting(const drive_turn* turn,
                             const bundle_tables* tables,
                             uint32_t free,
                             uint32_t draw) {
    if (tables->shares)
        return draw_fitting_share(turn, tables, free, draw);
    uint32_t total = 0;
    for (uint32_t size = 1; size <= free; size++) {
        if (tables->waste[free - size] == tables->waste[free])
            total += tables->sizes[size + 1] - tables->sizes[size];
    }
    uint32_t chosen = pv_rng_below(turn->state->seed, turn->state->episode, 0, draw, total);
    for (uint32_t size = 1;; size++) {
        if (tables->waste[free - size] != tables->waste[free])
            continue;
        uint32_t count = tables->sizes[size + 1] - tables->sizes[size];
        if (chosen < count)
            return tables->order[tables->sizes[size] + chosen];
        chosen -= count;
    }
}

// Draws the place of any scene in `order`.
static uint32_t draw_any(const drive_turn* turn, const bundle_tables* tables, uint32_t draw) {
    uint32_t scenes = turn->layout->scenes;
    if (!tables->shares)
        return pv_rng_below(turn->state->seed, turn->state->episode, 0, draw, scenes);
    return place_at(tables->shares, 0, scenes, draw_share(turn, draw) * tables->shares[scenes]);
}

// Fills `free` rows once; `attempt` is part of the keys of the draws. Returns the number of rows
// left empty. slots NULL: only counts.
static uint32_t fill_once(const drive_turn* turn,
                          const bundle_tables* tables,
                          uint32_t attempt,
                          uint32_t free,
                          drive_slot* slots,
                          uint32_t* count) {
    uint32_t draw = attempt << 16;
    int finishing = 0;
    *count = 0;
    while (tables->waste[free] < free) {
        uint32_t scene = tables->order[draw_any(turn, tables, draw++)];
        if (tables->agents[scene] > free)
            finishing = 1;
        if (finishing)
            scene = draw_fitting(turn, tables, free, draw++);
        if (slots)
            slots[*count].scene = scene;
        ++*count;
        free -= tables->agents[scene];
    }
    return free;
}

// Returns the scene, as a place among the `count` scenes of set number `set`, that comes at `place`
// of a pass through the set.
static uint32_t scene_of_pass(
    const drive_turn* turn, uint32_t set, uint64_t pass, uint32_t place, uint32_t count) {
    uint32_t bits = LEAST_BITS;
    while (bits < 16 && (uint64_t)1 << (2 * bits) < count)
        bits++;
    const uint32_t mask = ((uint32_t)1 << bits) - 1;
    do {
        uint32_t left = place >> bits, right = place & mask;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint32_t mixed = left ^ ((uint32_t)pv_rng_u64(turn->state->seed, pass, PASS_STEP - set,
                                                          round << 16 | right) &
                                     mask);
            left = right;
            right = mixed;
        }
        place = left << bits | right;
    } while (place >= count);
    return place;
}

// Returns the first place of `order`, which ascends, with a scene of at least this number.
static uint32_t place_of(const uint32_t* order, uint32_t count, uint32_t scene) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (order[middle] < scene)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Determines the place in `order` of draw number `draw`. Returns 0 if it falls to a set in which no
// scene can be drawn.
static int place_in_turn(const drive_turn* turn,
                         const bundle_tables* tables,
                         uint64_t draw,
                         uint32_t* place) {
    const drawn_sets sets = sets_of(turn->block->context);
    uint32_t first = 0, count = turn->layout->scenes, set = 0;
    for (uint64_t s = 0; s < sets.count; s++) {
        uint64_t before = (uint64_t)((double)draw * sets.shares[s]),
                 after = (uint64_t)((double)(draw + 1) * sets.shares[s]);
        if (after == before && s + 1 < sets.count) {
            draw -= before;
            continue;
        }
        set = (uint32_t)s;
        first = s ? place_of(tables->order, turn->layout->scenes, sets.ends[s - 1]) : 0;
        count = place_of(tables->order, turn->layout->scenes, sets.ends[s]) - first;
        draw = s + 1 < sets.count ? before : draw;
        break;
    }
    if (!count)
        return 0;
    *place = first + scene_of_pass(turn, set, draw / count, (uint32_t)(draw % count), count);
    return 1;
}

// Takes the next scenes of the pass, or of as many passes as it needs, for `free` rows.
static void fill_in_turn(const drive_turn* turn, const bundle_tables* tables, uint32_t free) {
    uint32_t place;
    drive_env* env = turn->state;
    for (;; env->drawn++) {
        if (!place_in_turn(turn, tables, env->drawn, &place))
            continue;
        uint32_t scene = tables->order[place];
        if (tables->agents[scene] > free)
            return;
        free -= tables->agents[scene];
        turn->slots[env->slots++].scene = scene;
    }
}

static int fill_task(drive_turn* turn, const bundle_tables* tables) {
    int64_t task = turn->state->task;
    uint32_t count = drive_set(turn->block->context->data)->scene_count;
    if (task >= (int64_t)count)
        return pv_block_error(turn->block, turn->env,
                              "task %lld: there are %u scenes, numbered from 0", (long long)task,
                              count);
    if (!tables->agents[task])
        return pv_block_error(turn->block, turn->env,
                              "task %lld: scene %s has no agent, or more than num_agents = %d",
                              (long long)task,
                              drive_entry(turn->block->context->data, (uint32_t)task)->name,
                              turn->config->num_agents);
    turn->slots[0].scene = (uint32_t)task;
    turn->state->slots = 1;
    return PV_OK;
}

// Moves the slots whose scenes are drawn again to the front of the bundle that has ended.
static void repeat_failed(drive_turn* turn) {
    drive_env* env = turn->state;
    const uint32_t slots = env->slots;
    env->slots = 0;
    for (uint32_t i = 0; i < slots; i++) {
        const drive_slot slot = turn->slots[i];
        if (!slot.failed || slot.repeats >= MOST_REPEATS)
            continue;
        if (pv_rng_f32(env->seed, env->episode, 0, REPEAT_DRAWS + i) >= turn->config->replay_failed)
            continue;
        turn->slots[env->slots++] = (drive_slot){.scene = slot.scene, .repeats = slot.repeats + 1};
    }
}

// Draws scenes by their weights until the `free` rows are full.
static void fill_by_weight(const drive_turn* turn, const bundle_tables* tables, uint32_t free) {
    uint32_t best = 0, least = UINT32_MAX, count;
    for (uint32_t attempt = 0; attempt < ATTEMPTS && least > tables->waste[free]; attempt++) {
        uint32_t empty = fill_once(turn, tables, attempt, free, NULL, &count);
        if (empty < least)
            least = empty, best = attempt;
    }
    fill_once(turn, tables, best, free, turn->slots + turn->state->slots, &count);
    turn->state->slots += count;
}

int drive_bundle_fill(drive_turn* turn, int goes_on) {
    bundle_tables tables = tables_of(turn->layout);
    drive_env* env = turn->state;
    uint32_t followers = 0, free = turn->layout->agents;
    if (goes_on && env->task < 0 && turn->config->replay_failed > 0.0f)
        repeat_failed(turn);
    else
        env->slots = 0;
    for (uint32_t i = 0; i < env->slots; i++)
        free -= tables.agents[turn->slots[i].scene];
    const uint64_t kept = turn->layout->slots_offset + env->slots * sizeof(drive_slot);
    memset((uint8_t*)env + kept, 0, turn->layout->env_bytes - kept);
    env->rows = 0;
    env->poked = 0;
    if (env->task >= 0) {
        int code = fill_task(turn, &tables);
        if (code)
            return code;
    } else if (turn->config->scene_draws == DRIVE_IS_scene_draws_passes) {
        fill_in_turn(turn, &tables, free);
    } else {
        fill_by_weight(turn, &tables, free);
    }
    for (uint32_t i = 0; i < env->slots; i++) {
        drive_slot* slot = &turn->slots[i];
        int code = drive_scene_verify(turn->block, turn->env, slot->scene);
        if (code)
            return code;
        *slot = (drive_slot){.scene = slot->scene,
                             .row = env->rows,
                             .count = tables.agents[slot->scene],
                             .repeats = slot->repeats};
        env->rows += slot->count;
        slot->follower = followers;
        slot->follower_count = drive_scene_followers(turn->block->context, slot->scene);
        followers += slot->follower_count;
    }
    return PV_OK;
}

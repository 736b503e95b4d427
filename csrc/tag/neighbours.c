// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Observations of the K nearest agents, exact: by Euclidean distance in float32 (the root is taken,
// since roots of different squares may be equal), ties to the lowest id.
//
//   up to FEW agents   all distances, ranked by counting in one vector
//   up to SOME         distances from one agent to all others, ranked by counting
//   more               squared distances from one agent to all others; a bound within which at
//                      least K others lie; distances to those, ranked
//   from CROWD on      the same among the agents in the cells around the agent, as far as the bound
//                      reaches
//
// The bound is somewhat more than the K-th squared distance of the step before, if K are within it.
// Otherwise the others are distributed over 16 lanes, and the K-th smallest of the lanes' minima is
// a bound.
#include "envs/nearest.h"
#include "envs/transpose.h"
#include "continuous.h"

#include <math.h>
#include <string.h>

#define FEW PV_WIDTH
#define SOME 32
#define CROWD 192 // measured: with fewer agents, looking at all of them is faster
#define MARGIN \
    1.3f          // measured: squared distances to the K-th neighbour seldom grow by more in a step
#define FAR 1e18f // the place of agents that are out
#define OUT_SQUARE 1e30f // squared distances beyond it are those of agents that are out

// ---- one row ----

// Collects what rows show of each agent, and its place; agents that are out, and the entries behind
// the last agent, are far away. Returns how many are in the game.
PV_INLINE uint32_t open_env(const tag_state* state,
                            const tag_view* view,
                            uint64_t first,
                            uint32_t agents) {
    uint32_t in_game = 0;
    for (uint32_t i = 0; i < agents; i++) {
        const int seen = view->seen[i] != 0.0f;
        float* record = state->records + 8 * i;
        for (uint32_t f = 0; f < TAG_SHOWN; f++)
            record[f] = view->shown[f][i];
        record[5] = view->tagger[i];
        record[6] = 1.0f;
        state->px[i] = seen ? state->x[first + i] : FAR;
        state->py[i] = seen ? state->y[first + i] : FAR;
        in_game += (uint32_t)seen;
    }
    for (uint32_t i = agents; i < agents + TAG_SLACK; i++)
        state->px[i] = state->py[i] = FAR;
    return in_game;
}

// Writes eight neighbours at a time: their records become columns.
PV_INLINE void write_eight(
    const float* records, const uint32_t* ids, const float* own, float* out, uint32_t most) {
    pv_eight v[PV_EIGHT], added;
    memcpy(&added, own, sizeof added);
    for (int r = 0; r < PV_EIGHT; r++) {
        memcpy(&v[r], records + 8 * ids[r], sizeof v[r]);
        v[r] += added;
    }
    pv_transpose(v);
    for (uint32_t f = 0; f < 7; f++)
        memcpy(out + f * most, &v[f], sizeof v[f]);
}

// Writes the row of `self`: `found` neighbours in the order of `ids`, and zeros behind them. few:
// they are fewer than eight.
PV_INLINE void write_row(const tag_state* state,
                         const tag_view* view,
                         uint32_t self,
                         uint32_t most,
                         uint32_t found,
                         const uint32_t* ids,
                         int few) {
    float* restrict out = view->out + (uint64_t)self * (7 * most + 1);
    const float* restrict records = state->records;
    float own[8] = {0.0f}; // to be added
    uint32_t r = 0;
    for (uint32_t f = 0; f < TAG_SHOWN; f++)
        own[f] = -records[8 * self + f];
    if (PV_UNLIKELY(found < most))
        memset(out, 0, 7 * most * sizeof(float));
    out[7 * most] = view->time;
    for (; PV_WIDTH == PV_EIGHT && !few && r + PV_EIGHT <= found; r += PV_EIGHT)
        write_eight(records, ids + r, own, out + r, most);
    for (; r < found; r++) {
        const float* record = records + 8 * ids[r];
        for (uint32_t f = 0; f < TAG_SHOWN; f++)
            out[f * most + r] = record[f] + own[f];
        out[5 * most + r] = record[5];
        out[6 * most + r] = record[6];
    }
}

static void write_empty_row(const tag_view* view, uint32_t self, uint32_t most) {
    memset(view->out + (uint64_t)self * (7 * most + 1), 0, (7 * most + 1) * sizeof(float));
}

// ---- few agents ----

// Sets order[r] to the position of the r-th smallest of n keys (at most FEW), equal ones by
// position; see pv_rank_keys.
PV_INLINE void rank_few(const int32_t* keys, uint32_t n, uint32_t* order) {
    pv_ints key, rank = {0};
    int32_t ranks[FEW];
    memcpy(&key, keys, sizeof key);
    for (uint32_t i = 0; i < n; i++) {
        pv_ints behind;
        memcpy(&behind, pv_later[i], sizeof behind);
        rank -= keys[i] < key + behind;
    }
    memcpy(ranks, &rank, sizeof ranks);
    for (uint32_t i = 0; i < n; i++)
        order[ranks[i]] = i;
}

PV_INLINE void observe_few(const tag_state* state,
                           const tag_view* view,
                           uint32_t agents,
                           uint32_t most,
                           uint32_t in_game) {
    int32_t keys[FEW][FEW]; // distances as bits; infinite to itself
    for (uint32_t self = 0; self < agents; self++) {
        float root[FEW];
        const float x = state->px[self], y = state->py[self];
        for (uint32_t i = 0; i < FEW; i++) {
            float dx = state->px[i] - x, dy = state->py[i] - y;
            root[i] = sqrtf(dx * dx + dy * dy);
        }
        memcpy(keys[self], root, sizeof root);
        keys[self][self] = PV_FAR_BITS;
    }
    for (uint32_t self = 0; self < agents; self++) {
        uint32_t order[FEW];
        rank_few(keys[self], agents, order);
        if (PV_LIKELY(view->seen[self] != 0.0f))
            write_row(state, view, self, most, in_game - 1 < most ? in_game - 1 : most, order, 1);
        else
            write_empty_row(view, self, most);
    }
}

// ---- some agents ----

PV_INLINE void observe_some(const tag_state* state,
                            const tag_view* view,
                            uint32_t agents,
                            uint32_t self,
                            uint32_t most,
                            uint32_t in_game) {
    float root[SOME];
    int32_t keys[SOME];
    uint32_t order[SOME];
    const float x = state->px[self], y = state->py[self];
    for (uint32_t base = 0; base < agents; base += PV_LANES) {
        for (uint32_t i = base; i < base + PV_LANES; i++) {
            float dx = state->px[i] - x, dy = state->py[i] - y;
            root[i] = sqrtf(dx * dx + dy * dy);
        }
    }
    memcpy(keys, root, sizeof root);
    keys[self] = PV_FAR_BITS;
    for (uint32_t i = agents; i % PV_LANES; i++)
        keys[i] = PV_FAR_BITS;
    pv_rank_keys(keys, agents, order);
    write_row(state, view, self, most, in_game - 1 < most ? in_game - 1 : most, order, 0);
}

// ---- many agents ----

// Computes the squared distances from a place to n others, and fills up with infinity to a multiple
// of 64. Returns how many are within the bound.
PV_INLINE uint32_t measure(const tag_state* state,
                           const float* px,
                           const float* py,
                           uint32_t n,
                           float x,
                           float y,
                           float bound) {
    pv_ints kept[PV_PIECES] = {{0}};
    int32_t by_lane[PV_LANES];
    uint32_t base = 0, count = 0;
    for (; base < n; base += PV_LANES) {
        for (int p = 0; p < PV_PIECES; p++) {
            const uint32_t at = base + (uint32_t)p * PV_WIDTH;
            const pv_floats dx = pv_load(px + at) - x, dy = pv_load(py + at) - y,
                            square = dx * dx + dy * dy;
            memcpy(state->square + at, &square, sizeof square);
            kept[p] -= square <= bound;
        }
    }
    for (; base % 64; base++)
        state->square[base] = INFINITY;
    memcpy(by_lane, kept, sizeof by_lane);
    for (int l = 0; l < PV_LANES; l++)
        count += (uint32_t)by_lane[l];
    return count;
}

// Returns a bound within which at least `most` of the n squared distances lie, if at least that
// many agents are in the game.
PV_INLINE float bound_of(const tag_state* state, uint32_t n, uint32_t most) {
    pv_floats smallest[PV_PIECES];
    float least[PV_LANES];
    int32_t keys[PV_LANES];
    uint32_t order[PV_LANES];
    if (most > PV_LANES)
        return OUT_SQUARE;
    for (int p = 0; p < PV_PIECES; p++)
        smallest[p] = (pv_floats){0} + INFINITY;
    for (uint32_t base = 0; base < n; base += PV_LANES) {
        for (int p = 0; p < PV_PIECES; p++) {
            const pv_floats square = pv_load(state->square + base + (uint32_t)p * PV_WIDTH);
            smallest[p] = pv_choose(square < smallest[p], square, smallest[p]);
        }
    }
    memcpy(least, smallest, sizeof least);
    memcpy(keys, smallest, sizeof keys);
    pv_rank_keys(keys, PV_LANES, order);
    return least[order[most - 1]];
}

// Returns which of the 64 from `base` on are within the bound, as bits.
PV_INLINE uint64_t which_keep(const tag_state* state, uint32_t base, float bound) {
    typedef int8_t bytes __attribute__((vector_size(PV_WIDTH)));
    uint8_t keeps[64];
    uint64_t found = 0;
    for (uint32_t i = 0; i < 64; i += PV_WIDTH) {
        const bytes narrow =
            __builtin_convertvector((pv_ints)(pv_load(state->square + base + i) <= bound), bytes);
        memcpy(keeps + i, &narrow, sizeof narrow);
    }
    for (uint32_t i = 0; i < 64; i += 8) {
        uint64_t eight;
        memcpy(&eight, keeps + i, sizeof eight);
        found |= pv_low_bits(eight) << i;
    }
    return found;
}

// Collects, in their order, the agents within the bound and those whose rounded distance equals
// that of one within it, with distances in place of the squares. Returns how many there are.
PV_INLINE uint32_t collect(const tag_state* state, uint32_t count, float bound) {
    uint32_t n = 0;
    bound = bound * 1.000001f + 1e-37f;
    if (!(bound < OUT_SQUARE))
        bound = OUT_SQUARE;
    for (uint32_t base = 0; base < count; base += 64) {
        for (uint64_t bits = which_keep(state, base, bound); bits; bits &= bits - 1) {
            const uint32_t i = base + (uint32_t)__builtin_ctzll(bits);
            state->index[n] = i;
            state->square[n++] = state->square[i];
        }
    }
    for (uint32_t i = 0; i < n; i += PV_LANES) {
        float root[PV_LANES];
        for (uint32_t l = 0; l < PV_LANES; l++)
            root[l] = sqrtf(state->square[i + l]);
        memcpy(state->square + i, root, sizeof root);
    }
    return n;
}

// Sorts by insertion, for any K and n: distance and id form one number with the order of both.
// Writes the ids to state->index. Returns how many there are.
static uint32_t sort_nearest(const tag_state* state, uint32_t n, uint32_t most) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t key =
            (uint64_t)(uint32_t)pv_bits_of(state->square[i]) << 32 | state->index[i];
        if (found == most && key > state->near[found - 1])
            continue;
        uint32_t at = found < most ? found++ : found - 1;
        for (; at > 0 && state->near[at - 1] > key; at--)
            state->near[at] = state->near[at - 1];
        state->near[at] = key;
    }
    for (uint32_t r = 0; r < found; r++)
        state->index[r] = (uint32_t)state->near[r];
    return found;
}

// Ranks n up to PV_RANKED by counting; see sort_nearest. by_id: they are in order of id, so that
// ties need no further work.
PV_INLINE uint32_t
rank_nearest(const tag_state* state, uint32_t n, uint32_t most, int by_id, uint32_t* ids) {
    int32_t keys[PV_RANKED];
    uint32_t order[PV_RANKED];
    for (uint32_t i = 0; i < n; i += PV_LANES)
        memcpy(keys + i, state->square + i, PV_LANES * sizeof(float));
    for (uint32_t i = n; i % PV_LANES; i++)
        keys[i] = PV_FAR_BITS;
    pv_rank_keys(keys, n, order);
    const uint32_t found = n < most ? n : most;
    int ties = 0;
    for (uint32_t r = 0; r < found; r++) {
        ids[r] = state->index[order[r]];
        ties |= !by_id && r + 1 < n && keys[order[r]] == keys[order[r + 1]];
    }
    if (PV_UNLIKELY(ties))
        memcpy(ids, state->index, sort_nearest(state, n, most) * sizeof(uint32_t));
    return found;
}

// Writes the row of `self`, whose nearest are among the n collected. Returns the bound to try in
// the next step.
PV_INLINE float write_nearest(const tag_state* state,
                              const tag_view* view,
                              uint32_t self,
                              uint32_t most,
                              uint32_t n,
                              int by_id) {
    uint32_t ranked[PV_RANKED], found;
    const uint32_t* ids = ranked;
    if (PV_UNLIKELY(n > PV_RANKED) && by_id && most <= PV_RANKED)
        n = pv_narrow(state->square, n, state->index, most);
    if (PV_LIKELY(n <= PV_RANKED))
        found = rank_nearest(state, n, most, by_id, ranked);
    else
        found = sort_nearest(state, n, most), ids = state->index;
    write_row(state, view, self, most, found, ids, 0);
    const uint32_t last = found ? ids[found - 1] : self;
    const float dx = state->px[last] - state->px[self], dy = state->py[last] - state->py[self];
    return MARGIN * (dx * dx + dy * dy);
}

PV_INLINE void observe_many(const tag_state* state,
                            const tag_view* view,
                            uint32_t agents,
                            uint32_t self,
                            uint32_t most,
                            uint32_t wanted,
                            float* guess) {
    const float x = state->px[self], y = state->py[self];
    state->px[self] = FAR;
    const uint32_t kept = measure(state, state->px, state->py, agents, x, y, *guess);
    state->px[self] = x;
    const uint32_t n =
        collect(state, agents, kept >= wanted ? *guess : bound_of(state, agents, most));
    *guess = write_nearest(state, view, self, most, n, 1);
}

// ---- a crowd: a grid of cells ----

// side x side cells over the square. The agents in the game are sorted by cell, and by id in each:
// those of cell c begin at state->start[c].
typedef struct tag_cells {
    uint32_t side;
    float per_length; // cells per unit
} tag_cells;

PV_INLINE uint32_t cell_of(const tag_cells* cells, float at) {
    const uint32_t cell = (uint32_t)(at * cells->per_length);
    return cell < cells->side ? cell : cells->side - 1;
}

// Chooses cells such that the K nearest are mostly within the adjacent ones: about 2 K / 3 agents
// in each.
static tag_cells open_cells(const tag_state* state,
                            const tag_view* view,
                            uint32_t agents,
                            uint32_t in_game,
                            uint32_t most,
                            float length) {
    const uint32_t side =
        (uint32_t)sqrtf(1.5f * (float)in_game / (float)(most > 1 ? most : 2)); // at most N
    const tag_cells cells = {side ? side : 1, (float)(side ? side : 1) / length};
    uint32_t* start = state->start;
    memset(start, 0, (cells.side * cells.side + 2) * sizeof *start);
    for (uint32_t i = 0; i < agents; i++) {
        if (view->seen[i] == 0.0f)
            continue;
        state->place[i] =
            cell_of(&cells, state->py[i]) * cells.side + cell_of(&cells, state->px[i]);
        start[state->place[i] + 2]++;
    }
    for (uint32_t c = 2; c < cells.side * cells.side + 2; c++)
        start[c] += start[c - 1];
    for (uint32_t i = 0; i < agents; i++) { // start[c + 1] goes from the start of cell c to its end
        if (view->seen[i] == 0.0f)
            continue;
        const uint32_t to = start[state->place[i] + 1]++;
        state->sorted_x[to] = state->px[i];
        state->sorted_y[to] = state->py[i];
        state->sorted_id[to] = i;
        state->place[i] = to;
    }
    return cells;
}

// Gathers the agents in the cells up to `reach` around that of `self`, with `self` far away.
// *whole: these are all cells.
PV_INLINE uint32_t
gather(const tag_state* state, const tag_cells* cells, uint32_t self, uint32_t reach, int* whole) {
    const uint32_t column = cell_of(cells, state->px[self]), row = cell_of(cells, state->py[self]),
                   last = cells->side - 1;
    const uint32_t left = column > reach ? column - reach : 0,
                   right = last - column > reach ? column + reach : last;
    const uint32_t low = row > reach ? row - reach : 0,
                   high = last - row > reach ? row + reach : last;
    uint32_t n = 0;
    for (uint32_t r = low; r <= high; r++) {
        const uint32_t first = state->start[r * cells->side + left],
                       end = state->start[r * cells->side + right + 1];
        memcpy(state->near_x + n, state->sorted_x + first, (end - first) * sizeof(float));
        memcpy(state->near_y + n, state->sorted_y + first, (end - first) * sizeof(float));
        memcpy(state->near_id + n, state->sorted_id + first, (end - first) * sizeof(uint32_t));
        if (r == row)
            state->near_x[n + state->place[self] - first] = FAR;
        n += end - first;
    }
    for (uint32_t i = n; i < n + PV_LANES; i++)
        state->near_x[i] = state->near_y[i] = FAR;
    *whole = left == 0 && low == 0 && right == last && high == last;
    return n;
}

PV_INLINE void observe_crowd(const tag_state* state,
                             const tag_view* view,
                             const tag_cells* cells,
                             uint32_t self,
                             uint32_t most,
                             uint32_t wanted,
                             float* guess) {
    for (uint32_t reach = 1;; reach++) {
        int whole;
        uint32_t n = gather(state, cells, self, reach, &whole);
        const uint32_t kept = measure(state, state->near_x, state->near_y, n, state->px[self],
                                      state->py[self], *guess);
        const float bound = kept >= wanted ? *guess : bound_of(state, n, most),
                    covered = 0.999f * (float)reach / cells->per_length; // slack: rounded cells
        if (!whole && bound > covered * covered)
            continue;
        n = collect(state, n, bound);
        for (uint32_t i = 0; i < n; i++)
            state->index[i] = state->near_id[state->index[i]];
        *guess = write_nearest(state, view, self, most, n, 0);
        return;
    }
}

// ---- all ----

PV_CLONES static void observe_env(const tag_state* state,
                                  const tag_view* view,
                                  uint32_t agents,
                                  uint32_t most,
                                  uint32_t in_game,
                                  float length,
                                  float* guess) {
    const uint32_t wanted = in_game - 1 < most ? in_game - 1 : most;
    const int crowd = agents >= CROWD && most <= PV_LANES;
    tag_cells cells = {0};
    if (crowd)
        cells = open_cells(state, view, agents, in_game, most, length);
    for (uint32_t self = 0; self < agents; self++) {
        if (view->seen[self] == 0.0f)
            write_empty_row(view, self, most);
        else if (agents <= SOME)
            observe_some(state, view, agents, self, most, in_game);
        else if (crowd)
            observe_crowd(state, view, &cells, self, most, wanted, guess + self);
        else
            observe_many(state, view, agents, self, most, wanted, guess + self);
    }
}

PV_CLONES void tag_observe_nearest(const pv_block* block,
                                   const tag_state* state,
                                   uint32_t first,
                                   uint32_t count) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config), most = tag_others(config);
    for (uint32_t env = first; env < first + count; env++) {
        const tag_view view = tag_view_of(block, state, first, env);
        const uint32_t in_game = open_env(state, &view, (uint64_t)env * agents, agents);
        if (agents <= FEW)
            observe_few(state, &view, agents, most, in_game);
        else
            observe_env(state, &view, agents, most, in_game, config->grid_length,
                        state->guess + (uint64_t)env * agents);
    }
}

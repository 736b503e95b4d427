// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Ranking by counting, for nearest-neighbour searches: the k smallest of up to PV_RANKED squared
// distances, sorted, ties to the smaller index. The rank of an entry is the number of entries
// before it. That takes n^2 comparisons, but no branches, and 16 comparisons run in parallel, which
// for n < 64 is faster than sorting. Larger sets are narrowed first, by bisection on the distance.
#pragma once

#include "kernels.h"

#include <string.h>

#define PV_RANKED 64           // most entries that are ranked
#define PV_FAR_BITS 0x7F800000 // +infinity as bits: beyond the range

// Returns the bits of a float >= 0, which have its order.
PV_INLINE int32_t pv_bits_of(float v) {
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

// Returns the lowest bits of eight bytes as one byte, in which bit i is that of byte i. The factor
// moves each to its place among the upper eight bits; no two meet below, so nothing is carried:
//
//   bits & 0x0101010101010101    0000000h ... 0000000c 0000000b 0000000a
//   the top byte of the product  hgfedcba
PV_INLINE uint64_t pv_low_bits(uint64_t bytes) {
    return (bytes & 0x0101010101010101u) * 0x0102040810204080u >> 56;
}

// pv_later[i][lane] is 1 for the lanes behind lane i.
static const int32_t pv_later[PV_LANES][PV_LANES] = {
    {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
};

// Ranks the keys from j on, `pieces` vectors of them: see pv_rank_keys.
PV_INLINE void pv_rank_pieces(
    const int32_t* keys, uint32_t n, uint32_t j, int pieces, uint32_t* order) {
    pv_ints key[PV_PIECES], or_equal[PV_PIECES], rank[PV_PIECES];
    int32_t ranks[PV_LANES];
    const uint32_t lanes = (uint32_t)pieces * PV_WIDTH;
    memcpy(key, keys + j, sizeof key);
    for (int p = 0; p < pieces; p++)
        rank[p] = (pv_ints){0};
    for (int p = 0; p < pieces; p++)
        or_equal[p] = key[p] + 1;
    for (uint32_t i = 0; i < j; i++) {
        for (int p = 0; p < pieces; p++)
            rank[p] -= keys[i] < or_equal[p];
    }
    for (uint32_t i = 0; i < lanes; i++) {
        pv_ints behind[PV_PIECES];
        memcpy(behind, pv_later[i], sizeof behind);
        for (int p = 0; p < pieces; p++)
            rank[p] -= keys[j + i] < key[p] + behind[p];
    }
    for (uint32_t i = j + lanes; i < n; i++) {
        for (int p = 0; p < pieces; p++)
            rank[p] -= keys[i] < key[p];
    }
    memcpy(ranks, rank, lanes * sizeof ranks[0]);
    for (uint32_t i = 0; i < lanes; i++)
        order[ranks[i]] = j + i;
}

// Sets order[r] to the position of the r-th smallest of n keys (at most PV_RANKED), equal ones by
// position: an entry before key j precedes it if it is less than key_j + 1, an entry behind it if
// it is less than key_j. Up to a multiple of 16, `keys` must hold PV_FAR_BITS behind the last key,
// and `order` must have room.
PV_INLINE void pv_rank_keys(const int32_t* keys, uint32_t n, uint32_t* order) {
    uint32_t j = 0;
    for (; j + PV_WIDTH < n; j += PV_LANES)
        pv_rank_pieces(keys, n, j, PV_PIECES, order);
    if (j < n)
        pv_rank_pieces(keys, n, j, 1, order);
}

// Returns how many of the n values have bits of at most `limit`.
PV_INLINE uint32_t pv_count_within(const float* square, uint32_t n, int32_t limit) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += (uint32_t)(pv_bits_of(square[i]) <= limit);
    return count;
}

// Keeps at most PV_RANKED of n entries, in order of index, among them the k nearest (k <=
// PV_RANKED), by bisection for a distance within which at least k of them lie. Returns how many are
// left.
PV_INLINE uint32_t pv_narrow(float* square, uint32_t n, uint32_t* index, uint32_t k) {
    int32_t low = -1, high = PV_FAR_BITS - 1; // pv_count_within(low) < k
    uint32_t kept = n;
    while (kept > PV_RANKED && high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        uint32_t count = pv_count_within(square, n, middle);
        if (count >= k)
            high = middle, kept = count;
        else
            low = middle;
    }
    // If more than PV_RANKED remain, all but k - 1 of them are equal, and the first in order of
    // index are kept.
    uint32_t room = kept > PV_RANKED ? k - pv_count_within(square, n, high - 1) : n;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        int32_t bits = pv_bits_of(square[i]);
        if (bits > high || (bits == high && !room))
            continue;
        room -= (uint32_t)(bits == high);
        square[count] = square[i];
        index[count++] = index[i];
    }
    return count;
}

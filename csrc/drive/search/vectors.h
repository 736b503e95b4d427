// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What roads.c and partners.c share: going through the places of a vector that are set, and entries
// of an observation that are made 8 numbers at a time. Needs the little-endian bytes that compiled
// scenes have, too.
#pragma once

#include "contract/base.h"
#include "envs/kernels.h"

#include <string.h>

#if defined(PV_HAS_CLONES)
#include <immintrin.h>
#endif

// Sixteen yes or no, a byte each of 1 or 0, as words whose set bytes are gone through from the
// lowest.
typedef struct sixteen {
    uint64_t halves[2];
} sixteen;

typedef int8_t pv_bytes __attribute__((vector_size(PV_WIDTH)));

PV_INLINE pv_ints load_ints(const int32_t* at) {
    pv_ints v;
    memcpy(&v, at, sizeof v);
    return v;
}

// Entries of `a` where the mask is -1, of `b` where it is 0.
PV_INLINE pv_ints choose_ints(pv_ints mask, pv_ints a, pv_ints b) {
    return (a & mask) | (b & ~mask);
}

// Masks of 0 or -1 as sixteen.
PV_INLINE sixteen packed(const pv_ints masks[PV_PIECES]) {
    sixteen all;
    for (int p = 0; p < PV_PIECES; p++) {
        pv_bytes bytes = __builtin_convertvector(masks[p] & 1, pv_bytes);
        memcpy((uint8_t*)&all + p * PV_WIDTH, &bytes, sizeof bytes);
    }
    return all;
}

// for (each place that is set): i is its number.
#define EACH_SET(all, i) \
    for (uint32_t half_ = 0; half_ < 2; half_++) \
        for (uint64_t rest_ = (all).halves[half_], i = 0; \
             rest_ && (i = 8 * half_ + (uint32_t)__builtin_ctzll(rest_) / 8, 1); \
             rest_ &= rest_ - 1)

// The places of the set bits of a number of 8 bits, a byte each, from the lowest: what follows them
// is 0.
#define PLACE_BIT(m, b) ((uint64_t)((m) >> (b) & 1))
#define PLACE_BELOW(m, b) PLACE_COUNT((m) & ((1 << (b)) - 1))
#define PLACE_COUNT(m) \
    (PLACE_BIT(m, 0) + PLACE_BIT(m, 1) + PLACE_BIT(m, 2) + PLACE_BIT(m, 3) + PLACE_BIT(m, 4) + \
     PLACE_BIT(m, 5) + PLACE_BIT(m, 6))
#define PLACE(m, b) (PLACE_BIT(m, b) * (b) << 8 * PLACE_BELOW(m, b))
#define PLACES(m) \
    PLACE(m, 1) | PLACE(m, 2) | PLACE(m, 3) | PLACE(m, 4) | PLACE(m, 5) | PLACE(m, 6) | PLACE(m, 7)
#define PLACES_4(m) PLACES(m), PLACES((m) + 1), PLACES((m) + 2), PLACES((m) + 3)
#define PLACES_16(m) PLACES_4(m), PLACES_4((m) + 4), PLACES_4((m) + 8), PLACES_4((m) + 12)
#define PLACES_64(m) PLACES_16(m), PLACES_16((m) + 16), PLACES_16((m) + 32), PLACES_16((m) + 48)
static const uint64_t places_of[256] = {PLACES_64(0), PLACES_64(64), PLACES_64(128),
                                        PLACES_64(192)};

// Appends base + place for each place that is set, and returns how many: without a branch, which
// nobody could foresee. Writes 8 numbers more than there are.
PV_INLINE uint32_t put_places(sixteen all, uint32_t base, uint32_t* to) {
    uint32_t count = 0;
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t* places =
            (const uint8_t*)&places_of[all.halves[half] * UINT64_C(0x0102040810204080) >> 56];
        PV_APART
        for (uint32_t i = 0; i < 8; i++)
            to[count + i] = base + 8 * half + places[i];
        count += (uint32_t)(all.halves[half] * UINT64_C(0x0101010101010101) >> 56);
    }
    return count;
}

// Which of 16 keys are in (low, high].
PV_INLINE sixteen keys_within(const int32_t* keys, int32_t low, int32_t high) {
    pv_ints masks[PV_PIECES];
    for (int p = 0; p < PV_PIECES; p++) {
        pv_ints key = load_ints(keys + p * PV_WIDTH);
        masks[p] = (key > low) & (key <= high);
    }
    return packed(masks);
}

// ... are at most `limit`.
PV_INLINE sixteen keys_up_to(const int32_t* keys, int32_t limit) {
    pv_ints masks[PV_PIECES];
    for (int p = 0; p < PV_PIECES; p++)
        masks[p] = load_ints(keys + p * PV_WIDTH) <= limit;
    return packed(masks);
}

// AVX-512 has an instruction for listing the set places of a vector, and C has no word for it.
#if defined(PV_HAS_CLONES)
#define VECTOR_BYTES (4 * PV_LANES)

__attribute__((target("arch=x86-64-v4"))) static inline uint32_t list_wide(
    const uint8_t* keys, const uint32_t* vectors, uint32_t count, int32_t limit, uint32_t* to) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                  most = _mm512_set1_epi32(limit);
    uint32_t listed = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t vector = vectors ? vectors[i] : i;
        const __mmask16 set = _mm512_cmple_epi32_mask(
            _mm512_loadu_si512(keys + (uint64_t)vector * VECTOR_BYTES), most);
        const __m512i places =
            _mm512_add_epi32(lanes, _mm512_set1_epi32((int32_t)(vector * PV_LANES)));
        _mm512_storeu_si512(to + listed, _mm512_maskz_compress_epi32(set, places));
        listed += (uint32_t)__builtin_popcount(set);
    }
    return listed;
}
#endif

// Lists where the keys up to `limit` are, which may be numbers from 0 whose bits the limit has: of
// the vectors of 16 with the numbers given, or of the first `count` ones. Returns how many. Writes
// up to 16 numbers more.
PV_INLINE uint32_t
list_up_to(const void* keys, const uint32_t* vectors, uint32_t count, int32_t limit, uint32_t* to) {
#if defined(PV_HAS_CLONES)
    if (__builtin_cpu_supports("x86-64-v4"))
        return list_wide(keys, vectors, count, limit, to);
#endif
    uint32_t listed = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t base = (vectors ? vectors[i] : i) * PV_LANES;
        int32_t all[PV_LANES];
        memcpy(all, (const uint8_t*)keys + 4 * (uint64_t)base, sizeof all);
        listed += put_places(keys_up_to(all, limit), base, to + listed);
    }
    return listed;
}

#if defined(PV_HAS_CLONES)
__attribute__((target("arch=x86-64-v4"))) static inline uint32_t keep_wide(float* square,
                                                                           uint32_t count,
                                                                           int32_t limit,
                                                                           uint32_t* index) {
    const __m512i most = _mm512_set1_epi32(limit), step = _mm512_set1_epi32(PV_LANES);
    __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const __m512i keys = _mm512_loadu_si512(square + i * PV_LANES);
        const __mmask16 set = _mm512_cmple_epi32_mask(keys, most);
        _mm512_storeu_si512(square + kept,
                            _mm512_maskz_compress_epi32(set, keys)); // at most where it was read
        _mm512_storeu_si512(index + kept, _mm512_maskz_compress_epi32(set, places));
        places = _mm512_add_epi32(places, step);
        kept += (uint32_t)__builtin_popcount(set);
    }
    return kept;
}
#endif

// Leaves of so many vectors of 16 squared distances those whose bits are up to the limit, and lists
// where they were. Returns how many.
PV_INLINE uint32_t keep_up_to(float* square, uint32_t count, int32_t limit, uint32_t* index) {
#if defined(PV_HAS_CLONES)
    if (__builtin_cpu_supports("x86-64-v4"))
        return keep_wide(square, count, limit, index);
#endif
    const uint32_t kept = list_up_to(square, NULL, count, limit, index);
    for (uint32_t i = 0; i < kept; i++)
        square[i] = square[index[i]];
    return kept;
}

#define EIGHT 8
typedef float numbers __attribute__((vector_size(4 * EIGHT)));
typedef int32_t integers __attribute__((vector_size(4 * EIGHT)));

// Numbers of a (places 0 to 7) and b (8 to 15), chosen by place.
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLED(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t pv_places __attribute__((vector_size(32)));
#define SHUFFLED(a, b, ...) __builtin_shuffle(a, b, (pv_places){__VA_ARGS__})
#endif

PV_INLINE numbers swapped(numbers v) {
    return SHUFFLED(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
}

// Turns 4 columns of 8 numbers into the first 4 numbers of 8 rows.
PV_INLINE void transpose_half(const float (*v)[EIGHT], float (*rows)[EIGHT]) {
    numbers column[4], pair[4], row[4];
    memcpy(column, v, sizeof column);
    pair[0] = SHUFFLED(column[0], column[1], 0, 8, 1, 9, 4, 12, 5, 13);
    pair[1] = SHUFFLED(column[2], column[3], 0, 8, 1, 9, 4, 12, 5, 13);
    pair[2] = SHUFFLED(column[0], column[1], 2, 10, 3, 11, 6, 14, 7, 15);
    pair[3] = SHUFFLED(column[2], column[3], 2, 10, 3, 11, 6, 14, 7, 15);
    row[0] = SHUFFLED(pair[0], pair[1], 0, 1, 8, 9, 4, 5, 12, 13);
    row[1] = SHUFFLED(pair[0], pair[1], 2, 3, 10, 11, 6, 7, 14, 15);
    row[2] = SHUFFLED(pair[2], pair[3], 0, 1, 8, 9, 4, 5, 12, 13);
    row[3] = SHUFFLED(pair[2], pair[3], 2, 3, 10, 11, 6, 7, 14, 15);
    for (int i = 0; i < 4; i++) {
        memcpy(rows[i], &row[i], 4 * sizeof(float));
        memcpy(rows[i + 4], (const float*)&row[i] + 4, 4 * sizeof(float));
    }
}

// How 8 numbers in the scene's frame become an entry: (row - origin) * straight + swapped(row -
// origin) * crossed. A pair (x, y) is turned into the car's frame with straight = (cos, cos) and
// crossed = (sin, -sin).
typedef struct turned {
    numbers origin, straight, crossed;
} turned;

PV_INLINE numbers entry_of(const turned* how, const float* row) {
    numbers v;
    memcpy(&v, row, sizeof v);
    v -= how->origin;
    return v * how->straight + swapped(v) * how->crossed;
}

// The row of entry i.
PV_INLINE const float* row_of(const float* rows,
                              const uint32_t* places,
                              const uint32_t* index,
                              uint32_t i) {
    return rows + 8 * (uint64_t)(index ? index[places[i]] : places[i]);
}

#if defined(PV_HAS_CLONES)
#define WIDE_COLUMNS 7
// Where number p of the j-th of 7 vectors stands among the entries of 16, two a vector, from the
// pair FIRST_PAIR(j) on.
#define FIRST_PAIR(j) (PV_LANES * (j) / WIDE_COLUMNS / 2)
#define SPOT(j, p) \
    ((PV_LANES * (j) + (p)) / WIDE_COLUMNS * 8 + (PV_LANES * (j) + (p)) % WIDE_COLUMNS - \
     PV_LANES * FIRST_PAIR(j))
#define SPOTS_4(j, p) SPOT(j, p), SPOT(j, (p) + 1), SPOT(j, (p) + 2), SPOT(j, (p) + 3)
#define SPOTS(j) {SPOTS_4(j, 0), SPOTS_4(j, 4), SPOTS_4(j, 8), SPOTS_4(j, 12)}
static const int32_t spots[WIDE_COLUMNS][PV_LANES] = {SPOTS(0), SPOTS(1), SPOTS(2), SPOTS(3),
                                                      SPOTS(4), SPOTS(5), SPOTS(6)};

// Entries of 7 numbers, 16 at a time: two are computed in a vector, and no two stores overlap.
// Returns how many are written.
__attribute__((target("arch=x86-64-v4"))) static inline uint32_t put_wide(const turned* how,
                                                                          const float* rows,
                                                                          const uint32_t* places,
                                                                          const uint32_t* index,
                                                                          uint32_t count,
                                                                          float* out) {
    const __m512 origin = (__m512)_mm512_broadcast_f64x4((__m256d)how->origin);
    const __m512 straight = (__m512)_mm512_broadcast_f64x4((__m256d)how->straight);
    const __m512 crossed = (__m512)_mm512_broadcast_f64x4((__m256d)how->crossed);
    uint32_t i = 0;
    for (; i + PV_LANES <= count; i += PV_LANES) {
        __m512 pair[PV_LANES / 2];
#pragma GCC unroll 8
        for (uint32_t n = 0; n < PV_LANES / 2; n++) {
            const __m256d a = (__m256d)_mm256_loadu_ps(row_of(rows, places, index, i + 2 * n));
            const __m256d b = (__m256d)_mm256_loadu_ps(row_of(rows, places, index, i + 2 * n + 1));
            const __m512 v =
                _mm512_sub_ps((__m512)_mm512_insertf64x4(_mm512_castpd256_pd512(a), b, 1), origin);
            pair[n] = _mm512_add_ps(_mm512_mul_ps(v, straight),
                                    _mm512_mul_ps(_mm512_permute_ps(v, 0xB1), crossed));
        }
#pragma GCC unroll 8
        for (uint32_t j = 0; j < WIDE_COLUMNS; j++) {
            const __m512 joined = _mm512_permutex2var_ps(
                pair[FIRST_PAIR(j)], _mm512_loadu_si512(spots[j]), pair[FIRST_PAIR(j) + 1]);
            _mm512_storeu_ps(out + i * WIDE_COLUMNS + PV_LANES * j, joined);
        }
    }
    return i;
}
#endif

// Writes `columns` of the 8 numbers of `count` entries, where there is room for `most`. Their rows
// stand at `places`, or where `index` says for these.
PV_INLINE void put_entries(const turned* how,
                           const float* rows,
                           const uint32_t* places,
                           const uint32_t* index,
                           uint32_t count,
                           uint32_t most,
                           uint32_t columns,
                           float* out) {
    const uint32_t spilling =
        count < most ? count : most - 1; // nothing behind the last one is ours
    uint32_t done = 0;
#if defined(PV_HAS_CLONES)
    if (columns == WIDE_COLUMNS && __builtin_cpu_supports("x86-64-v4"))
        done = put_wide(how, rows, places, index, spilling, out);
#endif
#pragma GCC unroll 4
    for (uint32_t i = done; i < spilling; i++) {
        const numbers v = entry_of(how, row_of(rows, places, index, i));
        memcpy(out + i * columns, &v, sizeof v);
    }
    for (uint32_t i = spilling; i < count; i++) {
        const numbers v = entry_of(how, row_of(rows, places, index, i));
        float all[8];
        memcpy(all, &v, sizeof all);
        memcpy(out + i * columns, all, columns * sizeof(float));
    }
}

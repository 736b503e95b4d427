// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Operations of the searches that compilers do not vectorize by themselves. vectors_plain.h has
// each of them as a plain loop; tests/c/test_drive_vectors.py compares the two.
//
// Three steps lead from keys (squared distances as bits, which have the same order) to entries of
// an observation:
//
//     keys       7  3  9  3 | 5  1 ...      16 to a vector
//                up to 4?
//     flags      .  x  .  x | .  x ...      a byte of 0 or 1 each: flags16
//     places     1  3  5                    list_up_to, keep_up_to, append_places
//
//     rows       x y . . . . . .            8 floats in the scene's frame, one row per place
//     entries    x'y'. . . . .              write_row_entries: in the car's frame, without the last
//                                           floats, and without gaps between them
//
// Needs little-endian bytes, as compiled scenes do.
#pragma once

#include "contract/base.h"
#include "envs/kernels.h"
#include "envs/transpose.h"

#include <string.h>

#if defined(PV_HAS_CLONES)
#include <immintrin.h>
#define FOR_AVX512 __attribute__((target("arch=x86-64-v4"))) static inline
#endif

// ---- flags ----

// Sixteen flags, a byte of 1 or 0 each, the first one in the lowest byte of halves[0].
typedef struct flags16 {
    uint64_t halves[2];
} flags16;

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

// Returns masks of 0 or -1 as flags.
PV_INLINE flags16 flags_of(const pv_ints masks[PV_PIECES]) {
    flags16 flags;
    for (int p = 0; p < PV_PIECES; p++) {
        pv_bytes bytes = __builtin_convertvector(masks[p] & 1, pv_bytes);
        memcpy((uint8_t*)&flags + p * PV_WIDTH, &bytes, sizeof bytes);
    }
    return flags;
}

// Runs the statement that follows for each flag that is set; i is its number. Clearing the lowest
// set bit of a word (rest & (rest - 1)) leads to the next flag.
#define FOR_EACH_FLAG(flags, i) \
    for (uint32_t half_ = 0; half_ < 2; half_++) \
        for (uint64_t rest_ = (flags).halves[half_], i = 0; \
             rest_ && (i = 8 * half_ + (uint32_t)__builtin_ctzll(rest_) / 8, 1); \
             rest_ &= rest_ - 1)

// Returns which of 16 keys are in (low, high].
PV_INLINE flags16 flags_within(const int32_t* keys, int32_t low, int32_t high) {
    pv_ints masks[PV_PIECES];
    for (int p = 0; p < PV_PIECES; p++) {
        pv_ints key = load_ints(keys + p * PV_WIDTH);
        masks[p] = (key > low) & (key <= high);
    }
    return flags_of(masks);
}

// Returns which of 16 keys are at most `limit`.
PV_INLINE flags16 flags_up_to(const int32_t* keys, int32_t limit) {
    pv_ints masks[PV_PIECES];
    for (int p = 0; p < PV_PIECES; p++)
        masks[p] = load_ints(keys + p * PV_WIDTH) <= limit;
    return flags_of(masks);
}

// ---- places ----

// set_bits_of[m] lists which bits of the 8-bit number m are set, a byte each from the lowest byte
// on; zeros follow. For example m = 0b10010010 has bits 1, 4 and 7: 0x0000000000070401.
#define BIT(m, b) ((uint64_t)((m) >> (b) & 1))
#define BIT_COUNT(m) \
    (BIT(m, 0) + BIT(m, 1) + BIT(m, 2) + BIT(m, 3) + BIT(m, 4) + BIT(m, 5) + BIT(m, 6))
#define BITS_BELOW(m, b) BIT_COUNT((m) & ((1 << (b)) - 1))
#define BIT_BYTE(m, b) (BIT(m, b) * (b) << 8 * BITS_BELOW(m, b))
#define SET_BITS(m) \
    BIT_BYTE(m, 1) | BIT_BYTE(m, 2) | BIT_BYTE(m, 3) | BIT_BYTE(m, 4) | BIT_BYTE(m, 5) | \
        BIT_BYTE(m, 6) | BIT_BYTE(m, 7)
#define SET_BITS_4(m) SET_BITS(m), SET_BITS((m) + 1), SET_BITS((m) + 2), SET_BITS((m) + 3)
#define SET_BITS_16(m) SET_BITS_4(m), SET_BITS_4((m) + 4), SET_BITS_4((m) + 8), SET_BITS_4((m) + 12)
#define SET_BITS_64(m) \
    SET_BITS_16(m), SET_BITS_16((m) + 16), SET_BITS_16((m) + 32), SET_BITS_16((m) + 48)
static const uint64_t set_bits_of[256] = {SET_BITS_64(0), SET_BITS_64(64), SET_BITS_64(128),
                                          SET_BITS_64(192)};

// Multiplying a word of eight flags by these gathers them as 8 bits in its highest byte, or adds
// them up there.
#define GATHER_FLAGS UINT64_C(0x0102040810204080)
#define ADD_FLAGS UINT64_C(0x0101010101010101)

// Appends base + i for each flag i that is set, and returns how many there are. Writes 8 numbers
// beyond them: it always copies 8 per half, since a branch on the flags could not be predicted.
PV_INLINE uint32_t append_places(flags16 flags, uint32_t base, uint32_t* to) {
    uint32_t count = 0;
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t* bits = (const uint8_t*)&set_bits_of[flags.halves[half] * GATHER_FLAGS >> 56];
        PV_APART
        for (uint32_t i = 0; i < 8; i++)
            to[count + i] = base + 8 * half + bits[i];
        count += (uint32_t)(flags.halves[half] * ADD_FLAGS >> 56);
    }
    return count;
}

#if defined(PV_HAS_CLONES)
#define VECTOR_BYTES (4 * PV_LANES)

// list_up_to with AVX-512, which has an instruction that compresses a vector to its flagged
// numbers.
FOR_AVX512 uint32_t list_up_to_avx512(
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

// keep_up_to with AVX-512.
FOR_AVX512 uint32_t keep_up_to_avx512(float* square,
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

// Writes the indices of all keys up to `limit` to `to` and returns how many there are. Looks at
// `count` vectors of 16 keys: those with the numbers in `vectors`, or the first ones if that is
// NULL. Writes up to 16 numbers beyond them.
PV_INLINE uint32_t
list_up_to(const void* keys, const uint32_t* vectors, uint32_t count, int32_t limit, uint32_t* to) {
#if defined(PV_HAS_CLONES)
    if (PV_HAS_AVX512())
        return list_up_to_avx512(keys, vectors, count, limit, to);
#endif
    uint32_t listed = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t base = (vectors ? vectors[i] : i) * PV_LANES;
        int32_t all[PV_LANES];
        memcpy(all, (const uint8_t*)keys + 4 * (uint64_t)base, sizeof all);
        listed += append_places(flags_up_to(all, limit), base, to + listed);
    }
    return listed;
}

// Moves the squared distances whose bits are up to `limit` to the front of `square`, which has
// `count` vectors of 16, and writes where they were to `index`. Returns how many there are.
PV_INLINE uint32_t keep_up_to(float* square, uint32_t count, int32_t limit, uint32_t* index) {
#if defined(PV_HAS_CLONES)
    if (PV_HAS_AVX512())
        return keep_up_to_avx512(square, count, limit, index);
#endif
    const uint32_t kept = list_up_to(square, NULL, count, limit, index);
    for (uint32_t i = 0; i < kept; i++)
        square[i] = square[index[i]];
    return kept;
}

// ---- rows of 8 floats ----

PV_INLINE pv_eight swap_pairs(pv_eight v) {
    return PV_SHUFFLE(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
}

// Turns 4 columns of 8 floats into the first 4 floats of 8 rows:
//
//     a0 a1 .. a7          a0 b0 c0 d0
//     b0 b1 .. b7    -->   a1 b1 c1 d1
//     c0 c1 .. c7          ...
//     d0 d1 .. d7          a7 b7 c7 d7
PV_INLINE void transpose_half(const float (*v)[PV_EIGHT], float (*rows)[PV_EIGHT]) {
    pv_eight column[4], pair[4], row[4]; // row[i] holds rows i and i + 4
    memcpy(column, v, sizeof column);
    pair[0] = PV_SHUFFLE(column[0], column[1], 0, 8, 1, 9, 4, 12, 5, 13);
    pair[1] = PV_SHUFFLE(column[2], column[3], 0, 8, 1, 9, 4, 12, 5, 13);
    pair[2] = PV_SHUFFLE(column[0], column[1], 2, 10, 3, 11, 6, 14, 7, 15);
    pair[3] = PV_SHUFFLE(column[2], column[3], 2, 10, 3, 11, 6, 14, 7, 15);
    row[0] = PV_SHUFFLE(pair[0], pair[1], 0, 1, 8, 9, 4, 5, 12, 13);
    row[1] = PV_SHUFFLE(pair[0], pair[1], 2, 3, 10, 11, 6, 7, 14, 15);
    row[2] = PV_SHUFFLE(pair[2], pair[3], 0, 1, 8, 9, 4, 5, 12, 13);
    row[3] = PV_SHUFFLE(pair[2], pair[3], 2, 3, 10, 11, 6, 7, 14, 15);
    for (int i = 0; i < 4; i++) {
        memcpy(rows[i], &row[i], 4 * sizeof(float));
        memcpy(rows[i + 4], (const float*)&row[i] + 4, 4 * sizeof(float));
    }
}

// ---- entries ----

// How a row in the scene's frame becomes an entry: each float is
// d * straight + swap_pairs(d) * crossed with d = row - origin. A pair (x, y) is turned into the
// car's frame with straight = (cos, cos) and crossed = (sin, -sin).
typedef struct frame_change {
    pv_eight origin, straight, crossed;
} frame_change;

PV_INLINE pv_eight entry_in_frame(const frame_change* how, const float* row) {
    pv_eight v;
    memcpy(&v, row, sizeof v);
    v -= how->origin;
    return v * how->straight + swap_pairs(v) * how->crossed;
}

// Where the rows of entries are: entry i is row places[i], or index[places[i]] if there is an
// index.
typedef struct entry_rows {
    const float* rows; // (rows, 8)
    const uint32_t* places;
    const uint32_t* index; // or NULL
} entry_rows;

PV_INLINE const float* row_at(const entry_rows* from, uint32_t i) {
    const uint32_t place = from->places[i];
    return from->rows + PV_EIGHT * (uint64_t)(from->index ? from->index[place] : place);
}

#if defined(PV_HAS_CLONES)
#define COLUMNS_7 7
// 16 entries of 7 floats are 7 vectors of 16. The entries are computed in pairs, two to a vector
// with a gap behind each; vector j takes its floats from two neighbouring pairs:
//
//     pairs      aaaaaaa.bbbbbbb.  ccccccc.ddddddd.  ...
//     vectors    aaaaaaabbbbbbbcc  cccccddddddd...
//
// Float p of vector j is float (16 j + p) of all, which belongs to column (16 j + p) % 7 of entry
// (16 j + p) / 7. PERMUTED(j, p) is its number within the pairs FIRST_PAIR(j) and the next one.
#define FIRST_PAIR(j) (PV_LANES * (j) / COLUMNS_7 / 2)
#define PERMUTED(j, p) \
    ((PV_LANES * (j) + (p)) / COLUMNS_7 * 8 + (PV_LANES * (j) + (p)) % COLUMNS_7 - \
     PV_LANES * FIRST_PAIR(j))
#define PERMUTED_4(j, p) \
    PERMUTED(j, p), PERMUTED(j, (p) + 1), PERMUTED(j, (p) + 2), PERMUTED(j, (p) + 3)
#define PERMUTED_16(j) {PERMUTED_4(j, 0), PERMUTED_4(j, 4), PERMUTED_4(j, 8), PERMUTED_4(j, 12)}
static const int32_t permutation_of[COLUMNS_7][PV_LANES] = {
    PERMUTED_16(0), PERMUTED_16(1), PERMUTED_16(2), PERMUTED_16(3),
    PERMUTED_16(4), PERMUTED_16(5), PERMUTED_16(6)};

// write_row_entries for 7 columns, 16 entries at a time, so that no two stores overlap. Returns how
// many entries are written.
FOR_AVX512 uint32_t write_row_entries_avx512(const frame_change* how,
                                             const entry_rows* from,
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
            const __m256d a = (__m256d)_mm256_loadu_ps(row_at(from, i + 2 * n));
            const __m256d b = (__m256d)_mm256_loadu_ps(row_at(from, i + 2 * n + 1));
            const __m512 v =
                _mm512_sub_ps((__m512)_mm512_insertf64x4(_mm512_castpd256_pd512(a), b, 1), origin);
            pair[n] = _mm512_add_ps(_mm512_mul_ps(v, straight),
                                    _mm512_mul_ps(_mm512_permute_ps(v, 0xB1), crossed));
        }
#pragma GCC unroll 8
        for (uint32_t j = 0; j < COLUMNS_7; j++) {
            const __m512 joined =
                _mm512_permutex2var_ps(pair[FIRST_PAIR(j)], _mm512_loadu_si512(permutation_of[j]),
                                       pair[FIRST_PAIR(j) + 1]);
            _mm512_storeu_ps(out + i * COLUMNS_7 + PV_LANES * j, joined);
        }
    }
    return i;
}
#endif

// Writes the first `columns` floats of `count` entries, one behind the other, to `out`, which has
// room for `most` entries. An entry is stored as 8 floats whose last ones the next entry
// overwrites; only the last one that fits is cut before it is stored.
PV_INLINE void write_row_entries(const frame_change* how,
                                 const entry_rows* from,
                                 uint32_t count,
                                 uint32_t most,
                                 uint32_t columns,
                                 float* out) {
    const uint32_t whole = count < most ? count : most - 1; // entries that are stored as 8 floats
    uint32_t done = 0;
#if defined(PV_HAS_CLONES)
    if (columns == COLUMNS_7 && PV_HAS_AVX512())
        done = write_row_entries_avx512(how, from, whole, out);
#endif
#pragma GCC unroll 4
    for (uint32_t i = done; i < whole; i++) {
        const pv_eight v = entry_in_frame(how, row_at(from, i));
        memcpy(out + i * columns, &v, sizeof v);
    }
    for (uint32_t i = whole; i < count; i++) {
        const pv_eight v = entry_in_frame(how, row_at(from, i));
        float all[PV_EIGHT];
        memcpy(all, &v, sizeof all);
        memcpy(out + i * columns, all, columns * sizeof(float));
    }
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Compares the operations of csrc/drive/search/vectors.h with their plain forms, in every byte, on
// random numbers: vectors_main SEED ROUNDS. Prints the operation and the round of a difference and
// ends with 1.
#include "contract/rng.h"
#include "drive/search/vectors.h"
#include "drive/search/vectors_plain.h"
#include "envs/nearest.h"

#include <stdio.h>
#include <stdlib.h>

enum { VECTORS = 12, KEYS = PV_LANES * VECTORS, ROWS = 64, MOST_COLUMNS = 8 };

typedef struct numbers {
    uint64_t seed;
    uint32_t round, draw;
} numbers;

static uint32_t below(numbers* random, uint32_t limit) {
    return pv_rng_below(random->seed, random->round, 0, random->draw++, limit);
}

static float real(numbers* random) {
    return 200.0f * pv_rng_f32(random->seed, random->round, 0, random->draw++) - 100.0f;
}

static int differ(const char* name, const numbers* random) {
    fprintf(stderr, "%s differs from its plain form in round %u\n", name, random->round);
    return 1;
}

static int compare_lists(numbers* random) {
    int32_t keys[KEYS];
    uint32_t vectors[VECTORS], mine[KEYS + PV_LANES], plain[KEYS + PV_LANES], count = 0;
    const int32_t limit = (int32_t)below(random, 12) - 1;
    for (int i = 0; i < KEYS; i++)
        keys[i] = (int32_t)below(random, 10);
    for (uint32_t i = 0; i < VECTORS; i++) {
        vectors[count] = i;
        count += below(random, 2);
    }
    for (int all = 0; all < 2; all++) {
        const uint32_t* some = all ? NULL : vectors;
        const uint32_t looked = all ? VECTORS : count;
        const uint32_t n = list_up_to(keys, some, looked, limit, mine);
        if (n != plain_list_up_to(keys, some, looked, limit, plain) ||
            memcmp(mine, plain, n * sizeof mine[0]))
            return differ("list_up_to", random);
    }
    return 0;
}

static int compare_flags(numbers* random) {
    int32_t keys[PV_LANES];
    uint32_t mine[2 * PV_LANES], plain[PV_LANES], n = 0;
    const int32_t low = (int32_t)below(random, 9), high = low + (int32_t)below(random, 4);
    for (int i = 0; i < PV_LANES; i++)
        keys[i] = (int32_t)below(random, 10);
    for (uint32_t i = 0; i < PV_LANES; i++) {
        plain[n] = 100 + i;
        n += keys[i] > low && keys[i] <= high;
    }
    const flags16 flags = flags_within(keys, low, high);
    if (append_places(flags, 100, mine) != n || memcmp(mine, plain, n * sizeof mine[0]))
        return differ("append_places", random);
    uint32_t seen = 0;
    FOR_EACH_FLAG(flags, i) {
        if (seen == n || plain[seen++] != 100 + i)
            return differ("FOR_EACH_FLAG", random);
    }
    return seen == n ? 0 : differ("FOR_EACH_FLAG", random);
}

static int compare_kept(numbers* random) {
    float mine[KEYS + PV_LANES], plain[KEYS];
    uint32_t index[KEYS + PV_LANES], plain_index[KEYS];
    for (int i = 0; i < KEYS; i++)
        mine[i] = plain[i] = (float)below(random, 50);
    const float limit = (float)below(random, 50);
    const uint32_t n = keep_up_to(mine, VECTORS, pv_bits_of(limit), index);
    if (n != plain_keep_up_to(plain, VECTORS, limit, plain_index) ||
        memcmp(mine, plain, n * sizeof mine[0]) || memcmp(index, plain_index, n * sizeof index[0]))
        return differ("keep_up_to", random);
    return 0;
}

static int compare_transposed(numbers* random) {
    _Alignas(32) float columns[4][8], mine[8][8] = {{0}}, plain[8][8] = {{0}};
    for (int i = 0; i < 32; i++)
        columns[i / 8][i % 8] = real(random);
    transpose_half((const float (*)[8])columns, mine);
    plain_transpose_half((const float (*)[8])columns, plain);
    return memcmp(mine, plain, sizeof mine) ? differ("transpose_half", random) : 0;
}

static int compare_entries(numbers* random) {
    float rows[ROWS][8], change[3][8], mine[ROWS * MOST_COLUMNS + 1], plain[ROWS * MOST_COLUMNS];
    uint32_t places[ROWS], index[ROWS];
    frame_change how;
    for (int i = 0; i < ROWS * 8; i++)
        rows[i / 8][i % 8] = real(random);
    for (int i = 0; i < 24; i++)
        change[i / 8][i % 8] = real(random);
    memcpy(&how.origin, change[0], sizeof change[0]);
    memcpy(&how.straight, change[1], sizeof change[1]);
    memcpy(&how.crossed, change[2], sizeof change[2]);
    for (int i = 0; i < ROWS; i++)
        places[i] = below(random, ROWS), index[i] = below(random, ROWS);
    const uint32_t columns = 4 + below(random, 5), most = 1 + below(random, ROWS),
                   count = below(random, most + 1);
    for (int with_index = 0; with_index < 2; with_index++) {
        const entry_rows from = {rows[0], places, with_index ? index : NULL};
        mine[most * columns] = 7.0f; // behind the last entry nothing may be written
        write_row_entries(&how, &from, count, most, columns, mine);
        plain_write_row_entries(change[0], change[1], change[2], rows[0], places,
                                with_index ? index : NULL, count, columns, plain);
        if (memcmp(mine, plain, count * columns * sizeof mine[0]) || mine[most * columns] != 7.0f)
            return differ("write_row_entries", random);
    }
    return 0;
}

int main(int count, char** arguments) {
    if (count != 3)
        return 2;
    numbers random = {.seed = strtoull(arguments[1], NULL, 10)};
    const uint32_t rounds = (uint32_t)strtoul(arguments[2], NULL, 10);
    for (; random.round < rounds; random.round++) {
        random.draw = 0;
        if (compare_lists(&random) || compare_flags(&random) || compare_kept(&random) ||
            compare_transposed(&random) || compare_entries(&random))
            return 1;
    }
    return 0;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See placement.h. Systems without sched_setaffinity leave threads where they are.
#include "placement.h"

#include <string.h>

#if defined(__linux__)
#include <sched.h>

_Static_assert(sizeof(pv_cores) == sizeof(cpu_set_t), "a set of cores is glibc's");

void pv_cores_read(pv_cores* cores) {
    memset(cores, 0, sizeof *cores);
    sched_getaffinity(0, sizeof *cores, (cpu_set_t*)(void*)cores);
}

int pv_current_core(void) {
    return sched_getcpu();
}

static void move_to(const pv_cores* cores) {
    sched_setaffinity(0, sizeof *cores, (const cpu_set_t*)(const void*)cores);
}
#else
void pv_cores_read(pv_cores* cores) {
    memset(cores, 0, sizeof *cores);
}

int pv_current_core(void) {
    return -1;
}

static void move_to(const pv_cores* cores) {
    (void)cores;
}
#endif

static int is_empty(const pv_cores* cores) {
    for (int i = 0; i < PV_CORE_WORDS; i++)
        if (cores->bits[i])
            return 0;
    return 1;
}

void pv_placement_open(pv_placement* placement) {
    pv_cores_read(&placement->home);
    if (is_empty(&placement->anywhere))
        placement->anywhere = placement->home;
}

void pv_placement_move(const pv_placement* placement, uint32_t place) {
    uint32_t core = place - PV_ON_CORE;
    if (place == PV_HOME) {
        move_to(&placement->home);
    } else if (place == PV_ANYWHERE || core >= 64 * PV_CORE_WORDS) {
        move_to(&placement->anywhere);
    } else {
        pv_cores one = {{0}};
        one.bits[core / 64] = (uint64_t)1 << core % 64;
        move_to(&one);
    }
}

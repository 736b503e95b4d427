// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Waiting and waking; the protocol is in channel.h. Runs in learner and workers; owns no memory.
#include "channel.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#if defined(__linux__) && !defined(PV_NO_FUTEX)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

_Static_assert(sizeof(pv_line) == PV_LINE_BYTES, "a line fills its two cache lines");

#define PV_PAUSES 20
#define PV_YIELDS 200
#define PV_SLOW_YIELD_NS 100000
#define PV_LOST_CORE_NS \
    1000000 // a yield this slow lost the core to another process, even if a turn changed meanwhile
#define PV_SKIP_FIRST 16     // waits without yields after one slow yield ...
#define PV_SKIP_MOST 2000    // ... and when slow ones keep coming
#define PV_SKIP_SHARED 60000 // ... on a core that we share on purpose: about a second
#define PV_NAP_NS 50000      // without a futex: sleep this long between looks

uint64_t pv_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#if defined(__linux__) && !defined(PV_NO_FUTEX)
// The futex is shared between processes, hence no FUTEX_PRIVATE_FLAG. The time-out is relative, on
// the monotonic clock.
static void doorbell_wait(const pv_doorbell* doorbell, uint32_t seen, int64_t slice_ns) {
    struct timespec slice = {slice_ns / 1000000000, slice_ns % 1000000000};
    syscall(SYS_futex, &doorbell->word, FUTEX_WAIT, seen, &slice, NULL, 0);
}

static void doorbell_wake(const pv_doorbell* doorbell) {
    syscall(SYS_futex, &doorbell->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
#else
// Without a futex a sleeper naps and looks again; it need not be woken.
static void doorbell_wait(const pv_doorbell* doorbell, uint32_t seen, int64_t slice_ns) {
    int64_t nap_ns = slice_ns < PV_NAP_NS ? slice_ns : PV_NAP_NS;
    for (int64_t slept_ns = 0; slept_ns < slice_ns && pv_load_acquire(&doorbell->word) == seen;
         slept_ns += nap_ns) {
        struct timespec nap = {0, nap_ns};
        if (nanosleep(&nap, NULL))
            return; // a signal: let the caller check for it
    }
}

static void doorbell_wake(const pv_doorbell* doorbell) {
    (void)doorbell;
}
#endif

static pv_line* line_at(const pv_slab* slab, uint32_t worker, uint32_t half, uint32_t status) {
    uint64_t index = pv_slab_lane(slab, worker, half) * 2 + status;
    return (pv_line*)(void*)pv_slab_at(slab, slab->lines_offset + index * PV_LINE_BYTES);
}

pv_line* pv_command_line(const pv_slab* slab, uint32_t worker, uint32_t half) {
    return line_at(slab, worker, half, 0);
}

pv_line* pv_status_line(const pv_slab* slab, uint32_t worker, uint32_t half) {
    return line_at(slab, worker, half, 1);
}

pv_doorbell* pv_learner_doorbell(const pv_slab* slab, uint32_t worker, uint32_t half) {
    if (!slab->any_order)
        return &pv_status_line(slab, worker, half)->doorbell;
    uint64_t lines = 2 * (uint64_t)slab->num_workers * slab->lanes;
    return &((pv_line*)(void*)pv_slab_at(slab, slab->lines_offset))[lines].doorbell;
}

uint32_t pv_control_half(const pv_slab* slab, uint32_t worker) {
    return slab->split == PV_SPLIT_WORKERS ? worker / (slab->num_workers / slab->num_buffers) : 0;
}

pv_doorbell* pv_worker_doorbell(const pv_slab* slab, uint32_t worker) {
    return &pv_command_line(slab, worker, pv_control_half(slab, worker))->doorbell;
}

void pv_publish(
    pv_line* line, pv_doorbell* doorbell, uint8_t semaphore, uint32_t turn, pv_waiter* waiter) {
    line->semaphore = semaphore;
    // Releases the payload, and is ordered before the look at `sleeping`.
    pv_store_seq_cst(&line->turn, turn);
    if (PV_UNLIKELY(pv_load_seq_cst(&doorbell->sleeping))) {
        pv_increment(&doorbell->word);
        doorbell_wake(doorbell);
        waiter->wakes_sent++;
    }
}

static int look(const pv_watch* watches, int count) {
    for (int i = 0; i < count; i++) {
        if (pv_load_acquire(&watches[i].line->turn) != watches[i].seen)
            return i;
    }
    return -1;
}

static int look_seq_cst(const pv_watch* watches, int count) {
    for (int i = 0; i < count; i++) {
        if (pv_load_seq_cst(&watches[i].line->turn) != watches[i].seen)
            return i;
    }
    return -1;
}

// A slow yield may be a hiccup, another of our workers on this core, or another program. Only the
// next ones show which.
static void slow_yield(pv_waiter* waiter) {
    waiter->penalty = waiter->penalty * 2 < PV_SKIP_FIRST ? PV_SKIP_FIRST : waiter->penalty * 2;
    uint32_t most = waiter->place == PV_HOME ? PV_SKIP_MOST : PV_SKIP_SHARED;
    if (waiter->penalty > most)
        waiter->penalty = most;
    waiter->skip_yields = waiter->penalty;
}

static int try_yields(const pv_watch* watches, int count, pv_waiter* waiter) {
    uint32_t yields = waiter->yields ? waiter->yields : PV_YIELDS;
    uint64_t before_ns = pv_now_ns();
    for (uint32_t i = 0; i < yields; i++) {
        sched_yield();
        int changed = look(watches, count);
        uint64_t now_ns = pv_now_ns();
        uint64_t took_ns = now_ns - before_ns;
        before_ns = now_ns;
        if (took_ns > (changed >= 0 ? PV_LOST_CORE_NS : PV_SLOW_YIELD_NS)) {
            slow_yield(waiter);
            return changed;
        }
        if (changed >= 0) {
            if (took_ns <= PV_SLOW_YIELD_NS)
                waiter->penalty /= 2;
            return changed;
        }
    }
    return -1;
}

// Looks a few times, then as often as the waiter may yield. Returns the index of a watch that has
// changed, or -1.
static int wait_awake(const pv_watch* watches, int count, pv_waiter* waiter) {
    if (waiter->place == PV_ANYWHERE)
        return -1; // a process that stays awake here keeps its peer from running, or loses its core
    if (waiter->place == PV_HOME) {
        uint32_t pauses = waiter->pauses ? waiter->pauses : PV_PAUSES;
        for (uint32_t i = 0; i < pauses; i++) {
            cpu_pause();
            int changed = look(watches, count);
            if (changed >= 0)
                return changed;
        }
    }
    if (!waiter->skip_yields)
        return try_yields(watches, count, waiter);
    waiter->skip_yields--;
    return -1;
}

static int wait_asleep(const pv_watch* watches,
                       int count,
                       pv_doorbell* doorbell,
                       pv_waiter* waiter,
                       int64_t slice_ns) {
    uint32_t seen = pv_load_acquire(&doorbell->word);
    pv_store_seq_cst(&doorbell->sleeping, 1);
    int changed = look_seq_cst(watches, count);
    if (changed < 0) {
        waiter->sleeps++;
        doorbell_wait(doorbell, seen, slice_ns);
        changed = look(watches, count);
    }
    pv_store_seq_cst(&doorbell->sleeping, 0);
    return changed;
}

int pv_wait(const pv_watch* watches,
            int count,
            pv_doorbell* doorbell,
            pv_waiter* waiter,
            int64_t slice_ns,
            int resume) {
    int changed = look(watches, count);
    if (changed >= 0)
        return changed;
    // The learner joins its workers on their core while it waits, so that no process has to be
    // woken on another core. In between it may run anywhere, since threads that it starts inherit
    // its cores.
    const pv_placement* joins = waiter->place >= PV_ON_CORE ? waiter->joins : NULL;
    if (joins)
        pv_placement_move(joins, waiter->place);
    if (!resume) {
        waiter->waits++;
        changed = wait_awake(watches, count, waiter);
    }
    if (changed < 0)
        changed = wait_asleep(watches, count, doorbell, waiter, slice_ns);
    if (joins)
        pv_placement_move(joins, PV_HOME);
    return changed;
}

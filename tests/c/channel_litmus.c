// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Two shapes of memory accesses that the channel stands on, many times over between two processes
// (csrc/core/channel.h says why):
//
//     channel_litmus message_passing COUNT SEED    payload; pv_publish      |  pv_wait; payload
//     forbidden: an old payload channel_litmus store_buffer COUNT SEED       turn = n; sleeping ?
//     |  sleeping = 1; turn ?   forbidden: both see the old channel_litmus relaxed COUNT SEED the
//     latter without order: what a processor does if one lets it
//
// Both processes run through a batch of lines at their own pace, more or less in step, and compare
// notes when it is over; the next batch has the sides swapped. Prints how often each outcome came;
// exits 1 if a forbidden one did. Turns begin at 0xFFFFFFF0.
#include "../../csrc/core/channel.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 1024, WORDS = 24, FIRST = 0xFFFFFFF0 };

#define NO_LIMIT_NS 1000000000000ll

// One line, and rows beside it: payload of several cache lines.
typedef struct slot {
    pv_line line;
    uint32_t rows[WORDS * 4];
} slot;

typedef struct shared {
    slot slots[BATCH];
    pv_doorbell doorbell;
    uint8_t pad[PV_LINE_BYTES];
    uint32_t arrived[2][PV_LINE_BYTES / 4]; // one cache line pair for each side
    uint32_t place[2][PV_LINE_BYTES / 4];
    uint32_t seen[2][BATCH];
} shared;

static shared* all;
static uint64_t dice;
static uint64_t
    outcomes[4]; // store buffer: 2 * (first side saw the flag) + (second side saw the turn)

static uint64_t roll(void) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice;
}

// Waits for the other process.
static void meet(int side, uint32_t number) {
    pv_store_seq_cst(&all->arrived[side][0], number);
    for (uint32_t looks = 1; (int32_t)(pv_load_acquire(&all->arrived[1 - side][0]) - number) < 0;
         looks++) {
        if (looks % 64 == 0)
            sched_yield();
    }
}

// ---- store buffer ----

// Keeps the sides in step, else one is through before the other begins; but waits for no one who
// does not run.
static void fall_in(int side, uint32_t place) {
    pv_store_seq_cst(&all->place[side][0], place);
    for (int looks = 0;
         looks < 1000 && (int32_t)(pv_load_acquire(&all->place[1 - side][0]) - place) < 0;
         looks++) {}
    for (uint64_t spins = roll() % 16; spins; spins--)
        __asm__ volatile("");
}

// One side of a batch: store to `mine`, look at `other`.
static inline uint32_t both(uint32_t* mine, const uint32_t* other, uint32_t n, int relaxed) {
    if (relaxed) {
        __atomic_store_n(mine, n, __ATOMIC_RELAXED);
        return __atomic_load_n(other, __ATOMIC_RELAXED);
    }
    pv_store_seq_cst(mine, n);
    return pv_load_seq_cst(other);
}

static void buffer_batch(int side, int role, uint32_t n, int relaxed) {
    for (int i = 0; i < BATCH; i++) {
        fall_in(side, n * BATCH + (uint32_t)i);
        pv_line* line = &all->slots[i].line;
        uint32_t *turn = &line->turn, *sleeping = &line->doorbell.sleeping;
        all->seen[side][i] =
            role ? both(sleeping, turn, n, relaxed) : both(turn, sleeping, n, relaxed);
    }
}

static void buffer_count(uint32_t n) {
    for (int i = 0; i < BATCH; i++)
        outcomes[2 * (all->seen[0][i] == n) + (all->seen[1][i] == n)]++;
}

// ---- message passing ----

static void pass(uint32_t n, pv_waiter* waiter) {
    for (int i = 0; i < BATCH; i++) {
        slot* to = &all->slots[i];
        for (int word = 0; word < WORDS * 4; word += 3)
            to->rows[word] = n;
        to->line.first = to->line.count = n;
        pv_publish(&to->line, &all->doorbell, (uint8_t)n, n, waiter);
        if (roll() % 64 == 0)
            sched_yield();
    }
}

// Returns how many payloads were old although the turn was new.
static uint64_t take(uint32_t n, pv_waiter* waiter) {
    uint64_t old = 0;
    for (int i = 0; i < BATCH; i++) {
        const slot* from = &all->slots[i];
        pv_watch watch = {&from->line, n - 1};
        waiter->pauses = 1 + (uint32_t)roll() % 20;
        waiter->skip_yields = roll() % 4 == 0;
        for (int resume = 0; pv_wait(&watch, 1, &all->doorbell, waiter, NO_LIMIT_NS, resume) < 0;)
            resume = 1;
        int stale =
            from->line.semaphore != (uint8_t)n || from->line.first != n || from->line.count != n;
        for (int word = 0; word < WORDS * 4; word += 3)
            stale |= from->rows[word] != n;
        old += (uint64_t)stale;
    }
    return old;
}

// ---- both ----

static uint64_t run(int side, uint64_t batches, const char* shape) {
    int relaxed = !strcmp(shape, "relaxed"), message = !strcmp(shape, "message_passing");
    pv_waiter waiter = {0};
    uint64_t forbidden = 0;
    for (uint64_t batch = 1; batch <= batches; batch++) {
        uint32_t n = (uint32_t)(FIRST + batch);
        int role = (side + (int)(batch & 1)) % 2;
        meet(side, (uint32_t)(2 * batch));
        if (message && role)
            forbidden += take(n, &waiter);
        else if (message)
            pass(n, &waiter);
        else
            buffer_batch(side, role, n, relaxed);
        meet(side, (uint32_t)(2 * batch + 1));
        if (!message && side == 0)
            buffer_count(n);
    }
    if (message)
        fprintf(stderr, "side %d: %llu sleeps, %llu wakes sent\n", side,
                (unsigned long long)waiter.sleeps, (unsigned long long)waiter.wakes_sent);
    return message ? forbidden : outcomes[0];
}

int main(int argc, char** argv) {
    if (argc != 4)
        return 2;
    uint64_t batches = (strtoull(argv[2], NULL, 10) + BATCH - 1) / BATCH;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return 2;
    for (int i = 0; i < BATCH; i++)
        all->slots[i].line.turn = all->slots[i].line.doorbell.sleeping = FIRST;
    all->doorbell.word = FIRST;
    dice = (strtoull(argv[3], NULL, 10) + 1) * 0x9E3779B97F4A7C15u;
    int status;
    pid_t parent = getpid(), child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(2);
        dice ^= 0xD1B54A32D192ED03u;
        _exit(run(1, batches, argv[1]) ? 1 : 0);
    }
    uint64_t forbidden = run(0, batches, argv[1]);
    if (waitpid(child, &status, 0) < 0)
        return 2;
    printf("%s: %llu times; forbidden %s%llu", argv[1], (unsigned long long)(batches * BATCH),
           status ? "by the other side, and " : "", (unsigned long long)forbidden);
    if (strcmp(argv[1], "message_passing"))
        printf("; one saw the other %llu + %llu, both did %llu", (unsigned long long)outcomes[1],
               (unsigned long long)outcomes[2], (unsigned long long)outcomes[3]);
    printf("\n");
    return forbidden || status;
}

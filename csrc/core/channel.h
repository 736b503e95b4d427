// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stop 4 of an observation's path: when a row may be read. Only this file and channel.c have
// atomics. Each (worker, half) has two lines of 128 bytes, so that no two writers share a pair of
// cache lines:
//
//   command line   written by the learner    "step your envs of this half"
//   status line    written by the worker     "done"
//
// Sending: write the payload (rows, actions, arguments), the uint8 semaphore, then turn. Reading:
// wait until turn changes, then read semaphore and payload. A turn is only compared for
// (in)equality, so it may wrap. The status turn becomes equal to the command turn when the command
// is done.
//
// Sleeping: a futex waits on one word, but a worker that serves both halves waits for two turns. So
// each reader has one doorbell, the word that its futex waits on. A worker's doorbell is in the
// command line of its first half, the learner's in the status line that it waits for.
//
//   sender                                   sleeper
//   turn     = n           (seq_cst)         seen     = doorbell.word
//   sleeping ?             (seq_cst)         sleeping = 1            (seq_cst)
//     doorbell.word += 1; wake                   turn changed ?          (seq_cst)  -> do not sleep
//                                            futex_wait(doorbell.word == seen, slice)
//                                            sleeping = 0
//
// Why no wake-up is lost: the four marked accesses are sequentially consistent, so either the
// sender sees sleeping = 1, or the sleeper sees the new turn. In the first case doorbell.word
// changes before the wake, so the kernel does not put a sleeper to sleep that arrives later. Each
// word has one writer: the sender writes turn, semaphore and doorbell.word, the sleeper writes
// sleeping. There is one exception: a learner that takes halves in any order waits for many
// workers, which all ring one doorbell. Therefore its word is incremented atomically.
//
// Waiting has three stages: a few pauses (nanoseconds), then sched_yield (lets the other side run
// where cores are short), then the futex, for at most 20 ms at a time. Yields back off
// exponentially: a slow one may mean that another program runs on this core, and each further yield
// would give it a whole slice of the scheduler. Slow is over 100 us without a new turn; with one,
// over 1 ms, since the peer itself may have run on this core meanwhile. So the waiter skips yields
// in its next 16 waits, in twice as many after each further slow yield, up to 2,000. A wait that
// ends while yielding halves the next penalty.
//
// The learner also looks at the load of the machine (puffervec/vec/crowd.py). While other programs
// leave too few cores, `place` says where workers run. PV_ANYWHERE: all go to sleep immediately,
// since a process that spins or yields loses its core for a tick of the scheduler. PV_ON_CORE:
// learner and workers share one core, and yield it to each other; should another program run there
// too, each yield is slow, and they are skipped in up to 60,000 waits.
#pragma once

#include "contract/base.h"
#include "placement.h"
#include "slab.h"

/* [cffi] */
// Semaphore values. Commands:
#define PV_IDLE 0
#define PV_RESET \
    1 // argument `seeded`: take seeds from the slab; `count`: 1 if reset masks apply instead
#define PV_STEP 2
#define PV_SAVE 3 // envs [first, first + count) into the transfer region
#define PV_LOAD 4 // ... out of it
#define PV_PEEK 5 // readable state of env `first` into the transfer region
#define PV_CLOSE 6
#define PV_CALL \
    7 // a call of the learner to Python envs; question and answer are in the worker's mailbox
#define PV_POKE 8 // the readable state of env `first` out of the transfer region
// Status:
#define PV_DONE 16
#define PV_FAILED 17 // see the error slot

// Reset masks, one byte per env; 0: the env continues.
#define PV_RESET_KEEP 1   // begin its next episode
#define PV_RESET_SEEDED 2 // begin episode 0 of a new seed

#define PV_SLICE_NS 20000000 // longest sleep before a waiter checks whether its peer still lives

typedef struct pv_doorbell {
    uint32_t word;     // the futex word; written by the sender
    uint32_t sleeping; // written by the sleeper
} pv_doorbell;

typedef struct pv_line {
    uint32_t turn;
    uint8_t semaphore;
    uint8_t seeded;
    uint16_t unused;
    uint32_t first, count;     // arguments of a command
    uint64_t begin_ns, end_ns; // status: CLOCK_MONOTONIC around the last step or reset
    pv_doorbell doorbell;
    uint32_t begun; // status: the turn that the worker began last; it is at work while turn differs
    uint32_t steps; // status: steps begun since the last reset of all envs of the half
    uint32_t place; // command: where the worker is to run; see placement.h
    uint8_t pad[PV_LINE_BYTES - 52];
} pv_line;

// How a process waits; one per waiting thread. All zeros mean default budgets; the counts are for
// tests and benchmarks.
typedef struct pv_waiter {
    uint32_t skip_yields;    // waits left in which yields are skipped
    uint32_t penalty;        // yields skipped after the last slow one
    uint32_t pauses, yields; // budgets; 0 means the default of 20 and 200
    uint32_t place; // where its process runs, and so how it waits. The learner's goes into its
                    // commands; see placement.h
    const pv_placement*
        joins;        // the learner's: how it joins its workers on their core; NULL: it does not
    uint64_t look_ns; // the learner's: when it looks at the load of the machine next; 0: never
    struct pv_worker* own; // the learner's: the workers, by index, if it serves them itself
    uint64_t replaced;     // the learner's: action values that became the no-op
    uint64_t waits, sleeps, wakes_sent;
} pv_waiter;

pv_line* pv_command_line(const pv_slab* slab, uint32_t worker, uint32_t half);
pv_line* pv_status_line(const pv_slab* slab, uint32_t worker, uint32_t half);
// Returns the doorbell that `worker` rings when it is done with a turn of `half`.
pv_doorbell* pv_learner_doorbell(const pv_slab* slab, uint32_t worker, uint32_t half);
// Returns the half whose command line carries control commands, which go to a single worker: the
// first half that it serves. The worker's doorbell is in that line.
uint32_t pv_control_half(const pv_slab* slab, uint32_t worker);
uint64_t pv_now_ns(void);
/* [/cffi] */

// Returns the doorbell that the learner rings when it sends a command to `worker`.
pv_doorbell* pv_worker_doorbell(const pv_slab* slab, uint32_t worker);

// The four atomic accesses of the project.
static inline uint32_t pv_load_acquire(const uint32_t* word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void pv_increment(uint32_t* word) {
    __atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
}

static inline uint32_t pv_load_seq_cst(const uint32_t* word) {
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static inline void pv_store_seq_cst(uint32_t* word, uint32_t value) {
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

// Publishes what was written before: sets the semaphore, then the turn, and wakes the reader if it
// sleeps on `doorbell`.
void pv_publish(
    pv_line* line, pv_doorbell* doorbell, uint8_t semaphore, uint32_t turn, pv_waiter* waiter);

// One turn that a waiter looks at: changed when line->turn != seen.
typedef struct pv_watch {
    const pv_line* line;
    uint32_t seen;
} pv_watch;

// Waits until one of the watched turns has changed and returns its index, or -1 after `slice_ns` of
// sleep (a signal also ends a sleep early). `resume` starts at the futex: the wait is a continued
// one.
int pv_wait(const pv_watch* watches,
            int count,
            pv_doorbell* doorbell,
            pv_waiter* waiter,
            int64_t slice_ns,
            int resume);

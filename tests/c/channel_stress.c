// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The channel under stress, without Python: the learner's end (csrc/core/turn.c) against workers
// that are threads (which ThreadSanitizer understands) or processes (what users run), with every
// byte of every row compared with what it has to be.
//
//     channel_stress threads|processes WORKERS HALVES envs|workers in_order|any_order TURNS SEED
//     [jester]
//
// WORKERS serve 12 `probe` envs in HALVES halves, each of which takes TURNS steps. Turns and
// doorbells begin at 0xFFFFFFF0, so they wrap. Seeded dice decide where a side yields, spins or
// sleeps, and how long it waits before it sleeps. With `jester`, one process more stops, continues
// and signals the others at random. Prints turns, sleeps, wakes and a hash of all rows, which
// depends on HALVES and TURNS only; exits 1 where a row is not what it has to be. A lost wake-up of
// the learner is a hang: it waits without a limit.
#include "../../csrc/core/action.h"
#include "../../csrc/contract/env_helpers.h"
#include "../../csrc/envs/env_list.h"
#include "../../csrc/contract/rng.h"
#include "../../csrc/core/turn.h"
#include "../../csrc/core/worker.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ENVS = 12, AGENTS = 2, FLOATS = 8, EPISODE = 5, MOST_WORKERS = 64, FIRST = 0xFFFFFFF0 };

#define NO_LIMIT_NS 1000000000000ll

// The members of probe.c's config.
static const int32_t probe_config[10] = {AGENTS, EPISODE, 2, 0, 0, FLOATS, 0, 0, 0, 0};

// What an env has to show, computed here again.
typedef struct twin {
    uint64_t seed, episode, hash;
    uint32_t clock, step, over, turn;
    int32_t actions[AGENTS];
} twin;

static twin twins[ENVS];
static pv_slab* slab;
static pv_env_type shaken_type;
static pv_worker workers[MOST_WORKERS];
static pid_t children[MOST_WORKERS + 1];
static _Thread_local uint64_t dice;
static _Thread_local pv_waiter* own_waiter;

// ---- chance ----

static uint64_t roll(void) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice;
}

static void start_dice(uint64_t seed, uint64_t who) {
    dice = (seed + 1) * 0x9E3779B97F4A7C15u + (who + 1) * 0xD1B54A32D192ED03u;
    roll();
}

// Lets the other side overtake here, or go to sleep, or not.
static void shake(void) {
    uint64_t now = roll();
    if (now % 16 == 0)
        sched_yield();
    else if (now % 16 == 1)
        for (uint64_t i = (now >> 8) % 500; i; i--)
            __asm__ volatile("");
    else if (now % 2048 == 2)
        nanosleep(&(struct timespec){0, (long)(now >> 40) % 100000}, NULL);
    own_waiter->pauses = 1 + (uint32_t)(now >> 16) % 40;
    own_waiter->yields = 1 + (uint32_t)(now >> 24) % 8;
    own_waiter->skip_yields = now & 0x10000000 ? 1 : 0;
}

// `probe`, with a dice roll on both sides of its work.
static int shaken_step(pv_block* block) {
    shake();
    int code = pv_probe_type.step(block);
    shake();
    return code;
}

// ---- what rows have to be ----

static int32_t action_of(uint32_t env, uint32_t agent, uint32_t turn) {
    return (int32_t)((env * 7u + agent * 3u + turn * 5u + turn / 11u) % 5u);
}

static void twin_step(twin* t, uint32_t env) {
    t->turn++;
    t->clock++;
    if (t->over) {
        t->episode++;
        t->step = t->over = 0;
        memset(t->actions, 0, sizeof t->actions);
        return;
    }
    t->step++;
    t->over = t->step == EPISODE;
    for (uint32_t agent = 0; agent < AGENTS; agent++)
        t->actions[agent] = action_of(env, agent, t->turn);
}

static void wrong(uint32_t env, uint32_t agent, const char* what, double found, double expected) {
    fprintf(stderr, "env %u agent %u turn %u: %s is %.9g, not %.9g\n", env, agent, twins[env].turn,
            what, found, expected);
    for (int i = 0; i <= MOST_WORKERS; i++) {
        if (children[i])
            kill(children[i], SIGKILL);
    }
    _exit(1);
}

static void compare(uint32_t env, uint32_t agent, const char* what, double found, double expected) {
    if (found != expected)
        wrong(env, agent, what, found, expected);
    uint64_t bits;
    memcpy(&bits, &found, 8);
    twins[env].hash = (twins[env].hash ^ bits ^ bits >> 32) * 0x100000001B3u;
}

static void check_row(uint32_t env, uint32_t agent) {
    static const char* const names[FLOATS] = {"seed",   "episode", "step", "agent",
                                              "action", "random",  "task", "clock"};
    const twin* t = &twins[env];
    const pv_half_layout* half = &slab->halves[env / (ENVS / slab->num_buffers)];
    uint64_t row = (uint64_t)(env - half->first_env) * AGENTS + agent;
    float found[FLOATS], reward;
    memcpy(found, pv_slab_at(slab, half->groups[0].observations + row * sizeof found),
           sizeof found);
    memcpy(&reward, pv_slab_at(slab, half->groups[0].rewards + row * sizeof reward), sizeof reward);
    const double expected[FLOATS] = {(double)(t->seed % 4096),
                                     (double)t->episode,
                                     t->step,
                                     agent,
                                     t->actions[agent],
                                     (double)pv_rng_f32(t->seed, t->episode, t->step, agent),
                                     -1.0,
                                     t->clock};
    for (int i = 0; i < FLOATS; i++)
        compare(env, agent, names[i], (double)found[i], expected[i]);
    compare(env, agent, "reward", (double)reward,
            t->step ? t->step + 0.25 * agent + t->actions[agent] / 16.0 : 0.0);
    compare(env, agent, "terminal", *pv_slab_at(slab, half->groups[0].terminals + row),
            t->over && t->episode % 2 == 0);
    compare(env, agent, "truncation", *pv_slab_at(slab, half->groups[0].truncations + row),
            t->over && t->episode % 2 == 1);
    compare(env, agent, "mask", *pv_slab_at(slab, half->groups[0].masks + row), 1);
}

static void check_half(uint32_t half, int stepped) {
    for (uint32_t env = slab->halves[half].first_env;
         env < slab->halves[half].first_env + slab->halves[half].env_count; env++) {
        if (stepped)
            twin_step(&twins[env], env);
        for (uint32_t agent = 0; agent < AGENTS; agent++)
            check_row(env, agent);
    }
}

// ---- the learner ----

static void send_step(uint32_t half, pv_waiter* waiter) {
    int32_t actions[ENVS * AGENTS];
    uint32_t count = 0;
    for (uint32_t env = slab->halves[half].first_env;
         env < slab->halves[half].first_env + slab->halves[half].env_count; env++) {
        for (uint32_t agent = 0; agent < AGENTS; agent++)
            actions[count++] = action_of(env, agent, twins[env].turn + 1);
    }
    pv_turn_step(slab, half, actions, PV_I32, waiter);
}

static uint32_t receive(uint32_t next, const uint8_t* pending, pv_waiter* waiter) {
    int found, resume = 0; // a signal ends a wait: go on with it
    uint32_t last = PV_ALL_WORKERS;
    if (slab->any_order) {
        while ((found = pv_turn_recv_any(slab, pending, next, waiter, NO_LIMIT_NS, resume)) < 0)
            resume = 1;
        return (uint32_t)found;
    }
    while ((found = pv_turn_recv(slab, next, last, waiter, NO_LIMIT_NS, resume)) < 0) {
        last = (uint32_t)(-1 - found);
        resume = 1;
    }
    return next;
}

static void play(uint64_t turns, pv_waiter* waiter) {
    uint8_t pending[PV_MAX_BUFFERS];
    uint64_t done[PV_MAX_BUFFERS] = {0};
    uint32_t halves = slab->num_buffers, next = 0, open = halves;
    memset(pending, 1, sizeof pending);
    for (uint32_t half = 0; half < halves; half++)
        pv_turn_send(slab, half, PV_RESET, 1, 0, waiter);
    while (open) {
        uint32_t half = receive(next, pending, waiter);
        shake();
        check_half(half, done[half] > 0);
        next = (half + 1) % halves;
        if (done[half]++ < turns) {
            send_step(half, waiter);
        } else {
            pending[half] = 0;
            open--;
        }
        shake();
    }
}

// ---- workers ----

static uint64_t dice_seed;

static void* work(void* argument) {
    pv_worker* worker = argument;
    own_waiter = &worker->waiter;
    start_dice(dice_seed, worker->index + 1);
    pv_worker_run(worker);
    return NULL;
}

static void on_signal(int signal) {
    (void)signal;
}

// Stops, continues and signals anyone but itself.
static void jest(pid_t learner, uint32_t count) {
    for (;;) {
        uint64_t now = roll();
        uint32_t victim = (uint32_t)(now >> 8) % (count + 1);
        pid_t pid = victim < count ? children[victim] : learner;
        struct timespec pause = {0, (long)(now >> 32) % 500000};
        if (now % 4 == 0) {
            kill(pid, SIGSTOP);
            nanosleep(&pause, NULL);
            kill(pid, SIGCONT);
        } else {
            kill(pid, SIGUSR2);
        }
        nanosleep(&pause, NULL);
    }
}

static pid_t start_process(uint32_t index, uint32_t count, int is_jester) {
    pid_t learner = getpid(), pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != learner)
        _exit(2);
    if (is_jester) {
        start_dice(dice_seed, index + 1);
        jest(learner, count);
    }
    work(&workers[index]);
    pv_worker_close(&workers[index]);
    _exit(0);
}

// ---- the slab ----

static void make_slab(pv_slab_request request) {
    static pv_spec spec;
    static pv_slab head;
    static char text[PV_ERROR_TEXT];
    pv_params params = {.bytes = sizeof params};
    pv_context context = {.config = probe_config, .params = &params};
    request.config_bytes = sizeof probe_config;
    request.params_bytes = sizeof params;
    if (pv_probe_type.describe(&context, &spec, text) || !pv_slab_layout(&spec, &request, &head)) {
        fprintf(stderr, "no slab: %s\n", text);
        exit(2);
    }
    slab = mmap(NULL, head.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (slab == MAP_FAILED)
        exit(2);
    *slab = head;
    memcpy(pv_slab_at(slab, slab->config_offset), probe_config, sizeof probe_config);
    memcpy(pv_slab_at(slab, slab->params_offset), &params, sizeof params);
    for (uint32_t env = 0; env < ENVS; env++) {
        ((int64_t*)(void*)pv_slab_at(slab, slab->tasks_offset))[env] = -1;
        ((uint64_t*)(void*)pv_slab_at(slab, slab->seeds_offset))[env] = twins[env].seed =
            1000 + env;
    }
    pv_line* lines = (pv_line*)(void*)pv_slab_at(slab, slab->lines_offset);
    for (uint32_t i = 0; i <= 2 * slab->num_workers * slab->lanes; i++)
        lines[i].turn = lines[i].doorbell.word = FIRST;
}

static void open_workers(void) {
    shaken_type = pv_probe_type;
    shaken_type.step = shaken_step;
    for (uint32_t w = 0; w < slab->num_workers; w++) {
        if (pv_worker_open(&workers[w], slab, w, &shaken_type, NULL, 0)) {
            fprintf(stderr, "worker %u: %s\n", w, pv_slab_error(slab, w)->text);
            exit(2);
        }
    }
}

// ---- both kinds of workers ----

static void close_workers(pv_waiter* waiter) {
    for (uint32_t w = 0; w < slab->num_workers; w++)
        pv_turn_send_one(slab, w, pv_control_half(slab, w), PV_CLOSE, 0, 0, waiter);
}

static int run_threads(uint64_t turns, pv_waiter* waiter) {
    pthread_t threads[MOST_WORKERS];
    for (uint32_t w = 0; w < slab->num_workers; w++) {
        if (pthread_create(&threads[w], NULL, work, &workers[w]))
            exit(2);
    }
    play(turns, waiter);
    close_workers(waiter);
    for (uint32_t w = 0; w < slab->num_workers; w++)
        pthread_join(threads[w], NULL);
    return 0;
}

static int run_processes(uint64_t turns, pv_waiter* waiter, int with_jester) {
    int failed = 0, status;
    sigaction(SIGUSR2, &(struct sigaction){.sa_handler = on_signal}, NULL); // without SA_RESTART
    for (uint32_t w = 0; w < slab->num_workers; w++)
        children[w] = start_process(w, 0, 0);
    if (with_jester)
        children[MOST_WORKERS] = start_process(MOST_WORKERS, slab->num_workers, 1);
    play(turns, waiter);
    if (with_jester) {
        kill(children[MOST_WORKERS], SIGKILL);
        while (waitpid(children[MOST_WORKERS], &status, 0) < 0) {}
        for (uint32_t w = 0; w < slab->num_workers; w++)
            kill(children[w], SIGCONT);
    }
    close_workers(waiter);
    for (uint32_t w = 0; w < slab->num_workers; w++) {
        while (waitpid(children[w], &status, 0) < 0) {}
        failed |= status;
    }
    return failed != 0;
}

int main(int argc, char** argv) {
    if (argc < 8)
        return 2;
    int processes = !strcmp(argv[1], "processes"),
        with_jester = argc > 8 && !strcmp(argv[8], "jester");
    pv_slab_request request = {.num_envs = ENVS,
                               .num_workers = (uint32_t)atoi(argv[2]),
                               .num_buffers = (uint32_t)atoi(argv[3])};
    request.split = strcmp(argv[4], "workers") ? PV_SPLIT_ENVS : PV_SPLIT_WORKERS;
    request.any_order = !strcmp(argv[5], "any_order");
    if (request.num_workers < 1 || request.num_workers > ENVS || !request.num_buffers ||
        ENVS % request.num_buffers)
        return 2;
    if (request.split == PV_SPLIT_WORKERS && request.num_workers % request.num_buffers)
        return 2;
    uint64_t turns = strtoull(argv[6], NULL, 10), hash = 0;
    dice_seed = strtoull(argv[7], NULL, 10);
    pv_waiter waiter = {0};
    own_waiter = &waiter;
    start_dice(dice_seed, 0);
    make_slab(request);
    open_workers();
    int failed =
        processes ? run_processes(turns, &waiter, with_jester) : run_threads(turns, &waiter);
    for (uint32_t w = 0; w < slab->num_workers; w++)
        pv_worker_close(&workers[w]);
    for (uint32_t env = 0; env < ENVS; env++)
        hash += twins[env].hash;
    printf("turns %llu sleeps %llu wakes %llu hash %016llx\n",
           (unsigned long long)(turns * request.num_buffers), (unsigned long long)waiter.sleeps,
           (unsigned long long)waiter.wakes_sent, (unsigned long long)hash);
    munmap(slab, slab->bytes);
    return failed;
}

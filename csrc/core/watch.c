// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See watch.h. State is static, since it belongs to the process.
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXIT_ORPHAN 70
#define EXIT_COPY 71
#define LOOK_MS 100

// ---- descendants ----

// The kernel lists the children of each thread. Source: Linux, Documentation/filesystems/proc.rst,
// /proc/PID/task/TID/children.
void pv_end_descendants(int pid) {
    char path[80];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR* threads = opendir(path);
    if (!threads)
        return;
    for (const struct dirent* thread; (thread = readdir(threads)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", pid, thread->d_name);
        FILE* list = fopen(path, "re");
        if (!list)
            continue;
        for (int child; fscanf(list, "%d", &child) == 1;) {
            pv_end_descendants(child);
            kill((pid_t)child, SIGKILL);
        }
        fclose(list);
    }
    closedir(threads);
}

// ---- the learner ----

static struct {
    int pipe, learner;
    pid_t pid;
    unsigned long long started; // 0: unknown
} watched;

// Returns when a process was started, in the kernel's ticks, which tells it from a later process
// with the same number; 0 if it is gone, a zombie, or unknown. Source: Linux,
// Documentation/filesystems/proc.rst, fields 3 and 22 of /proc/PID/stat.
static unsigned long long started(pid_t pid) {
    char path[40], text[1024], state = 0;
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    text[size > 0 ? size : 0] = 0;
    const char* name_end = strrchr(text, ')');
    if (!name_end ||
        sscanf(name_end + 1,
               " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &state, &ticks) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : ticks;
}

static int learner_is_gone(void) {
    if (kill(watched.pid, 0) && errno == ESRCH)
        return 1;
    return watched.started && started(watched.pid) != watched.started;
}

static void* watch_learner(void* unused) {
    (void)unused;
    struct pollfd files[2] = {{watched.pipe, POLLIN, 0},
                              {watched.learner, POLLIN, 0}}; // poll ignores a negative one
    for (;;) {
        int changed = poll(files, 2, watched.learner < 0 ? LOOK_MS : -1);
        if (changed > 0)
            break;
        if (changed < 0 && errno != EINTR && errno != ENOMEM && errno != EAGAIN)
            break;
        if (watched.learner < 0 && learner_is_gone())
            break;
    }
    if (getpgrp() == getpid()) { // processes that the envs started end too
        pv_end_descendants(getpid());
        kill(0, SIGKILL);
    }
    _exit(EXIT_ORPHAN); // no clean-up: the learner is gone, and the kernel frees the rest
}

int pv_watch_learner(int pipe, int learner, int pid) {
    watched.pipe = pipe;
    watched.learner = learner;
    watched.pid = (pid_t)pid;
    watched.started = learner < 0 ? started((pid_t)pid) : 0;
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); // signals belong to the main thread
    int error = pthread_create(&thread, NULL, watch_learner, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? error : pthread_detach(thread);
}

// ---- forked copies ----

static struct {
    uint8_t* begin;
    uint64_t bytes;
} kept;

static uint32_t forks = 1; // changes only in a child, which has one thread
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char TOLD[] = "puffervec: an env forked, and the child came back out of the env. Only "
                           "the worker itself may write rows, so the child was "
                           "ended; end it with os._exit (C: _exit) before it returns\n";

void pv_end_copy(void) {
    ssize_t ignored = write(STDERR_FILENO, TOLD, sizeof TOLD - 1);
    (void)ignored;
    _exit(EXIT_COPY);
}

static void fault(int number, siginfo_t* info, void* context) {
    (void)context;
    const uint8_t* at = info->si_addr;
    if (at >= kept.begin && at < kept.begin + kept.bytes)
        pv_end_copy();
    signal(number, SIG_DFL); // another fault: it happens again and ends the process
}

static void in_child(void) {
    forks++;
    if (!kept.bytes)
        return;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL); // some systems send this instead
    mprotect(kept.begin, kept.bytes, PROT_READ);
}

static int enrolled;

static void enroll(void) {
    enrolled = pthread_atfork(NULL, NULL, in_child);
}

uint32_t pv_fork_count(void) {
    pthread_once(&once, enroll);
    return enrolled ? 0 : forks;
}

int pv_keep_from_forks(void* rows, uint64_t bytes) {
    if (!pv_fork_count())
        return enrolled;
    kept.begin = rows;
    kept.bytes = bytes - bytes % (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

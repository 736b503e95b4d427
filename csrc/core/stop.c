// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See stop.h. State is static, since signal handlers belong to the process.
#include "stop.h"

#include <signal.h>
#include <unistd.h>

static const int SIGNALS[] = {SIGINT, SIGTERM};
#define PV_STOPS (sizeof SIGNALS / sizeof *SIGNALS)

static struct sigaction before[PV_STOPS];
static volatile sig_atomic_t received;

static void stop(int number, siginfo_t* info, void* context) {
    if (received)
        _exit(128 + number);
    received = 1;

    const struct sigaction* next = &before[number == SIGNALS[0] ? 0 : 1];
    if (next->sa_flags & SA_SIGINFO)
        next->sa_sigaction(number, info, context);
    else if (next->sa_handler != SIG_DFL && next->sa_handler != SIG_IGN)
        next->sa_handler(number);
}

void pv_stop_by_second_signal(void) {
    received = 0;

    for (size_t i = 0; i < PV_STOPS; i++) {
        struct sigaction now;
        if (sigaction(SIGNALS[i], NULL, &now))
            continue;
        if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == stop)
            continue;

        before[i] = now;
        struct sigaction action = now; // its mask and flags: system calls are interrupted as before
        action.sa_sigaction = stop;
        action.sa_flags |= SA_SIGINFO;
        sigaction(SIGNALS[i], &action, NULL);
    }
}

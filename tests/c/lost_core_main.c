// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Waits in which the peer answers during the first yield, which takes as long as its argument says.
// Prints the yields that the waiter will skip afterwards: none after a fast one, 16 and then 32
// after two that lost the core for 2 ms.
#include "core/channel.h"

#include <stdio.h>
#include <time.h>

static pv_line line;
static long yield_ns;

int lost_yield(void);

int lost_yield(void) {
    struct timespec nap = {0, yield_ns};
    if (yield_ns)
        nanosleep(&nap, NULL);
    line.turn++;
    return 0;
}

int main(void) {
    static const long times_ns[] = {0, 2000000, 2000000};
    pv_doorbell doorbell = {0};
    pv_waiter waiter = {.pauses = 1};
    for (int i = 0; i < 3; i++) {
        yield_ns = times_ns[i];
        pv_watch watch = {&line, line.turn};
        if (pv_wait(&watch, 1, &doorbell, &waiter, 1000000, 0))
            return 1;
        printf("%u\n", waiter.skip_yields);
        waiter.skip_yields = 0;
    }
    return 0;
}

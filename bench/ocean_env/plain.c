// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The plain loop with which bench/ocean.py compares: rewards and ends are cleared and all envs are
// stepped, as PufferLib's own vectorizer does, with nothing around it.
//
//     plain ENVS TURNS WORK LENGTH     prints the seconds of CPU time per turn
#include <stdio.h>
#include <time.h>

#include "work.h"

#define ROUNDS 8 // different actions

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char** argv) {
    if (argc != 5)
        return 2;
    const int count = atoi(argv[1]), turns = atoi(argv[2]);
    const size_t envs = (size_t)count;
    Work* all = calloc(envs, sizeof(Work));
    float* observations = calloc(envs * NUMBERS, sizeof(float));
    float* table = calloc(envs * ROUNDS, sizeof(float));
    float* actions = calloc(envs, sizeof(float));
    float* rewards = calloc(envs, sizeof(float));
    float* terminals = calloc(envs, sizeof(float));
    for (size_t i = 0; i < envs * ROUNDS; i++)
        table[i] = (float)(rand() % 4);
    for (size_t i = 0; i < envs; i++) {
        all[i] = (Work){.observations = observations + i * NUMBERS,
                        .actions = actions + i,
                        .rewards = rewards + i,
                        .terminals = terminals + i,
                        .num_agents = 1,
                        .rng = (unsigned int)i,
                        .work = atoi(argv[3]),
                        .length = atoi(argv[4])};
        c_reset(&all[i]);
    }
    double begin = 0;
    for (int turn = -turns / 10; turn < turns; turn++) {
        if (turn == 0)
            begin = now();
        memcpy(actions, table + (size_t)((turn + turns) % ROUNDS) * envs, envs * sizeof(float));
        memset(rewards, 0, envs * sizeof(float));
        memset(terminals, 0, envs * sizeof(float));
        for (size_t i = 0; i < envs; i++)
            c_step(&all[i]);
    }
    printf("%.9e %g\n", (now() - begin) / turns, (double)all[envs - 1].observations[0]);
    return 0;
}

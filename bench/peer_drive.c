// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Steps PufferDrive's core with random actions on one core, for bench/drive.py --peer. Compiled
// with -DPEER_HEADER of its sources; it is the core's own code that runs, with its own resets.
//
//     peer_drive MAP SECONDS   prints agents, agent-steps and seconds
#include PEER_HEADER

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); // not the time in which others have the core
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t drawn(uint64_t* state) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 33);
}

static void steps(GPUDrive* env, int count, uint64_t* state) {
    for (int step = 0; step < count; step++) {
        for (int i = 0; i < env->active_agent_count; i++) {
            env->actions[2 * i] = (int)(drawn(state) % 7);
            env->actions[2 * i + 1] = (int)(drawn(state) % 13);
        }
        c_step(env);
    }
}

int main(int argc, char** argv) {
    if (argc != 3)
        return 2;
    GPUDrive env = {
        .map_name = argv[1], .reward_vehicle_collision = -0.5f, .reward_offroad_collision = -0.2f};
    uint64_t state = 1;
    allocate(&env);
    c_reset(&env);
    steps(&env, 182, &state);
    double begin = now(), seconds = atof(argv[2]);
    long done = 0;
    while (now() - begin < seconds) {
        steps(&env, 91, &state);
        done += 91;
    }
    printf("%d %ld %.9f\n", env.active_agent_count, done * env.active_agent_count, now() - begin);
    return 0;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// An env in the style of PufferLib 4.0 whose step takes as long as `work` says. It includes nothing
// of PufferLib, so that bench/ocean_env/plain.c can step it alone.
#include <stdlib.h>
#include <string.h>

#define NUMBERS 8

typedef struct Log {
    float score;
    float episode_length;
    float n;
} Log;

typedef struct Work {
    Log log;
    float* observations;
    float* actions;
    float* rewards;
    float* terminals;
    int num_agents;
    unsigned int rng;
    unsigned int state;
    int work, length, tick;
} Work;

static void observe(Work* env) {
    for (int i = 0; i < NUMBERS; i++)
        env->observations[i] = (float)(env->state >> (4 * (i & 7)) & 15);
}

void c_reset(Work* env) {
    env->state = (unsigned int)rand_r(&env->rng);
    env->tick = 0;
    observe(env);
}

void c_step(Work* env) {
    unsigned int state = env->state + (unsigned int)env->actions[0];
    for (int i = 0; i < env->work; i++)
        state = state * 1664525u + 1013904223u; // each waits for the one before
    env->state = state;
    env->tick += 1;
    env->rewards[0] = (float)(state & 1);
    if (env->tick == env->length) {
        env->terminals[0] = 1;
        env->log.score += env->rewards[0];
        env->log.episode_length += (float)env->tick;
        env->log.n += 1;
        c_reset(env);
        return;
    }
    observe(env);
}

void c_render(Work* env) {
    (void)env;
}

void c_close(Work* env) {
    (void)env;
}

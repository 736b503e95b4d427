// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `lantern`, in the convention of PufferLib's Ocean, as it would stand there: it knows nothing of
// puffervec.
//
// A corridor of cells, one lantern, one agent. Actions: 0 wait, 1 left, 2 right, 3 light. To light
// on the lantern's cell is worth 1 and ends the episode; to light anywhere else costs 1 and ends it
// too, as does the time limit.
#include <stdlib.h>
#include <string.h>

typedef struct {
    float score; // 1 if the lantern was lit
    float episode_return;
    float episode_length;
    float n;
} Log;

typedef struct {
    Log log;
    unsigned char*
        observations; // (2 * size,) one-hot of the agent's cell, one-hot of the lantern's
    int* actions;
    float* rewards;
    unsigned char* terminals;
    int size;
    int max_ticks;
    float step_cost;
    int agent;
    int lantern;
    int tick;
    float episode_return;
} Lantern;

void c_reset(Lantern* env);
void c_step(Lantern* env);
void c_close(Lantern* env);

static void observe(Lantern* env) {
    memset(env->observations, 0, 2 * (size_t)env->size);
    env->observations[env->agent] = 1;
    env->observations[env->size + env->lantern] = 1;
}

static void end_episode(Lantern* env, float reward, int lit) {
    env->rewards[0] += reward;
    env->terminals[0] = 1;
    env->log.score += (float)lit;
    env->log.episode_return += env->episode_return + env->rewards[0];
    env->log.episode_length += (float)env->tick;
    env->log.n += 1;
    c_reset(env);
}

void c_reset(Lantern* env) {
    env->tick = 0;
    env->episode_return = 0;
    env->agent = rand() % env->size;
    env->lantern = rand() % env->size;
    observe(env);
}

void c_step(Lantern* env) {
    int action = env->actions[0];
    env->tick++;
    env->rewards[0] = -env->step_cost;
    env->terminals[0] = 0;
    if (action == 3) {
        int lit = env->agent == env->lantern;
        end_episode(env, lit ? 1.0f : -1.0f, lit);
        return;
    }
    if (action == 1 && env->agent > 0)
        env->agent--;
    if (action == 2 && env->agent < env->size - 1)
        env->agent++;
    if (env->tick >= env->max_ticks) {
        end_episode(env, 0, 0);
        return;
    }
    env->episode_return += env->rewards[0];
    observe(env);
}

void c_close(Lantern* env) {
    (void)env;
}

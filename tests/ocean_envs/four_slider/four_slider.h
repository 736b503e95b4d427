// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Slider: a mass on a rail that is pushed to a mark. The oldest style of 4.0: OBS_TYPE and
// ACT_TYPE, double actions, floats for terminals, no rng member; two continuous actions.

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "raylib.h"

typedef struct Log Log;

struct Log {
    float perf;
    float episode_length;
    float n;
    float score;
};

typedef struct Slider Slider;

struct Slider {
    float* observations;
    double* actions;
    float* rewards;
    float* terminals;
    Log log;
    int num_agents;
    int tick;
    float x, v, mark, friction;
};

void c_reset(Slider* env) {
    env->x = 0;
    env->v = 0;
    env->mark = 2.0f * rand() / (float)RAND_MAX - 1;
    env->tick = 0;
    env->observations[0] = env->x;
    env->observations[1] = env->v;
    env->observations[2] = env->mark;
}

void c_step(Slider* env) {
    float push = fmax(fmin(env->actions[0], 1.0), -1.0);
    float brake = fmax(fmin(env->actions[1], 1.0), 0.0);
    env->v = (env->v + 0.05f * push) * (1 - env->friction) * (1 - 0.5f * brake);
    env->x += env->v;
    env->tick += 1;
    float off = fabsf(env->x - env->mark);
    env->rewards[0] = -off;
    env->terminals[0] = 0;
    if (off < 0.05f || env->tick >= 50) {
        env->terminals[0] = 1;
        env->log.perf += off < 0.05f;
        env->log.score += 1 - off;
        env->log.episode_length += env->tick;
        env->log.n += 1;
        c_reset(env);
        return;
    }
    env->observations[0] = env->x;
    env->observations[1] = env->v;
}

void c_render(Slider* env) {
    DrawRectangle(300 + 100 * env->x, 40, 20, 20, LIME);
}

void c_close(Slider* env) {
}

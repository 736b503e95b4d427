// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Levels: a walker crosses gaps of levels that all envs share. Continuous actions, levels made once
// by MY_SHARED.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "raylib.h"

#define LENGTH 24

typedef struct {
    float score;
    float episode_length;
    float n;
} Log;

typedef struct {
    float ground[LENGTH];
} Level;

typedef struct {
    Log log;
    float* observations;
    float* actions;
    float* rewards;
    unsigned char* terminals;
    Level* levels;
    int num_levels;
    int level;
    int tick;
    float at, speed;
} Levels;

void make_level(Level* level, int number) {
    for (int i = 0; i < LENGTH; i++)
        level->ground[i] = sinf(0.7f * i + number) > -0.8f;
}

void look(Levels* env) {
    int cell = (int)env->at;
    env->observations[0] = env->at / LENGTH;
    env->observations[1] = env->speed;
    for (int i = 0; i < 3; i++) {
        env->observations[2 + i] =
            cell + i < LENGTH ? env->levels[env->level].ground[cell + i] : 1.0f;
    }
}

void c_reset(Levels* env) {
    env->level = rand() % env->num_levels;
    env->at = 0;
    env->speed = 0;
    env->tick = 0;
    look(env);
}

void c_step(Levels* env) {
    env->tick += 1;
    env->rewards[0] = 0;
    env->terminals[0] = 0;
    float push = fminf(fmaxf(env->actions[0], -1), 1);
    int jump = env->actions[1] > 0;
    env->speed = 0.9f * env->speed + 0.2f * push;
    env->at = fmaxf(env->at + env->speed, 0);
    env->rewards[0] = env->speed;
    int cell = (int)env->at;
    int fell = cell < LENGTH && !jump && env->levels[env->level].ground[cell] == 0;
    if (fell || cell >= LENGTH || env->tick >= 60) {
        env->rewards[0] += fell ? -1 : 1;
        env->terminals[0] = 1;
        env->log.score += env->at / LENGTH;
        env->log.episode_length += env->tick;
        env->log.n += 1;
        c_reset(env);
        return;
    }
    look(env);
}

void c_render(Levels* env) {
    BeginDrawing();
    DrawCircle((int)(20 * env->at), 100, 8, RED);
    EndDrawing();
}

void c_close(Levels* env) {
    (void)env;
}

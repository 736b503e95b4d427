// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Flock: several birds on a torus, two choices each; a bird that leaves its band begins anew alone.
// n is the first member of the log, and the env reads and writes bytes.

#include <stdlib.h>
#include <string.h>
#include "raylib.h"

#define GRID 16
#define VIEW 6

typedef struct {
    float n;
    float score;
    float collisions;
} Log;

typedef struct {
    int x, y, age;
} Bird;

typedef struct {
    Log log;
    unsigned char* observations;
    int* actions;
    float* rewards;
    unsigned char* terminals;
    int num_birds;
    float crowding;
    Bird* birds;
    unsigned char taken[GRID * GRID];
} Flock;

void init(Flock* env) {
    env->birds = (Bird*)calloc(env->num_birds, sizeof(Bird));
}

void spawn(Flock* env, int i) {
    env->birds[i] = (Bird){.x = rand() % GRID, .y = rand() % GRID, .age = 0};
}

void observe(Flock* env) {
    memset(env->taken, 0, sizeof(env->taken));
    for (int i = 0; i < env->num_birds; i++) {
        env->taken[env->birds[i].y * GRID + env->birds[i].x] += 1;
    }
    for (int i = 0; i < env->num_birds; i++) {
        Bird* bird = &env->birds[i];
        unsigned char* row = env->observations + i * VIEW;
        row[0] = bird->x;
        row[1] = bird->y;
        row[2] = bird->age;
        row[3] = env->taken[bird->y * GRID + (bird->x + 1) % GRID];
        row[4] = env->taken[(bird->y + 1) % GRID * GRID + bird->x];
        row[5] = env->taken[bird->y * GRID + bird->x];
    }
}

void c_reset(Flock* env) {
    for (int i = 0; i < env->num_birds; i++)
        spawn(env, i);
    observe(env);
}

void c_step(Flock* env) {
    memset(env->rewards, 0, env->num_birds * sizeof(float));
    memset(env->terminals, 0, env->num_birds);
    for (int i = 0; i < env->num_birds; i++) {
        Bird* bird = &env->birds[i];
        bird->x = (bird->x + GRID + env->actions[2 * i] - 1) % GRID;
        bird->y = (bird->y + GRID + env->actions[2 * i + 1] - 1) % GRID;
        bird->age += 1;
    }
    observe(env);
    for (int i = 0; i < env->num_birds; i++) {
        Bird* bird = &env->birds[i];
        int others = env->taken[bird->y * GRID + bird->x] - 1;
        env->rewards[i] = 0.5f - env->crowding * others;
        env->log.collisions += others;
        if (bird->age > 20 + 3 * i || bird->x == 0) {
            env->terminals[i] = 1;
            env->log.score += bird->age;
            env->log.n += 1;
            spawn(env, i);
        }
    }
    observe(env);
}

void c_render(Flock* env) {
    if (!IsWindowReady())
        InitWindow(GRID * 20, GRID * 20, "Flock");
    BeginDrawing();
    ClearBackground(BLACK);
    for (int i = 0; i < env->num_birds; i++) {
        DrawRectangleRec((Rectangle){env->birds[i].x * 20.0f, env->birds[i].y * 20.0f, 18, 18},
                         SKYBLUE);
    }
    EndDrawing();
}

void c_close(Flock* env) {
    free(env->birds);
    env->birds = NULL;
    if (IsWindowReady())
        CloseWindow();
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Catch: fruit falls from the top row, a basket moves below it. One agent, floats, rand().

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "raylib.h"

typedef struct Log Log;

struct Log {
    float perf;
    float score;
    float episode_return;
    float episode_length;
    float n;
};

typedef struct Client {
    Texture2D fruit;
} Client;

typedef struct {
    Log log;
    Client* client;
    float* observations;
    int* actions;
    float* rewards;
    unsigned char* terminals;
    int width;
    int height;
    float catch_reward;
    int column, row, basket, caught, tick;
    float episode_return;
} Catch;

void init(Catch* env) {
    env->tick = 0;
    memset(&env->log, 0, sizeof(Log));
}

void allocate(Catch* env) {
    init(env);
    env->observations = (float*)calloc(4, sizeof(float));
    env->actions = (int*)calloc(1, sizeof(int));
    env->rewards = (float*)calloc(1, sizeof(float));
    env->terminals = (unsigned char*)calloc(1, sizeof(unsigned char));
}

void free_allocated(Catch* env) {
    free(env->observations);
    free(env->actions);
    free(env->rewards);
    free(env->terminals);
}

void add_log(Catch* env) {
    env->log.perf += env->caught / 5.0f;
    env->log.score += env->caught;
    env->log.episode_return += env->episode_return;
    env->log.episode_length += env->tick;
    env->log.n += 1;
}

void compute_observations(Catch* env) {
    env->observations[0] = env->column / (float)env->width;
    env->observations[1] = env->row / (float)env->height;
    env->observations[2] = env->basket / (float)env->width;
    env->observations[3] = sinf(0.1f * env->tick);
}

void drop(Catch* env) {
    env->column = rand() % env->width;
    env->row = 0;
}

void c_reset(Catch* env) {
    env->tick = 0;
    env->caught = 0;
    env->episode_return = 0;
    env->basket = rand() % env->width;
    drop(env);
    compute_observations(env);
}

void c_step(Catch* env) {
    env->tick += 1;
    env->terminals[0] = 0;
    env->rewards[0] = 0;
    env->basket += env->actions[0] - 1;
    if (env->basket < 0)
        env->basket = 0;
    if (env->basket >= env->width)
        env->basket = env->width - 1;
    env->row += 1 + rand() % 2;
    if (env->row >= env->height) {
        if (abs(env->column - env->basket) <= 1) {
            env->caught += 1;
            env->rewards[0] = env->catch_reward;
            env->episode_return += env->catch_reward;
            drop(env);
        } else {
            env->rewards[0] = -1.0f;
            env->episode_return -= 1.0f;
            env->terminals[0] = 1;
        }
    }
    if (env->caught >= 5)
        env->terminals[0] = 1;
    if (env->terminals[0]) {
        add_log(env);
        c_reset(env);
        return;
    }
    compute_observations(env);
}

const Color BACKGROUND = (Color){6, 24, 24, 255};

void c_render(Catch* env) {
    if (IsKeyDown(KEY_ESCAPE))
        exit(0);
    if (env->client == NULL) {
        InitWindow(40 * env->width, 40 * env->height, "Catch");
        SetTargetFPS(30);
        env->client = (Client*)calloc(1, sizeof(Client));
        env->client->fruit = LoadTexture("resources/three_catch/fruit.png");
    }
    BeginDrawing();
    ClearBackground(BACKGROUND);
    DrawRectangle(40 * env->basket, 40 * env->height - 10, 40, 10, RED);
    DrawCircleV((Vector2){40.0f * env->column + 20, 40.0f * env->row + 20}, 15, GREEN);
    DrawText(TextFormat("Caught: %i", env->caught), 10, 10, 20, RAYWHITE);
    EndDrawing();
}

void c_close(Catch* env) {
    if (env->client == NULL)
        return;
    UnloadTexture(env->client->fruit);
    CloseWindow();
    free(env->client);
    env->client = NULL;
}

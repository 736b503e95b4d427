// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// tag_grid as a plain loop: what somebody writes who takes the rules and writes them down, one
// struct per env, loops over envs and agents. The yardstick of bench/tag.py for csrc/tag/grid.c; no
// part of the package. An env that is done starts again at its next step, as ours does, so that
// both do the same work and write the same numbers.
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef struct tag_env {
    int time;
    int done;
    int* x; // (agents,)
    int* y;
    float* observations; // (agents, 4 * agents + 1), or (agents, 6)
    float* rewards;      // (agents,)
    uint8_t* dones;      // (agents,)
} tag_env;

typedef struct plain_tag {
    int envs, taggers, grid_length, episode_length, full;
    float wall_hit_penalty, tag_reward, tag_penalty, step_cost;
    tag_env* each;
    int* cells;
    float* observations;
    float* rewards;
    uint8_t* dones;
} plain_tag;

static void observe_full(const plain_tag* game, tag_env* env) {
    int agents = game->taggers + 1;
    for (int i = 0; i < agents; i++) {
        float* row = env->observations + i * (4 * agents + 1);
        for (int j = 0; j < agents; j++) {
            row[j] = (float)env->x[j] / (float)game->grid_length;
            row[agents + j] = (float)env->y[j] / (float)game->grid_length;
            row[2 * agents + j] = j == game->taggers ? 1.0f : 0.0f;
            row[3 * agents + j] = i == j ? 1.0f : 0.0f;
        }
        row[4 * agents] = (float)env->time / (float)game->episode_length;
    }
}

static int nearest_tagger(const plain_tag* game, const tag_env* env) {
    int nearest = 0, best = 0;
    for (int i = 0; i < game->taggers; i++) {
        int dx = env->x[i] - env->x[game->taggers], dy = env->y[i] - env->y[game->taggers];
        int squared = dx * dx + dy * dy;
        if (i == 0 || squared < best) {
            best = squared;
            nearest = i;
        }
    }
    return nearest;
}

static void observe_partial(const plain_tag* game, tag_env* env) {
    int nearest = nearest_tagger(game, env);
    for (int i = 0; i <= game->taggers; i++) {
        float* row = env->observations + i * 6;
        int other = i == game->taggers ? nearest : game->taggers;
        row[0] = (float)env->x[i] / (float)game->grid_length;
        row[1] = (float)env->y[i] / (float)game->grid_length;
        row[2] = (float)env->x[other] / (float)game->grid_length;
        row[3] = (float)env->y[other] / (float)game->grid_length;
        row[4] = i == game->taggers ? 1.0f : 0.0f;
        row[5] = (float)env->time / (float)game->episode_length;
    }
}

static void observe(const plain_tag* game, tag_env* env) {
    if (game->full)
        observe_full(game, env);
    else
        observe_partial(game, env);
}

static void reset(const plain_tag* game, tag_env* env) {
    env->time = 0;
    env->done = 0;
    for (int i = 0; i <= game->taggers; i++) {
        env->x[i] = env->y[i] = i < game->taggers ? game->grid_length / 2 : 0;
        env->rewards[i] = 0.0f;
        env->dones[i] = 0;
    }
    observe(game, env);
}

static int move(const plain_tag* game, tag_env* env, int i, int action) {
    static const int dx[5] = {0, 1, -1, 0, 0}, dy[5] = {0, 0, 0, 1, -1};
    int x = env->x[i] + dx[action], y = env->y[i] + dy[action];
    int wall = x < 0 || x > game->grid_length || y < 0 || y > game->grid_length;
    if (!wall) {
        env->x[i] = x;
        env->y[i] = y;
    }
    return wall;
}

static void step(const plain_tag* game, tag_env* env, const int32_t* actions) {
    int tagged = 0;
    env->time++;
    for (int i = 0; i <= game->taggers; i++)
        env->rewards[i] = move(game, env, i, actions[i]) ? -game->wall_hit_penalty : 0.0f;
    for (int i = 0; i < game->taggers; i++) {
        if (env->x[i] == env->x[game->taggers] && env->y[i] == env->y[game->taggers])
            tagged = 1;
    }
    for (int i = 0; i < game->taggers; i++)
        env->rewards[i] += tagged ? game->tag_reward : -game->step_cost;
    env->rewards[game->taggers] += tagged ? -game->tag_penalty : game->step_cost;
    observe(game, env);
    env->done = tagged || env->time >= game->episode_length;
    for (int i = 0; i <= game->taggers; i++)
        env->dones[i] = (uint8_t)env->done;
}

void plain_tag_reset(plain_tag* game) {
    for (int env = 0; env < game->envs; env++)
        reset(game, &game->each[env]);
}

// Steps all envs `steps` times, with batch after batch of actions (batches, envs * agents). Returns
// the seconds.
double plain_tag_steps(plain_tag* game, const int32_t* actions, uint32_t batches, uint32_t steps) {
    int agents = game->taggers + 1;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint32_t turn = 0; turn < steps; turn++) {
        const int32_t* batch = actions + (size_t)(turn % batches) * (size_t)(game->envs * agents);
        for (int env = 0; env < game->envs; env++) {
            if (game->each[env].done)
                reset(game, &game->each[env]);
            else
                step(game, &game->each[env], batch + env * agents);
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

void plain_tag_close(plain_tag* game) {
    free(game->each);
    free(game->cells);
    free(game->observations);
    free(game->rewards);
    free(game->dones);
}

// Makes the envs of a game whose settings are filled in. Returns 0, or 1 where memory is short.
int plain_tag_open(plain_tag* game) {
    size_t agents = (size_t)game->taggers + 1, rows = (size_t)game->envs * agents;
    size_t floats = game->full ? 4 * agents + 1 : 6;
    game->each = calloc((size_t)game->envs, sizeof *game->each);
    game->cells = calloc(2 * rows, sizeof *game->cells);
    game->observations = calloc(rows * floats, sizeof *game->observations);
    game->rewards = calloc(rows, sizeof *game->rewards);
    game->dones = calloc(rows, sizeof *game->dones);
    if (!game->each || !game->cells || !game->observations || !game->rewards || !game->dones)
        return 1;
    for (size_t env = 0; env < (size_t)game->envs; env++) {
        size_t first = env * agents;
        game->each[env] = (tag_env){.x = game->cells + 2 * first,
                                    .y = game->cells + 2 * first + agents,
                                    .observations = game->observations + first * floats,
                                    .rewards = game->rewards + first,
                                    .dones = game->dones + first};
    }
    return 0;
}

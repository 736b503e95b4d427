// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Maze: walk from a random cell to a random flag. The map is read from a file, my_init draws walls,
// and all numbers come from rand_r.

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "raylib.h"

#define ROWS 7
#define COLS 9

typedef struct Log {
    float perf;
    float score;
    float episode_return;
    float episode_length;
    float n;
} Log;

typedef struct Maze {
    Log log;
    float* observations;
    float* actions;
    float* rewards;
    float* terminals;
    int num_agents;
    unsigned int rng;
    int max_steps;
    float step_cost;
    char cells[ROWS][COLS + 1];
    int row, col, goal_row, goal_col, tick;
    float episode_return;
} Maze;

static void load_map(Maze* env) {
    FILE* file = fopen("resources/four_maze/maze.txt", "r");
    assert(file != NULL && "the map is missing");
    char line[64];
    for (int row = 0; row < ROWS && fgets(line, sizeof(line), file); row++) {
        memcpy(env->cells[row], line, COLS);
    }
    fclose(file);
}

void init(Maze* env) {
    load_map(env);
    for (int i = 0; i < 3; i++) { // each env has a few more open cells
        env->cells[1 + rand_r(&env->rng) % (ROWS - 2)][1 + rand_r(&env->rng) % (COLS - 2)] = '.';
    }
}

static void place(Maze* env, int* row, int* col) {
    do {
        *row = rand_r(&env->rng) % ROWS;
        *col = rand_r(&env->rng) % COLS;
    } while (env->cells[*row][*col] == '#');
}

static float open_at(Maze* env, int row, int col) {
    return env->cells[row][col] != '#';
}

void compute_observations(Maze* env) {
    int r = env->row, c = env->col;
    float values[8] = {
        r / (float)ROWS,
        c / (float)COLS,
        env->goal_row / (float)ROWS,
        env->goal_col / (float)COLS,
        open_at(env, r - 1, c),
        open_at(env, r + 1, c),
        open_at(env, r, c - 1),
        open_at(env, r, c + 1),
    };
    memcpy(env->observations, values, sizeof(values));
}

void c_reset(Maze* env) {
    place(env, &env->row, &env->col);
    place(env, &env->goal_row, &env->goal_col);
    env->tick = 0;
    env->episode_return = 0;
    compute_observations(env);
}

void c_step(Maze* env) {
    static const int moves[4][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};
    int action = (int)env->actions[0];
    int row = env->row + moves[action][0], col = env->col + moves[action][1];
    env->tick += 1;
    env->rewards[0] = -env->step_cost;
    if (env->cells[row][col] != '#') {
        env->row = row;
        env->col = col;
    }
    int won = env->row == env->goal_row && env->col == env->goal_col;
    if (won)
        env->rewards[0] = 1;
    env->episode_return += env->rewards[0];
    if (won || env->tick >= env->max_steps) {
        env->terminals[0] = 1;
        env->log.perf += won;
        env->log.score += won;
        env->log.episode_return += env->episode_return;
        env->log.episode_length += env->tick;
        env->log.n += 1;
        c_reset(env);
        return;
    }
    compute_observations(env);
}

void c_render(Maze* env) {
    if (!IsWindowReady())
        InitWindow(COLS * 32, ROWS * 32, "Maze");
    BeginDrawing();
    ClearBackground(DARKGRAY);
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLS; c++) {
            if (env->cells[r][c] == '#')
                DrawRectangle(c * 32, r * 32, 32, 32, BLACK);
        }
    }
    DrawCircle(env->col * 32 + 16, env->row * 32 + 16, 12, BLUE);
    DrawCircleLines(env->goal_col * 32 + 16, env->goal_row * 32 + 16, 12, GOLD);
    EndDrawing();
}

void c_close(Maze* env) {
    if (IsWindowReady())
        CloseWindow();
}

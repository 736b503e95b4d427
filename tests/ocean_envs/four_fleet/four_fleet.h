// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Fleet: ships of one env gather ore of a chart that all envs of a process share. Three actions of
// different sizes, several agents, MY_VEC_INIT, a global, static state.

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "raylib.h"

#define SECTORS 12
#define SEES 5

typedef struct Log {
    float perf;
    float ore;
    float resets_seen;
    float n;
} Log;

typedef struct Chart {
    float ore[SECTORS];
} Chart;

typedef struct Fleet {
    Log log;
    float* observations;
    float* actions;
    float* rewards;
    float* terminals;
    int num_agents;
    unsigned int rng;
    Chart* chart;
    int* sector;
    int tick, horizon;
    float found;
} Fleet;

int total_resets = 0; // of all envs of this process

Chart* make_chart(float richness) {
    Chart* chart = (Chart*)calloc(1, sizeof(Chart));
    for (int i = 0; i < SECTORS; i++)
        chart->ore[i] = richness * (1 + cosf(1.3f * i));
    return chart;
}

static int next_ship_number(void) {
    static int number = 0;
    return number++;
}

void see(Fleet* env) {
    for (int i = 0; i < env->num_agents; i++) {
        float* row = env->observations + i * SEES;
        row[0] = env->sector[i];
        row[1] = env->chart->ore[env->sector[i]];
        row[2] = env->tick;
        row[3] = total_resets;
        row[4] = next_ship_number();
    }
}

void c_reset(Fleet* env) {
    total_resets += 1;
    env->tick = 0;
    env->found = 0;
    for (int i = 0; i < env->num_agents; i++)
        env->sector[i] = rand_r(&env->rng) % SECTORS;
    see(env);
}

void c_step(Fleet* env) {
    env->tick += 1;
    for (int i = 0; i < env->num_agents; i++) {
        int left = (int)env->actions[3 * i], stride = (int)env->actions[3 * i + 1];
        int dig = (int)env->actions[3 * i + 2];
        env->sector[i] = (env->sector[i] + SECTORS + (left ? -stride : stride)) % SECTORS;
        env->rewards[i] = dig * env->chart->ore[env->sector[i]] / 4;
        env->found += env->rewards[i];
    }
    if (env->tick == env->horizon) {
        for (int i = 0; i < env->num_agents; i++)
            env->terminals[i] = 1;
        env->log.perf += env->found / (env->num_agents * env->horizon);
        env->log.ore += env->found;
        env->log.resets_seen += total_resets;
        env->log.n += 1;
        c_reset(env);
        return;
    }
    see(env);
}

void c_render(Fleet* env) {
    if (!IsWindowReady())
        InitWindow(640, 100, "Fleet");
    BeginDrawing();
    for (int i = 0; i < env->num_agents; i++)
        DrawCircle(50 * env->sector[i], 50, 10, YELLOW);
    EndDrawing();
}

void c_close(Fleet* env) {
    free(env->sector);
    env->sector = NULL;
}

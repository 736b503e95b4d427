// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Pole: one pole to balance with a continuous push. The simplest env in the style of 5.0.

#include <math.h>
#include <stdlib.h>
#include "raylib.h"
typedef float obs_t;
#include "pufferenv.h"

#define OBS_SIZE 3
#define NUM_ATNS 1
#define ACT_SIZES {1}

struct Log {
    float perf;
    float score;
    float episode_return;
    float episode_length;
    float n;
};

typedef struct Env {
    Log log;
    Agent agents[1];
    int num_agents;
    int tag;
    int boundary_reached;
    unsigned int rng;
    float angle, spin, gravity;
    int tick, max_steps;
    float episode_return;
} Pole;

void observe(Pole* env) {
    obs_t* row = env->agents[0].observations;
    row[0] = sinf(env->angle);
    row[1] = cosf(env->angle);
    row[2] = env->spin;
}

void puf_reset(Pole* env) {
    env->angle = 0.2f * (rand_r(&env->rng) / (float)RAND_MAX) - 0.1f;
    env->spin = 0;
    env->tick = 0;
    env->episode_return = 0;
    observe(env);
}

void puf_step(Pole* env) {
    Agent* agent = &env->agents[0];
    float push = fminf(fmaxf(agent->actions[0], -1), 1);
    env->spin += 0.05f * (env->gravity * sinf(env->angle) + 4 * push);
    env->angle += 0.05f * env->spin;
    env->tick += 1;
    agent->rewards[0] = 1 - fabsf(env->angle);
    agent->terminals[0] = 0;
    env->episode_return += agent->rewards[0];
    if (fabsf(env->angle) > 0.6f || env->tick >= env->max_steps) {
        agent->terminals[0] = 1;
        env->log.perf += env->tick / (float)env->max_steps;
        env->log.score += env->tick;
        env->log.episode_return += env->episode_return;
        env->log.episode_length += env->tick;
        env->log.n += 1;
        puf_reset(env);
        return;
    }
    observe(env);
}

void puf_render(Pole* env) {
    if (!IsWindowReady()) {
        InitWindow(400, 400, "Pole");
        SetTargetFPS(60);
    }
    BeginDrawing();
    ClearBackground(BLACK);
    Vector2 foot = {200, 300};
    Vector2 head = {200 + 150 * sinf(env->angle), 300 - 150 * cosf(env->angle)};
    DrawLineEx(foot, head, 6, ORANGE);
    EndDrawing();
    puf_web_vsync();
}

void puf_close(Pole* env) {
    if (IsWindowReady())
        CloseWindow();
}

void puf_init(Env* env, Dict* kwargs) {
    env->num_agents = 1;
    env->gravity = dict_get(kwargs, "gravity");
    env->max_steps = dict_get(kwargs, "max_steps");
    env->agents[0].policy = 0;
}

void puf_log(Log* log, Dict* out) {
    dict_set(out, "perf", log->perf);
    dict_set(out, "score", log->score);
    dict_set(out, "episode_return", log->episode_return);
    dict_set(out, "episode_length", log->episode_length);
    dict_set(out, "n", log->n);
}

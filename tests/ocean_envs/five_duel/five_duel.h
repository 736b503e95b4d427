// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Duel: a hunter and a hider on a ring, each with a policy of its own. Observations in bf16, action
// masks, a scripted opponent on request.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "raylib.h"
typedef uint16_t obs_t; // bf16
#define PUF_HAS_BOT_POLICY
#include "pufferenv.h"

#define RING 20
#define OBS_SIZE 4
#define NUM_ATNS 2
#define MOVES 5
#define ACT_SIZES {MOVES, 2}

struct Log {
    float score;
    float hider_wins;
    float n;
    float episode_length;
};

struct Env {
    Log log;
    Agent agents[2];
    int num_agents;
    int tag;
    int boundary_reached;
    unsigned int rng;
    int bot_policy;
    int place[2];
    int tired[2];
    int tick, max_steps;
};

static int distance(Env* env) {
    int d = abs(env->place[0] - env->place[1]);
    return d < RING - d ? d : RING - d;
}

static void show(Env* env) {
    for (int i = 0; i < 2; i++) {
        Agent* agent = &env->agents[i];
        agent->observations[0] = f32_to_bf16(env->place[i] / (float)RING);
        agent->observations[1] = f32_to_bf16(env->place[1 - i] / (float)RING);
        agent->observations[2] = f32_to_bf16(sinf(0.3f * env->tick));
        agent->observations[3] = f32_to_bf16(-1.7f * env->tired[i]);
        for (int move = 0; move < MOVES; move++) {
            int step = move - MOVES / 2;
            agent->action_mask[move] = !env->tired[i] || abs(step) < 2;
        }
        agent->action_mask[MOVES] = 1;
        agent->action_mask[MOVES + 1] = env->tick % 3 == 0;
    }
}

void puf_reset(Env* env) {
    env->place[0] = rand_r(&env->rng) % RING;
    env->place[1] = (env->place[0] + RING / 2) % RING;
    env->tired[0] = env->tired[1] = 0;
    env->tick = 0;
    show(env);
}

void puf_step(Env* env) {
    env->tick += 1;
    for (int i = 0; i < 2; i++) {
        int step = (int)env->agents[i].actions[0] - MOVES / 2;
        int leap = (int)env->agents[i].actions[1];
        if (i == 1 && env->bot_policy == 1)
            step = 1;
        env->place[i] = (env->place[i] + RING + step + leap) % RING;
        env->tired[i] = abs(step) == 2;
    }
    int caught = distance(env) <= 1;
    env->agents[0].rewards[0] = caught ? 1 : -0.01f;
    env->agents[1].rewards[0] = caught ? -1 : 0.01f;
    env->boundary_reached = caught || env->tick >= env->max_steps;
    if (env->boundary_reached) {
        env->agents[0].terminals[0] = env->agents[1].terminals[0] = 1;
        env->log.score += caught;
        env->log.hider_wins += !caught;
        env->log.episode_length += env->tick;
        env->log.n += 1;
        puf_reset(env);
        return;
    }
    show(env);
}

void puf_set_bot_policy(Env* env, int bot_policy) {
    env->bot_policy = bot_policy;
}

void puf_render(Env* env) {
    BeginDrawing();
    for (int i = 0; i < 2; i++) {
        float angle = 2 * PI * env->place[i] / RING;
        DrawCircleV((Vector2){200 + 100 * cosf(angle), 200 + 100 * sinf(angle)}, 8, i ? BLUE : RED);
    }
    EndDrawing();
}

void puf_close(Env* env) {
}

void puf_init(Env* env, Dict* kwargs) {
    env->num_agents = 2;
    env->max_steps = dict_get(kwargs, "max_steps");
    for (int i = 0; i < 2; i++)
        env->agents[i].policy = i;
}

void puf_log(Log* log, Dict* out) {
    dict_set(out, "score", log->score);
    dict_set(out, "hider_wins", log->hider_wins);
    dict_set(out, "episode_length", log->episode_length);
}

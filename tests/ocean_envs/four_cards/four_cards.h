// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Cards: two players take turns; who may not move has one legal choice, "pass". Bytes, action
// masks, demo code with a main() in the same header.

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "raylib.h"

#define PLAYERS 2
#define CARDS 6
#define CHOICES (CARDS + 1)
#define VIEW (2 * CARDS + 2)
#define PASS CARDS

typedef struct Log {
    float score;
    float draws;
    float n;
    float episode_length;
} Log;

typedef struct Cards {
    Log log;
    unsigned char* observations;
    float* actions;
    float* rewards;
    float* terminals;
    unsigned char* action_mask;
    int num_agents;
    unsigned int rng;
    int bonus;
    bool hand[PLAYERS][CARDS];
    int points[PLAYERS];
    int turn, tick;
} Cards;

void deal(Cards* env) {
    for (int p = 0; p < PLAYERS; p++) {
        for (int c = 0; c < CARDS; c++)
            env->hand[p][c] = rand_r(&env->rng) % 3 != 0;
        env->points[p] = 0;
    }
    env->turn = rand_r(&env->rng) % PLAYERS;
    env->tick = 0;
}

bool may_play(Cards* env, int player) {
    if (player != env->turn)
        return false;
    for (int c = 0; c < CARDS; c++) {
        if (env->hand[player][c])
            return true;
    }
    return false;
}

void show(Cards* env) {
    for (int p = 0; p < PLAYERS; p++) {
        unsigned char* view = env->observations + p * VIEW;
        unsigned char* mask = env->action_mask + p * CHOICES;
        for (int c = 0; c < CARDS; c++) {
            view[c] = env->hand[p][c];
            view[CARDS + c] = env->hand[1 - p][c];
            mask[c] = may_play(env, p) && env->hand[p][c];
        }
        view[2 * CARDS] = env->turn == p;
        view[2 * CARDS + 1] = env->points[p];
        mask[PASS] = !may_play(env, p);
    }
}

void c_reset(Cards* env) {
    deal(env);
    show(env);
}

void c_step(Cards* env) {
    env->tick += 1;
    int card = (int)env->actions[env->turn];
    // An illegal move would mean that the mask was ignored.
    assert(env->action_mask[env->turn * CHOICES + card] && "illegal move");
    if (card != PASS) {
        env->hand[env->turn][card] = false;
        env->points[env->turn] += card + (rand_r(&env->rng) % 4 == 0 ? env->bonus : 0);
        env->rewards[env->turn] = card;
    }
    env->turn = 1 - env->turn;
    if (!may_play(env, env->turn) && card == PASS) {
        int lead = env->points[0] - env->points[1];
        env->rewards[0] = lead > 0 ? 1 : lead < 0 ? -1 : 0;
        env->rewards[1] = -env->rewards[0];
        env->terminals[0] = env->terminals[1] = 1;
        env->log.score += abs(lead);
        env->log.draws += lead == 0;
        env->log.episode_length += env->tick;
        env->log.n += 1;
        deal(env);
    }
    show(env);
}

void c_render(Cards* env) {
    BeginDrawing();
    DrawText(TextFormat("%d : %d", env->points[0], env->points[1]), 10, 10, 20, WHITE);
    EndDrawing();
}

void c_close(Cards* env) {
}

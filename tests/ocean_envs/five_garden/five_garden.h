// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Garden: gardeners water plants that a file lays out. Bytes, several agents, three sizes of
// choices, settings that are strings, lists and switches, a global that all envs share, and types
// in a header.

typedef unsigned char obs_t;
#include "five_garden_types.h"

static int gardens_opened = 0;

static void observe(Env* env) {
    for (int i = 0; i < env->num_agents; i++) {
        obs_t* row = env->agents[i].observations;
        memcpy(row, env->plants, sizeof(env->plants));
        env->agents[i].observations[HIGH * WIDE] = env->row[i];
        row[HIGH * WIDE + 1] = env->col[i];
        row[HIGH * WIDE + 2] = env->tick;
    }
}

void puf_reset(Env* env) {
    for (int r = 0; r < HIGH; r++) {
        for (int c = 0; c < WIDE; c++) {
            if (env->plants[r][c])
                env->plants[r][c] = 1 + rand_r(&env->rng) % 9;
        }
    }
    for (int i = 0; i < env->num_agents; i++) {
        env->row[i] = rand_r(&env->rng) % HIGH;
        env->col[i] = rand_r(&env->rng) % WIDE;
    }
    env->tick = 0;
    observe(env);
}

void puf_step(Env* env) {
    static const int down[5] = {0, 1, -1, 0, 0}, right[5] = {0, 0, 0, 1, -1};
    env->tick += 1;
    for (int i = 0; i < env->num_agents; i++) {
        Agent* agent = &env->agents[i];
        int move = (int)agent->actions[0], can = (int)agent->actions[1];
        env->row[i] = (env->row[i] + HIGH + down[move]) % HIGH;
        env->col[i] = (env->col[i] + WIDE + right[move]) % WIDE;
        unsigned char* plant = &env->plants[env->row[i]][env->col[i]];
        if (can && *plant) {
            *plant = *plant < 200 ? *plant + can : 1;
            agent->rewards[0] = env->worth[can % env->worths];
            env->log.watered += 1;
        }
        if (env->rain && rand_r(&env->rng) % 5 == 0)
            agent->rewards[0] += 0.125f;
    }
    if (env->tick == 40) {
        for (int i = 0; i < env->num_agents; i++)
            env->agents[i].terminals[0] = 1;
        env->log.episode_length += env->tick;
        env->log.n += 1;
        puf_reset(env);
        return;
    }
    observe(env);
}

void puf_render(Env* env) {
    BeginDrawing();
    for (int i = 0; i < env->num_agents; i++)
        DrawRectangle(env->col[i] * 20, env->row[i] * 20, 18, 18, PINK);
    EndDrawing();
}

void puf_close(Env* env) {
    gardens_opened -= 1;
}

void puf_init(Env* env, Dict* kwargs) {
    gardens_opened += 1;
    env->num_agents = dict_get(kwargs, "gardeners");
    env->rain = dict_get(kwargs, "rain");
    DictItem* worth = dict_find(kwargs, "worth");
    env->worths = worth->len;
    for (int i = 0; i < worth->len && i < 3; i++)
        env->worth[i] = worth->values[i];
    const char* path = dict_get_str(kwargs, "layout");
    FILE* file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "garden: %s is missing\n", path);
        exit(1);
    }
    char line[64];
    for (int r = 0; r < HIGH && fgets(line, sizeof(line), file); r++) {
        for (int c = 0; c < WIDE; c++)
            env->plants[r][c] = line[c] == '*';
    }
    fclose(file);
}

void puf_log(Log* log, Dict* out) {
    dict_set(out, "watered", log->watered);
    dict_set(out, "episode_length", log->episode_length);
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
#include "four_fleet.h"

#define OBS_SIZE SEES
#define NUM_ATNS 3
#define ACT_SIZES {2, 4, 3}
#define OBS_TENSOR_T FloatTensor

#define MY_VEC_INIT
#define MY_VEC_CLOSE
#define Env Fleet
#include "vecenv.h"

Env* my_vec_init(int* num_envs_out,
                 int* buffer_env_starts,
                 int* buffer_env_counts,
                 Dict* vec_kwargs,
                 Dict* env_kwargs) {
    int total_agents = (int)dict_get(vec_kwargs, "total_agents")->value;
    int num_buffers = (int)dict_get(vec_kwargs, "num_buffers")->value;
    int ships = (int)dict_get(env_kwargs, "ships")->value;
    int num_envs = total_agents / ships;
    int envs_per_buffer = num_envs / num_buffers;
    Env* envs = (Env*)calloc(num_envs, sizeof(Env));
    Chart* chart = make_chart(dict_get(env_kwargs, "richness")->value);
    for (int i = 0; i < num_envs; i++) {
        envs[i].rng = i;
        envs[i].chart = chart;
        my_init(&envs[i], env_kwargs);
    }
    for (int b = 0; b < num_buffers; b++) {
        buffer_env_starts[b] = b * envs_per_buffer;
        buffer_env_counts[b] = envs_per_buffer;
    }
    *num_envs_out = num_envs;
    return envs;
}

void my_vec_close(Env* envs) {
    free(envs[0].chart);
}

void my_init(Env* env, Dict* kwargs) {
    env->num_agents = (int)dict_get(kwargs, "ships")->value;
    env->horizon = (int)dict_get(kwargs, "horizon")->value;
    env->sector = (int*)calloc(env->num_agents, sizeof(int));
}

void my_log(Log* log, Dict* out) {
    dict_set(out, "perf", log->perf);
    dict_set(out, "ore", log->ore);
    dict_set(out, "resets_seen", log->resets_seen);
}

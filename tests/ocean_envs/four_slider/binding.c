// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
#include "four_slider.h"
#define OBS_SIZE 3
#define NUM_ATNS 2
#define ACT_SIZES {1, 1}
#define OBS_TYPE FLOAT
#define ACT_TYPE DOUBLE

#define Env Slider
#include "vecenv.h"

void my_init(Env* env, Dict* kwargs) {
    env->num_agents = 1;
    env->friction = dict_get(kwargs, "friction")->value;
}

void my_log(Log* log, Dict* out) {
    dict_set(out, "perf", log->perf);
    dict_set(out, "score", log->score);
    dict_set(out, "episode_length", log->episode_length);
    dict_set(out, "n", log->n);
}

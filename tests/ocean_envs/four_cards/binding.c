// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
#include "four_cards.h"

#define OBS_SIZE VIEW
#define NUM_ATNS 1
#define ACT_SIZES {CHOICES}
#define OBS_TENSOR_T ByteTensor
#define MY_ACTION_MASK CHOICES

#define Env Cards
#include "vecenv.h"

void my_init(Env* env, Dict* kwargs) {
    env->num_agents = PLAYERS;
    DictItem* bonus = dict_get_unsafe(kwargs, "bonus");
    env->bonus = bonus == NULL ? 2 : (int)bonus->value;
}

void my_log(Log* log, Dict* out) {
    dict_set(out, "score", log->score);
    dict_set(out, "draws", log->draws);
    dict_set(out, "episode_length", log->episode_length);
}

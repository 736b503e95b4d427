// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
#include "four_cards.h"
#include <time.h>

int main(void) {
    Cards env = {.num_agents = PLAYERS, .rng = (unsigned int)time(NULL)};
    env.observations = calloc(PLAYERS * VIEW, 1);
    env.actions = calloc(PLAYERS, sizeof(float));
    env.rewards = calloc(PLAYERS, sizeof(float));
    env.terminals = calloc(PLAYERS, sizeof(float));
    env.action_mask = calloc(PLAYERS, CHOICES);
    c_reset(&env);
    while (!WindowShouldClose())
        c_render(&env);
    return 0;
}

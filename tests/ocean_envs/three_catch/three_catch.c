// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// The demo: plays at random in a window.
#include "three_catch.h"

int main() {
    Catch env = {.width = 8, .height = 10, .catch_reward = 1.0f};
    allocate(&env);
    c_reset(&env);
    while (!WindowShouldClose()) {
        env.actions[0] = rand() % 3;
        c_step(&env);
        c_render(&env);
    }
    c_close(&env);
    free_allocated(&env);
    return 0;
}

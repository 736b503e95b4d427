// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See advantage.h. The inner loop runs over rows, so that it vectorizes and memory is read in order.
#include "advantage.h"

void pv_advantage(const float* rewards, const float* values, const uint8_t* terminals, const uint8_t* truncations,
                  const uint8_t* masks, uint32_t horizon, uint32_t rows, float gamma, float gae_lambda, float* advantages,
                  uint8_t* valid) {
    for (uint32_t k = horizon; k-- > 0;) {
        const size_t now = (size_t)k * rows, next = now + rows;
        const int last = k + 1 == horizon;
        for (uint32_t r = 0; r < rows; r++) {
            float bootstrap = terminals[next + r] ? 0.0f : values[next + r];
            float delta = rewards[next + r] + gamma * bootstrap - values[now + r];
            float carried = last ? 0.0f : advantages[next + r]; // 0 where the next transition is invalid
            uint8_t is_valid = (uint8_t)(masks[now + r] && !terminals[now + r] && !truncations[now + r]);
            advantages[now + r] = is_valid ? delta + gamma * gae_lambda * carried : 0.0f;
            valid[now + r] = is_valid;
        }
    }
}

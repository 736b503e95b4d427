// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See advantage.h. The inner loops run over rows, so that they vectorize and memory is read in
// order.
#include "advantage.h"

// The part of a rollout that step k needs: row r of the arrays of step k (`now`) and of step k + 1
// (`next`).
typedef struct step_rows {
    const float *rewards, *values, *next_values;
    const uint8_t *terminals, *truncations, *masks, *next_terminals, *next_masks;
    const float* carried; // advantages of step k + 1, NULL at the end
} step_rows;

// Returns the rows of step k of time-major arrays; advantages is NULL at the end.
static inline step_rows rows_of_step(const float* rewards,
                                     const float* values,
                                     const uint8_t* terminals,
                                     const uint8_t* truncations,
                                     const uint8_t* masks,
                                     const float* advantages,
                                     uint32_t k,
                                     uint32_t rows) {
    const size_t now = (size_t)k * rows, next = now + rows;
    return (step_rows){rewards + next,   values + now,      values + next,
                       terminals + now,  truncations + now, masks + now,
                       terminals + next, masks + next,      advantages ? advantages + next : NULL};
}

static inline float delta_of(const step_rows* at, uint32_t r, float gamma) {
    float bootstrap = at->next_terminals[r] ? 0.0f : at->next_values[r];
    return at->rewards[r] + gamma * bootstrap - at->values[r];
}

static inline uint8_t is_valid(const step_rows* at, uint32_t r) {
    return (uint8_t)(at->masks[r] && !at->terminals[r] && !at->truncations[r] && at->next_masks[r]);
}

static inline float carried(const step_rows* at, uint32_t r) {
    return at->carried ? at->carried[r] : 0.0f; // also 0 where the next transition is invalid
}

static inline float least(float a, float b) {
    return a < b ? a : b;
}

void pv_advantage(const float* rewards,
                  const float* values,
                  const uint8_t* terminals,
                  const uint8_t* truncations,
                  const uint8_t* masks,
                  uint32_t horizon,
                  uint32_t rows,
                  float gamma,
                  float gae_lambda,
                  float* advantages,
                  uint8_t* valid) {
    for (uint32_t k = horizon; k-- > 0;) {
        const size_t now = (size_t)k * rows;
        const step_rows at = rows_of_step(rewards, values, terminals, truncations, masks,
                                          k + 1 == horizon ? NULL : advantages, k, rows);
        for (uint32_t r = 0; r < rows; r++) {
            float advantage = delta_of(&at, r, gamma) + gamma * gae_lambda * carried(&at, r);
            valid[now + r] = is_valid(&at, r);
            advantages[now + r] = valid[now + r] ? advantage : 0.0f;
        }
    }
}

void pv_vtrace(const float* rewards,
               const float* values,
               const uint8_t* terminals,
               const uint8_t* truncations,
               const uint8_t* masks,
               const float* ratios,
               uint32_t horizon,
               uint32_t rows,
               float gamma,
               float gae_lambda,
               float rho_clip,
               float c_clip,
               float* advantages,
               uint8_t* valid) {
    for (uint32_t k = horizon; k-- > 0;) {
        const size_t now = (size_t)k * rows;
        const step_rows at = rows_of_step(rewards, values, terminals, truncations, masks,
                                          k + 1 == horizon ? NULL : advantages, k, rows);
        for (uint32_t r = 0; r < rows; r++) {
            float ratio = ratios[now + r];
            float advantage = least(rho_clip, ratio) * delta_of(&at, r, gamma) +
                              gamma * gae_lambda * least(c_clip, ratio) * carried(&at, r);
            valid[now + r] = is_valid(&at, r);
            advantages[now + r] = valid[now + r] ? advantage : 0.0f;
        }
    }
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Advantages over a rollout with finished, truncated and absent rows: generalized advantage
// estimation and, where the policy has changed since the rollout, V-trace. Runs in the learner;
// owns no memory.
#pragma once

#include "contract/base.h"

/* [cffi] */
// Arrays are time-major: row r of step k is [k * rows + r]. rewards, values, terminals, truncations
// and masks have horizon + 1 steps (the last one is the first of the next rollout); advantages and
// valid have horizon steps and are written.
//
// Transition k -> k+1 is valid iff masks[k] and not (terminals[k] or truncations[k]), and
// masks[k+1]: an agent that left without a flag did not take it. rewards[k + 1] is its reward.
// Then
//   delta_k     = rewards[k+1] + gamma * (terminals[k+1] ? 0 : values[k+1]) - values[k]
//   advantage_k = delta_k + gamma * lambda * advantage_{k+1}
// with the second term only if k+1 -> k+2 is valid. So a truncated row bootstraps with the value of
// its own observation. Invalid transitions get advantage 0. Schulman et al., "High-Dimensional
// Continuous Control Using Generalized Advantage Estimation", 2016, equation 16.
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
                  uint8_t* valid);
// V-trace, with ratios (horizon, rows): the probability of each action under the current policy
// over that under the policy that drew it.
//   advantage_k = min(rho_clip, ratio_k) * delta_k
//                 + gamma * lambda * min(c_clip, ratio_k) * advantage_{k+1}
// `values` are those of the current policy. values[k] + advantage_k is the V-trace target; with all
// ratios 1 and both clips at least 1 this equals pv_advantage. Espeholt et al., "IMPALA", 2018,
// section 4.1, with lambda as in its remark 2.
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
               uint8_t* valid);
/* [/cffi] */

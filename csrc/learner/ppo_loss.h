// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The losses of PPO and A2C with their gradients, in one pass over the samples. In torch the
// formulas (actor_critic_loss in puffervec/train/learn/ppo_loss.py) are some eighty small kernels,
// which take longer than a small policy. Runs in the learner; owns no memory.
#pragma once

#include "contract/base.h"

/* [cffi] */
enum {
    PV_PPO_SUMS = 5
}; // losses of policy and value, entropy, KL estimate, clipped samples: PPO's figures in ppo.py

typedef struct pv_ppo_settings {
    float clip; // 0: A2C, -advantage * log p(action) in place of the clipped ratio; KL estimate and
                // clipped samples are 0
    float value_coef;
    float value_clip; // 0: none
    float entropy_coef;
} pv_ppo_settings;

// The samples as they were collected: (rows) each; actions (rows, dims), int32 choices or float
// numbers; weights NULL: 1 each.
typedef struct pv_ppo_samples {
    uint32_t rows;
    uint32_t dims;
    const void* actions;
    const float* log_probs;
    const float* advantages;
    const float* returns;
    const float* values;
    const float* weights;
} pv_ppo_samples;

// Computes the loss of discrete actions, summed over the samples, and its gradients with respect to
// the logits and values of the current policy.
//
// logits, gradients: one array per dim, (rows, sizes[dim]). values, value_gradients: (rows). sums:
// PV_PPO_SUMS. A sample of weight 0 is ignored, regardless of its contents. An action that is not
// one of the choices gives NaN. See choices.h for limits.
double pv_ppo_loss(const pv_ppo_samples* samples,
                   const pv_ppo_settings* settings,
                   const float* const* logits,
                   const uint32_t* sizes,
                   const float* values,
                   float* const* gradients,
                   float* value_gradients,
                   double* sums);

// Computes the same for actions drawn from normal distributions. head and gradient are (rows, 2
// dims): the means, then the logarithms of the standard deviations.
double pv_ppo_loss_normal(const pv_ppo_samples* samples,
                          const pv_ppo_settings* settings,
                          const float* head,
                          const float* values,
                          float* gradient,
                          float* value_gradients,
                          double* sums);
/* [/cffi] */

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See ppo_loss.h.
#include "ppo_loss.h"

#include "choices.h"

// Writes the gradient with respect to `count` logits: slope is the derivative with respect to the
// log-probability of the chosen one, bonus that with respect to the entropy. d log p_a / d x_i = [i
// = a] - p_i and dH / d x_i = -p_i (log p_i + H).
CHOICE_INLINE void write_gradient(
    const choices* of, uint32_t count, int32_t chosen, float slope, float bonus, float* to) {
    for (uint32_t v = 0; v < of->vectors; v++) {
        fv log_share = of->logits[v] - of->log_sum;
        fv gradient = of->shares[v] * (-slope - bonus * (log_share + of->entropy));
        uint32_t left = count - v * LANES;
        if (left >= LANES)
            memcpy(to + v * LANES, &gradient, sizeof gradient);
        else
            memcpy(to + v * LANES, &gradient, left * sizeof(float));
    }
    to[chosen] += slope;
}

// The terms of a sample that depend on the action's probability; slope: the derivative of the loss
// with respect to the log-probability.
typedef struct policy_terms {
    float loss, kl, slope;
    int clipped;
} policy_terms;

CHOICE_INLINE policy_terms of_ratio(float log_ratio, float advantage, float clip) {
    float ratio = expf(log_ratio);
    float near = ratio < 1.0f - clip ? 1.0f - clip : ratio > 1.0f + clip ? 1.0f + clip : ratio;
    float whole = advantage * ratio, cut = advantage * near;
    policy_terms terms = {.kl = ratio - 1.0f - log_ratio, .clipped = fabsf(ratio - 1.0f) > clip};
    terms.loss = whole > cut ? -cut : -whole;
    terms.slope = whole > cut ? 0.0f : -whole; // Where the clipped term counts, it is constant.
    return terms;
}

// The plain policy gradient: the advantage weights the derivative of log p.
CHOICE_INLINE policy_terms of_log_prob(float log_prob, float advantage) {
    return (policy_terms){.loss = -advantage * log_prob, .slope = -advantage};
}

// The squared error of a sample's value; slope: its derivative with respect to the value.
CHOICE_INLINE float of_value(float value, float before, float target, float bound, float* slope) {
    float error = value - target, square = error * error;
    *slope = 2.0f * error;
    if (bound > 0.0f) {
        float change = value - before, cut = change < -bound  ? -bound
                                             : change > bound ? bound
                                                              : change;
        float near = before + cut - target;
        if (near * near > square) {
            square = near * near;
            *slope = change == cut ? 2.0f * near : 0.0f;
        }
    }
    return square;
}

CHOICE_INLINE float weight_of(const pv_ppo_samples* samples, uint32_t row) {
    return samples->weights ? samples->weights[row] : 1.0f;
}

// Adds a sample's terms to the sums. Returns the derivatives of the loss that do not depend on the
// kind of action.
typedef struct slopes {
    float log_prob, entropy, value;
} slopes;

CHOICE_INLINE slopes account(const pv_ppo_samples* samples,
                             const pv_ppo_settings* settings,
                             uint32_t row,
                             float weight,
                             float log_prob,
                             float entropy,
                             float value,
                             double* sums) {
    float advantage = samples->advantages[row];
    policy_terms terms = settings->clip > 0.0f ? of_ratio(log_prob - samples->log_probs[row],
                                                          advantage, settings->clip)
                                               : of_log_prob(log_prob, advantage);
    float value_slope, error = of_value(value, samples->values[row], samples->returns[row],
                                        settings->value_clip, &value_slope);
    sums[0] += (double)(weight * terms.loss);
    sums[1] += (double)(weight * 0.5f * error);
    sums[2] += (double)(weight * entropy);
    sums[3] += (double)(weight * terms.kl);
    sums[4] += terms.clipped ? (double)weight : 0.0;
    return (slopes){weight * terms.slope, -weight * settings->entropy_coef,
                    weight * settings->value_coef * 0.5f * value_slope};
}

CHOICE_INLINE double total(const pv_ppo_settings* settings, const double* sums) {
    return sums[0] + (double)settings->value_coef * sums[1] -
           (double)settings->entropy_coef * sums[2];
}

PV_CLONES
double pv_ppo_loss(const pv_ppo_samples* samples,
                   const pv_ppo_settings* settings,
                   const float* const* logits,
                   const uint32_t* sizes,
                   const float* values,
                   float* const* gradients,
                   float* value_gradients,
                   double* sums) {
    fv room[2][PV_MOST_CHOICES / LANES];
    choices of[PV_MOST_DIMS];
    uint32_t dims = samples->dims;
    lay_out(of, sizes, dims, room);
    memset(sums, 0, PV_PPO_SUMS * sizeof *sums);
    for (uint32_t row = 0; row < samples->rows; row++) {
        float weight = weight_of(samples, row);
        value_gradients[row] = 0.0f;
        if (weight == 0.0f) {
            for (uint32_t d = 0; d < dims; d++)
                memset(gradients[d] + (size_t)row * sizes[d], 0, sizes[d] * sizeof(float));
            continue;
        }
        const int32_t* actions = (const int32_t*)samples->actions + (size_t)row * dims;
        float log_prob = 0.0f, entropy = 0.0f;
        for (uint32_t d = 0; d < dims; d++) {
            read_choices(logits[d] + (size_t)row * sizes[d], sizes[d], &of[d]);
            int known = (uint32_t)actions[d] < sizes[d];
            log_prob += known ? ((const float*)of[d].logits)[actions[d]] - of[d].log_sum : NAN;
            entropy += of[d].entropy;
        }
        slopes slope =
            account(samples, settings, row, weight, log_prob, entropy, values[row], sums);
        for (uint32_t d = 0; d < dims; d++) {
            int known = (uint32_t)actions[d] < sizes[d];
            write_gradient(&of[d], sizes[d], known ? actions[d] : 0, slope.log_prob, slope.entropy,
                           gradients[d] + (size_t)row * sizes[d]);
        }
        value_gradients[row] = slope.value;
    }
    return total(settings, sums);
}

// log p(a) = -z^2 / 2 - log_std - log(2 pi) / 2 with z = (a - mean) / std, per dim; entropy =
// log_std + (1 + log(2 pi)) / 2.
PV_CLONES
double pv_ppo_loss_normal(const pv_ppo_samples* samples,
                          const pv_ppo_settings* settings,
                          const float* head,
                          const float* values,
                          float* gradient,
                          float* value_gradients,
                          double* sums) {
    const float half_log_2pi = 0.918938533204672742f;
    uint32_t dims = samples->dims;
    memset(sums, 0, PV_PPO_SUMS * sizeof *sums);
    memset(gradient, 0, (size_t)samples->rows * 2 * dims * sizeof *gradient);
    memset(value_gradients, 0, samples->rows * sizeof *value_gradients);
    for (uint32_t row = 0; row < samples->rows; row++) {
        float weight = weight_of(samples, row);
        if (weight == 0.0f)
            continue;
        const float* actions = (const float*)samples->actions + (size_t)row * dims;
        const float *mean = head + (size_t)row * 2 * dims, *log_std = mean + dims;
        float log_prob = 0.0f, entropy = 0.0f;
        for (uint32_t d = 0; d < dims; d++) {
            float z = (actions[d] - mean[d]) * expf(-log_std[d]);
            log_prob += -0.5f * z * z - log_std[d] - half_log_2pi;
            entropy += log_std[d] + 0.5f + half_log_2pi;
        }
        slopes slope =
            account(samples, settings, row, weight, log_prob, entropy, values[row], sums);
        float *by_mean = gradient + (size_t)row * 2 * dims, *by_log_std = by_mean + dims;
        for (uint32_t d = 0; d < dims; d++) {
            float scale = expf(-log_std[d]), z = (actions[d] - mean[d]) * scale;
            by_mean[d] = slope.log_prob * z * scale;
            by_log_std[d] = slope.log_prob * (z * z - 1.0f) + slope.entropy;
        }
        value_gradients[row] = slope.value;
    }
    return total(settings, sums);
}

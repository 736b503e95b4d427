// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See ppo_loss.h. The choices of an action are worked on in vectors, with an exponential of our own: libm's is a call per number.
#include "ppo_loss.h"

#include <math.h>
#include <string.h>

#define LANES PV_PPO_LANES

typedef float fv __attribute__((vector_size(4 * LANES)));
typedef int32_t iv __attribute__((vector_size(4 * LANES)));

#define LOSS_INLINE static inline __attribute__((always_inline))

// The distribution over the choices of one dim; arrays are padded to whole vectors with choices of no weight.
typedef struct choices {
    uint32_t vectors;
    fv* logits; // less the largest one
    fv* shares; // probabilities
    float log_sum; // of the shifted logits: log p = logit - log_sum
    float entropy;
} choices;

LOSS_INLINE fv where(iv mask, fv yes, fv no) { return (fv)(((iv)yes & mask) | ((iv)no & ~mask)); }

// e^x for x <= 0 within 2 units in the last place: 2^n times a polynomial on [-ln2/2, ln2/2] (Cephes' expf). What is below -87
// gives 0; NaN stays NaN.
LOSS_INLINE fv exp_below_0(fv x) {
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to a whole number, which then stands in the low bits
    iv tiny = x < -87.0f;
    x = where(tiny, (fv){0}, x);
    fv shifted = x * 1.44269504f + magic;
    fv n = shifted - magic;
    fv r = x - n * 0.693359375f + n * 2.12194440e-4f;
    fv p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return where(tiny, (fv){0}, p * (fv)(((iv)shifted + 127) << 23));
}

LOSS_INLINE float sum_of(fv x) {
    float sum = 0.0f;
    for (int i = 0; i < LANES; i++) sum += x[i];
    return sum;
}

// Reads `count` logits and finds their distribution.
LOSS_INLINE void read_choices(const float* logits, uint32_t count, choices* to) {
    fv* x = to->logits;
    to->vectors = (count + LANES - 1) / LANES;
    x[to->vectors - 1] = (fv){0} - INFINITY; // Not all of its lanes are overwritten.
    memcpy(x, logits, count * sizeof(float));
    fv largest = x[0];
    for (uint32_t v = 1; v < to->vectors; v++) largest = where(x[v] > largest, x[v], largest);
    float most = largest[0];
    for (int i = 1; i < LANES; i++) most = largest[i] > most ? largest[i] : most;
    fv sum = {0}, weighted = {0};
    for (uint32_t v = 0; v < to->vectors; v++) {
        x[v] -= most;
        x[v] = where(x[v] < -1e30f, (fv){0} - 1e30f, x[v]); // An infinite one would make 0 * inf below.
        fv e = exp_below_0(x[v]);
        to->shares[v] = e;
        sum += e;
        weighted += e * x[v];
    }
    float total = sum_of(sum);
    for (uint32_t v = 0; v < to->vectors; v++) to->shares[v] *= 1.0f / total;
    to->log_sum = logf(total);
    to->entropy = to->log_sum - sum_of(weighted) / total;
}

// Writes the gradient by `count` logits: slope is the derivative by the log-probability of the chosen one, bonus that by the
// entropy. d log p_a / d x_i = [i = a] - p_i and dH / d x_i = -p_i (log p_i + H).
LOSS_INLINE void write_gradient(const choices* of, uint32_t count, int32_t chosen, float slope, float bonus, float* to) {
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

// One sample's terms that depend on the probability ratio; slope: the derivative of the loss by the log-probability.
typedef struct ratio_terms {
    float loss, kl, slope;
    int clipped;
} ratio_terms;

LOSS_INLINE ratio_terms of_ratio(float log_ratio, float advantage, float clip) {
    float ratio = expf(log_ratio);
    float near = ratio < 1.0f - clip ? 1.0f - clip : ratio > 1.0f + clip ? 1.0f + clip : ratio;
    float whole = advantage * ratio, cut = advantage * near;
    ratio_terms terms = {.kl = ratio - 1.0f - log_ratio, .clipped = fabsf(ratio - 1.0f) > clip};
    terms.loss = whole > cut ? -cut : -whole;
    terms.slope = whole > cut ? 0.0f : -whole; // Where the cut one is taken, it is constant.
    return terms;
}

// One sample's squared error of the value; slope: its derivative by the value.
LOSS_INLINE float of_value(float value, float before, float target, float bound, float* slope) {
    float error = value - target, square = error * error;
    *slope = 2.0f * error;
    if (bound > 0.0f) {
        float change = value - before, cut = change < -bound ? -bound : change > bound ? bound : change;
        float near = before + cut - target;
        if (near * near > square) {
            square = near * near;
            *slope = change == cut ? 2.0f * near : 0.0f;
        }
    }
    return square;
}

PV_CLONES
double pv_ppo_loss(const pv_ppo_samples* samples, const pv_ppo_settings* settings, const float* const* logits,
                   const uint32_t* sizes, const float* values, float* const* gradients, float* value_gradients, double* sums) {
    fv room[2][PV_PPO_CHOICES / LANES];
    choices of[PV_PPO_DIMS];
    uint32_t dims = samples->dims, used = 0;
    for (uint32_t d = 0; d < dims; d++) {
        of[d].logits = room[0] + used;
        of[d].shares = room[1] + used;
        used += (sizes[d] + LANES - 1) / LANES;
    }
    memset(sums, 0, PV_PPO_SUMS * sizeof *sums);
    for (uint32_t row = 0; row < samples->rows; row++) {
        float weight = samples->weights ? samples->weights[row] : 1.0f;
        value_gradients[row] = 0.0f;
        if (weight == 0.0f) {
            for (uint32_t d = 0; d < dims; d++) memset(gradients[d] + (size_t)row * sizes[d], 0, sizes[d] * sizeof(float));
            continue;
        }
        const int32_t* actions = samples->actions + (size_t)row * dims;
        float log_prob = 0.0f, entropy = 0.0f;
        for (uint32_t d = 0; d < dims; d++) {
            read_choices(logits[d] + (size_t)row * sizes[d], sizes[d], &of[d]);
            int known = (uint32_t)actions[d] < sizes[d];
            log_prob += known ? ((const float*)of[d].logits)[actions[d]] - of[d].log_sum : NAN;
            entropy += of[d].entropy;
        }
        ratio_terms terms = of_ratio(log_prob - samples->log_probs[row], samples->advantages[row], settings->clip);
        float value_slope, error = of_value(values[row], samples->values[row], samples->returns[row], settings->value_clip,
                                            &value_slope);
        for (uint32_t d = 0; d < dims; d++) {
            int known = (uint32_t)actions[d] < sizes[d];
            write_gradient(&of[d], sizes[d], known ? actions[d] : 0, weight * terms.slope, -weight * settings->entropy_coef,
                           gradients[d] + (size_t)row * sizes[d]);
        }
        value_gradients[row] = weight * settings->value_coef * 0.5f * value_slope;
        sums[0] += (double)(weight * terms.loss);
        sums[1] += (double)(weight * 0.5f * error);
        sums[2] += (double)(weight * entropy);
        sums[3] += (double)(weight * terms.kl);
        sums[4] += terms.clipped ? (double)weight : 0.0;
    }
    return sums[0] + settings->value_coef * sums[1] - settings->entropy_coef * sums[2];
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See sample.h.
#include "sample.h"

#include "choices.h"

// Returns the first of `count` choices whose cumulative share exceeds u. Rounding may leave u above
// all of them: then the last choice with a share.
CHOICE_INLINE uint32_t draw(const float* shares, uint32_t count, float u) {
    float sum = 0.0f;
    uint32_t last = count - 1;
    for (uint32_t i = 0; i < count; i++) {
        sum += shares[i];
        if (sum > u)
            return i;
        if (shares[i] > 0.0f)
            last = i;
    }
    return last;
}

PV_CLONES
void pv_sample(const float* const* logits,
               const uint32_t* sizes,
               uint32_t dims,
               uint32_t rows,
               const float* uniforms,
               int32_t* actions,
               float* log_probs) {
    fv room[2][PV_MOST_CHOICES / LANES];
    choices of[PV_MOST_DIMS];
    lay_out(of, sizes, dims, room);
    for (uint32_t row = 0; row < rows; row++) {
        log_probs[row] = 0.0f;
        for (uint32_t d = 0; d < dims; d++) {
            read_choices(logits[d] + (size_t)row * sizes[d], sizes[d], &of[d]);
            size_t place = (size_t)row * dims + d;
            uint32_t drawn = draw((const float*)of[d].shares, sizes[d], uniforms[place]);
            actions[place] = (int32_t)drawn;
            log_probs[row] += ((const float*)of[d].logits)[drawn] - of[d].log_sum;
        }
    }
}

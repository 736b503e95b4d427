// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
#include "rng.h"

void pv_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    pv_philox_inline(counter, key, out);
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// set_encoder.c for AVX-512: see lanes.h.
#include "contract/base.h"

#if defined(PV_HAS_CLONES)
#define WIDE
#include "learner/set_encoder.c"
#endif

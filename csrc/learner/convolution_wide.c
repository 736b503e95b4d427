// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// convolution.c for AVX-512: see lanes.h.
#include "contract/base.h"

#if defined(PV_HAS_CLONES)
#define WIDE
#include "learner/convolution.c"
#endif

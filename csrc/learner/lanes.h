// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Vectors as wide as a CPU's registers, for kernels of the learner. A compiler splits wider ones
// element by element, so such a kernel is compiled twice: NAME.c for CPUs up to AVX2 (8 floats,
// which older CPUs handle in halves), and NAME_wide.c, which is NAME.c for AVX-512 (16 floats). The
// functions at the end of NAME.c choose between the two. Builds without variants by CPU have one
// width, that of the compiler's target.
//
// Unlike in the envs, fused multiply-adds are welcome here: we do not promise that a policy's
// arithmetic gives the same bytes on all machines.
#pragma once

#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

#include "contract/base.h"

#include <string.h>

#if defined(WIDE)
#define LANES 16
#define LANES_KERNEL __attribute__((target("arch=x86-64-v4")))
#define AT_WIDTH(name) name##_wide
#else
#if defined(PV_HAS_CLONES)
#define LANES 8
#define LANES_KERNEL __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#if defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#define LANES_KERNEL
#endif
#define AT_WIDTH(name) name##_narrow
#endif

#define LANES_DECLARE(name) __typeof__(name) name##_wide, name##_narrow
#if defined(PV_HAS_CLONES)
#define LANES_CHOOSE(name) (PV_HAS_AVX512() ? name##_wide : name##_narrow)
#else
#define LANES_CHOOSE(name) name##_narrow
#endif

#define LANES_INLINE static inline __attribute__((always_inline))

typedef float lanes_floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t lanes_ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

LANES_INLINE lanes_floats load(const float* from) {
    return *(const lanes_floats*)(const void*)from;
}

LANES_INLINE void store(float* to, lanes_floats value) {
    *(lanes_floats*)(void*)to = value;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Envs run with the floating-point mode that C starts with (round to nearest, denormal numbers
// kept): the learner, or a library in the process, may have switched to flushing denormals to zero,
// and then the same seed would not give the same bytes. Used by the worker loop around each
// command; costs a few cycles where nothing has to change.
#pragma once

#include "contract/base.h"

#if defined(__x86_64__)
#define PV_FLOAT_FLAGS 0x3Fu // sticky exception flags, which are not part of the mode

static inline uint32_t pv_float_mode_enter(void) {
    uint32_t mode = __builtin_ia32_stmxcsr();
    if (PV_UNLIKELY((mode & ~PV_FLOAT_FLAGS) != 0x1F80u))
        __builtin_ia32_ldmxcsr(0x1F80u);
    return mode;
}

static inline void pv_float_mode_leave(uint32_t mode) {
    if (PV_UNLIKELY((mode & ~PV_FLOAT_FLAGS) != 0x1F80u))
        __builtin_ia32_ldmxcsr(mode);
}
#elif defined(__aarch64__) // in assembly, since clang has no builtin for it
static inline void pv_float_mode_set(uint64_t mode) {
    __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}

static inline uint32_t pv_float_mode_enter(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    if (PV_UNLIKELY(mode))
        pv_float_mode_set(0);
    return (uint32_t)mode;
}

static inline void pv_float_mode_leave(uint32_t mode) {
    if (PV_UNLIKELY(mode))
        pv_float_mode_set(mode);
}
#else
static inline uint32_t pv_float_mode_enter(void) {
    return 0;
}

static inline void pv_float_mode_leave(uint32_t mode) {
    (void)mode;
}
#endif

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What every file uses: limits, data types, result codes, assertions. Every other header includes
// it first; owns no memory.
//
// build_ffi.py also reads everything between "[cffi]" and "[/cffi]" in the headers of csrc/, so
// that Python sees the declarations that the compiler sees. Keep those parts plain C: integer
// #defines only, no inline functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

/* [cffi] */
#define PV_ABI 8         // raised when env.h changes incompatibly
#define PV_MAX_GROUPS 4  // row groups of one env type
#define PV_MAX_FIELDS 96 // observation or state fields of one group
#define PV_MAX_NDIM 3    // axes of one field
#define PV_MAX_ACTION_DIMS 16
#define PV_MAX_AXIS_VALUES 256   // numbers on all axes of a group's choices
#define PV_MOST_BYTE_CHOICES 255 // most choices of a one-byte action: 255, or -1, is none
#define PV_NAME_BYTES 32         // names, NUL included
#define PV_UNIT_BYTES 16
#define PV_RECORD_VALUES 48 // floats an env may add to an episode record
#define PV_COUNTERS 32      // running counters per block
#define PV_ERROR_TEXT 4096
#define PV_LINE_BYTES 128  // two cache lines: the adjacent-line prefetcher pulls pairs
#define PV_MAX_BUFFERS 256 // batches that the envs are split into
#define PV_MAX_WORKERS 4096
#define PV_ALL_ENVS 0xFFFFFFFFu

// Result codes. 0 is success everywhere; anything else comes with a text in the error slot.
#define PV_OK 0
#define PV_ERROR_CONFIG 1 // a setting that the env type refuses
#define PV_ERROR_DATA 2   // params or shared data that fail a check
#define PV_ERROR_MEMORY 3 // allocation failed
#define PV_ERROR_ENV 4    // the env reported a failure in reset or step
#define PV_ERROR_ABI 5    // env type built against other headers
#define PV_ERROR_STATE 6  // saved state that does not fit
#define PV_ERROR_BOUNDS 7 // C code of an env wrote outside of its rows (debug builds)

// Data types of fields. Python takes these codes by name (puffervec/core/spec.py).
#define PV_F32 0
#define PV_F16 1
#define PV_F64 2
#define PV_U8 3
#define PV_I8 4
#define PV_U16 5
#define PV_I16 6
#define PV_U32 7
#define PV_I32 8
#define PV_U64 9
#define PV_I64 10
#define PV_DTYPES 11
/* [/cffi] */

#if defined(PV_DEBUG)
#include <stdio.h>
#include <stdlib.h>
// States an invariant: true for every input that passed the checks at the border. Not part of
// release builds.
#define PV_ASSERT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "puffervec: %s:%d: %s does not hold\n", __FILE__, __LINE__, \
                    #condition); \
            abort(); \
        } \
    } while (0)
#else
#define PV_ASSERT(condition) ((void)sizeof(condition))
#endif

// PV_CLONES compiles a function once per vector width and lets the loader choose by CPU. All give
// the same bytes: the loops keep the order of every sum, and contraction is off. It needs ifuncs
// (glibc) and gcc's attribute, and sanitizers do not survive the resolver; elsewhere the function
// is compiled once.
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && \
    !defined(__clang__) && __GNUC__ >= 12 && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && !defined(PV_NO_CLONES)
#define PV_HAS_CLONES
#define PV_CLONES __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#define PV_HAS_AVX512() __builtin_cpu_supports("x86-64-v4")
#else
#define PV_CLONES
#endif

#define PV_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define PV_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

static inline uint64_t pv_align_up(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

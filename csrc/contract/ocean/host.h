// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Replaces functions of the C library for Ocean envs: rand() has a generator per env, fopen() finds
// the env's assets, and exit(), abort() and assert() fail the step and report their line instead of
// ending the process. It also has builtins that PufferLib's compiler knows and others lack. These
// are macros, so the env's source is compiled unchanged.
#pragma once

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// ---- failures ----

typedef struct pv_ocean_catcher {
    jmp_buf back;
    char text[1024];
} pv_ocean_catcher;

// The point to which a failure on this thread returns; NULL outside of calls into the env.
static _Thread_local pv_ocean_catcher* pv_ocean_caught;

// Ends the current call into the env with a message (printf format).
__attribute__((noreturn, format(printf, 1, 2))) static inline void pv_ocean_fail(const char* format,
                                                                                 ...) {
    char text[sizeof pv_ocean_caught->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!pv_ocean_caught) {
        fprintf(stderr, "%s\n", text);
        abort();
    }
    memcpy(pv_ocean_caught->text, text, sizeof text);
    longjmp(pv_ocean_caught->back, 1);
}

__attribute__((noreturn)) static inline void pv_ocean_stop(const char* file,
                                                           int line,
                                                           const char* what) {
    pv_ocean_fail("%s:%d: %s", file, line, what);
}

// ---- rand: a generator per env ----

// The additive feedback generator of glibc's rand(), so that a seed gives the numbers that it gives
// there: x[n] = x[n - 3] + x[n - 31], of which the upper 31 bits are shown.
#define PV_OCEAN_LAG 31

typedef struct pv_ocean_random {
    uint32_t last[PV_OCEAN_LAG]; // a ring: the oldest number is at `at`
    uint32_t at;
} pv_ocean_random;

// The generator of the env that runs on this thread.
static _Thread_local pv_ocean_random* pv_ocean_stream;

static inline int pv_ocean_draw(pv_ocean_random* generator) {
    const uint32_t at = generator->at, near = at + 28 < PV_OCEAN_LAG ? at + 28 : at - 3;
    const uint32_t drawn = generator->last[at] += generator->last[near];
    generator->at = at + 1 < PV_OCEAN_LAG ? at + 1 : 0;
    return (int)(drawn >> 1);
}

static inline void pv_ocean_seed(pv_ocean_random* generator, unsigned seed) {
    int32_t word = seed ? (int32_t)seed : 1;
    for (int i = 0; i < PV_OCEAN_LAG; i++) {
        generator->last[i] = (uint32_t)word;
        const int64_t next = (int64_t)16807 * (word % 127773) - (int64_t)2836 * (word / 127773);
        word = (int32_t)(next < 0 ? next + 2147483647 : next);
    }
    // The first number is last[3] + last[0], written to the place of last[3].
    generator->at = 3;
    for (int i = 0; i < 10 * PV_OCEAN_LAG; i++)
        pv_ocean_draw(generator);
}

static inline int pv_ocean_rand(void) {
    return pv_ocean_draw(pv_ocean_stream);
}

static inline void pv_ocean_srand(unsigned seed) {
    pv_ocean_seed(pv_ocean_stream, seed);
}

// ---- fopen: assets next to the env ----

// The env's folder. The generated glue defines it.
#ifndef OCEAN_FOLDER
#define OCEAN_FOLDER ""
#endif
#define PV_OCEAN_LEVELS \
    5 // the env's folder and the folders above it in which assets are looked for

// Opens a file. A relative path that is read is looked for from the env's folder upwards, as if the
// program had been started at the root of the env's repository; then in the working folder.
static inline FILE* pv_ocean_open(const char* path, const char* mode) {
    char folder[PATH_MAX] = OCEAN_FOLDER, full[PATH_MAX];
    for (int level = 0; level < PV_OCEAN_LEVELS && *folder && *path != '/' && *mode == 'r';
         level++) {
        if (snprintf(full, sizeof full, "%s/%s", folder, path) < (int)sizeof full) {
            FILE* file = fopen(full, mode);
            if (file)
                return file;
        }
        char* slash = strrchr(folder, '/');
        if (slash)
            *slash = 0;
    }
    return fopen(path, mode);
}

// ---- free: not of the env itself ----

// The env that is being closed. Some envs free themselves, but here an env lies in an array, so
// free() leaves it alone.
static _Thread_local const void* pv_ocean_closing;

static inline void pv_ocean_free(void* pointer) {
    if (pointer != pv_ocean_closing)
        free(pointer);
}

#define free(pointer) pv_ocean_free(pointer)
#define rand() pv_ocean_rand()
#define srand(seed) pv_ocean_srand(seed)
#ifdef OCEAN_RANDOM // the env calls random(), which in glibc is rand(), and defines none of its own
#define random() ((long)pv_ocean_rand())
#define srandom(seed) pv_ocean_srand(seed)
#endif
#define fopen(path, mode) pv_ocean_open(path, mode)
#define exit(code) pv_ocean_stop(__FILE__, __LINE__, "exit(" #code ")")
#define abort() pv_ocean_stop(__FILE__, __LINE__, "abort()")

// ---- builtins of late clangs, which envs with vector types call ----

#ifdef __has_builtin
#define PV_OCEAN_HAS(builtin) __has_builtin(builtin)
#else
#define PV_OCEAN_HAS(builtin) 0
#endif

// The type of a vector that can be written to, also if the vector is const.
#define PV_OCEAN_VECTOR(vector) __typeof__((vector) + (vector))

#if !PV_OCEAN_HAS(__builtin_elementwise_sqrt)
#define __builtin_elementwise_sqrt(vector) \
    ({ \
        PV_OCEAN_VECTOR(vector) pv_a = (vector); \
        for (unsigned pv_i = 0; pv_i < sizeof pv_a / sizeof pv_a[0]; pv_i++) \
            pv_a[pv_i] = _Generic(pv_a[0], float: sqrtf, default: sqrt)(pv_a[pv_i]); \
        pv_a; \
    })
#endif

// Takes each element from `b` where it is `better`, which is < or >, or where that of `a` is NaN,
// and else from `a`.
#define PV_OCEAN_ELEMENTWISE(a, b, better) \
    ({ \
        PV_OCEAN_VECTOR(a) pv_a = (a), pv_b = (b); \
        for (unsigned pv_i = 0; pv_i < sizeof pv_a / sizeof pv_a[0]; pv_i++) { \
            if (pv_b[pv_i] better pv_a[pv_i] || pv_a[pv_i] != pv_a[pv_i]) \
                pv_a[pv_i] = pv_b[pv_i]; \
        } \
        pv_a; \
    })
#if !PV_OCEAN_HAS(__builtin_elementwise_min)
#define __builtin_elementwise_min(a, b) PV_OCEAN_ELEMENTWISE(a, b, <)
#endif
#if !PV_OCEAN_HAS(__builtin_elementwise_max)
#define __builtin_elementwise_max(a, b) PV_OCEAN_ELEMENTWISE(a, b, >)
#endif

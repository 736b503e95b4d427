// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for C's assert.h: a failed assertion of an Ocean env fails its step and names the line.
// Like C's, it may be included several times.
#include "host.h"

#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
    ((condition) ? (void)0 : pv_ocean_stop(__FILE__, __LINE__, "assert(" #condition ") failed"))
#endif
#ifndef static_assert
#define static_assert _Static_assert
#endif

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Removes the long lists of numbers from the JSON text of a scene, so that any JSON parser reads
// the rest quickly. Runs in the learner, when drive_env reads a scene; the caller owns all
// arrays. drive_env/scenes/columns.py puts the lists back.
#pragma once

#include "contract/base.h"

/* [cffi] */
#define PV_LIST_MARK 127  // a string that begins with this character stands for a list
#define PV_LIST_BYTES 24  // shorter lists are left where they are
#define PV_LIST_FLAGS 0   // a list of true, false, 0 or 1
#define PV_LIST_NUMBERS 1 // a list of numbers; 2: of points x y, 3: of points x y z

typedef struct pv_json_list {
    uint64_t first, count; // index of its first number in `values`; number of entries
    double largest;        // magnitude of its numbers
    uint32_t axes;         // numbers per entry (0: one flag)
    uint32_t unused;
} pv_json_list;

// Copies JSON text to `out` (at least `bytes` long) without the lists under "position", "velocity",
// "heading", "valid" and "geometry" of the items of "objects" and "roads". The numbers of a list go
// to `values` (room for bytes / 2 + 4); the string "\x7f" + index of the list replaces it. Lists
// that are malformed or nested in another way are copied unchanged. `lists` has room for
// bytes / PV_LIST_BYTES. Returns the length of `out`, and sets `count` to the number of lists.
// Returns -1 if the text has a string that could be mistaken for such a mark, or if the locale's
// decimal separator is not a point.
int64_t pv_drive_json_columns(const char* text,
                              uint64_t bytes,
                              char* out,
                              double* values,
                              pv_json_list* lists,
                              uint64_t* count);
/* [/cffi] */

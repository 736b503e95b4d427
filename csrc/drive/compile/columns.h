// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Takes the long lists of numbers out of the JSON text of a scene, so that the rest is short enough
// for any JSON parser. Runs in the learner, when drive_env reads a scene; the caller owns all
// arrays. drive_env/scenes/columns.py puts the lists back.
#pragma once

#include "contract/base.h"

/* [cffi] */
#define PV_LIST_MARK 127  // a string that begins with this character stands for a list
#define PV_LIST_BYTES 24  // shorter lists are left where they are
#define PV_LIST_FLAGS 0   // a list of true, false, 0 or 1
#define PV_LIST_NUMBERS 1 // of numbers; 2: of points x y, 3: of points x y z

typedef struct pv_json_list {
    uint64_t first, count; // its first number among all; how many entries it has
    double largest;        // magnitude of its numbers
    uint32_t axes;         // numbers of an entry (0: one flag)
    uint32_t unused;
} pv_json_list;

// Copies JSON text to `out`, which has room for as much, without the lists under "position",
// "velocity", "heading", "valid" and "geometry" of the items of "objects" and "roads", as far as
// they are sound and plain: their numbers go to `values` (room for bytes / 2 + 4), and the string
// "\x7f" + number of the list takes their place. `lists` has room for bytes / PV_LIST_BYTES.
// Returns the length of `out`, and sets `count` to the lists; -1 if a string of the text might be
// taken for such a mark, or the locale writes numbers in another way.
int64_t pv_drive_json_columns(const char* text,
                              uint64_t bytes,
                              char* out,
                              double* values,
                              pv_json_list* lists,
                              uint64_t* count);
/* [/cffi] */

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The two calls of a turn as a Python type: `send` and `recv` of turn.h, without the cost of cffi's
// conversion of each argument and of a check in Python whether actions can be passed on unchanged.
// vec/vector_env.py calls them; actions that they do not accept go through turn.h.
#pragma once

#include <stdint.h>

/* [cffi] */
// Returns the Python type FastTurn as the address of its PyObject, a new reference; 0 if it cannot
// be made. Acquires the GIL.
uintptr_t pv_fast_turn_type(void);
/* [/cffi] */

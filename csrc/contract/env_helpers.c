// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The core's copy of the helpers that env types share. Owns no memory.
#define PV_HELPER
#include "env_helpers.h"

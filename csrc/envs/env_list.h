// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The built-in env types. To add one: its C file, its line here, and its Python file under
// puffervec/envs.
#pragma once

#include "contract/env.h"

#define PV_ENV_LIST(X) \
    X(pv_probe_type) \
    X(pv_cartpole_type) \
    X(pv_tag_grid_type) \
    X(pv_tag_continuous_type) \
    X(pv_covid_type) \
    X(pv_drive_type)

#define PV_ENV(symbol) extern const pv_env_type symbol;
PV_ENV_LIST(PV_ENV)
#undef PV_ENV

/* [cffi] */
// Returns the built-in type of that name, or NULL.
const pv_env_type* pv_env_find(const char* name);
/* [/cffi] */

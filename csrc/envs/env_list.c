// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The table of the built-in env types, made from the list in env_list.h. Owns no memory.
#include "env_list.h"

#include <string.h>

static const pv_env_type* const types[] = {
#define PV_ENV(symbol) &symbol,
    PV_ENV_LIST(PV_ENV)
#undef PV_ENV
};

const pv_env_type* pv_env_find(const char* name) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    }
    return NULL;
}

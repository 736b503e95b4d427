// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The one header that an env type of another package includes. The package's shared library needs
// no other file of puffervec, is linked with nothing of it, and knows nothing of Python: it exports
// one table per env type, which puffervec finds by its name.
//
//     #include "pv_env.h"
//     ...the functions of env.h...
//     PV_ENV_TYPE(my_env) = {
//         .abi = PV_ABI,
//         .struct_bytes = sizeof(pv_env_type),
//         .name = "my_env",
//         ...
//     };
//
// Compile with the flags of puffervec.contract.env_types.compile_args(), so that a build gives the
// same bytes on every machine. The header is C11 and C++20: compile_args("c++").
#pragma once

#include "env_helpers.h"
#include "rng.h"

// Begins the definition of the table, visible from outside as pv_env_type_<name> whatever the
// default visibility is.
#ifdef __cplusplus
#define PV_EXPORT extern "C" __attribute__((visibility("default"))) // declares: it has no braces
#else
#define PV_EXPORT extern __attribute__((visibility("default")))
#endif
#define PV_ENV_TYPE(name) \
    PV_EXPORT const pv_env_type pv_env_type_##name; \
    const pv_env_type pv_env_type_##name

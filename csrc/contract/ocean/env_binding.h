// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for the binding header of PufferLib 3.0. A binding defines Env, includes this file and
// defines my_init and my_log; pv_ocean_generated.h calls them.
#pragma once

#include "Python.h"

// Returns a setting as a number. A missing one, or a text, fails the env's init.
static inline double unpack(PyObject* kwargs, const char* key) {
    const PyObject* value = PyDict_GetItemString(kwargs, key);
    if (!value)
        pv_ocean_fail("the setting %s is missing", key);
    if (value->kind != PV_PY_LONG && value->kind != PV_PY_FLOAT)
        pv_ocean_fail("the setting %s is not a number", key);
    if (value->kind == PV_PY_LONG && (value->whole > INT_MAX || value->whole < INT_MIN))
        pv_ocean_fail("the setting %s is %lld: use a whole number of 32 bits", key, value->whole);
    return value->real;
}

// Adds a number to the log that my_log fills.
static inline int assign_to_dict(PyObject* dict, const char* key, float value) {
    pv_ocean_put(dict->log, key, value);
    return 0;
}

#ifdef Env // only a binding has one
static int my_init(Env* env, PyObject* args, PyObject* kwargs);
static int my_log(PyObject* dict, Log* log);
#ifdef MY_SHARED
static PyObject* my_shared(PyObject* self, PyObject* args, PyObject* kwargs);
#endif

typedef struct VecEnv {
    Env** envs;
    int num_envs;
} VecEnv;

static inline VecEnv* unpack_vecenv(PyObject* args) {
    return (VecEnv*)PyLong_AsVoidPtr(PyTuple_GetItem(args, 0));
}
#endif

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
#include "three_levels.h"

#define Env Levels
#define MY_SHARED
#include "../env_binding.h"

static PyObject* my_shared(PyObject* self, PyObject* args, PyObject* kwargs) {
    int num_levels = unpack(kwargs, "num_levels");
    Level* levels = calloc(num_levels, sizeof(Level));
    for (int i = 0; i < num_levels; i++)
        make_level(&levels[i], i);
    PyObject* handle = PyLong_FromVoidPtr(levels);
    PyObject* state = PyDict_New();
    PyDict_SetItemString(state, "levels", handle);
    return PyLong_FromVoidPtr(state);
}

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    env->num_levels = unpack(kwargs, "num_levels");
    PyObject* handle = PyDict_GetItemString(kwargs, "state");
    if (handle == NULL || !PyLong_Check(handle)) {
        PyErr_SetString(PyExc_TypeError, "state must be a handle");
        return 1;
    }
    PyObject* state = (PyObject*)PyLong_AsVoidPtr(handle);
    if (!PyDict_Check(state)) {
        PyErr_SetString(PyExc_TypeError, "state must be a dict");
        return 1;
    }
    env->levels = (Level*)PyLong_AsVoidPtr(PyDict_GetItemString(state, "levels"));
    return 0;
}

static int my_log(PyObject* dict, Log* log) {
    assign_to_dict(dict, "score", log->score);
    assign_to_dict(dict, "episode_length", log->episode_length);
    return 0;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// As much of Python and of PufferLib 3.0's binding as the test envs ask for, without Python.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct PyObject {
    enum { PLAIN, POINTER, TABLE } kind;

    double number;
    void* pointer;
    int size;
    const char* keys[32];
    struct PyObject* values[32];
} PyObject;

#define PyExc_TypeError "TypeError"
#define PyErr_SetString(kind, text) (fprintf(stderr, "%s: %s\n", kind, text), exit(1))
#define PyLong_Check(object) ((object)->kind == POINTER)
#define PyDict_Check(object) ((object)->kind == TABLE)

static PyObject* new_object(int kind, double number, void* pointer) {
    PyObject* object = calloc(1, sizeof(PyObject));
    object->kind = kind;
    object->number = number;
    object->pointer = pointer;
    return object;
}

static inline PyObject* PyLong_FromVoidPtr(void* pointer) {
    return new_object(POINTER, 0, pointer);
}

static inline void* PyLong_AsVoidPtr(PyObject* object) {
    return object->pointer;
}

static inline PyObject* PyDict_New(void) {
    return new_object(TABLE, 0, NULL);
}

static PyObject* PyDict_GetItemString(PyObject* table, const char* key) {
    for (int i = 0; i < table->size; i++) {
        if (strcmp(table->keys[i], key) == 0)
            return table->values[i];
    }
    return NULL;
}

static int PyDict_SetItemString(PyObject* table, const char* key, PyObject* value) {
    table->keys[table->size] = key;
    table->values[table->size++] = value;
    return 0;
}

static inline double unpack(PyObject* table, const char* key) {
    PyObject* value = PyDict_GetItemString(table, key);
    if (value == NULL) {
        fprintf(stderr, "no setting %s\n", key);
        exit(1);
    }
    return value->number;
}

static inline int assign_to_dict(PyObject* table, const char* key, float value) {
    return PyDict_SetItemString(table, key, new_object(PLAIN, value, NULL));
}

static int my_log(PyObject* dict, Log* log);
static int my_init(Env* env, PyObject* args, PyObject* kwargs);

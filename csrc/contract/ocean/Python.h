// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for Python's header in bindings of PufferLib 3.0: the objects from which they unpack
// settings and in which they pass on shared data, without Python. Objects live until the process
// ends, since a binding makes only a few, at the start. Raising an exception ends the call into the
// env at once.
#pragma once

#include "settings.h"

enum { PV_PY_NONE, PV_PY_LONG, PV_PY_FLOAT, PV_PY_TEXT, PV_PY_DICT, PV_PY_LIST, PV_PY_LOG };

typedef struct PyObject {
    long ob_refcnt;
    int kind;
    int size, capacity; // of a dict or list
    long long whole;    // a whole number or an address
    double real;
    const char* text;
    const char** keys;
    struct PyObject** values;
    pv_ocean_log* log; // what assign_to_dict writes to
} PyObject;

typedef long Py_ssize_t;
typedef PyObject PyArrayObject;
typedef PyObject* (*PyCFunction)(PyObject*, PyObject*);

static const int PyLong_Type = PV_PY_LONG, PyFloat_Type = PV_PY_FLOAT, PyDict_Type = PV_PY_DICT;
static const int PyUnicode_Type = PV_PY_TEXT, PyList_Type = PV_PY_LIST, PyTuple_Type = PV_PY_LIST;
static const int PyArray_Type = -1; // no object is an array
static PyObject pv_py_none = {.ob_refcnt = 1};

#define Py_None (&pv_py_none)
#define Py_RETURN_NONE return Py_None
#define Py_INCREF(object) ((void)(object))
#define Py_DECREF(object) ((void)(object))
#define Py_XDECREF(object) ((void)(object))
#define METH_VARARGS 1
#define METH_KEYWORDS 2

// ---- exceptions ----

#define PyExc_TypeError "TypeError"
#define PyExc_ValueError "ValueError"
#define PyExc_KeyError "KeyError"
#define PyExc_RuntimeError "RuntimeError"
#define PyExc_MemoryError "MemoryError"
#define PyExc_OSError "OSError"
#define PyErr_SetString(kind, message) pv_ocean_fail("%s: %s", kind, message)
#define PyErr_Format(kind, ...) pv_ocean_fail(kind ": " __VA_ARGS__)
#define PyErr_Occurred() NULL

// ---- objects ----

static inline PyObject* pv_py_new(int kind) {
    PyObject* object = (PyObject*)calloc(1, sizeof *object);
    if (!object)
        pv_ocean_fail("out of memory");
    object->ob_refcnt = 1;
    object->kind = kind;
    return object;
}

// Returns the place of a new entry of a dict or list.
static inline int pv_py_grow(PyObject* object) {
    if (object->size == object->capacity) {
        object->capacity = object->capacity ? 2 * object->capacity : 8;
        const size_t count = (size_t)object->capacity;
        object->keys = (const char**)realloc((void*)object->keys, count * sizeof *object->keys);
        object->values = (PyObject**)realloc((void*)object->values, count * sizeof *object->values);
        if (!object->keys || !object->values)
            pv_ocean_fail("out of memory");
    }
    return object->size++;
}

#define PyObject_TypeCheck(object, type) ((object) && (object)->kind == *(type))
#define PyLong_Check(object) PyObject_TypeCheck(object, &PyLong_Type)
#define PyFloat_Check(object) PyObject_TypeCheck(object, &PyFloat_Type)
#define PyUnicode_Check(object) PyObject_TypeCheck(object, &PyUnicode_Type)
#define PyDict_Check(object) PyObject_TypeCheck(object, &PyDict_Type)
#define PyList_Check(object) PyObject_TypeCheck(object, &PyList_Type)
#define PyTuple_Check(object) PyObject_TypeCheck(object, &PyTuple_Type)

static inline PyObject* PyLong_FromLong(long value) {
    PyObject* object = pv_py_new(PV_PY_LONG);
    object->whole = value;
    object->real = (double)value;
    return object;
}

static inline long PyLong_AsLong(PyObject* object) {
    return (long)object->whole;
}

static inline PyObject* PyLong_FromVoidPtr(const void* pointer) {
    return PyLong_FromLong((long)(intptr_t)pointer);
}

static inline void* PyLong_AsVoidPtr(PyObject* object) {
    return (void*)(intptr_t)object->whole;
}

static inline PyObject* PyFloat_FromDouble(double value) {
    PyObject* object = pv_py_new(PV_PY_FLOAT);
    object->real = value;
    object->whole = (long long)value;
    return object;
}

static inline double PyFloat_AsDouble(PyObject* object) {
    return object->real;
}

static inline int PyObject_IsTrue(PyObject* object) {
    return object->real != 0.0 || object->size > 0 || (object->text && *object->text);
}

static inline PyObject* PyUnicode_FromString(const char* text) {
    PyObject* object = pv_py_new(PV_PY_TEXT);
    object->text = text;
    return object;
}

static inline const char* PyUnicode_AsUTF8(PyObject* object) {
    return object->text;
}

// ---- dicts and lists ----

static inline PyObject* PyDict_New(void) {
    return pv_py_new(PV_PY_DICT);
}

static inline PyObject* PyDict_GetItemString(PyObject* dict, const char* key) {
    for (int i = 0; dict && i < dict->size; i++) {
        if (strcmp(dict->keys[i], key) == 0)
            return dict->values[i];
    }
    return NULL;
}

static inline int PyDict_SetItemString(PyObject* dict, const char* key, PyObject* value) {
    for (int i = 0; i < dict->size; i++) {
        if (strcmp(dict->keys[i], key) == 0) {
            dict->values[i] = value;
            return 0;
        }
    }
    const int at = pv_py_grow(dict);
    dict->keys[at] = key;
    dict->values[at] = value;
    return 0;
}

static inline PyObject* PyList_New(Py_ssize_t size) {
    PyObject* list = pv_py_new(PV_PY_LIST);
    while (list->size < size) {
        const int at = pv_py_grow(list);
        list->values[at] = Py_None;
    }
    return list;
}

static inline int PyList_Append(PyObject* list, PyObject* value) {
    const int at = pv_py_grow(list);
    list->values[at] = value;
    return 0;
}

static inline int PyList_SetItem(PyObject* list, Py_ssize_t at, PyObject* value) {
    if (at < 0 || at >= list->size)
        pv_ocean_fail("IndexError: %ld of %d items", at, list->size);
    list->values[at] = value;
    return 0;
}

static inline PyObject* PyList_GetItem(PyObject* list, Py_ssize_t at) {
    if (!list || at < 0 || at >= list->size)
        pv_ocean_fail("IndexError: %ld of %d items", at, list ? list->size : 0);
    return list->values[at];
}

static inline PyObject* PyList_GetSlice(PyObject* list, Py_ssize_t from, Py_ssize_t to) {
    PyObject* slice = PyList_New(0);
    for (Py_ssize_t i = from; i < to; i++)
        PyList_Append(slice, PyList_GetItem(list, i));
    return slice;
}

static inline Py_ssize_t PyList_Size(PyObject* list) {
    return list ? list->size : 0;
}

#define PyTuple_New PyList_New
#define PyTuple_SetItem PyList_SetItem
#define PyTuple_GetItem PyList_GetItem
#define PyTuple_Size PyList_Size

// ---- arrays: no binding here ever gets one ----

#define PyArray_DATA(array) ((void*)(array))
#define PyArray_ISCONTIGUOUS(array) ((void)(array), 0)
#define PyArray_ITEMSIZE(array) ((void)(array), 4)
#define PyArray_NDIM(array) ((void)(array), 0)
#define import_array() ((void)0)

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See fast_turn.h. Runs in the learner, with the GIL held except while workers are sent a command
// or waited for. Only the limited API is used, so that one build serves all versions of Python.
#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "fast_turn.h"

#include <string.h>

#include "core/turn.h"

typedef struct {
    PyObject head;
    pv_slab* slab;     // alive as long as the Turns that holds this object
    pv_waiter* waiter; // the same
    int dimensions;    // of the actions that `send` takes: 1 or 2; 0 if it takes none
    Py_ssize_t shape[2];
    int floats;                  // whether actions are continuous
    PyObject* array_type;        // numpy.ndarray; other objects are not looked at
    PyObject* own;               // tuple of the action rows of each half, which None stands for
    PyObject *held, *pending;    // states of a half; see vec/turns.py
    PyObject *state, *send_half; // names of attributes of Turns
} pv_fast_turn;

// Returns the dtype code of a buffer's elements, or -1 if they are not of the wanted kind.
static int dtype_of(const Py_buffer* view, int floats) {
    const char* format = view->format;
    if (!format || !format[0] || format[1]) // also formats with another byte order
        return -1;
    if (floats)
        return format[0] == 'f' ? PV_F32 : format[0] == 'd' ? PV_F64 : -1;
    switch (format[0]) { // names of C types
    case 'b': return PV_I8;
    case 'B': return PV_U8;
    case 'h': return PV_I16;
    case 'H': return PV_U16;
    case 'i': return PV_I32;
    case 'I': return PV_U32;
    case 'l': return sizeof(long) == 8 ? PV_I64 : PV_I32;
    case 'L': return sizeof(long) == 8 ? PV_U64 : PV_U32;
    case 'q': return PV_I64;
    case 'Q': return PV_U64;
    default: return -1;
    }
}

// Opens a view on actions that can be passed on as they are. Returns their dtype code, or -1.
static int open_actions(const pv_fast_turn* self, PyObject* actions, Py_buffer* view) {
    if (!self->dimensions || !PyObject_TypeCheck(actions, (PyTypeObject*)self->array_type))
        return -1;
    if (PyObject_GetBuffer(actions, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)) {
        PyErr_Clear(); // not contiguous, or without a format
        return -1;
    }
    int same = view->ndim == self->dimensions &&
               !memcmp(view->shape, self->shape, (size_t)view->ndim * sizeof *view->shape);
    int dtype = same ? dtype_of(view, self->floats) : -1;
    if (dtype < 0)
        PyBuffer_Release(view);
    return dtype;
}

// Returns the index of a half, or -1 with an exception set.
static Py_ssize_t half_of(const pv_fast_turn* self, PyObject* number) {
    Py_ssize_t half = PyLong_AsSsize_t(number);
    if (half >= 0 && half < (Py_ssize_t)self->slab->num_buffers)
        return half;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_IndexError, "there is no such half");
    return -1;
}

// Marks a half as sent. Returns 0, or -1 if it is not held or an exception is set.
static int mark_sent(const pv_fast_turn* self, PyObject* turns, Py_ssize_t half) {
    PyObject* states = PyObject_GetAttr(turns, self->state);
    if (!states)
        return -1;
    int ready = PyList_Check(states) && PyList_GetItem(states, half) == self->held;
    if (ready) {
        PyObject* next = PyLong_FromSsize_t((half + 1) % (Py_ssize_t)self->slab->num_buffers);
        ready = next && !PyObject_SetAttr(turns, self->send_half, next) &&
                !PyList_SetItem(states, half, Py_NewRef(self->pending));
        Py_XDECREF(next);
    }
    Py_DECREF(states);
    return ready ? 0 : -1;
}

static PyObject* fast_turn_send(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
    const pv_fast_turn* self = (pv_fast_turn*)object;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "send(turns, half, actions)");
        return NULL;
    }
    Py_ssize_t half = half_of(self, arguments[1]);
    if (half < 0)
        return NULL;
    PyObject* actions = arguments[2];
    if (actions == Py_None && self->dimensions)
        actions = PyTuple_GetItem(self->own, half);

    Py_buffer view;
    int dtype = open_actions(self, actions, &view);
    if (dtype < 0)
        return Py_NewRef(Py_NotImplemented);
    if (mark_sent(self, arguments[0], half)) {
        PyBuffer_Release(&view);
        if (PyErr_Occurred())
            return NULL;
        return Py_NewRef(Py_NotImplemented);
    }
    Py_BEGIN_ALLOW_THREADS;
    pv_turn_step(self->slab, (uint32_t)half, view.buf, (uint32_t)dtype, self->waiter);
    Py_END_ALLOW_THREADS;
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyObject* fast_turn_recv(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
    const pv_fast_turn* self = (pv_fast_turn*)object;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "recv(half, slice_ns)");
        return NULL;
    }
    Py_ssize_t half = half_of(self, arguments[0]);
    int64_t slice_ns = PyLong_AsLongLong(arguments[1]);
    if (PyErr_Occurred())
        return NULL;

    int flags;
    Py_BEGIN_ALLOW_THREADS;
    flags = pv_turn_recv(self->slab, (uint32_t)half, PV_ALL_WORKERS, self->waiter, slice_ns, 0);
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(flags);
}

static PyObject* fast_turn_new(PyTypeObject* type, PyObject* arguments, PyObject* names) {
    unsigned long long slab, waiter;
    PyObject *shape, *array_type, *own, *held, *pending;
    int floats;
    if (names ||
        !PyArg_ParseTuple(arguments, "KKO!pO!O!OO", &slab, &waiter, &PyTuple_Type, &shape, &floats,
                          &PyType_Type, &array_type, &PyTuple_Type, &own, &held, &pending))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    pv_fast_turn* self = (pv_fast_turn*)allocate(type, 0);
    if (!self)
        return NULL;
    self->slab = (pv_slab*)(uintptr_t)slab;
    self->waiter = (pv_waiter*)(uintptr_t)waiter;
    self->dimensions = (int)PyTuple_Size(shape);
    for (int i = 0; i < self->dimensions && i < 2; i++)
        self->shape[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
    self->floats = floats;
    self->array_type = Py_NewRef(array_type);
    self->own = Py_NewRef(own);
    self->held = Py_NewRef(held);
    self->pending = Py_NewRef(pending);
    self->state = PyUnicode_InternFromString("state");
    self->send_half = PyUnicode_InternFromString("send_half");
    if (PyErr_Occurred()) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject*)self;
}

static void fast_turn_dealloc(PyObject* object) {
    pv_fast_turn* self = (pv_fast_turn*)object;
    PyTypeObject* type = Py_TYPE(object);
    Py_XDECREF(self->array_type);
    Py_XDECREF(self->own);
    Py_XDECREF(self->held);
    Py_XDECREF(self->pending);
    Py_XDECREF(self->state);
    Py_XDECREF(self->send_half);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"send", (PyCFunction)(void (*)(void))fast_turn_send, METH_FASTCALL,
     "send(turns, half, actions)\n\nWrite actions, mark the half of `turns` as sent and send "
     "it.\n\n"
     "Returns:\n    None; NotImplemented if nothing was done, since the half is not held or the "
     "actions\n    have to be converted or refused."},
    {"recv", (PyCFunction)(void (*)(void))fast_turn_recv, METH_FASTCALL,
     "recv(half, slice_ns)\n\nWait for a half like pv_turn_recv and return its flags."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "FastTurn(slab, waiter, shape, floats, array_type, own, held, pending)\n\nThe calls of a turn "
     "of C envs with one group of agents."},
    {Py_tp_new, fast_turn_new},
    {Py_tp_dealloc, fast_turn_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

uintptr_t pv_fast_turn_type(void) {
    PyType_Spec spec = {"puffervec._native.FastTurn", sizeof(pv_fast_turn), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject* type = PyType_FromSpec(&spec);
    if (!type)
        PyErr_Clear();
    PyGILState_Release(gil);
    return (uintptr_t)type;
}

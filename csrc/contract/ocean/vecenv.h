// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for the binding header of PufferLib 4.0. A binding defines OBS_SIZE, NUM_ATNS,
// ACT_SIZES, OBS_TENSOR_T and Env, includes this file and defines my_init and my_log;
// pv_ocean_generated.h calls them.
#pragma once

#include "assert.h"
#include "raylib.h"
#include "settings.h"
#include "tensor.h"

typedef struct DictItem {
    const char* key;
    double value;
    void* ptr;
} DictItem;

typedef struct Dict {
    DictItem* items;
    int size;
    int capacity;
} Dict;

static inline Dict* create_dict(int capacity) {
    Dict* dict = (Dict*)calloc(1, sizeof *dict);
    if (!dict || !(dict->items = (DictItem*)calloc((size_t)capacity, sizeof *dict->items)))
        pv_ocean_fail("out of memory");
    dict->capacity = capacity;
    return dict;
}

// Returns NULL if there is no such item.
static inline DictItem* dict_get_unsafe(Dict* dict, const char* key) {
    for (int i = 0; i < dict->size; i++) {
        if (strcmp(dict->items[i].key, key) == 0)
            return &dict->items[i];
    }
    return NULL;
}

static inline DictItem* dict_get(Dict* dict, const char* key) {
    DictItem* item = dict_get_unsafe(dict, key);
    if (!item)
        pv_ocean_fail("the setting %s is missing", key);
    return item;
}

static inline void dict_set(Dict* dict, const char* key, double value) {
    DictItem* item = dict_get_unsafe(dict, key);
    if (!item) {
        if (dict->size == dict->capacity)
            pv_ocean_fail("dict_set(%s): the dict is full, with %d items", key, dict->size);
        item = &dict->items[dict->size++];
        item->key = key;
    }
    item->value = value;
}

#define dict_find dict_get_unsafe

#ifdef OBS_SIZE // only a binding has one

#include <pthread.h>

// All envs of a block, for the functions that some bindings define themselves.
typedef struct StaticVec {
    void* envs;
    int size;
    int total_agents;
    int buffers;
    int agents_per_buffer;
    int* buffer_env_starts;
    int* buffer_env_counts;
    void* observations;
    float* actions;
    float* rewards;
    float* terminals;
    unsigned char* action_mask;
    int obs_size;
    int num_atns;
    int action_mask_size;
    int gpu;
    int* agent_perm; // NULL: the agents of an env are adjacent
} StaticVec;

// An entry of an env's state that my_state returns. Nothing here calls my_state.
typedef struct StateField {
    const char* name;
    void* data;
    const char* dtype;
    int ndim;
    int shape[PUF_MAX_DIMS];
    int flags;
} StateField;

#define PUFF_STATE_ZERO_COPY 1

#ifndef OBS_TENSOR_T // early bindings name the types as OBS_TYPE and ACT_TYPE
#define OBS_TENSOR_T PV_OCEAN_OBS_TENSOR(OBS_TYPE)
#define PV_OCEAN_OBS_TENSOR(type) PV_OCEAN_JOIN(PV_OCEAN_TENSOR_, type)
#define PV_OCEAN_JOIN(a, b) a##b
#define PV_OCEAN_TENSOR_FLOAT FloatTensor
#define PV_OCEAN_TENSOR_DOUBLE DoubleTensor
#define PV_OCEAN_TENSOR_INT IntTensor
#define PV_OCEAN_TENSOR_UNSIGNED_CHAR ByteTensor
#define PV_OCEAN_TENSOR_CHAR CharTensor
#endif

static inline size_t obs_element_size(void) {
    return sizeof(*((OBS_TENSOR_T*)NULL)->data);
}

void my_init(Env* env, Dict* kwargs);
void my_log(Log* log, Dict* out);
#ifdef MY_VEC_CLOSE
void my_vec_close(Env* envs);
#endif
#ifdef MY_VEC_STEP_RANGE
void MY_VEC_STEP_RANGE(StaticVec* vec, int env_start, int env_count, int num_workers);
#endif
#ifdef MY_USES_PERM
void my_setup_perm(StaticVec* vec, Env* env, int slot_base);
#endif
#ifdef MY_VEC_STEP
void MY_VEC_STEP(StaticVec* vec);
#endif

#endif // OBS_SIZE

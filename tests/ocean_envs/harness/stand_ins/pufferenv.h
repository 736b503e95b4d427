// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// The settings, agents and log of PufferLib 5.0, as much as the test envs ask for.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char* key;
    const char* str;
    double value;
    double* values;
    int len;
} DictItem;

typedef struct {
    DictItem items[32];
    int size;
} Dict;

typedef struct Env Env;
typedef struct Log Log;

typedef struct {
    obs_t* observations;
    float* actions;
    float* rewards;
    float* terminals;
    unsigned char* action_mask;
    int policy;
} Agent;

static inline DictItem* dict_find(Dict* dict, const char* key) {
    for (int i = 0; i < dict->size; i++) {
        if (strcmp(dict->items[i].key, key) == 0)
            return &dict->items[i];
    }
    return NULL;
}

static inline DictItem* dict_need(Dict* dict, const char* key) {
    DictItem* item = dict_find(dict, key);
    if (item == NULL) {
        fprintf(stderr, "no setting %s\n", key);
        exit(1);
    }
    return item;
}

static inline double dict_get(Dict* dict, const char* key) {
    return dict_need(dict, key)->value;
}

static inline const char* dict_get_str(Dict* dict, const char* key) {
    return dict_need(dict, key)->str;
}

static inline void dict_set(Dict* dict, const char* key, double value) {
    dict->items[dict->size++] = (DictItem){.key = key, .value = value};
}

static inline uint16_t f32_to_bf16(float value) {
    uint16_t halves[2];
    memcpy(halves, &value, sizeof value);
    return halves[1]; // on a machine with the low half first
}

static inline void puf_web_vsync(void) {
}

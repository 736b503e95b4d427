// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// The settings and log of PufferLib 4.0, as much as the test envs ask for.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char* key;
    double value;
    void* ptr;
} DictItem;

typedef struct {
    DictItem items[32];
    int size;
} Dict;

typedef struct {
    float* data;
} FloatTensor;

typedef struct {
    unsigned char* data;
} ByteTensor;

static inline DictItem* dict_get_unsafe(Dict* dict, const char* key) {
    for (int i = 0; i < dict->size; i++) {
        if (strcmp(dict->items[i].key, key) == 0)
            return &dict->items[i];
    }
    return NULL;
}

static inline DictItem* dict_get(Dict* dict, const char* key) {
    DictItem* item = dict_get_unsafe(dict, key);
    if (item == NULL) {
        fprintf(stderr, "no setting %s\n", key);
        exit(1);
    }
    return item;
}

static inline void dict_set(Dict* dict, const char* key, double value) {
    DictItem* item = dict_get_unsafe(dict, key);
    if (item == NULL) {
        item = &dict->items[dict->size++];
        item->key = key;
    }
    item->value = value;
}

void my_init(Env* env, Dict* kwargs);
void my_log(Log* log, Dict* out);

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for the settings header of PufferLib 5.0: the dict of a section of an .ini file.
// Reading such files is Python's part (puffervec/wings/ocean/ini.py).
#pragma once

#include <ctype.h>

#include "settings.h"

#define PUF_DICT_MAX_KEY 128

typedef struct DictItem {
    char key[PUF_DICT_MAX_KEY];
    char* str;      // the text of the value
    double value;   // the number, or the first of a list
    double* values; // a list
    int len;        // of the list; 0 for a single value
} DictItem;

typedef struct Dict {
    char* name; // of the section
    DictItem* items;
    int size;
    int cap;
} Dict;

static inline char* dict_strdup(const char* text) {
    char* copy = strdup(text);
    if (!copy)
        pv_ocean_fail("out of memory");
    return copy;
}

// Returns NULL if there is no such item.
static inline DictItem* dict_find(Dict* dict, const char* key) {
    for (int i = 0; i < dict->size; i++) {
        if (strcmp(dict->items[i].key, key) == 0)
            return &dict->items[i];
    }
    return NULL;
}

// Makes room for `cap` items.
static inline void dict_reserve(Dict* dict, int cap) {
    if (cap <= dict->cap)
        return;
    DictItem* items = (DictItem*)realloc(dict->items, (size_t)cap * sizeof *items);
    if (!items)
        pv_ocean_fail("out of memory");
    memset(items + dict->cap, 0, (size_t)(cap - dict->cap) * sizeof *items);
    dict->items = items;
    dict->cap = cap;
}

// Returns the item of that key, new if there was none.
static inline DictItem* dict_item(Dict* dict, const char* key) {
    DictItem* item = dict_find(dict, key);
    if (item)
        return item;
    if (strlen(key) >= PUF_DICT_MAX_KEY)
        pv_ocean_fail("the key %s is longer than %d characters", key, PUF_DICT_MAX_KEY - 1);
    if (dict->size == dict->cap)
        dict_reserve(dict, dict->cap ? 2 * dict->cap : 8);
    item = &dict->items[dict->size++];
    memcpy(item->key, key, strlen(key) + 1);
    return item;
}

static inline double dict_get(Dict* dict, const char* key) {
    const DictItem* item = dict_find(dict, key);
    if (!item)
        pv_ocean_fail("the setting %s is missing", key);
    return item->value;
}

static inline const char* dict_get_str(Dict* dict, const char* key) {
    const DictItem* item = dict_find(dict, key);
    if (!item || !item->str)
        pv_ocean_fail("the setting %s is missing, or is not a text", key);
    return item->str;
}

static inline DictItem* dict_set(Dict* dict, const char* key, double value) {
    DictItem* item = dict_item(dict, key);
    item->value = value;
    return item;
}

static inline DictItem* dict_set_str(Dict* dict, const char* key, const char* value) {
    DictItem* item = dict_item(dict, key);
    item->str = dict_strdup(value);
    return item;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The settings that an Ocean env reads and the numbers that it logs, in the form that the stand-ins
// for the headers of all three generations share. Owns no memory: texts and lists are the caller's.
#pragma once

#include "host.h"

#define PV_OCEAN_SETTINGS 512 // most settings of an env
#define PV_OCEAN_LOGGED 47    // most numbers of a log; a record holds one more, n
#define PV_OCEAN_NAME 32      // bytes of their names, NUL included

typedef struct pv_ocean_setting {
    const char* key;
    const char* text;      // as the .ini file has it
    const double* numbers; // one, or several of a list; true is 1
    int count;             // of numbers; 0 for a text
    int whole;             // 1 if they are whole numbers or truth values
} pv_ocean_setting;

typedef struct pv_ocean_settings {
    int count;
    pv_ocean_setting items[PV_OCEAN_SETTINGS];
} pv_ocean_settings;

typedef struct pv_ocean_log {
    int count;
    char names[PV_OCEAN_LOGGED][PV_OCEAN_NAME];
    float values[PV_OCEAN_LOGGED];
} pv_ocean_log;

// Adds a number to a log, or replaces the one of that name. n is left out: the record has its own.
static inline void pv_ocean_put(pv_ocean_log* log, const char* name, float value) {
    if (strcmp(name, "n") == 0)
        return;
    int at = 0;
    while (at < log->count && strncmp(log->names[at], name, PV_OCEAN_NAME - 1) != 0)
        at++;
    if (at == PV_OCEAN_LOGGED)
        return;
    if (at == log->count) {
        log->count++;
        snprintf(log->names[at], PV_OCEAN_NAME, "%s", name);
    }
    log->values[at] = value;
}

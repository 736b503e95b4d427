// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The settings and choices of tables.h as arrays, for Python.
#include "drive/tables.h"

const pv_drive_setting* pv_drive_settings(uint32_t* count) {
    static const pv_drive_setting settings[] = {
#define SETTING(type, name, low, high) {#name, low, high},
        DRIVE_SETTINGS(SETTING)
#undef SETTING
    };
    *count = sizeof settings / sizeof settings[0];
    return settings;
}

#define NAME(set, name) #name,
#define NAMES(set) static const char* const set##_names[] = {DRIVE_CHOICES_##set(NAME)};
DRIVE_CHOICE_SETS(NAMES)
#undef NAMES
#undef NAME

const pv_drive_choice* pv_drive_choices(uint32_t* count) {
    static const pv_drive_choice choices[] = {
#define SET(set) {#set, set##_names, DRIVE_CHOICE_COUNT_##set},
        DRIVE_CHOICE_SETS(SET)
#undef SET
    };
    *count = sizeof choices / sizeof choices[0];
    return choices;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for the rlights.h of raylib's examples: lights that shine on nothing. See raylib.h.
#pragma once

#include "raylib.h"

#define MAX_LIGHTS 4

typedef struct Light {
    int type;
    bool enabled;
    Vector3 position, target;
    Color color;
    float attenuation;
    int enabledLoc, typeLoc, positionLoc, targetLoc, colorLoc, attenuationLoc;
} Light;

typedef enum { LIGHT_DIRECTIONAL, LIGHT_POINT } LightType;

// These take any arguments.
static inline Light CreateLight() {
    return (Light){0};
}

static inline void UpdateLightValues() {
}

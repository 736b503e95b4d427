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

PV_RAY_OF(Light, CreateLight)
PV_RAY_NOTHING(UpdateLightValues)

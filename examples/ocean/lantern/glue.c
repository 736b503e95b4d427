// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Makes lantern.h an env type of puffervec. What the macros mean stands in pv_ocean.h.
#define OCEAN_HEADER "lantern.h"
#define OCEAN_NAME lantern
#define OCEAN_ENV Lantern
#define OCEAN_SETTINGS(INT, FLOAT) INT(size) INT(max_ticks) FLOAT(step_cost)
#define OCEAN_LOG(X) X(score) X(episode_return) X(episode_length)
#define OCEAN_OBSERVATION_DTYPE PV_U8
#define OCEAN_OBSERVATION_COUNT (2 * config->size)
#define OCEAN_OBSERVATION_LOW 0.0f
#define OCEAN_OBSERVATION_HIGH 1.0f
#define OCEAN_ACTION_SIZES 4
#include "pv_ocean.h"

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Types of the garden, which include the header of their generation; five_garden.h defines obs_t.
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "raylib.h"
#include "pufferenv.h"

#define HIGH 4
#define WIDE 8
#define OBS_SIZE (HIGH * WIDE + 3)
#define NUM_ATNS 2
#define ACT_SIZES {5, 3}
#define MAX_GARDENERS 4

struct Log {
    float watered;
    float n;
    float episode_length;
};

struct Env {
    Log log;
    Agent agents[MAX_GARDENERS];
    int num_agents;
    int tag;
    int boundary_reached;
    unsigned int rng;
    unsigned char plants[HIGH][WIDE];
    int row[MAX_GARDENERS], col[MAX_GARDENERS];
    double worth[3];
    int worths;
    bool rain;
    int tick;
};

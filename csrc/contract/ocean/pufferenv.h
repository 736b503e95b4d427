// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for the env header of PufferLib 5.0. The env's header defines obs_t, includes this file
// and defines OBS_SIZE, NUM_ATNS, ACT_SIZES, struct Env, struct Log and the puf_ functions;
// pv_ocean_generated.h calls them.
#pragma once

#include "bf16.h"
#include "ini.h"
#include "raylib.h"

typedef struct Env Env;
typedef struct Log Log;

// OCEAN_OBS_T: obs_t if the env defines it before it includes this file, as it should; the first
// headers of this generation define it later, and cast.
#ifndef OCEAN_OBS_T
#define OCEAN_OBS_T void
#endif

typedef struct Agent {
    OCEAN_OBS_T* observations;
    float* actions;
    float* rewards;
    float* terminals;
    unsigned char* action_mask; // a byte per choice, 1: allowed; NULL if the env has no masks
    int policy;                 // which policy plays the agent
} Agent;

#define PUF_CPU 0
#define PUF_GPU 1
#ifndef PUF_BACKEND
#define PUF_BACKEND PUF_CPU
#endif

void puf_init(Env* env, Dict* kwargs);
void puf_reset(Env* env);
void puf_step(Env* env);
void puf_render(Env* env);
void puf_close(Env* env);
void puf_log(Log* log, Dict* out);

// ---- drawing: nothing is drawn ----

static inline void puf_web_vsync(void) {
}

typedef struct PvaClip {
    Model model;
    int frame_count;
    int frame_start;
    int frame_end;
    int mesh_count;
    float fps;
} PvaClip;

static inline PvaClip* pva_load_clip(const char* path) {
    (void)path;
    return NULL;
}

static inline void pva_unload_clip(PvaClip* clip) {
    (void)clip;
}

static inline void pva_update_clip(PvaClip* clip, int frame) {
    (void)clip, (void)frame;
}

static inline void pva_use_flat_albedo(PvaClip* clip) {
    (void)clip;
}

static inline int pva_frame_at_time(PvaClip* clip, float seconds) {
    (void)clip, (void)seconds;
    return 0;
}

static inline float pva_clamp(float value, float low, float high) {
    return value < low ? low : value > high ? high : value;
}

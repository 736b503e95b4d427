// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// What the fuzzing program (fuzz_main.c) needs of an env without a slab: a block of ENVS envs in
// memory of its own, and the invariant of every step: rows are finite and within the bounds that
// the spec declares.
#pragma once

#include "../../csrc/envs/env_list.h"
#include "../../csrc/core/slab.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENVS 2
#define MOST_BYTES \
    (64u << 20) // what one input may make an env want; larger ones are left to the learner's own
                // limit

// ---- random numbers: splitmix64, one stream per input ----

typedef struct fuzz_rng {
    uint64_t state;
} fuzz_rng;

static inline uint64_t draw(fuzz_rng* rng) {
    uint64_t z = rng->state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static inline uint64_t below(fuzz_rng* rng, uint64_t limit) {
    return limit ? draw(rng) % limit : 0;
}

// ---- one block ----

typedef struct fuzz_env {
    const pv_env_type* type;
    pv_context context;
    pv_spec spec;
    pv_block block;
    uint32_t record_count, record_dropped, error_env;
    uint64_t counters[PV_COUNTERS];
    int64_t tasks[ENVS];
    int32_t* actions[PV_MAX_GROUPS];
    char text[PV_ERROR_TEXT];
} fuzz_env;

// Ends the program: an invariant does not hold. The number of the input stands in the trace file.
__attribute__((noreturn, format(printf, 1, 2))) static inline void broken(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    abort();
}

static inline void* zeros(uint64_t count, uint64_t size) {
    void* memory = calloc(count + 1, size); // never of no size
    if (!memory)
        broken("no memory for %llu x %llu bytes", (unsigned long long)count,
               (unsigned long long)size);
    return memory;
}

// Bytes of all rows of the block.
static inline uint64_t row_bytes(const pv_spec* spec) {
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < spec->group_count; g++) {
        const pv_group_spec* group = &spec->groups[g];
        bytes += (uint64_t)group->agents * ENVS *
                 (group->observation_bytes + 8 + 4 * group->action_dims);
    }
    return bytes;
}

static inline int reads_bytes(const fuzz_env* env, uint32_t g) {
    return (env->type->flags & PV_BYTE_ACTIONS) && pv_has_byte_actions(&env->spec.groups[g]);
}

static inline void open_rows(fuzz_env* env, uint32_t g) {
    const pv_group_spec* group = &env->spec.groups[g];
    uint64_t rows = (uint64_t)group->agents * ENVS;
    env->actions[g] = zeros(rows * group->action_dims, sizeof(int32_t));
    const int32_t* indices =
        group->action_kind == PV_CONTINUOUS || reads_bytes(env, g) ? NULL : env->actions[g];
    env->block.rows[g] = (pv_rows){
        .observations = zeros(rows, group->observation_bytes),
        .observation_bytes = group->observation_bytes,
        .rewards = zeros(rows, sizeof(float)),
        .terminals = zeros(rows, 1),
        .truncations = zeros(rows, 1),
        .masks = zeros(rows, 1),
        .agent_types = zeros(rows, 1),
        .action_masks = group->action_mask_size ? zeros(rows, group->action_mask_size) : NULL,
        .final_observations =
            env->context.autoreset == PV_SAME_STEP ? zeros(rows, group->observation_bytes) : NULL,
        .actions = (const uint8_t*)env->actions[g],
        .indices = indices,
        .values = group->action_kind == PV_CONTINUOUS ? (const float*)env->actions[g] : NULL,
        .count = rows};
}

static inline void env_close(fuzz_env* env) {
    if (env->block.state && env->type->close)
        env->type->close(&env->block);
    for (uint32_t g = 0; g < env->spec.group_count; g++) {
        pv_rows* rows = &env->block.rows[g];
        void* const all[] = {
            rows->observations, rows->rewards,     rows->terminals,    rows->truncations,
            rows->masks,        rows->agent_types, rows->action_masks, rows->final_observations,
            env->actions[g]};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            free(all[i]);
    }
    free(env->block.records);
    free(env->block.state);
}

// Describes the env and, if that is accepted and not too large, makes a block. Returns describe's
// code, or -1: too large.
static inline int env_open(fuzz_env* env, const pv_env_type* type, const pv_context* context) {
    memset(env, 0, sizeof *env);
    env->type = type;
    env->context = *context;
    int code = type->describe(&env->context, &env->spec, env->text);
    if (code && !env->text[0])
        broken("refused without a word");
    if (code) {
        env->spec.group_count = 0;
        return code;
    }
    uint64_t bytes = pv_align_up(type->bytes(&env->context, ENVS), 64);
    if (bytes > MOST_BYTES || row_bytes(&env->spec) > MOST_BYTES) {
        env->spec.group_count = 0;
        return -1;
    }
    env->block = (pv_block){.context = &env->context,
                            .spec = &env->spec,
                            .env_count = ENVS,
                            .tasks = env->tasks,
                            .record_count = &env->record_count,
                            .record_dropped = &env->record_dropped,
                            .record_capacity = env->spec.records_per_turn * ENVS,
                            .counters = env->counters,
                            .error_text = env->text,
                            .error_env = &env->error_env};
    env->block.state = aligned_alloc(64, bytes);
    if (!env->block.state)
        broken("no memory for a state of %llu bytes", (unsigned long long)bytes);
    memset(env->block.state, 0, bytes);
    env->block.records = zeros(env->block.record_capacity, sizeof(pv_record));
    for (uint32_t g = 0; g < env->spec.group_count; g++)
        open_rows(env, g);
    for (uint32_t e = 0; e < ENVS; e++)
        env->tasks[e] = -1;
    code = type->init(&env->block);
    if (code)
        broken("init failed after describe had passed: %s", env->text);
    return PV_OK;
}

// ---- the invariant ----

static inline double field_value(const uint8_t* at, uint32_t dtype, uint32_t i) {
    float f;
    double d;
    switch (dtype) {
    case PV_F32: return memcpy(&f, at + 4 * i, sizeof f), (double)f;
    case PV_F64: return memcpy(&d, at + 8 * i, sizeof d), d;
    case PV_U8: return (double)at[i];
    default: return 0.0; // no observation here has another type
    }
}

static inline void check_observation(const pv_group_spec* group,
                                     const uint8_t* row,
                                     uint64_t number) {
    for (uint32_t f = 0; f < group->field_count; f++) {
        const pv_field* field = &group->fields[f];
        uint32_t count = 1;
        for (uint32_t axis = 0; axis < field->ndim; axis++)
            count *= field->shape[axis];
        for (uint32_t i = 0; i < count; i++) {
            double value = field_value(row + field->offset, field->dtype, i);
            if (!(value >= (double)field->low && value <= (double)field->high))
                broken("row %llu: %s[%u] is %.9g, outside %.9g to %.9g", (unsigned long long)number,
                       field->name, i, value, (double)field->low, (double)field->high);
        }
    }
}

static inline void check_rows(const fuzz_env* env) {
    for (uint32_t g = 0; g < env->spec.group_count; g++) {
        const pv_rows* rows = &env->block.rows[g];
        for (uint64_t r = 0; r < rows->count; r++) {
            check_observation(&env->spec.groups[g],
                              rows->observations + r * rows->observation_bytes, r);
            if (!isfinite(rows->rewards[r]))
                broken("row %llu: its reward is %g", (unsigned long long)r,
                       (double)rows->rewards[r]);
            if ((rows->terminals[r] | rows->truncations[r] | rows->masks[r]) > 1)
                broken("row %llu: a flag is neither 0 nor 1", (unsigned long long)r);
        }
    }
    for (uint32_t i = 0; i < env->record_count; i++) {
        const pv_record* record = &env->block.records[i];
        if (!isfinite(record->episode_return))
            broken("the record of env %u has return %g", record->env,
                   (double)record->episode_return);
        for (uint32_t v = 0; v < env->spec.record_count; v++) {
            if (!isfinite(record->values[v]))
                broken("record value %s is %g", env->spec.record_names[v],
                       (double)record->values[v]);
        }
    }
}

static inline void draw_actions(fuzz_env* env, fuzz_rng* rng) {
    for (uint32_t g = 0; g < env->spec.group_count; g++) {
        const pv_group_spec* group = &env->spec.groups[g];
        uint64_t count = env->block.rows[g].count * group->action_dims;
        for (uint64_t i = 0; i < count; i++) {
            uint32_t dim = (uint32_t)(i % group->action_dims);
            float value =
                group->action_low[dim] + (float)below(rng, 1001) * 1e-3f *
                                             (group->action_high[dim] - group->action_low[dim]);
            if (group->action_kind == PV_CONTINUOUS)
                memcpy(&env->actions[g][i], &value, sizeof value);
            else if (reads_bytes(env, g))
                ((uint8_t*)env->actions[g])[i] = (uint8_t)below(rng, group->action_sizes[dim]);
            else
                env->actions[g][i] = (int32_t)below(rng, group->action_sizes[dim]);
        }
    }
}

// Resets all envs and checks their rows. Returns the env's code.
static inline int env_reset(fuzz_env* env, fuzz_rng* rng) {
    uint64_t seeds[ENVS];
    for (uint32_t e = 0; e < ENVS; e++)
        seeds[e] = draw(rng);
    env->record_count = 0;
    int code = env->type->reset(&env->block, NULL, seeds);
    if (!code)
        check_rows(env);
    return code;
}

// Takes `steps` steps with random actions and checks rows after each; reads every env's state at
// the end.
static inline void env_steps(fuzz_env* env, fuzz_rng* rng, uint32_t steps) {
    for (uint32_t step = 0; step < steps; step++) {
        draw_actions(env, rng);
        env->record_count = 0;
        int code = env->type->step(&env->block);
        if (code)
            broken("a step failed: %s", env->text);
        check_rows(env);
    }
    uint8_t* out = zeros(env->spec.state_bytes, 1);
    for (uint32_t e = 0; e < ENVS; e++)
        env->type->peek(&env->block, e, out);
    free(out);
}

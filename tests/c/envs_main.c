// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Any env type without Python, through the worker's functions as the Serial backend calls them, for
// valgrind:
//
//     envs_main TYPE CONFIG PARAMS DATA|- next_step|same_step ENVS STEPS SEED
//
// CONFIG, PARAMS: files with the bytes of the config struct and the params blob; DATA: a compiled
// scene set. Runs STEPS steps with random actions (some that the border has to replace), saves all
// envs, runs as many again, loads them and runs those again: exit status 1 if the bytes differ.
// Then sets states as they were read, and others. Prints a hash of all rows, saved bytes and
// states. The rows begin uninitialised, as no env may count on: a byte that an env does not write
// is reported by valgrind in `hash`, whose caller says which array it is in.
#include "../../csrc/core/action.h"
#include "../../csrc/envs/env_list.h"
#include "../../csrc/core/turn.h"
#include "../../csrc/core/worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef EXTRA_TYPE // one more type, linked to this program
extern const pv_env_type EXTRA_TYPE;
#endif

static pv_slab* slab;
static pv_worker worker;
static pv_waiter waiter;
static uint64_t dice,
    zeros; // zeros: arrays whose hash is 0; asked for to make valgrind look at each hash

static uint8_t* read_all(const char* path, uint64_t* bytes) {
    *bytes = 0;
    if (!strcmp(path, "-"))
        return NULL;
    FILE* file = fopen(path, "rb");
    if (!file)
        exit(2);
    fseek(file, 0, SEEK_END);
    *bytes = (uint64_t)ftell(file);
    rewind(file);
    void* data; // exactly as long as the file, so that any read behind it is seen
    if (posix_memalign(&data, 64, *bytes) || fread(data, 1, *bytes, file) != *bytes)
        exit(2);
    fclose(file);
    return data;
}

static const pv_env_type* find(const char* name) {
#ifdef EXTRA_TYPE
    if (!strcmp(EXTRA_TYPE.name, name))
        return &EXTRA_TYPE;
#endif
    return pv_env_find(name);
}

static uint64_t roll(void) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice;
}

static uint64_t hash(uint64_t before, const void* bytes, uint64_t count) {
    uint64_t value = before;
    for (uint64_t i = 0; i < count; i++)
        value = (value ^ ((const uint8_t*)bytes)[i]) * 0x100000001B3u;
    if (value == 0)
        zeros++; // uninitialised bytes are reported here
    return value;
}

// ---- turns ----

static uint64_t hash_rows(uint64_t value) {
    for (uint32_t g = 0; g < slab->spec.group_count; g++) {
        const pv_rows* rows = &worker.blocks[0].rows[g];
        value = hash(value, rows->observations, rows->count * rows->observation_bytes);
        value = hash(value, rows->rewards, rows->count * sizeof(float));
        value = hash(value, rows->terminals, rows->count);
        value = hash(value, rows->truncations, rows->count);
        value = hash(value, rows->masks, rows->count);
        value = hash(value, rows->agent_types, rows->count);
        if (rows->action_masks)
            value = hash(value, rows->action_masks,
                         rows->count * slab->spec.groups[g].action_mask_size);
        for (uint64_t row = 0; rows->final_observations && row < rows->count; row++) {
            if (rows->terminals[row] || rows->truncations[row])
                value = hash(value, rows->final_observations + row * rows->observation_bytes,
                             rows->observation_bytes);
        }
    }
    for (uint32_t i = 0; i < *worker.blocks[0].record_count; i++)
        value = hash(value, &worker.blocks[0].records[i], sizeof(pv_record));
    return value;
}

static int is_refused(uint8_t semaphore, uint8_t seeded, uint32_t first, uint32_t count) {
    pv_command_line(slab, 0, 0)->seeded = seeded;
    pv_turn_send_one(slab, 0, 0, semaphore, first, count, &waiter);
    pv_worker_serve(&worker, 0);
    return pv_turn_recv(slab, 0, PV_ALL_WORKERS, &waiter, PV_SLICE_NS, 0) & PV_TURN_FAILED;
}

static void serve(uint8_t semaphore, uint8_t seeded, uint32_t first, uint32_t count) {
    if (is_refused(semaphore, seeded, first, count)) {
        fprintf(stderr, "command %u failed: %s\n", semaphore, pv_slab_error(slab, 0)->text);
        exit(1);
    }
}

// Mostly valid actions; one in 64 is not.
static void write_actions(void) {
    for (uint32_t g = 0; g < slab->spec.group_count; g++) {
        const pv_group_spec* group = &slab->spec.groups[g];
        uint64_t count = worker.blocks[0].rows[g].count * group->action_dims;
        int is_real = group->action_kind == PV_CONTINUOUS;
        int32_t* indices = malloc(count * sizeof *indices);
        float* values = malloc(count * sizeof *values);
        if (!indices || !values)
            exit(2);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t now = roll(), dim = i % group->action_dims;
            indices[i] = now % 64 ? (int32_t)((now >> 8) % (is_real ? 1 : group->action_sizes[dim]))
                                  : (int32_t)(now >> 32);
            values[i] = now % 64 ? (float)((double)(now >> 40) / (1 << 23) - 1.0)
                                 : (now & 64 ? NAN : INFINITY);
        }
        if (is_real)
            pv_actions_write(slab, 0, g, values, PV_F32);
        else
            pv_actions_write(slab, 0, g, indices, PV_I32);
        free(indices);
        free(values);
    }
}

static uint64_t run(uint64_t value, int steps) {
    for (int step = 0; step < steps; step++) {
        write_actions();
        serve(PV_STEP, 0, 0, 0);
        value = hash_rows(value);
    }
    return value;
}

// ---- saving ----

static uint64_t saved_bytes(void) {
    return slab->spec.save_bytes + slab->env_row_bytes;
}

// Copies all envs out of the worker, or back into it.
static void move_envs(uint8_t* saved, int load) {
    for (uint32_t env = 0; env < slab->num_envs; env++) {
        uint8_t *own = saved + env * saved_bytes(), *transfer = pv_slab_transfer(slab, 0);
        if (load)
            memcpy(transfer, own, saved_bytes());
        serve(load ? PV_LOAD : PV_SAVE, 0, env, 1);
        if (!load)
            memcpy(own, transfer, saved_bytes());
    }
}

static uint64_t peek_envs(uint64_t value) {
    for (uint32_t env = 0; env < slab->num_envs; env++) {
        serve(PV_PEEK, 0, env, 1);
        value = hash(value, pv_slab_transfer(slab, 0), slab->spec.state_bytes);
    }
    return value;
}

// Sets states: as they were read, of the env before, and with broken bytes, which may be refused.
static uint64_t poke_envs(uint64_t value) {
    uint8_t* state = pv_slab_transfer(slab, 0);
    for (uint32_t env = 0; env < slab->num_envs; env++) {
        serve(PV_PEEK, 0, env, 1);
        serve(PV_POKE, 0, env, 1);
        value = hash_rows(value);
    }
    for (uint32_t i = 0; i < 20 * slab->num_envs; i++) {
        serve(PV_PEEK, 0, i % slab->num_envs, 1);
        for (uint64_t broken = roll() % 3; broken; broken--)
            state[roll() % slab->spec.state_bytes] = (uint8_t)roll();
        uint32_t to = (i + roll() % 2) % slab->num_envs;
        if (is_refused(PV_POKE, 0, to, 1))
            pv_slab_error(slab, 0)->code = PV_OK;
        value = run(hash_rows(value), 1);
    }
    return value;
}

// Returns the hash of what follows a save, or exits if a load is followed by anything else.
static uint64_t save_and_load(uint64_t value, int steps) {
    uint8_t* saved = malloc(slab->num_envs * saved_bytes());
    if (!saved)
        exit(2);
    uint64_t dice_then = dice;
    move_envs(saved, 0);
    value = hash(value, saved, slab->num_envs * saved_bytes());
    uint64_t once = run(value, steps);
    dice = dice_then;
    move_envs(saved, 1);
    free(saved);
    if (run(value, steps) == once)
        return once;
    fprintf(stderr, "loaded envs go on otherwise than they did when they were saved\n");
    exit(1);
}

// ---- the slab ----

static void make_slab(const pv_env_type* type, const pv_context* context, pv_slab_request request) {
    static char text[PV_ERROR_TEXT];
    pv_spec* spec = calloc(1, sizeof *spec);
    pv_slab* head = calloc(1, sizeof *head);
    if (!spec || !head)
        exit(2);
    if (type->describe(context, spec, text) || !pv_slab_layout(spec, &request, head)) {
        fprintf(stderr, "%s: %s\n", type->name, text);
        exit(1);
    }
    slab = aligned_alloc(4096, pv_align_up(head->bytes, 4096));
    if (!slab)
        exit(2);
    memset(slab, 0, head->halves[0].offset); // all but the rows
    *slab = *head;
    memcpy(pv_slab_at(slab, slab->config_offset), context->config, request.config_bytes);
    memcpy(pv_slab_at(slab, slab->params_offset), context->params, request.params_bytes);
    for (uint32_t env = 0; env < slab->num_envs; env++) {
        ((int64_t*)(void*)pv_slab_at(slab, slab->tasks_offset))[env] = -1;
        ((uint64_t*)(void*)pv_slab_at(slab, slab->seeds_offset))[env] = roll();
    }
    free(spec);
    free(head);
}

int main(int argc, char** argv) {
    if (argc != 9)
        return 2;
    const pv_env_type* type = find(argv[1]);
    pv_slab_request request = {
        .num_envs = (uint32_t)atoi(argv[6]), .num_workers = 1, .num_buffers = 1};
    request.autoreset = strcmp(argv[5], "same_step") ? PV_NEXT_STEP : PV_SAME_STEP;
    pv_context context = {.autoreset = request.autoreset};
    uint8_t* config = read_all(argv[2], &request.config_bytes);
    uint8_t* params = read_all(argv[3], &request.params_bytes);
    uint8_t* data = read_all(argv[4], &context.data_bytes);
    if (!type || request.config_bytes != type->config_bytes ||
        request.params_bytes < sizeof(pv_params))
        return 2;
    context.config = config;
    context.params = (const pv_params*)(void*)params;
    context.data = data;
    int steps = atoi(argv[7]);
    dice = (strtoull(argv[8], NULL, 10) + 1) * 0x9E3779B97F4A7C15u;
    make_slab(type, &context, request);
    if (pv_worker_open(&worker, slab, 0, type, data, context.data_bytes)) {
        fprintf(stderr, "%s: %s\n", type->name, pv_slab_error(slab, 0)->text);
        return 1;
    }
    serve(PV_RESET, 1, 0, 0);
    uint64_t value = run(hash_rows(0xCBF29CE484222325u), steps);
    if (slab->spec.save_bytes)
        value = save_and_load(value, steps);
    value = peek_envs(value);
    if (type->poke)
        value = poke_envs(value);
    serve(PV_RESET, 0, 0, 0);
    value = run(hash_rows(value), 1);
    pv_worker_close(&worker);
    printf("%s %016llx%s\n", type->name, (unsigned long long)value, zeros ? " (a hash was 0)" : "");
    free(slab);
    free(config);
    free(params);
    free(data);
    return 0;
}

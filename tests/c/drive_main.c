// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The driving env without Python, for builds with other flags: drive_main SET CONFIG ACTIONS OUT
// steps episodes SET: a compiled scene set; CONFIG: the bytes of pv_drive_config and of the params;
// ACTIONS: the action rows of `steps` steps, run once per episode after a reset with seed 7 +
// episode. OUT receives, after each reset and step: observations, rewards, terminals, truncations,
// masks; and last the readable state.
#include "../../csrc/drive/tables.h"
#include "../../csrc/envs/env_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t* read_all(const char* path, uint64_t* bytes) {
    FILE* file = fopen(path, "rb");
    if (!file)
        exit(2);
    fseek(file, 0, SEEK_END);
    *bytes = (uint64_t)ftell(file);
    rewind(file);
    uint8_t* data = malloc(
        *bytes + 1); // exactly as long as the file, so that sanitizers see any read behind it
    data = realloc(data, *bytes);
    if (!data || fread(data, 1, *bytes, file) != *bytes)
        exit(2);
    fclose(file);
    return data;
}

static void write_rows(FILE* out, const pv_env_type* type, pv_block* block, uint8_t* state) {
    const pv_rows* rows = &block->rows[0];
    fwrite(rows->observations, rows->observation_bytes, rows->count, out);
    fwrite(rows->rewards, sizeof(float), rows->count, out);
    fwrite(rows->terminals, 1, rows->count, out);
    fwrite(rows->truncations, 1, rows->count, out);
    fwrite(rows->masks, 1, rows->count, out);
    memset(state, 0, block->spec->state_bytes);
    type->peek(block, 0, state);
    fwrite(state, 1, block->spec->state_bytes, out);
}

int main(int argc, char** argv) {
    static pv_spec spec;
    static char text[PV_ERROR_TEXT];
    uint64_t data_bytes, config_bytes, action_bytes;
    if (argc != 7)
        return 2;
    uint8_t* data = read_all(argv[1], &data_bytes);
    uint8_t* config = read_all(argv[2], &config_bytes);
    uint8_t* actions = read_all(argv[3], &action_bytes);
    FILE* out = fopen(argv[4], "wb");
    const pv_env_type* type = pv_env_find("drive");
    pv_params* params = aligned_alloc(64, pv_align_up(config_bytes, 64));
    if (!params)
        return 2;
    memset(params, 0, pv_align_up(config_bytes, 64));
    memcpy(params, config + type->config_bytes, config_bytes - type->config_bytes);
    pv_context context = {
        .config = config, .params = params, .data = data, .data_bytes = data_bytes};
    if (!out || params->bytes != config_bytes - type->config_bytes ||
        type->describe(&context, &spec, text)) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    uint32_t agents = spec.groups[0].agents, counts[2] = {0}, error_env = 0;
    uint64_t counters[PV_COUNTERS] = {0};
    int64_t task = -1;
    pv_block block = {.context = &context,
                      .spec = &spec,
                      .env_count = 1,
                      .tasks = &task,
                      .record_count = &counts[0],
                      .record_dropped = &counts[1],
                      .record_capacity = spec.records_per_turn,
                      .counters = counters,
                      .error_text = text,
                      .error_env = &error_env};
    uint64_t state_bytes = pv_align_up(type->bytes(&context, 1), 64);
    block.state = aligned_alloc(64, state_bytes);
    memset(block.state, 0, state_bytes);
    uint8_t* state = malloc(spec.state_bytes);
    block.records = calloc(spec.records_per_turn, sizeof(pv_record));
    block.rows[0] = (pv_rows){.observations = calloc(agents, spec.groups[0].observation_bytes),
                              .observation_bytes = spec.groups[0].observation_bytes,
                              .rewards = calloc(agents, sizeof(float)),
                              .terminals = calloc(agents, 1),
                              .truncations = calloc(agents, 1),
                              .masks = calloc(agents, 1),
                              .agent_types = calloc(agents, 1),
                              .count = agents};
    if (type->init(&block))
        return 1;
    int steps = atoi(argv[5]), episodes = atoi(argv[6]);
    for (int episode = 0; episode < episodes; episode++) {
        uint64_t seed = 7 + (uint64_t)episode;
        if (type->reset(&block, NULL, &seed))
            return 1;
        write_rows(out, type, &block, state);
        for (int step = 0; step < steps; step++) {
            block.rows[0].actions =
                actions + (uint64_t)step * agents * spec.groups[0].action_dims * sizeof(int32_t);
            block.rows[0].indices = (const int32_t*)(const void*)block.rows[0].actions;
            block.rows[0].values = (const float*)(const void*)block.rows[0].actions;
            counts[0] = 0;
            if (type->step(&block))
                return 1;
            write_rows(out, type, &block, state);
        }
    }
    if (type->close)
        type->close(&block);
    void* const owned[] = {block.state,
                           block.records,
                           block.rows[0].observations,
                           block.rows[0].rewards,
                           block.rows[0].terminals,
                           block.rows[0].truncations,
                           block.rows[0].masks,
                           block.rows[0].agent_types,
                           data,
                           config,
                           actions,
                           state,
                           params};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        free(owned[i]);
    return fclose(out) ? 1 : 0;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The layout of the slab; see slab.h. Runs everywhere; owns no memory.
#include "slab.h"

#include <string.h>

#define PV_FIELD_ALIGN 64u
#define PV_PAGE 4096u
#define PV_RECORD_HEAD 64u
#define PV_TRANSFER_TARGET (1u << 20) // a transfer region carries about this much per command
#define PV_SLAB_MOST (1ull << 46)     // far above any machine: keeps the sums below from wrapping

// A cursor over the slab that remembers overflow.
typedef struct pv_cursor {
    uint64_t at;
    int overflow;
} pv_cursor;

static uint64_t take(pv_cursor* cursor, uint64_t count, uint64_t each, uint64_t alignment) {
    uint64_t start = pv_align_up(cursor->at, alignment), bytes = 0;
    if (__builtin_mul_overflow(count, each, &bytes) || bytes > PV_SLAB_MOST ||
        start > PV_SLAB_MOST) {
        cursor->overflow = 1;
        return 0;
    }
    cursor->at = start + bytes;
    return start;
}

static void layout_half(pv_cursor* cursor, const pv_slab* slab, pv_half_layout* half) {
    const pv_spec* spec = &slab->spec;
    half->offset = take(cursor, 0, 0, PV_PAGE);
    cursor->at = half->offset;
    for (uint32_t g = 0; g < spec->group_count; g++) {
        const pv_group_spec* group = &spec->groups[g];
        pv_group_layout* out = &half->groups[g];
        uint64_t rows = (uint64_t)half->env_count * group->agents;
        out->rows = rows;
        out->observations = take(cursor, rows, group->observation_bytes, PV_FIELD_ALIGN);
        out->rewards = take(cursor, rows, sizeof(float), PV_FIELD_ALIGN);
        out->terminals = take(cursor, rows, 1, PV_FIELD_ALIGN);
        out->truncations = take(cursor, rows, 1, PV_FIELD_ALIGN);
        out->masks = take(cursor, rows, 1, PV_FIELD_ALIGN);
        out->agent_types = take(cursor, rows, 1, PV_FIELD_ALIGN);
        if (group->action_mask_size)
            out->action_masks = take(cursor, rows, group->action_mask_size, PV_FIELD_ALIGN);
        if (slab->autoreset == PV_SAME_STEP) {
            out->final_observations = take(cursor, rows, group->observation_bytes, PV_FIELD_ALIGN);
        }
    }
    for (uint32_t g = 0; g < spec->group_count; g++) {
        half->groups[g].actions =
            take(cursor, half->groups[g].rows, pv_action_bytes(&spec->groups[g]), PV_FIELD_ALIGN);
    }
    cursor->at = pv_align_up(cursor->at, PV_PAGE);
    half->bytes = cursor->at - half->offset;
}

// Returns the bytes of all rows of one env, in the order in which worker.c saves them.
static uint64_t env_row_bytes(const pv_spec* spec, uint32_t autoreset) {
    uint64_t bytes = 0, observations = autoreset == PV_SAME_STEP ? 2 : 1; // final_observations
    for (uint32_t g = 0; g < spec->group_count; g++) {
        const pv_group_spec* group = &spec->groups[g];
        bytes += (uint64_t)group->agents * (observations * group->observation_bytes +
                                            sizeof(float) + 4 + group->action_mask_size);
    }
    return bytes;
}

static uint32_t most_envs_of_a_worker(const pv_slab* slab) {
    uint32_t most = 1;
    for (uint32_t worker = 0; worker < slab->num_workers; worker++) {
        for (uint32_t half = 0; half < slab->num_buffers; half++) {
            pv_span span = pv_slab_span(slab, worker, half);
            if (span.env_count > most)
                most = span.env_count;
        }
    }
    return most;
}

static void layout_control(pv_cursor* cursor, const pv_spec* spec, pv_slab* slab) {
    uint64_t lanes = (uint64_t)slab->num_workers * slab->lanes;
    uint32_t most_envs = most_envs_of_a_worker(slab);
    slab->tasks_offset = take(cursor, slab->num_envs, sizeof(int64_t), PV_FIELD_ALIGN);
    slab->seeds_offset = take(cursor, slab->num_envs, sizeof(uint64_t), PV_FIELD_ALIGN);
    slab->reset_masks_offset = take(cursor, slab->num_envs, 1, PV_FIELD_ALIGN);
    slab->lines_offset = take(cursor, 2 * lanes + 1, PV_LINE_BYTES, PV_LINE_BYTES);
    slab->counters_offset = take(cursor, lanes, PV_COUNTERS * sizeof(uint64_t), PV_LINE_BYTES);

    uint64_t capacity = (uint64_t)most_envs * spec->records_per_turn;
    if (capacity > UINT32_MAX)
        cursor->overflow = 1;
    slab->record_capacity = (uint32_t)capacity;
    slab->record_area_bytes =
        pv_align_up(PV_RECORD_HEAD + capacity * sizeof(pv_record), PV_FIELD_ALIGN);
    slab->records_offset = take(cursor, lanes, slab->record_area_bytes, PV_FIELD_ALIGN);
    slab->errors_offset = take(cursor, slab->num_workers, sizeof(pv_error_slot), PV_FIELD_ALIGN);

    uint64_t saved = (uint64_t)spec->save_bytes + slab->env_row_bytes;
    uint64_t widest = saved > spec->state_bytes ? saved : spec->state_bytes;
    uint64_t fit = widest ? PV_TRANSFER_TARGET / widest : 1;
    if (fit < 1)
        fit = 1;
    slab->transfer_envs = (uint32_t)(fit < most_envs ? fit : most_envs);
    slab->transfer_bytes = pv_align_up(widest * slab->transfer_envs, PV_FIELD_ALIGN);
    slab->transfers_offset = take(cursor, slab->num_workers, slab->transfer_bytes, PV_FIELD_ALIGN);
    slab->infos_offset = take(cursor, lanes, slab->info_bytes, PV_FIELD_ALIGN);
}

uint64_t pv_slab_layout(const pv_spec* spec, const pv_slab_request* request, pv_slab* slab) {
    memset(slab, 0, sizeof *slab);
    slab->magic = PV_SLAB_MAGIC;
    slab->abi = PV_ABI;
    slab->num_envs = request->num_envs;
    slab->num_workers = request->num_workers;
    slab->num_buffers = request->num_buffers;
    slab->split = request->split;
    slab->autoreset = request->autoreset;
    slab->any_order = request->any_order;
    slab->lanes = request->split == PV_SPLIT_ENVS ? request->num_buffers : 1;
    slab->info_bytes = pv_align_up(request->info_bytes, PV_FIELD_ALIGN);
    slab->spec = *spec;
    uint64_t row_bytes = env_row_bytes(spec, request->autoreset);
    if (row_bytes > UINT32_MAX)
        return 0;
    slab->env_row_bytes = (uint32_t)row_bytes;
    uint32_t per_half = request->num_envs / request->num_buffers;
    for (uint32_t h = 0; h < request->num_buffers; h++) {
        slab->halves[h].first_env = h * per_half;
        slab->halves[h].env_count = per_half;
    }

    pv_cursor cursor = {sizeof(pv_slab), 0};
    slab->config_bytes = request->config_bytes;
    slab->config_offset = take(&cursor, 1, request->config_bytes, PV_FIELD_ALIGN);
    slab->params_bytes = request->params_bytes;
    slab->params_offset = take(&cursor, 1, request->params_bytes, PV_FIELD_ALIGN);
    layout_control(&cursor, spec, slab);
    for (uint32_t h = 0; h < request->num_buffers; h++)
        layout_half(&cursor, slab, &slab->halves[h]);
    slab->bytes = cursor.overflow ? 0 : cursor.at;
    return slab->bytes;
}

pv_span pv_slab_workers(const pv_slab* slab, uint32_t half) {
    pv_span span = {0, slab->num_workers};
    if (slab->split == PV_SPLIT_WORKERS) {
        span.env_count = slab->num_workers / slab->num_buffers;
        span.first_env = half * span.env_count;
    }
    return span;
}

pv_span pv_slab_span(const pv_slab* slab, uint32_t worker, uint32_t half) {
    pv_span workers = pv_slab_workers(slab, half);
    pv_span span = {0, 0};
    if (half >= slab->num_buffers || worker < workers.first_env ||
        worker >= workers.first_env + workers.env_count)
        return span;
    // Shares differ by at most one env: worker j of n gets envs [j*E/n, (j+1)*E/n).
    const pv_half_layout* layout = &slab->halves[half];
    uint64_t j = worker - workers.first_env, n = workers.env_count, envs = layout->env_count;
    uint32_t first = (uint32_t)(j * envs / n), last = (uint32_t)((j + 1) * envs / n);
    span.first_env = layout->first_env + first;
    span.env_count = last - first;
    return span;
}

uint64_t pv_slab_lane(const pv_slab* slab, uint32_t worker, uint32_t half) {
    return (uint64_t)worker * slab->lanes + (slab->lanes > 1 ? half : 0);
}

uint64_t pv_slab_records(const pv_slab* slab, uint32_t worker, uint32_t half) {
    return slab->records_offset + pv_slab_lane(slab, worker, half) * slab->record_area_bytes;
}

uint64_t pv_slab_infos(const pv_slab* slab, uint32_t worker, uint32_t half) {
    return slab->infos_offset + pv_slab_lane(slab, worker, half) * slab->info_bytes;
}

static void fill_rows(
    const pv_slab* slab, const pv_half_layout* half, pv_span span, uint32_t g, pv_rows* rows) {
    const pv_group_spec* group = &slab->spec.groups[g];
    const pv_group_layout* at = &half->groups[g];
    uint64_t first = (uint64_t)(span.first_env - half->first_env) * group->agents;
    rows->count = (uint64_t)span.env_count * group->agents;
    rows->observation_bytes = group->observation_bytes;
    rows->observations = pv_slab_at(slab, at->observations + first * group->observation_bytes);
    rows->rewards = (float*)(void*)pv_slab_at(slab, at->rewards + first * sizeof(float));
    rows->terminals = pv_slab_at(slab, at->terminals + first);
    rows->truncations = pv_slab_at(slab, at->truncations + first);
    rows->masks = pv_slab_at(slab, at->masks + first);
    rows->agent_types = pv_slab_at(slab, at->agent_types + first);
    rows->action_masks = group->action_mask_size
                             ? pv_slab_at(slab, at->action_masks + first * group->action_mask_size)
                             : NULL;
    uint64_t stride = group->observation_bytes;
    rows->final_observations =
        at->final_observations ? pv_slab_at(slab, at->final_observations + first * stride) : NULL;
    uint8_t* actions = pv_slab_at(slab, at->actions + first * pv_action_bytes(group));
    rows->actions = actions;
    int is_discrete = group->action_kind == PV_DISCRETE || group->action_kind == PV_MULTI_DISCRETE;
    rows->indices =
        is_discrete && !pv_has_byte_actions(group) ? (const int32_t*)(void*)actions : NULL;
    rows->values = group->action_kind == PV_CONTINUOUS ? (const float*)(void*)actions : NULL;
}

void pv_slab_block(pv_slab* slab, uint32_t worker, uint32_t half, pv_block* block) {
    pv_span span = pv_slab_span(slab, worker, half);
    block->first_env = span.first_env;
    block->env_count = span.env_count;
    for (uint32_t g = 0; g < slab->spec.group_count; g++)
        fill_rows(slab, &slab->halves[half], span, g, &block->rows[g]);
    block->tasks = (const int64_t*)(void*)pv_slab_at(slab, slab->tasks_offset) + span.first_env;
    uint8_t* area = pv_slab_at(slab, pv_slab_records(slab, worker, half));
    block->record_count = (uint32_t*)(void*)area;
    block->record_dropped = (uint32_t*)(void*)area + 1;
    block->records = (pv_record*)(void*)(area + PV_RECORD_HEAD);
    block->record_capacity = slab->record_capacity;
    uint64_t* counters = (uint64_t*)(void*)pv_slab_at(slab, slab->counters_offset);
    block->counters = counters + pv_slab_lane(slab, worker, half) * PV_COUNTERS;
    pv_error_slot* error = pv_slab_error(slab, worker);
    block->error_text = error->text;
    block->error_env = &error->env;
}

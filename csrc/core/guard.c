// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See guard.h. Owns the copies of rows, private to the worker; runs in workers, and pv_guard_spoil
// in the learner.
#include "guard.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define PV_POISON(start, bytes) __asan_poison_memory_region(start, bytes)
#define PV_UNPOISON(start, bytes) __asan_unpoison_memory_region(start, bytes)
#else
#define PV_POISON(start, bytes) ((void)(start), (void)(bytes))
#define PV_UNPOISON(start, bytes) ((void)(start), (void)(bytes))
#endif

int pv_has_guards(void) {
#if defined(PV_DEBUG)
    return 1;
#else
    return 0;
#endif
}

// ---- the slab of a worker process ----

// AddressSanitizer keeps addressability for groups of eight bytes: a range may begin up to seven
// bytes too early.
static void allow(const pv_slab* slab, uint64_t offset, uint64_t bytes) {
    PV_UNPOISON(pv_slab_at(slab, offset / 8 * 8), bytes + offset % 8);
}

static void allow_rows(const pv_slab* slab, uint32_t worker, uint32_t half) {
    const pv_half_layout* layout = &slab->halves[half];
    pv_span span = pv_slab_span(slab, worker, half);
    for (uint32_t g = 0; g < slab->spec.group_count; g++) {
        const pv_group_spec* group = &slab->spec.groups[g];
        const pv_group_layout* at = &layout->groups[g];
        uint64_t first = (uint64_t)(span.first_env - layout->first_env) * group->agents;
        uint64_t rows = (uint64_t)span.env_count * group->agents;
        const uint64_t offsets[] = {
            at->observations, at->rewards,      at->terminals,          at->truncations, at->masks,
            at->agent_types,  at->action_masks, at->final_observations, at->actions};
        const uint64_t widths[] = {
            group->observation_bytes, sizeof(float),         1, 1, 1, 1, group->action_mask_size,
            group->observation_bytes, pv_action_bytes(group)};
        for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
            if (offsets[i])
                allow(slab, offsets[i] + first * widths[i], rows * widths[i]);
        }
    }
}

static void allow_lane(const pv_slab* slab, uint32_t worker, uint32_t half) {
    uint64_t lane = pv_slab_lane(slab, worker, half);
    allow(slab, slab->lines_offset + 2 * lane * PV_LINE_BYTES, 2 * PV_LINE_BYTES);
    allow(slab, slab->counters_offset + lane * PV_COUNTERS * sizeof(uint64_t),
          PV_COUNTERS * sizeof(uint64_t));
    allow(slab, pv_slab_records(slab, worker, half), slab->record_area_bytes);
    allow(slab, pv_slab_infos(slab, worker, half), slab->info_bytes);
}

void pv_worker_alone(pv_worker* worker) {
    const pv_slab* slab = worker->slab;
    uint64_t lanes = (uint64_t)slab->num_workers * slab->lanes;
    pv_slab head = *slab; // the head is poisoned for a moment
    PV_POISON(slab, head.bytes);
    PV_UNPOISON(slab, head.lines_offset); // what all workers read: head, config, params, tasks,
                                          // seeds, reset masks
    allow(slab, slab->lines_offset + 2 * lanes * PV_LINE_BYTES,
          PV_LINE_BYTES); // the doorbell of any_order
    allow(slab, slab->errors_offset + worker->index * sizeof(pv_error_slot), sizeof(pv_error_slot));
    allow(slab, slab->transfers_offset + worker->index * slab->transfer_bytes,
          slab->transfer_bytes);
    for (uint32_t half = 0; half < slab->num_buffers; half++) {
        if (!pv_slab_span(slab, worker->index, half).env_count)
            continue;
        allow_lane(slab, worker->index, half);
        allow_rows(slab, worker->index, half);
    }
}

#if defined(PV_DEBUG)
#include <stdlib.h>
#include <string.h>

#define PV_GUARD_BYTE 0xA5
#define PV_GUARD_LEAST \
    256 // bytes of a zone; at least one row, so that an index that is off by one ends in it
#define PV_ARRAYS 9

// ---- copies between zones ----

typedef struct pv_copy {
    const char* name; // of the array
    uint8_t* memory;  // zone, rows, zone
    uint8_t* shared;  // the rows in the slab
    uint64_t bytes, zone;
} pv_copy;

typedef struct pv_guard {
    pv_copy copies[PV_MAX_GROUPS][PV_ARRAYS]; // the first is observations; memory is NULL where a
                                              // group has no such array
    int reported;
} pv_guard;

static pv_guard* guard_of(const pv_worker* worker, uint32_t half) {
    return worker->guards ? (pv_guard*)worker->guards + half : NULL;
}

// Makes the copy of an array of `rows` rows. Returns the start of its rows, NULL if there is no
// such array or no memory.
static uint8_t* make_copy(
    pv_copy* copy, const char* name, const void* shared, uint64_t rows, uint64_t width) {
    if (!shared)
        return NULL;
    copy->name = name;
    copy->shared = (uint8_t*)(uintptr_t)shared;
    copy->bytes = rows * width;
    copy->zone = pv_align_up(width > PV_GUARD_LEAST ? width : PV_GUARD_LEAST, 64);
    void* memory = NULL;
    if (posix_memalign(&memory, 64, copy->bytes + 2 * copy->zone))
        return NULL;
    copy->memory = memory;
    memset(copy->memory, PV_GUARD_BYTE, copy->bytes + 2 * copy->zone);
    memcpy(copy->memory + copy->zone, shared, copy->bytes);
    PV_POISON(copy->memory, copy->zone);
    PV_POISON(copy->memory + copy->zone + copy->bytes, copy->zone);
    return copy->memory + copy->zone;
}

// Points a group's rows at copies. Returns 0 if memory runs out.
static int copy_group(pv_copy* copies, const pv_group_spec* group, pv_rows* rows) {
    uint64_t n = rows->count;
    int kept = rows->final_observations != NULL, masked = rows->action_masks != NULL;
    rows->observations =
        make_copy(&copies[0], "observations", rows->observations, n, rows->observation_bytes);
    rows->rewards =
        (float*)(void*)make_copy(&copies[1], "rewards", rows->rewards, n, sizeof(float));
    rows->terminals = make_copy(&copies[2], "terminals", rows->terminals, n, 1);
    rows->truncations = make_copy(&copies[3], "truncations", rows->truncations, n, 1);
    rows->masks = make_copy(&copies[4], "masks", rows->masks, n, 1);
    rows->agent_types = make_copy(&copies[5], "agent_types", rows->agent_types, n, 1);
    rows->action_masks =
        make_copy(&copies[6], "action_masks", rows->action_masks, n, group->action_mask_size);
    rows->final_observations = make_copy(&copies[7], "final_observations", rows->final_observations,
                                         n, rows->observation_bytes);
    const uint64_t width =
        rows->indices ? sizeof(int32_t) * group->action_dims : pv_action_bytes(group);
    const uint8_t* actions = make_copy(&copies[8], "actions", rows->actions, n, width);
    rows->actions = actions;
    if (rows->indices)
        rows->indices = (const int32_t*)(const void*)actions;
    if (rows->values)
        rows->values = (const float*)(const void*)actions;
    return rows->observations && rows->rewards && rows->terminals && rows->truncations &&
           rows->masks && rows->agent_types && actions && !kept == !rows->final_observations &&
           !masked == !rows->action_masks;
}

int pv_guard_open(pv_worker* worker, uint32_t half) {
    if (worker->type->call)
        return PV_OK; // Python envs
    if (!worker->guards)
        worker->guards = calloc(worker->slab->num_buffers, sizeof(pv_guard));
    pv_guard* guard = guard_of(worker, half);
    if (!guard)
        return PV_ERROR_MEMORY;
    pv_block* block = &worker->blocks[half];
    for (uint32_t g = 0; g < block->spec->group_count; g++) {
        if (!copy_group(guard->copies[g], &block->spec->groups[g], &block->rows[g]))
            return PV_ERROR_MEMORY;
    }
    return PV_OK;
}

void pv_guard_enter(pv_worker* worker, uint32_t half, int step) {
    pv_guard* guard = guard_of(worker, half);
    if (!guard)
        return;
    for (uint32_t g = 0; g < PV_MAX_GROUPS; g++) {
        for (uint32_t a = (step != 0); a < PV_ARRAYS; a++) {
            const pv_copy* copy = &guard->copies[g][a];
            if (copy->memory)
                memcpy(copy->memory + copy->zone, copy->shared, copy->bytes);
        }
    }
}

// ---- checking the zones ----

// AddressSanitizer reports writes to a zone itself, but not those of an env that was compiled
// without it, such as one of puffervec.ocean; so this function may read what is poisoned.
#if defined(__SANITIZE_ADDRESS__)
#define PV_READS_POISONED __attribute__((no_sanitize("address")))
#else
#define PV_READS_POISONED
#endif

// Returns the index of the first byte of a zone that was written to, or `bytes`.
PV_READS_POISONED static uint64_t first_written(const uint8_t* zone, uint64_t bytes) {
    uint64_t at = 0;
    while (at < bytes && zone[at] == PV_GUARD_BYTE)
        at++;
    return at;
}

// Returns PV_OK, or PV_ERROR_BOUNDS with a text that names array, side and place.
static int check_copy(const pv_copy* copy, const pv_block* block, const char* group, char* text) {
    if (!copy->memory)
        return PV_OK;
    uint64_t before = first_written(copy->memory, copy->zone);
    uint64_t behind = first_written(copy->memory + copy->zone + copy->bytes, copy->zone);
    if (before == copy->zone && behind == copy->zone)
        return PV_OK;
    int is_behind = behind < copy->zone;
    return pv_describe_error(text, PV_ERROR_BOUNDS,
                             "C code of the env wrote outside of its %s (group '%s', envs %u to "
                             "%u): %llu bytes %s. Look for an index that is out of "
                             "range; `make asan` shows the line",
                             copy->name, group, block->first_env,
                             block->first_env + block->env_count - 1,
                             (unsigned long long)(is_behind ? behind : copy->zone - before),
                             is_behind ? "behind their end" : "before their start");
}

static int check_zones(pv_guard* guard, const pv_block* block, char* text) {
    int code = PV_OK;
    for (uint32_t g = 0; g < block->spec->group_count; g++) {
        for (uint32_t a = 0; a < PV_ARRAYS && !code; a++) {
            code = check_copy(&guard->copies[g][a], block, block->spec->groups[g].name, text);
        }
    }
    guard->reported |= code != PV_OK;
    return code;
}

int pv_guard_leave(pv_worker* worker, uint32_t half, int code) {
    pv_guard* guard = guard_of(worker, half);
    if (!guard)
        return code;
    for (uint32_t g = 0; g < PV_MAX_GROUPS; g++) {
        for (uint32_t a = 0; a < PV_ARRAYS - 1; a++) { // actions are the learner's
            const pv_copy* copy = &guard->copies[g][a];
            if (copy->memory)
                memcpy(copy->shared, copy->memory + copy->zone, copy->bytes);
        }
    }
    if (code)
        return code;
    pv_error_slot* slot = pv_slab_error(worker->slab, worker->index);
    int found = check_zones(guard, &worker->blocks[half], slot->text);
    if (found)
        slot->env = PV_ALL_ENVS;
    return found;
}

void pv_guard_close(pv_worker* worker) {
    char text[PV_ERROR_TEXT];
    pv_guard* guards = worker->guards;
    for (uint32_t half = 0; guards && half < worker->slab->num_buffers; half++) {
        pv_guard* guard = &guards[half];
        pv_block* block = &worker->blocks[half];
        if (block->spec && !guard->reported && check_zones(guard, block, text)) {
            fprintf(stderr, "puffervec: worker %u, in close: %s\n", worker->index, text);
            abort();
        }
        for (uint32_t i = 0; i < PV_MAX_GROUPS * PV_ARRAYS; i++)
            free(guard->copies[i / PV_ARRAYS][i % PV_ARRAYS].memory);
    }
    free(guards);
    worker->guards = NULL;
}

// ---- the learner's side ----

void pv_guard_spoil(pv_slab* slab, uint32_t half) {
    for (uint32_t g = 0; g < slab->spec.group_count; g++) {
        const pv_group_spec* group = &slab->spec.groups[g];
        if (group->action_kind == PV_RAW)
            continue; // Python envs keep their rows in the slab
        const pv_group_layout* at = &slab->halves[half].groups[g];
        memset(pv_slab_at(slab, at->observations), 0xFF, at->rows * group->observation_bytes);
    }
}
#endif

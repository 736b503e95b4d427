// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See worker.h. A worker owns the state of its envs (allocated here, private to the process) and
// writes its rows, records, counters, status lines, error slot and transfer region in the slab
// while a command is open; the learner owns all of them otherwise.
#include "worker.h"

#include "action.h"
#include "autoreset.h"
#include "float_mode.h"
#include "guard.h"
#include "state.h"
#include "watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- starting and ending ----

static const char NO_MEMORY[] = "not enough memory for the env states: use fewer envs";

static int fail(pv_worker* worker, int code, const char* text) {
    pv_error_slot* slot = pv_slab_error(worker->slab, worker->index);
    slot->code = (uint32_t)code;
    slot->env = PV_ALL_ENVS;
    if (text)
        strncpy(slot->text, text, PV_ERROR_TEXT - 1);
    return code;
}

// Allocates an array of indices for each group of a block whose actions are bytes, unless the type
// reads bytes. Returns a result code.
static int open_widened(pv_worker* worker, uint32_t half) {
    if (worker->type->flags & PV_BYTE_ACTIONS)
        return PV_OK;
    for (uint32_t g = 0; g < worker->slab->spec.group_count; g++) {
        const pv_group_spec* group = &worker->slab->spec.groups[g];
        pv_rows* rows = &worker->blocks[half].rows[g];
        if (!pv_has_byte_actions(group))
            continue;
        pv_widened* wide = &worker->widened[half * PV_MAX_GROUPS + g];
        void* memory = NULL;
        uint64_t count = rows->count * group->action_dims;
        if (posix_memalign(&memory, 64, count * sizeof(int32_t)))
            return PV_ERROR_MEMORY;
        *wide = (pv_widened){rows->actions, memory, count};
        memset(memory, 0, count * sizeof(int32_t));
        rows->indices = wide->to;
        rows->actions = memory;
    }
    return PV_OK;
}

static void widen_actions(const pv_worker* worker, uint32_t half) {
    const pv_widened* wide = &worker->widened[half * PV_MAX_GROUPS];
    for (uint32_t g = 0; g < worker->slab->spec.group_count; g++)
        pv_actions_widen(wide[g].from, wide[g].to, wide[g].count);
}

static int open_block(pv_worker* worker, uint32_t half) {
    pv_block* block = &worker->blocks[half];
    block->context = &worker->context;
    block->spec = &worker->slab->spec;
    pv_slab_block(worker->slab, worker->index, half, block);
    if (!block->env_count)
        return PV_OK;
    if (open_widened(worker, half) || pv_guard_open(worker, half))
        return fail(worker, PV_ERROR_MEMORY, NO_MEMORY);
    if (pv_autoreset_scratch(block) > worker->scratch_bytes) {
        free(worker->scratch);
        worker->scratch_bytes = pv_autoreset_scratch(block);
        worker->scratch = malloc(worker->scratch_bytes);
        if (!worker->scratch)
            return fail(worker, PV_ERROR_MEMORY, NO_MEMORY);
    }
    uint64_t bytes = pv_align_up(worker->type->bytes(&worker->context, block->env_count), 64);
    if (posix_memalign(&block->state, 64, bytes ? bytes : 64)) {
        block->state = NULL;
        return fail(worker, PV_ERROR_MEMORY, NO_MEMORY);
    }
    memset(block->state, 0,
           bytes ? bytes : 64); // also touches every page, so that step never faults
    pv_error_slot* slot = pv_slab_error(worker->slab, worker->index);
    slot->env = PV_ALL_ENVS; // until `init` notes the env at work
    const int failed = worker->type->init(block);
    // Rows that init writes once, such as masks, stay in builds with guard zones too.
    const int code = pv_guard_leave(worker, half, failed);
    if (code)
        slot->code = (uint32_t)code;
    if (failed) { // there is nothing to close
        free(block->state);
        block->state = NULL;
    }
    return code;
}

int pv_worker_open(pv_worker* worker,
                   void* slab,
                   uint32_t index,
                   const pv_env_type* type,
                   const uint8_t* data,
                   uint64_t data_bytes) {
    memset(worker, 0, sizeof *worker);
    worker->slab = (pv_slab*)slab;
    worker->type = type;
    worker->index = index;
    if (type->abi != PV_ABI || type->struct_bytes != sizeof(pv_env_type)) {
        return fail(worker, PV_ERROR_ABI,
                    "the env type was built against other puffervec headers: rebuild it");
    }
    worker->context.config = pv_slab_at(worker->slab, worker->slab->config_offset);
    worker->context.params =
        (const pv_params*)(void*)pv_slab_at(worker->slab, worker->slab->params_offset);
    worker->context.data = data;
    worker->context.data_bytes = data_bytes;
    worker->context.autoreset = worker->slab->autoreset;
    worker->seen = calloc(worker->slab->num_buffers, sizeof *worker->seen);
    worker->blocks = calloc(worker->slab->num_buffers, sizeof *worker->blocks);
    worker->widened = calloc(worker->slab->num_buffers * PV_MAX_GROUPS, sizeof *worker->widened);
    if (!worker->seen || !worker->blocks || !worker->widened)
        return fail(worker, PV_ERROR_MEMORY, NO_MEMORY);
    for (uint32_t half = 0; half < worker->slab->num_buffers; half++) {
        if (!pv_slab_span(worker->slab, index, half).env_count)
            continue;
        worker->seen[half] = pv_load_acquire(&pv_status_line(worker->slab, index, half)->turn);
        int code = open_block(worker, half);
        if (code)
            return code;
    }
    pv_slab_error(worker->slab, worker->index)->env = PV_ALL_ENVS;
    worker->ready = 1;
    return PV_OK;
}

void pv_worker_close(pv_worker* worker) {
    for (uint32_t half = 0; worker->blocks && half < worker->slab->num_buffers; half++) {
        pv_block* block = &worker->blocks[half];
        if (!block->state)
            continue;
        if (worker->type->close)
            worker->type->close(block);
        free(block->state);
    }
    pv_guard_close(worker);
    uint32_t arrays = worker->widened ? worker->slab->num_buffers * PV_MAX_GROUPS : 0;
    for (uint32_t i = 0; i < arrays; i++)
        free(worker->widened[i].to);
    free(worker->widened);
    free(worker->blocks);
    free(worker->seen);
    free(worker->scratch);
    worker->widened = NULL;
    worker->blocks = NULL;
    worker->seen = NULL;
    worker->scratch = NULL;
    worker->ready = 0;
}

// ---- states of envs ----

// Copies one env's rows of one array out of (or into) the slab.
static uint8_t* move_rows(
    void* rows, uint64_t env, uint64_t bytes_per_env, uint8_t* buffer, int load) {
    uint8_t* at = (uint8_t*)rows + env * bytes_per_env;
    if (load)
        memcpy(at, buffer, bytes_per_env);
    else
        memcpy(buffer, at, bytes_per_env);
    return buffer + bytes_per_env;
}

static uint8_t* move_env_rows(pv_block* block, uint32_t env, uint8_t* buffer, int load) {
    for (uint32_t g = 0; g < block->spec->group_count; g++) {
        const pv_group_spec* spec = &block->spec->groups[g];
        const pv_rows* rows = &block->rows[g];
        uint64_t agents = spec->agents;
        buffer = move_rows(rows->observations, env, agents * rows->observation_bytes, buffer, load);
        buffer = move_rows(rows->rewards, env, agents * sizeof(float), buffer, load);
        buffer = move_rows(rows->terminals, env, agents, buffer, load);
        buffer = move_rows(rows->truncations, env, agents, buffer, load);
        buffer = move_rows(rows->masks, env, agents, buffer, load);
        buffer = move_rows(rows->agent_types, env, agents, buffer, load);
        if (rows->action_masks)
            buffer =
                move_rows(rows->action_masks, env, agents * spec->action_mask_size, buffer, load);
        if (rows->final_observations)
            buffer = move_rows(rows->final_observations, env, agents * rows->observation_bytes,
                               buffer, load);
    }
    return buffer;
}

static pv_block* block_of(pv_worker* worker, uint32_t env) {
    for (uint32_t half = 0; half < worker->slab->num_buffers; half++) {
        pv_block* block = &worker->blocks[half];
        if (env >= block->first_env && env < block->first_env + block->env_count)
            return block;
    }
    return NULL;
}

static int move_envs(pv_worker* worker, uint32_t first, uint32_t count, int load) {
    uint8_t* buffer = pv_slab_transfer(worker->slab, worker->index);
    for (uint32_t env = first; env < first + count; env++) {
        pv_block* block = block_of(worker, env);
        if (!block)
            return fail(worker, PV_ERROR_STATE, "asked for an env that this worker does not have");
        uint32_t local = env - block->first_env;
        pv_block_at(block, local);
        buffer = move_env_rows(block, local, buffer, load);
        int code = load ? worker->type->load(block, local, buffer)
                        : worker->type->save(block, local, buffer);
        if (code)
            return code;
        buffer += worker->slab->spec.save_bytes;
    }
    return PV_OK;
}

// Returns whether the worker resets envs in the step that ends them, since their type does not.
static int resets_in_step(const pv_worker* worker) {
    return worker->slab->autoreset == PV_SAME_STEP && !(worker->type->flags & PV_OWN_AUTORESET);
}

static int peek_env(pv_worker* worker, uint32_t env) {
    pv_block* block = block_of(worker, env);
    if (!block)
        return fail(worker, PV_ERROR_STATE, "asked for an env that this worker does not have");
    pv_block_at(block, env - block->first_env);
    return worker->type->peek(block, env - block->first_env,
                              pv_slab_transfer(worker->slab, worker->index));
}

static int poke_env(pv_worker* worker, uint32_t env) {
    pv_block* block = block_of(worker, env);
    if (!block)
        return fail(worker, PV_ERROR_STATE, "asked for an env that this worker does not have");
    uint32_t place = env - block->first_env;
    const uint8_t* state = pv_slab_transfer(worker->slab, worker->index);
    pv_block_at(block, place);
    if (!worker->type->poke)
        return pv_block_error(block, place, "its state cannot be set: the env type has no poke");
    int code = pv_state_check(block, place, state);
    if (!code)
        code = worker->type->poke(block, place, state);
    return !code && resets_in_step(worker)
               ? pv_autoreset_finished(worker->type, block, place, 1, worker->scratch)
               : code;
}

// ---- serving commands ----

static void forget_records(pv_block* block) {
    *block->record_count = 0;
    *block->record_dropped = 0;
}

// Resets the envs whose byte in the slab's reset masks is `which`. Returns a result code.
static int reset_some(pv_worker* worker, pv_block* block, uint8_t which, const uint64_t* seeds) {
    const uint8_t* asked =
        pv_slab_at(worker->slab, worker->slab->reset_masks_offset) + block->first_env;
    uint8_t* mask = worker->scratch;
    int any = 0;
    for (uint32_t env = 0; env < block->env_count; env++)
        any |= mask[env] = asked[env] == which;
    return any ? worker->type->reset(block, mask, seeds) : PV_OK;
}

static int reset_block(pv_worker* worker, pv_block* block, int masked, int seeded) {
    const uint64_t* seeds =
        (const uint64_t*)(void*)pv_slab_at(worker->slab, worker->slab->seeds_offset) +
        block->first_env;
    if (!masked)
        return worker->type->reset(block, NULL, seeded ? seeds : NULL);
    int code = reset_some(worker, block, PV_RESET_SEEDED, seeds);
    return code ? code : reset_some(worker, block, PV_RESET_KEEP, NULL);
}

static int step_block(pv_worker* worker, pv_block* block) {
    const int ours = resets_in_step(worker);
    if (ours)
        pv_autoreset_begin(block);
    int code = worker->type->step(block);
    return !code && ours
               ? pv_autoreset_finished(worker->type, block, 0, block->env_count, worker->scratch)
               : code;
}

// ---- commands ----

static int run_command(pv_worker* worker, uint32_t half, const pv_line* command, pv_line* status) {
    pv_block* block = &worker->blocks[half];
    switch (command->semaphore) {
    case PV_STEP:
        status->steps++;
        forget_records(block);
        return step_block(worker, block);
    case PV_RESET:
        if (!command->count)
            status->steps = 0;
        forget_records(block);
        return reset_block(worker, block, command->count != 0, command->seeded);
    case PV_SAVE: return move_envs(worker, command->first, command->count, 0);
    case PV_LOAD: return move_envs(worker, command->first, command->count, 1);
    case PV_PEEK: return peek_env(worker, command->first);
    case PV_POKE: return poke_env(worker, command->first);
    case PV_CALL:
        if (!worker->type->call)
            return fail(worker, PV_ERROR_STATE, "this env type answers no calls");
        return worker->type->call(block);
    default: return PV_OK; // PV_CLOSE
    }
}

// Runs the open command of `half` and publishes the result. Returns 1 after PV_CLOSE.
static int serve(pv_worker* worker, uint32_t half) {
    pv_line* command = pv_command_line(worker->slab, worker->index, half);
    pv_line* status = pv_status_line(worker->slab, worker->index, half);
    uint32_t turn = pv_load_acquire(&command->turn);
    if (PV_UNLIKELY(command->place != worker->waiter.place)) {
        pv_placement_move(&worker->placement, command->place);
        worker->waiter.place = command->place;
    }
    uint64_t begin_ns = pv_now_ns();
    status->begun = turn; // for the learner, in case this process does not survive the turn
    widen_actions(worker, half);
    pv_guard_enter(worker, half, command->semaphore == PV_STEP);
    uint32_t float_mode = pv_float_mode_enter();
    int code = run_command(worker, half, command, status);
    pv_float_mode_leave(float_mode);
    code = pv_guard_leave(worker, half, code);
    pv_error_slot* slot = pv_slab_error(worker->slab, worker->index);
    if (PV_UNLIKELY(code)) {
        slot->code = (uint32_t)code;
        slot->turn = turn;
    } else {
        slot->env = PV_ALL_ENVS; // no env is at work between turns
    }
    if (command->semaphore == PV_STEP ||
        command->semaphore == PV_RESET) { // a save or peek is not timed
        status->begin_ns = begin_ns;
        status->end_ns = pv_now_ns();
    }
    worker->seen[half] = turn;
    int close = command->semaphore == PV_CLOSE;
    pv_publish(status, pv_learner_doorbell(worker->slab, worker->index, half),
               code ? PV_FAILED : PV_DONE, turn, &worker->waiter);
    return close;
}

void pv_worker_serve(pv_worker* worker, uint32_t half) {
    if (pv_load_acquire(&pv_command_line(worker->slab, worker->index, half)->turn) !=
        worker->seen[half])
        serve(worker, half);
}

void pv_worker_refuse(pv_worker* worker) {
    uint32_t home = pv_control_half(worker->slab, worker->index);
    pv_line* status = pv_status_line(worker->slab, worker->index, home);
    uint32_t turn = pv_load_acquire(&pv_command_line(worker->slab, worker->index, home)->turn);
    pv_publish(status, pv_learner_doorbell(worker->slab, worker->index, home), PV_FAILED, turn,
               &worker->waiter);
}

void pv_worker_run(pv_worker* worker) {
    pv_watch watches[PV_MAX_BUFFERS];
    uint32_t halves[PV_MAX_BUFFERS];
    int count = 0;
    for (uint32_t half = 0; half < worker->slab->num_buffers; half++) {
        if (!worker->blocks[half].env_count)
            continue;
        halves[count] = half;
        watches[count++].line = pv_command_line(worker->slab, worker->index, half);
    }
    pv_doorbell* doorbell = pv_worker_doorbell(worker->slab, worker->index);
    pv_placement_open(&worker->placement);
    const uint32_t forks = pv_fork_count();
    for (int resume = 0;;) {
        for (int i = 0; i < count; i++)
            watches[i].seen = worker->seen[halves[i]];
        int changed = pv_wait(watches, count, doorbell, &worker->waiter, PV_SLICE_NS, resume);
        resume = changed < 0;
        if (changed >= 0 && serve(worker, halves[changed]))
            return;
        if (PV_UNLIKELY(pv_fork_count() != forks))
            pv_end_copy(); // an env forked, and this is the child
    }
}

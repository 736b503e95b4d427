// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See turn.h. Runs in the learner, which owns the command lines and action rows that it writes.
#include "turn.h"

#include "action.h"
#include "guard.h"
#include "worker.h"

void pv_turn_send_one(pv_slab* slab,
                      uint32_t worker,
                      uint32_t half,
                      uint8_t semaphore,
                      uint32_t first,
                      uint32_t count,
                      pv_waiter* waiter) {
    pv_line* command = pv_command_line(slab, worker, half);
    command->first = first;
    command->count = count;
    command->place = waiter->place;
    pv_publish(command, pv_worker_doorbell(slab, worker), semaphore, command->turn + 1, waiter);
    if (waiter->own)
        pv_worker_serve(waiter->own + worker, half);
}

void pv_turn_send(pv_slab* slab,
                  uint32_t half,
                  uint8_t semaphore,
                  uint8_t seeded,
                  uint32_t count,
                  pv_waiter* waiter) {
    pv_span workers = pv_slab_workers(slab, half);
    if (semaphore == PV_STEP)
        pv_guard_spoil(slab, half);
    for (uint32_t w = workers.first_env; w < workers.first_env + workers.env_count; w++) {
        pv_command_line(slab, w, half)->seeded = seeded;
        pv_turn_send_one(slab, w, half, semaphore, 0, count, waiter);
    }
}

void pv_turn_step(
    pv_slab* slab, uint32_t half, const void* source, uint32_t dtype, pv_waiter* waiter) {
    waiter->replaced += pv_actions_write(slab, half, 0, source, dtype);
    pv_turn_send(slab, half, PV_STEP, 0, 0, waiter);
}

int pv_turn_recv_one(pv_slab* slab,
                     uint32_t worker,
                     uint32_t half,
                     pv_waiter* waiter,
                     int64_t slice_ns,
                     int resume) {
    pv_line* status = pv_status_line(slab, worker, half);
    uint32_t turn = pv_command_line(slab, worker, half)->turn;
    uint32_t seen;
    while ((seen = pv_load_acquire(&status->turn)) != turn) {
        pv_watch watch = {status, seen};
        if (pv_wait(&watch, 1, pv_learner_doorbell(slab, worker, half), waiter, slice_ns, resume) <
            0)
            return -1 - (int)worker;
    }
    return status->semaphore == PV_FAILED ? PV_TURN_FAILED : 0;
}

int pv_turn_flags(const pv_slab* slab, uint32_t half, const pv_waiter* waiter) {
    pv_span workers = pv_slab_workers(slab, half);
    int flags = 0;
    for (uint32_t w = workers.first_env; w < workers.first_env + workers.env_count; w++) {
        const pv_line* status = pv_status_line(slab, w, half);
        if (status->semaphore == PV_FAILED)
            flags |= PV_TURN_FAILED;
        if (PV_UNLIKELY(waiter->look_ns && status->end_ns >= waiter->look_ns))
            flags |= PV_TURN_LOOK;
        if (*(uint32_t*)(void*)pv_slab_at(slab, pv_slab_records(slab, w, half)))
            flags |= PV_TURN_RECORDS;
        if (slab->info_bytes && *(uint32_t*)(void*)pv_slab_at(slab, pv_slab_infos(slab, w, half)))
            flags |= PV_TURN_INFOS;
    }
    return flags;
}

int pv_turn_recv(pv_slab* slab,
                 uint32_t half,
                 uint32_t last_worker,
                 pv_waiter* waiter,
                 int64_t slice_ns,
                 int resume) {
    pv_span workers = pv_slab_workers(slab, half);
    uint32_t end = workers.first_env + workers.env_count;
    if (last_worker < end)
        end = last_worker + 1;
    // The last worker got its command last. With few cores it usually answers last, so that one
    // sleep is enough for all workers.
    for (uint32_t w = end; w > workers.first_env; w--) {
        int result = pv_turn_recv_one(slab, w - 1, half, waiter, slice_ns, resume);
        if (result < 0)
            return result;
        resume = 0;
    }
    return pv_turn_flags(slab, half, waiter);
}

// Appends the workers of `half` that are not done yet to `watches`. Returns the new count.
static int watch_half(const pv_slab* slab, uint32_t half, pv_watch* watches, int count) {
    pv_span workers = pv_slab_workers(slab, half);
    for (uint32_t w = workers.first_env; w < workers.first_env + workers.env_count; w++) {
        const pv_line* status = pv_status_line(slab, w, half);
        uint32_t seen = pv_load_acquire(&status->turn);
        if (seen != pv_command_line(slab, w, half)->turn)
            watches[count++] = (pv_watch){status, seen};
    }
    return count;
}

int pv_turn_recv_any(pv_slab* slab,
                     const uint8_t* pending,
                     uint32_t first,
                     pv_waiter* waiter,
                     int64_t slice_ns,
                     int resume) {
    pv_watch watches[PV_MAX_WORKERS];
    for (;;) {
        int count = 0;
        for (uint32_t i = 0; i < slab->num_buffers; i++) {
            uint32_t half = (first + i) % slab->num_buffers;
            if (!pending[half])
                continue;
            int before = count;
            count = watch_half(slab, half, watches, count);
            if (count == before)
                return (int)half;
        }
        if (!count ||
            pv_wait(watches, count, pv_learner_doorbell(slab, 0, 0), waiter, slice_ns, resume) < 0)
            return -1;
    }
}

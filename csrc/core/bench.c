// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
#include "bench.h"

#include "guard.h"

#include <string.h>

double pv_bench_steps(pv_worker* worker, const int32_t* actions, uint32_t batches, uint32_t steps) {
    uint64_t begin_ns = pv_now_ns();
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t half = 0; half < worker->slab->num_buffers; half++) {
            pv_block* block = &worker->blocks[half];
            if (!block->env_count)
                continue;
            uint64_t values = block->rows[0].count * worker->slab->spec.groups[0].action_dims;
            pv_guard_enter(worker, half, 0);
            const int32_t* batch = actions + (step % batches) * values;
            uint8_t* bytes = (uint8_t*)(uintptr_t)block->rows[0].actions;
            if (block->rows[0].indices)
                memcpy(bytes, batch, values * sizeof(int32_t));
            else
                for (uint64_t i = 0; i < values; i++)
                    bytes[i] = (uint8_t)batch[i];
            *block->record_count = 0;
            if (pv_guard_leave(worker, half, worker->type->step(block)))
                return -1.0;
        }
    }
    return (double)(pv_now_ns() - begin_ns) * 1e-9;
}

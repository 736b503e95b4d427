// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The cores that a worker may run on. While no other programs need the machine's cores, a worker
// keeps its own core. Otherwise it may lose that core and delay every turn, so the learner's
// commands say where to run (puffervec/vec/crowd.py decides).
#pragma once

#include "contract/base.h"

/* [cffi] */
#define PV_HOME 0     // the cores that the worker began on: one, where it is pinned
#define PV_ANYWHERE 1 // all cores that the learner may use
#define PV_ON_CORE 2  // + a core's number: that core

#define PV_CORE_WORDS 16 // for 1,024 cores, as many as glibc's cpu_set_t

typedef struct pv_cores {
    uint64_t bits[PV_CORE_WORDS];
} pv_cores;

typedef struct pv_placement {
    pv_cores home, anywhere;
} pv_placement;

// Reads the cores that the calling thread may use; none where the system cannot list them.
void pv_cores_read(pv_cores* cores);
// Returns the core that the calling thread is on, or -1.
int pv_current_core(void);
// Stores the calling thread's cores as its home. If the caller has left `anywhere` empty, it
// becomes home too.
void pv_placement_open(pv_placement* placement);
// Moves the calling thread to PV_HOME, PV_ANYWHERE or PV_ON_CORE + core. It stays where it is if
// the process may not use that core.
void pv_placement_move(const pv_placement* placement, uint32_t place);
/* [/cffi] */

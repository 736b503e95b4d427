// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Stands in for the header through which late envs of PufferLib 4.0 include what operating systems
// name differently. The POSIX headers have all of it.
#pragma once

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define puffer_aligned_alloc(alignment, size) aligned_alloc(alignment, size)
#define puffer_aligned_free(memory) free(memory)

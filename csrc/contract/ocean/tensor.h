// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The tensor types of PufferLib 4.0, which name the type of an env's observations.
#pragma once

#include <stdint.h>

#define PUF_MAX_DIMS 8
#define PV_OCEAN_TENSOR(name, type) \
    typedef struct name { \
        type* data; \
        int64_t shape[PUF_MAX_DIMS]; \
    } name

PV_OCEAN_TENSOR(FloatTensor, float);
PV_OCEAN_TENSOR(DoubleTensor, double);
PV_OCEAN_TENSOR(ByteTensor, unsigned char);
PV_OCEAN_TENSOR(CharTensor, signed char);
PV_OCEAN_TENSOR(IntTensor, int);
PV_OCEAN_TENSOR(LongTensor, long);
#ifdef PRECISION_FLOAT
PV_OCEAN_TENSOR(PrecisionTensor, float);
#else
PV_OCEAN_TENSOR(PrecisionTensor, uint16_t); // bf16: the upper half of a float
#endif

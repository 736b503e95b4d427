// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// See state.h. Owns no memory.
#include "state.h"

#include <stdio.h>
#include <string.h>

// Reads a number of any dtype. A double holds all but the last bits of 64-bit integers; bounds are
// floats.
static double number_at(const uint8_t* at, uint32_t dtype) {
#define READ(code, type) \
    case code: { \
        type value; \
        memcpy(&value, at, sizeof value); \
        return (double)value; \
    }
    switch (dtype) {
        READ(PV_F32, float)
        READ(PV_F64, double)
        READ(PV_U8, uint8_t)
        READ(PV_I8, int8_t)
        READ(PV_U16, uint16_t)
        READ(PV_I16, int16_t)
        READ(PV_U32, uint32_t)
        READ(PV_I32, int32_t)
        READ(PV_U64, uint64_t)
        READ(PV_I64, int64_t)
    default: return 0.0; // PV_F16: left to the env type
    }
#undef READ
}

int pv_state_check(pv_block* block, uint32_t env, const uint8_t* state) {
    for (uint32_t f = 0; f < block->spec->state_count; f++) {
        const pv_field* field = &block->spec->state_fields[f];
        uint32_t count = 1;
        for (uint32_t axis = 0; axis < field->ndim; axis++)
            count *= field->shape[axis];
        for (uint32_t i = 0; i < count && field->dtype != PV_F16; i++) {
            double value =
                number_at(state + field->offset + i * pv_dtype_bytes(field->dtype), field->dtype);
            if (value >= (double)field->low && value <= (double)field->high)
                continue;
            char place[24] = "";
            if (field->ndim)
                snprintf(place, sizeof place, "[%u]", i);
            return pv_block_error(block, env, "%s%s is %.9g: it must be from %.7g to %.7g",
                                  field->name, place, value, (double)field->low,
                                  (double)field->high);
        }
    }
    return PV_OK;
}

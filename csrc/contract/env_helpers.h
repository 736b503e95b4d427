// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The helpers that env.h declares: reading params, reporting errors, declaring fields. They are
// defined in a header because an env type of another package is linked without the core (pv_env.h).
// There each C file that includes them has a weak copy, of which the linker keeps one;
// env_helpers.c defines PV_HELPER as nothing, which makes the core's copy. Owns no memory.
#pragma once

#include "env.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef PV_HELPER
#define PV_HELPER __attribute__((weak, visibility("hidden")))
#endif

PV_HELPER uint32_t pv_dtype_bytes(uint32_t dtype) {
    static const uint32_t bytes[PV_DTYPES] = {4, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8};
    return dtype < PV_DTYPES ? bytes[dtype] : 0;
}

PV_HELPER const void* pv_params_find(const pv_params* params,
                                     const char* name,
                                     uint32_t dtype,
                                     uint64_t* count) {
    const pv_param* entries = (const pv_param*)(const void*)(params + 1);
    for (uint32_t i = 0; i < params->count; i++) {
        if (entries[i].dtype == dtype && strncmp(entries[i].name, name, PV_NAME_BYTES) == 0) {
            *count = entries[i].bytes / pv_dtype_bytes(dtype);
            return (const uint8_t*)params + entries[i].offset;
        }
    }
    *count = 0;
    return NULL;
}

PV_HELPER int pv_block_error(pv_block* block, uint32_t env, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(block->error_text, PV_ERROR_TEXT, format, arguments);
    va_end(arguments);
    *block->error_env = block->first_env + env;
    return PV_ERROR_ENV;
}

PV_HELPER int pv_describe_error(char* text, int code, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, PV_ERROR_TEXT, format, arguments);
    va_end(arguments);
    return code;
}

PV_HELPER uint32_t pv_add_array(pv_field* fields,
                                uint32_t* count,
                                uint32_t* row_bytes,
                                const char* name,
                                const char* unit,
                                uint32_t dtype,
                                uint32_t ndim,
                                const uint32_t* shape,
                                float low,
                                float high,
                                float scale) {
    PV_ASSERT(ndim <= PV_MAX_NDIM);
    const uint32_t index = (*count)++;
    if (index >= PV_MAX_FIELDS)
        return 0; // no room; the code that loads the env refuses such a count
    pv_field* field = &fields[index];
    strncpy(field->name, name, PV_NAME_BYTES - 1);
    strncpy(field->unit, unit, PV_UNIT_BYTES - 1);
    field->dtype = dtype;
    field->ndim = ndim;
    uint32_t elements = 1;
    for (uint32_t i = 0; i < ndim; i++) {
        field->shape[i] = shape[i];
        elements *= shape[i];
    }
    field->low = low;
    field->high = high;
    field->scale = scale;
    field->offset = (uint32_t)pv_align_up(*row_bytes, pv_dtype_bytes(dtype));
    *row_bytes = field->offset + elements * pv_dtype_bytes(dtype);
    return field->offset;
}

PV_HELPER uint32_t pv_add_field(pv_field* fields,
                                uint32_t* count,
                                uint32_t* row_bytes,
                                const char* name,
                                const char* unit,
                                uint32_t dtype,
                                uint32_t rows,
                                uint32_t columns,
                                float low,
                                float high,
                                float scale) {
    const uint32_t shape[2] = {rows ? rows : columns, columns};
    const uint32_t ndim = (rows ? 1u : 0u) + (columns ? 1u : 0u);
    return pv_add_array(fields, count, row_bytes, name, unit, dtype, ndim, shape, low, high, scale);
}

PV_HELPER uint32_t pv_add_picture(pv_field* fields,
                                  uint32_t* count,
                                  uint32_t* row_bytes,
                                  const char* name,
                                  uint32_t height,
                                  uint32_t width,
                                  uint32_t channels) {
    const uint32_t shape[3] = {height, width, channels};
    return pv_add_array(fields, count, row_bytes, name, "", PV_U8, channels ? 3 : 2, shape, 0.0f,
                        255.0f, 1.0f);
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Observation rows of fewer bytes: blocks are computed in float32 and converted to float16 or bytes
// here.
//
// float16 is IEEE 754's binary16, rounded to nearest, ties to even; the bounds of all fields are
// below its largest number. A byte shows a column from -most to most in its unit (tables.h);
// missing objects stay 0.
#include "drive/observe/encode.h"

#include "contract/base.h"
#include "drive/scalar.h"
#include "drive/tables.h"
#include "envs/kernels.h"

#include <string.h>

PV_INLINE uint16_t half_of(float v) {
    uint32_t bits, whole;
    memcpy(&bits, &v, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    const uint32_t normal = (magnitude + 0xFFFu + (magnitude >> 13 & 1u)) - (112u << 23);
    float small;
    memcpy(&small, &magnitude, sizeof small);
    small = small * 16777216.0f + 12582912.0f; // below 2^-14 a unit is 2^-24
    memcpy(&whole, &small, sizeof whole);
    return (uint16_t)(sign | (magnitude < 113u << 23 ? whole & 0x7FFu : normal >> 13));
}

PV_CLONES static void encode_halves(const float* restrict numbers,
                                    uint32_t count,
                                    uint16_t* restrict out) {
    PV_APART
    for (uint32_t i = 0; i < count; i++)
        out[i] = half_of(numbers[i]);
}

#define PERIODS 16 // entries for which the gains are laid out, so that loops over them are long

PV_CLONES static void scale_bytes(const float* restrict numbers,
                                  const float* restrict gains,
                                  uint32_t count,
                                  uint8_t* restrict out) {
    PV_APART
    for (uint32_t i = 0; i < count; i++) {
        float v =
            drive_clamp(numbers[i] * gains[i], 2.0f - DRIVE_BYTE_ZERO, DRIVE_BYTE_ZERO - 2.0f);
        out[i] = (uint8_t)(int32_t)(pv_round(v) + DRIVE_BYTE_ZERO);
    }
}

void drive_encode(const pv_drive_config* config,
                  const pv_drive_column* columns,
                  uint32_t column_count,
                  uint32_t k,
                  int objects,
                  const float* numbers,
                  void* out) {
    if (config->row_dtype == DRIVE_IS_row_dtype_float16) {
        encode_halves(numbers, k * column_count, out);
        return;
    }
    float gains[PERIODS * DRIVE_MOST_COLUMNS];
    uint8_t* bytes = out;
    for (uint32_t c = 0; c < column_count; c++) {
        float most = columns[c].most > 0.0f ? columns[c].most : config->range_m;
        gains[c] = columns[c].scale * (DRIVE_BYTE_ZERO - 2.0f) / most;
    }
    for (uint32_t i = column_count; i < PERIODS * column_count; i++)
        gains[i] = gains[i - column_count];
    for (uint32_t e = 0; e < k; e += PERIODS) {
        uint32_t n = k - e < PERIODS ? k - e : PERIODS;
        scale_bytes(numbers + e * column_count, gains, n * column_count, bytes + e * column_count);
    }
    for (uint32_t e = 0; objects && e < k; e++) {
        uint32_t c = 0;
        while (c < column_count && numbers[e * column_count + c] == 0.0f)
            c++;
        if (c == column_count)
            memset(bytes + e * column_count, 0, column_count);
    }
}

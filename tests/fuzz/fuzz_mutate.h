// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// How the fuzzing program (fuzz_main.c) changes bytes: numbers set to extremes, bits flipped,
// stretches copied; and for compiled scenes, which number means what (csrc/drive/scene/scene.h).
#pragma once

#include "../../csrc/drive/scene/scene.h"
#include "fuzz_env.h"

static const uint64_t wide[] = {0,
                                1,
                                2,
                                63,
                                64,
                                65,
                                255,
                                256,
                                0x7FFF,
                                0x8000,
                                0xFFFF,
                                0x10000,
                                0x7FFFFFFF,
                                0x80000000,
                                0xFFFFFFFE,
                                0xFFFFFFFF,
                                0x100000000ull,
                                0x7FFFFFFFFFFFFFFFull,
                                0x8000000000000000ull,
                                0xFFFFFFFFFFFFFFC0ull,
                                0xFFFFFFFFFFFFFFFFull};
static const float real[] = {0.0f,     -0.0f,     1e-45f, 1e-40f, 1.17549435e-38f, 1e-20f,
                             1e-3f,    1.0f,      -1.0f,  3.5f,   100.0f,          1e5f,
                             -1e5f,    1e6f,      1e7f,   1e30f,  -1e30f,          3.4e38f,
                             INFINITY, -INFINITY, NAN};

// Puts an extreme value, or one near the old one, where a number of `size` bytes stands.
static inline void set_number(fuzz_rng* rng, uint8_t* at, uint32_t size) {
    uint64_t value = 0;
    memcpy(&value, at, size);
    float f = real[below(rng, sizeof real / sizeof real[0])];
    double d = below(rng, 4) ? (double)f : (f < 0.0f ? -1e300 : 1e300);
    switch (below(rng, 4)) {
    case 0: value += below(rng, 9) - 4; break;
    case 1: value = wide[below(rng, sizeof wide / sizeof wide[0])]; break;
    case 2: value = draw(rng) >> below(rng, 64); break;
    default:
        if (size == 4)
            memcpy(&value, &f, sizeof f);
        if (size == 8)
            memcpy(&value, &d, sizeof d);
    }
    memcpy(at, &value, size);
}

// Changes bytes without knowing what they mean.
static inline void mutate_bytes(fuzz_rng* rng, uint8_t* data, uint64_t bytes) {
    static const uint32_t sizes[] = {1, 2, 4, 4, 4, 8, 8};
    if (!bytes)
        return;
    if (below(rng, 4) == 0) {
        uint64_t bit = below(rng, 8 * bytes);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        return;
    }
    uint32_t size = sizes[below(rng, sizeof sizes / sizeof sizes[0])];
    if (size > bytes)
        return;
    set_number(rng, data + below(rng, bytes / size) * size, size);
}

// Copies a stretch over another one.
static inline void mutate_copy(
    fuzz_rng* rng, uint8_t* to, uint64_t to_bytes, const uint8_t* from, uint64_t from_bytes) {
    uint64_t most = to_bytes < from_bytes ? to_bytes : from_bytes;
    if (most < 4)
        return;
    uint64_t bytes = 4 * (1 + below(rng, most / 4 < 32 ? most / 4 : 32));
    memmove(to + below(rng, (to_bytes - bytes) / 4 + 1) * 4,
            from + below(rng, (from_bytes - bytes) / 4 + 1) * 4, bytes);
}

// Changes one number of one element of a scene of a well-formed set. Elements are structs of
// numbers that lie on multiples of their size, so that each is hit by one of these sizes.
static inline void mutate_element(fuzz_rng* rng, uint8_t* data, const pv_scene_entry* entry) {
    uint32_t sections, section = (uint32_t)below(rng, PV_SCENE_SECTIONS),
                       size = 1u << below(rng, 3);
    const uint32_t element = pv_drive_sections(&sections)[section].element_bytes;
    uint8_t* base = data + entry->offset;
    const pv_section at = ((const pv_scene*)(const void*)base)->sections[section];
    if (!at.count || at.offset > entry->bytes || at.count > (entry->bytes - at.offset) / element)
        return;
    while (element % size)
        size /= 2;
    set_number(
        rng, base + at.offset + below(rng, at.count) * element + below(rng, element / size) * size,
        size);
}

// Changes one field of the heads, one element, or bytes; then makes the sums of the table of scenes
// true again, most times, since else hardly anything would get past them.
static inline void mutate_set(fuzz_rng* rng, uint8_t* data, uint64_t bytes) {
    static const uint32_t head_at[] = {20, 24, 28, 32, 36, 40, 44, 48};
    pv_scene_set* set = (pv_scene_set*)(void*)data;
    uint64_t room = (bytes - sizeof *set) / sizeof(pv_scene_entry);
    uint64_t scene = below(rng, set->scene_count < room ? set->scene_count : room);
    pv_scene_entry* entry = (pv_scene_entry*)(void*)(data + sizeof *set) + scene;
    uint64_t offset = entry->offset;
    int whole = offset % 8 == 0 && bytes >= sizeof(pv_scene) &&
                offset <= bytes - sizeof(pv_scene) && entry->bytes <= bytes - offset;
    switch (below(rng, 8)) {
    case 0: set_number(rng, data + head_at[below(rng, 8)], 4); break;
    case 1: set_number(rng, (uint8_t*)entry + 8 * below(rng, 2), 8); break;
    case 2: set_number(rng, (uint8_t*)entry + 16 + 4 * below(rng, 3), 4); break;
    case 3:
        if (whole)
            set_number(rng, data + offset + 8 * below(rng, 3), 8);
        if (whole)
            set_number(rng,
                       data + offset + 24 + 4 * below(rng, (offsetof(pv_scene, sections) - 24) / 4),
                       4);
        break;
    case 4:
        if (whole)
            set_number(rng,
                       data + offset + offsetof(pv_scene, sections) +
                           8 * below(rng, 2 * PV_SCENE_SECTIONS),
                       8);
        break;
    case 5: mutate_bytes(rng, data, bytes); break;
    default:
        if (whole)
            mutate_element(rng, data, entry);
    }
}

// zlib's CRC-32.
static inline uint32_t sum_of(const uint8_t* data, uint64_t bytes) {
    static uint32_t table[256];
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t i = 0; !table[1] && i < 256; i++) {
        uint32_t value = 255 - i; // entry 1 is the last but one: it tells that the table is there
        for (int bit = 0; bit < 8; bit++)
            value = (value >> 1) ^ (value & 1 ? 0xEDB88320u : 0);
        table[255 - i] = value;
    }
    for (uint64_t i = 0; i < bytes; i++)
        crc = (crc >> 8) ^ table[(crc ^ data[i]) & 255];
    return crc ^ 0xFFFFFFFFu;
}

static inline void fix_table(uint8_t* data, uint64_t bytes) {
    const pv_scene_set* set = (const pv_scene_set*)(const void*)data;
    for (uint32_t s = 0;
         s < set->scene_count && sizeof *set + (s + 1) * sizeof(pv_scene_entry) <= bytes; s++) {
        pv_scene_entry* entry = (pv_scene_entry*)(void*)(data + sizeof *set) + s;
        if (entry->offset % 8 || entry->offset > bytes || bytes - entry->offset < sizeof(pv_scene))
            continue;
        const pv_scene* head = (const pv_scene*)(const void*)(data + entry->offset);
        uint64_t room = bytes - entry->offset;
        const uint64_t at = head->sections[0].offset;
        if (entry->bytes <= room)
            entry->crc32 = sum_of(data + entry->offset, entry->bytes);
        if (at % 4 || at > room || head->object_count > (room - at) / sizeof(pv_object))
            continue;
        entry->object_count = head->object_count;
        entry->valid_vehicles = entry->moving_vehicles = 0;
        const pv_object* objects = (const pv_object*)(const void*)(data + entry->offset + at);
        for (uint32_t o = 0; o < head->object_count; o++) {
            if (objects[o].type != PV_VEHICLE || !(objects[o].flags & PV_OBJECT_VALID_AT_START))
                continue;
            entry->valid_vehicles++;
            entry->moving_vehicles +=
                (objects[o].flags & PV_OBJECT_MOVES) && !(objects[o].flags & PV_OBJECT_EXPERT);
        }
    }
}

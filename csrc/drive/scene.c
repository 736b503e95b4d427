// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Border checks of a compiled scene set, and its accessor. The set comes from a file, so nothing in it is believed: sizes and
// offsets are compared with the bytes that are there before anything behind them is read. Owns no memory.
#include "scene.h"

#include "../env.h"

#include <math.h>
#include <string.h>

#define MAX_COORDINATE_M 1e6
#define MAX_SIZE_M 1e3
#define MIN_SIZE_M 1e-3 // the inverse of a length must be a number
#define ALIGNMENT 64

_Static_assert(sizeof(pv_scene_set) == 64, "written by drive_env/scenes/compile.py");
_Static_assert(sizeof(pv_scene_entry) == 96, "written by drive_env/scenes/compile.py");
_Static_assert(sizeof(pv_object) == 36, "written by drive_env/scenes/compile.py");
_Static_assert(sizeof(pv_frame) == 12, "written by drive_env/scenes/compile.py");
_Static_assert(sizeof(pv_cell) == 12, "written by drive_env/scenes/compile.py");

void drive_scene_open(const uint8_t* data, uint32_t scene, drive_scene* out) {
    const uint8_t* base = data + drive_entry(data, scene)->offset;
    const pv_scene* head = (const pv_scene*)(const void*)base;
    out->head = head;
    out->objects = (const pv_object*)(const void*)(base + head->objects_offset);
    out->frames = (const pv_frame*)(const void*)(base + head->frames_offset);
    out->x = (const float*)(const void*)(base + head->x_offset);
    out->y = (const float*)(const void*)(base + head->y_offset);
    out->ux = (const float*)(const void*)(base + head->ux_offset);
    out->uy = (const float*)(const void*)(base + head->uy_offset);
    out->half = (const float*)(const void*)(base + head->half_offset);
    out->cells = (const pv_cell*)(const void*)(base + head->cells_offset);
    out->candidates = (const uint16_t*)(const void*)(base + head->candidates_offset);
    out->first[0] = 0;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        out->first[type + 1] = out->first[type] + head->segment_count[type];
        out->index_k[type] = drive_set(data)->index_k[type];
    }
    out->index_range_m = drive_set(data)->index_range_m;
    out->cells_per_m = 1.0f / head->cell_m;
}

// ---- checks -------------------------------------------------------------------------------------------------------

// Parts that scenes, frames and lists of candidates have in common would let a small file ask for any number of looks at them;
// so each byte belongs to one of a kind, and the work is bounded by the size of the file.
typedef struct checker {
    const uint8_t* data;
    uint64_t bytes;
    char* text;
    uint64_t end;  // of the scenes before, bytes from the start of the set
    uint64_t base; // byte offset of the scene being checked
    uint64_t scene_bytes;
    uint32_t scene;
} checker;

// Reports a bad field of the scene being checked; `at` counts from its start.
static int bad(const checker* check, uint64_t at, const char* field, double expected, double found, const char* relation) {
    return pv_describe_error(
        check->text, PV_ERROR_DATA,
        "compiled scenes: byte %llu (scene %u, %s): expected %s %.17g, found %.17g; compile the scenes again",
        (unsigned long long)(check->base + at), check->scene, field, relation, expected, found);
}

static int check_set_head(const uint8_t* data, uint64_t bytes, char* text) {
    const pv_scene_set* set = drive_set(data);
    const char* fault = NULL;
    uint64_t at = 0;
    if (!data || bytes < sizeof *set) {
        return pv_describe_error(text, PV_ERROR_DATA,
                                 "compiled scenes: expected at least %u bytes, found %llu; compile the scenes again",
                                 (unsigned)sizeof *set, (unsigned long long)bytes);
    }
    if ((uintptr_t)data % 8)
        return pv_describe_error(text, PV_ERROR_DATA, "compiled scenes: the memory is not aligned to 8 bytes");
    if (set->magic != PV_SCENE_MAGIC)
        fault = "magic", at = offsetof(pv_scene_set, magic);
    else if (set->version != PV_SCENE_VERSION)
        fault = "version", at = offsetof(pv_scene_set, version);
    else if (set->bytes != bytes)
        fault = "bytes", at = offsetof(pv_scene_set, bytes);
    else if (set->scene_count > (bytes - sizeof *set) / sizeof(pv_scene_entry))
        fault = "scene_count", at = offsetof(pv_scene_set, scene_count);
    else if (!(isfinite(set->index_range_m) && set->index_range_m >= 0.0f))
        fault = "index_range_m", at = offsetof(pv_scene_set, index_range_m);
    if (!fault) return PV_OK;
    return pv_describe_error(
        text, PV_ERROR_DATA,
        "compiled scenes: byte %llu (head, %s) is not that of a version %d set of %llu bytes; compile the scenes again",
        (unsigned long long)at, fault, PV_SCENE_VERSION, (unsigned long long)bytes);
}

// An array of `count` elements of `size` bytes at `offset` must lie within the scene and start on 64 bytes.
static int check_array(const checker* check, uint64_t at, const char* field, uint64_t offset, uint64_t count, uint64_t size) {
    if (offset % ALIGNMENT) return bad(check, at, field, 0.0, (double)(offset % ALIGNMENT), "an offset whose rest by 64 is");
    if (offset < sizeof(pv_scene) || offset > check->scene_bytes) {
        return bad(check, at, field, (double)check->scene_bytes, (double)offset, "an offset within the scene, at most");
    }
    uint64_t room = (check->scene_bytes - offset) / size;
    if (count > room) return bad(check, at, field, (double)room, (double)count, "a count of elements of at most");
    return PV_OK;
}

// First index of `values` that is not within [-limit, limit] (NaN included), or count.
static uint64_t first_outside(const float* values, uint64_t count, double limit) {
    for (uint64_t i = 0; i < count; i++) {
        if (!(fabs((double)values[i]) <= limit)) return i;
    }
    return count;
}

static int check_floats(const checker* check, const char* field, uint64_t offset, uint64_t count, double limit) {
    const float* values = (const float*)(const void*)(check->data + check->base + offset);
    uint64_t i = first_outside(values, count, limit);
    return i == count ? PV_OK : bad(check, offset + 4 * i, field, limit, (double)values[i], "a magnitude of at most");
}

static int check_head(const checker* check, const pv_scene* head) {
    if (!isfinite(head->origin_x) || !isfinite(head->origin_y))
        return bad(check, offsetof(pv_scene, origin_x), "origin", 0.0, head->origin_x, "finite numbers like");
    if (!(head->dt_s > 0.0f && head->dt_s <= 10.0f))
        return bad(check, offsetof(pv_scene, dt_s), "dt_s", 10.0, (double)head->dt_s, "more than 0 and at most");
    if (head->frame_count < 2 || head->frame_count > UINT16_MAX)
        return bad(check, offsetof(pv_scene, frame_count), "frame_count", 65535.0, (double)head->frame_count, "2 to");
    if (head->object_count > UINT16_MAX)
        return bad(check, offsetof(pv_scene, object_count), "object_count", 65535.0, (double)head->object_count, "at most");
    uint64_t segments = 0;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) segments += head->segment_count[type];
    if (segments > UINT16_MAX)
        return bad(check, offsetof(pv_scene, segment_count), "segment_count", 65535.0, (double)segments, "a sum of at most");
    if (!(isfinite(head->grid_x0_m) && isfinite(head->grid_y0_m) && isfinite(head->cell_m) && head->cell_m > 0.0f))
        return bad(check, offsetof(pv_scene, cell_m), "cell_m", 0.0, (double)head->cell_m,
                   "finite grid numbers and a cell size above");
    // also keeps cell numbers exact when they are computed in float32
    if (head->grid_nx > 65536 || head->grid_ny > 65536)
        return bad(check, offsetof(pv_scene, grid_nx), "grid_nx, grid_ny", 65536.0,
                   (double)(head->grid_nx > head->grid_ny ? head->grid_nx : head->grid_ny), "at most");
    return PV_OK;
}

static int check_arrays(const checker* check, const pv_scene* head) {
    uint64_t segments = (uint64_t)head->segment_count[0] + head->segment_count[1] + head->segment_count[2];
    uint64_t cells = (uint64_t)head->grid_nx * head->grid_ny;
    int code = 0;
#define ARRAY(field, count, size)                                                                                              \
    if (!code) code = check_array(check, offsetof(pv_scene, field), #field, head->field, count, size)
    ARRAY(objects_offset, head->object_count, sizeof(pv_object));
    ARRAY(frames_offset, 0, sizeof(pv_frame));
    ARRAY(x_offset, segments, 4);
    ARRAY(y_offset, segments, 4);
    ARRAY(ux_offset, segments, 4);
    ARRAY(uy_offset, segments, 4);
    ARRAY(half_offset, segments, 4);
    ARRAY(kind_offset, segments, 1);
    ARRAY(polyline_offset, segments, 2);
    ARRAY(cells_offset, cells, sizeof(pv_cell));
    ARRAY(candidates_offset, head->candidate_count, 2);
#undef ARRAY
    if (!code) code = check_floats(check, "x", head->x_offset, segments, MAX_COORDINATE_M);
    if (!code) code = check_floats(check, "y", head->y_offset, segments, MAX_COORDINATE_M);
    if (!code) code = check_floats(check, "half", head->half_offset, segments, MAX_COORDINATE_M);
    if (!code) code = check_floats(check, "ux", head->ux_offset, segments, 1.01);
    if (!code) code = check_floats(check, "uy", head->uy_offset, segments, 1.01);
    return code;
}

static int check_segments(const checker* check, const drive_scene* scene) {
    for (uint32_t s = 0; s < scene->first[PV_SEGMENT_TYPES]; s++) {
        double square = (double)scene->ux[s] * (double)scene->ux[s] + (double)scene->uy[s] * (double)scene->uy[s];
        if (!(fabs(square - 1.0) < 1e-3))
            return bad(check, scene->head->ux_offset + 4 * s, "ux, uy", 1.0, square, "a direction whose squared length is");
        if (!(scene->half[s] >= 0.0f))
            return bad(check, scene->head->half_offset + 4 * s, "half", 0.0, (double)scene->half[s], "at least");
    }
    return PV_OK;
}

// Frames of one object lie within the scene, are finite, and agree with its flags.
static int check_object(const checker* check, const drive_scene* scene, uint32_t o, uint64_t* frames) {
    const pv_object* object = &scene->objects[o];
    uint64_t at = scene->head->objects_offset + o * sizeof *object;
    const float sizes[2] = {object->width_m, object->length_m};
    for (int i = 0; i < 2; i++) {
        if (!((double)sizes[i] >= MIN_SIZE_M && (double)sizes[i] <= MAX_SIZE_M))
            return bad(check, at, "object.width_m, length_m", MAX_SIZE_M, (double)sizes[i], "at least 0.001 and at most");
    }
    if (!(fabs((double)object->goal_x_m) <= MAX_COORDINATE_M && fabs((double)object->goal_y_m) <= MAX_COORDINATE_M))
        return bad(check, at, "object.goal", MAX_COORDINATE_M, (double)object->goal_x_m, "a magnitude of at most");
    if (object->type > PV_OTHER) return bad(check, at, "object.type", PV_OTHER, object->type, "at most");
    uint32_t end = (uint32_t)object->frame_first + object->frame_count;
    if (end > scene->head->frame_count)
        return bad(check, at, "object.frame_count", scene->head->frame_count, end, "an end of at most");
    uint64_t room = (check->scene_bytes - scene->head->frames_offset) / sizeof(pv_frame);
    if (object->frames_index > room || object->frame_count > room - object->frames_index)
        return bad(check, at, "object.frames_index", (double)room, (double)object->frames_index, "frames that end at most at");
    *frames += object->frame_count;
    if (*frames > room)
        return bad(check, at, "object.frame_count", (double)room, (double)*frames, "frames of its own, up to here at most");
    for (uint32_t i = 0; i < object->frame_count; i++) {
        const pv_frame* frame = &scene->frames[object->frames_index + i];
        if (frame->speed == PV_FRAME_INVALID) continue;
        if (!(fabs((double)frame->x_m) <= MAX_COORDINATE_M && fabs((double)frame->y_m) <= MAX_COORDINATE_M))
            return bad(check, scene->head->frames_offset + (object->frames_index + i) * sizeof *frame, "frame.x_m, y_m",
                       MAX_COORDINATE_M, (double)frame->x_m, "a magnitude of at most");
    }
    int there = drive_frame(scene, object, 0) != NULL;
    if ((object->flags & PV_OBJECT_VALID_AT_START) && !there)
        return bad(check, at, "object.flags", 0.0, object->flags, "no VALID_AT_START without frame");
    return PV_OK;
}

static int check_objects(const checker* check, const drive_scene* scene) {
    uint32_t valid = 0, moving = 0;
    uint64_t frames = 0;
    for (uint32_t o = 0; o < scene->head->object_count; o++) {
        int code = check_object(check, scene, o, &frames);
        if (code) return code;
        const pv_object* object = &scene->objects[o];
        if (object->type != PV_VEHICLE || !(object->flags & PV_OBJECT_VALID_AT_START)) continue;
        valid++;
        moving += (object->flags & PV_OBJECT_MOVES) && !(object->flags & PV_OBJECT_EXPERT);
    }
    const pv_scene_entry* entry = drive_entry(check->data, check->scene);
    if (entry->valid_vehicles != valid)
        return bad(check, 0, "entry.valid_vehicles", valid, entry->valid_vehicles, "as in the objects,");
    if (entry->moving_vehicles != moving)
        return bad(check, 0, "entry.moving_vehicles", moving, entry->moving_vehicles, "as in the objects,");
    if (entry->object_count != scene->head->object_count)
        return bad(check, 0, "entry.object_count", scene->head->object_count, entry->object_count, "as in the scene,");
    return PV_OK;
}

static int check_cells(const checker* check, const drive_scene* scene) {
    const pv_scene* head = scene->head;
    uint64_t listed = 0;
    for (uint64_t c = 0; c < (uint64_t)head->grid_nx * head->grid_ny; c++) {
        const pv_cell* cell = &scene->cells[c];
        if (cell->first == PV_CELL_EMPTY) continue;
        uint64_t at = cell->first;
        listed += (uint64_t)cell->count[0] + cell->count[1] + cell->count[2];
        if (listed > head->candidate_count)
            return bad(check, head->cells_offset + c * sizeof *cell, "cell", head->candidate_count, (double)listed,
                       "candidates of its own, up to here at most");
        for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
            if (at + cell->count[type] > head->candidate_count)
                return bad(check, head->cells_offset + c * sizeof *cell, "cell", head->candidate_count,
                           (double)(at + cell->count[type]), "candidates that end at most at");
            uint32_t least = scene->first[type];
            for (uint64_t end = at + cell->count[type]; at < end; at++) {
                uint32_t segment = scene->candidates[at];
                if (segment < least || segment >= scene->first[type + 1])
                    return bad(check, head->candidates_offset + 2 * at, "candidates", least, segment,
                               "ascending indices of the cell's type, at least");
                least = segment + 1;
            }
        }
    }
    return PV_OK;
}

static int check_scene(checker* check, uint32_t scene_index) {
    const pv_scene_entry* entry = drive_entry(check->data, scene_index);
    uint64_t heads = sizeof(pv_scene_set) + (uint64_t)drive_set(check->data)->scene_count * sizeof *entry;
    check->scene = scene_index;
    check->base = (uint64_t)((const uint8_t*)entry - check->data);
    uint64_t least = check->end > heads ? check->end : heads;
    if (entry->offset % ALIGNMENT || entry->offset < least || entry->offset > check->bytes)
        return bad(check, 0, "entry.offset", (double)least, (double)entry->offset, "a multiple of 64 within the set, at least");
    if (entry->bytes < sizeof(pv_scene) || entry->bytes > check->bytes - entry->offset)
        return bad(check, 8, "entry.bytes", (double)(check->bytes - entry->offset), (double)entry->bytes,
                   "a scene's head and at most");
    if (!memchr(entry->name, 0, PV_SCENE_NAME_BYTES))
        return bad(check, 0, "entry.name", 0.0, 1.0, "a name that ends with byte");
    check->end = entry->offset + entry->bytes;
    check->base = entry->offset;
    check->scene_bytes = entry->bytes;
    const pv_scene* head = (const pv_scene*)(const void*)(check->data + check->base);
    int code = check_head(check, head);
    if (!code) code = check_arrays(check, head);
    if (code) return code;
    drive_scene scene;
    drive_scene_open(check->data, scene_index, &scene);
    code = check_segments(check, &scene);
    if (!code) code = check_objects(check, &scene);
    if (!code) code = check_cells(check, &scene);
    return code;
}

int pv_drive_scenes_check(const uint8_t* data, uint64_t bytes, char* text) {
    int code = check_set_head(data, bytes, text);
    checker check = {.data = data, .bytes = bytes, .text = text};
    for (uint32_t scene = 0; !code && scene < drive_set(data)->scene_count; scene++) code = check_scene(&check, scene);
    return code;
}

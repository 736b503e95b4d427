// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Checks a compiled scene set before use, and opens its scenes. The set comes from a file, so
// nothing in it is trusted: sizes and offsets are compared with the size of the file before
// anything is read through them. Owns no memory.
//
// Reading gigabytes at every start would take too long. The start checks the table and the objects,
// which are counted; the rest of a scene is checked, with its checksum, before the scene is driven
// for the first time.
#include "drive/scene/scene.h"

#include "contract/base.h"
#include "contract/env.h"
#include "envs/kernels.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define MAX_COORDINATE_M 1e6
#define MAX_LENGTH_M 1e7
#define MAX_SLOPE 1e5
#define MAX_SIZE_M 1e3
#define MIN_SIZE_M 1e-3 // the inverse of a length must be a number
#define ALIGNMENT 64

_Static_assert(sizeof(pv_scene_set) == 64, "no padding: written as it is");
_Static_assert(sizeof(pv_scene_entry) == 96, "no padding: written as it is");
_Static_assert(sizeof(pv_scene) == 80 + 16 * PV_SCENE_SECTIONS, "no padding: written as it is");
_Static_assert(sizeof(pv_object) == 40, "no padding: written as it is");
_Static_assert(sizeof(pv_frame) == 16, "no padding: written as it is");
_Static_assert(sizeof(pv_cell) == 12, "no padding: written as it is");
_Static_assert(sizeof(pv_road_group) == 448, "no padding: written as it is");
_Static_assert(sizeof(pv_lane) == 40, "no padding: written as it is");
_Static_assert(sizeof(pv_control) == 48, "no padding: written as it is");
_Static_assert(sizeof(pv_area) == 16, "no padding: written as it is");

static const pv_section_info sections[] = {
#define SECTION(name, type) {#name, sizeof(type)},
    DRIVE_SECTIONS(SECTION)
#undef SECTION
};

const pv_section_info* pv_drive_sections(uint32_t* count) {
    *count = DRIVE_SECTION_COUNT;
    return sections;
}

static uint32_t groups_of(uint32_t places) {
    return (places + PV_GROUP_LANES - 1) / PV_GROUP_LANES;
}

void drive_scene_open(const uint8_t* data, uint32_t scene, drive_scene* out) {
    const uint8_t* base = data + drive_entry(data, scene)->offset;
    const pv_scene* head = (const pv_scene*)(const void*)base;
    out->head = head;
#define SECTION(name, type) \
    out->name = (const type*)(const void*)(base + head->sections[DRIVE_SECTION_##name].offset);
    DRIVE_SECTIONS(SECTION)
#undef SECTION
    out->first[0] = 0;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
        out->first[type + 1] = out->first[type] + head->segment_count[type];
        out->index_k[type] = drive_set(data)->index_k[type];
    }
    out->group_count = groups_of(out->first[PV_SEGMENT_TYPES]);
    out->box_stride = groups_of(out->group_count) * PV_GROUP_LANES;
    out->index_range_m = drive_set(data)->index_range_m;
    out->cells_per_m = 1.0f / head->cell_m;
}

// ---- checks ----

// If scenes, frames and lists of candidates could share bytes, a small file could ask for any
// amount of work. So each byte belongs to at most one item of a kind, and the work is bounded by
// the size of the file.
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
static int bad(const checker* check,
               uint64_t at,
               const char* field,
               double expected,
               double found,
               const char* relation) {
    return pv_describe_error(check->text, PV_ERROR_DATA,
                             "compiled scenes: byte %llu (scene %u, %s): expected %s %.17g, found "
                             "%.17g; compile the scenes again",
                             (unsigned long long)(check->base + at), check->scene, field, relation,
                             expected, found);
}

static int check_set_head(const uint8_t* data, uint64_t bytes, char* text) {
    const pv_scene_set* set = drive_set(data);
    const char* fault = NULL;
    uint64_t at = 0;
    if (!data || bytes < sizeof *set) {
        return pv_describe_error(
            text, PV_ERROR_DATA,
            "compiled scenes: expected at least %u bytes, found %llu; compile the scenes again",
            (unsigned)sizeof *set, (unsigned long long)bytes);
    }
    if ((uintptr_t)data % 8)
        return pv_describe_error(text, PV_ERROR_DATA,
                                 "compiled scenes: the memory is not aligned to 8 bytes");
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
    if (!fault)
        return PV_OK;
    return pv_describe_error(text, PV_ERROR_DATA,
                             "compiled scenes: byte %llu (head, %s) is not that of a version %d "
                             "set of %llu bytes; compile the scenes again",
                             (unsigned long long)at, fault, PV_SCENE_VERSION,
                             (unsigned long long)bytes);
}

static uint64_t count_of(const pv_scene* head, int section) {
    return head->sections[section].count;
}

static uint64_t offset_of(const pv_scene* head, int section) {
    return head->sections[section].offset;
}

// Checks that a section lies within the scene and starts on 64 bytes.
static int check_section(const checker* check, const pv_scene* head, int section) {
    uint64_t at = offsetof(pv_scene, sections) + (uint64_t)section * sizeof(pv_section);
    uint64_t offset = offset_of(head, section), count = count_of(head, section);
    const char* name = sections[section].name;
    if (offset % ALIGNMENT)
        return bad(check, at, name, 0.0, (double)(offset % ALIGNMENT),
                   "an offset whose rest by 64 is");
    if (offset < sizeof(pv_scene) || offset > check->scene_bytes)
        return bad(check, at, name, (double)check->scene_bytes, (double)offset,
                   "an offset within the scene, at most");
    uint64_t room = (check->scene_bytes - offset) / sections[section].element_bytes;
    if (count > room)
        return bad(check, at + 8, name, (double)room, (double)count,
                   "a count of elements of at most");
    return PV_OK;
}

// Checks that the section has as many elements as the head says elsewhere.
static int check_count(const checker* check, const pv_scene* head, int section, uint64_t expected) {
    uint64_t at = offsetof(pv_scene, sections) + (uint64_t)section * sizeof(pv_section) +
                  offsetof(pv_section, count);
    if (count_of(head, section) == expected)
        return PV_OK;
    return bad(check, at, sections[section].name, (double)expected, (double)count_of(head, section),
               "a count of elements of");
}

// Returns the first index of `values` that is not within [-limit, limit] (NaN included), or count.
static uint64_t first_outside(const float* values, uint64_t count, double limit) {
    for (uint64_t i = 0; i < count; i++) {
        if (!(fabs((double)values[i]) <= limit))
            return i;
    }
    return count;
}

static int check_floats(const checker* check, const pv_scene* head, int section, double limit) {
    uint64_t offset = offset_of(head, section), count = count_of(head, section);
    const float* values = (const float*)(const void*)(check->data + check->base + offset);
    uint64_t i = first_outside(values, count, limit);
    return i == count ? PV_OK
                      : bad(check, offset + 4 * i, sections[section].name, limit, (double)values[i],
                            "a magnitude of at most");
}

static int check_head(const checker* check, const pv_scene* head) {
    if (!isfinite(head->origin_x) || !isfinite(head->origin_y) || !isfinite(head->origin_z))
        return bad(check, offsetof(pv_scene, origin_x), "origin", 0.0, head->origin_x,
                   "finite numbers like");
    if (!(head->dt_s >= 1e-3f &&
          head->dt_s <= 10.0f)) // accelerations are differences of speeds divided by it
        return bad(check, offsetof(pv_scene, dt_s), "dt_s", 10.0, (double)head->dt_s,
                   "at least 0.001 and at most");
    if (head->frame_count < 1 || head->frame_count > UINT16_MAX)
        return bad(check, offsetof(pv_scene, frame_count), "frame_count", 65535.0,
                   (double)head->frame_count, "1 to");
    if (head->object_count > UINT16_MAX)
        return bad(check, offsetof(pv_scene, object_count), "object_count", 65535.0,
                   (double)head->object_count, "at most");
    if (head->sdc < -1 || head->sdc >= (int32_t)head->object_count)
        return bad(check, offsetof(pv_scene, sdc), "sdc", (double)head->object_count - 1.0,
                   head->sdc, "-1 to");
    uint64_t segments = 0;
    for (int type = 0; type < PV_SEGMENT_TYPES; type++)
        segments += head->segment_count[type];
    if (segments > UINT16_MAX)
        return bad(check, offsetof(pv_scene, segment_count), "segment_count", 65535.0,
                   (double)segments, "a sum of at most");
    if (!(isfinite(head->grid_x0_m) && isfinite(head->grid_y0_m) && isfinite(head->cell_m) &&
          head->cell_m > 0.0f))
        return bad(check, offsetof(pv_scene, cell_m), "cell_m", 0.0, (double)head->cell_m,
                   "finite grid numbers and a cell size above");
    // also keeps cell numbers exact when they are computed in float32
    if (head->grid_nx > 65536 || head->grid_ny > 65536)
        return bad(check, offsetof(pv_scene, grid_nx), "grid_nx, grid_ny", 65536.0,
                   (double)(head->grid_nx > head->grid_ny ? head->grid_nx : head->grid_ny),
                   "at most");
    return PV_OK;
}

static int check_sections(const checker* check, const pv_scene* head) {
    uint64_t segments =
        (uint64_t)head->segment_count[0] + head->segment_count[1] + head->segment_count[2];

    const struct {
        int section;
        uint64_t count;
    } counts[] = {
        {DRIVE_SECTION_objects, head->object_count},
        {DRIVE_SECTION_x, segments},
        {DRIVE_SECTION_y, segments},
        {DRIVE_SECTION_z, segments},
        {DRIVE_SECTION_ux, segments},
        {DRIVE_SECTION_uy, segments},
        {DRIVE_SECTION_slope, segments},
        {DRIVE_SECTION_half, segments},
        {DRIVE_SECTION_kind, segments},
        {DRIVE_SECTION_polyline, segments},
        {DRIVE_SECTION_cells, (uint64_t)head->grid_nx * head->grid_ny},
        {DRIVE_SECTION_boxes, 4 * PV_GROUP_LANES * groups_of(groups_of((uint32_t)segments))},
        {DRIVE_SECTION_groups, groups_of((uint32_t)segments)},
        {DRIVE_SECTION_rows, 8 * PV_GROUP_LANES * groups_of((uint32_t)segments)},
        {DRIVE_SECTION_points_y, count_of(head, DRIVE_SECTION_points_x)},
        {DRIVE_SECTION_points_z, count_of(head, DRIVE_SECTION_points_x)}};

    int code = PV_OK;
    for (int section = 0; !code && section < DRIVE_SECTION_COUNT; section++)
        code = check_section(check, head, section);
    for (uint32_t i = 0; !code && i < sizeof counts / sizeof counts[0]; i++)
        code = check_count(check, head, counts[i].section, counts[i].count);
    return code;
}

static int check_numbers(const checker* check, const pv_scene* head) {
    const struct {
        int section;
        double limit;
    } floats[] = {{DRIVE_SECTION_x, MAX_COORDINATE_M},
                  {DRIVE_SECTION_y, MAX_COORDINATE_M},
                  {DRIVE_SECTION_z, MAX_COORDINATE_M},
                  {DRIVE_SECTION_half, MAX_COORDINATE_M},
                  {DRIVE_SECTION_slope, MAX_SLOPE},
                  {DRIVE_SECTION_ux, 1.01},
                  {DRIVE_SECTION_uy, 1.01},
                  {DRIVE_SECTION_points_x, MAX_COORDINATE_M},
                  {DRIVE_SECTION_points_y, MAX_COORDINATE_M},
                  {DRIVE_SECTION_points_z, MAX_COORDINATE_M},
                  {DRIVE_SECTION_boxes, 3 * MAX_COORDINATE_M},
                  {DRIVE_SECTION_rows, MAX_COORDINATE_M}};

    int code = PV_OK;
    for (uint32_t i = 0; !code && i < sizeof floats / sizeof floats[0]; i++)
        code = check_floats(check, head, floats[i].section, floats[i].limit);
    return code;
}

static int check_segments(const checker* check, const drive_scene* scene) {
    for (uint32_t s = 0; s < scene->first[PV_SEGMENT_TYPES]; s++) {
        double square = (double)scene->ux[s] * (double)scene->ux[s] +
                        (double)scene->uy[s] * (double)scene->uy[s];
        if (!(fabs(square - 1.0) < 1e-3))
            return bad(check, offset_of(scene->head, DRIVE_SECTION_ux) + 4 * s, "ux, uy", 1.0,
                       square, "a direction whose squared length is");
        if (!(scene->half[s] >= 0.0f && scene->half[s] <= (float)PV_MOST_HALF_M))
            return bad(check, offset_of(scene->head, DRIVE_SECTION_half) + 4 * s, "half",
                       PV_MOST_HALF_M, (double)scene->half[s], "0 to");
    }
    return PV_OK;
}

// Checks that the frames of one object lie within the scene and agree with its flags.
static int check_object(const checker* check,
                        const drive_scene* scene,
                        uint32_t o,
                        uint64_t* frames) {
    const pv_object* object = &scene->objects[o];
    uint64_t at = offset_of(scene->head, DRIVE_SECTION_objects) + o * sizeof *object;
    const float sizes[3] = {object->width_m, object->length_m, object->height_m};
    const uint64_t offsets[3] = {offsetof(pv_object, width_m), offsetof(pv_object, length_m),
                                 offsetof(pv_object, height_m)};
    static const char* const names[3] = {"object.width_m", "object.length_m", "object.height_m"};
    for (int i = 0; i < 3; i++) {
        if (!((double)sizes[i] >= MIN_SIZE_M && (double)sizes[i] <= MAX_SIZE_M))
            return bad(check, at + offsets[i], names[i], MAX_SIZE_M, (double)sizes[i],
                       "at least 0.001 and at most");
    }
    const uint64_t axis = first_outside(&object->goal_x_m, 3, MAX_COORDINATE_M);
    if (axis < 3)
        return bad(check, at + offsetof(pv_object, goal_x_m) + 4 * axis, "object.goal",
                   MAX_COORDINATE_M, (double)(&object->goal_x_m)[axis], "a magnitude of at most");
    if (object->type > PV_OTHER)
        return bad(check, at, "object.type", PV_OTHER, object->type, "at most");
    uint32_t end = (uint32_t)object->frame_first + object->frame_count;
    if (end > scene->head->frame_count)
        return bad(check, at, "object.frame_count", scene->head->frame_count, end,
                   "an end of at most");
    uint64_t room = count_of(scene->head, DRIVE_SECTION_frames);
    if (object->frames_index > room || object->frame_count > room - object->frames_index)
        return bad(check, at + offsetof(pv_object, frames_index), "object.frames_index",
                   (double)room, (double)object->frames_index + object->frame_count,
                   "frames that end at most at");
    if (object->frames_index != *frames)
        return bad(check, at, "object.frames_index", (double)*frames, (double)object->frames_index,
                   "the frames behind those of the object before, from");
    *frames += object->frame_count;
    int there = drive_frame(scene, object, 0) != NULL;
    if ((object->flags & PV_OBJECT_VALID_AT_START) && !there)
        return bad(check, at, "object.flags", 0.0, object->flags,
                   "no VALID_AT_START without frame");
    return PV_OK;
}

static int check_objects(const checker* check, const drive_scene* scene) {
    uint32_t valid = 0, moving = 0;
    uint64_t frames = 0;
    for (uint32_t o = 0; o < scene->head->object_count; o++) {
        int code = check_object(check, scene, o, &frames);
        if (code)
            return code;
        const pv_object* object = &scene->objects[o];
        if (object->type != PV_VEHICLE || !(object->flags & PV_OBJECT_VALID_AT_START))
            continue;
        valid++;
        moving += (object->flags & PV_OBJECT_MOVES) && !(object->flags & PV_OBJECT_EXPERT);
    }
    const pv_scene_entry* entry = drive_entry(check->data, check->scene);
    if (entry->valid_vehicles != valid)
        return bad(check, 0, "entry.valid_vehicles", valid, entry->valid_vehicles,
                   "as in the objects,");
    if (entry->moving_vehicles != moving)
        return bad(check, 0, "entry.moving_vehicles", moving, entry->moving_vehicles,
                   "as in the objects,");
    if (entry->object_count != scene->head->object_count)
        return bad(check, 0, "entry.object_count", scene->head->object_count, entry->object_count,
                   "as in the scene,");
    return check_count(check, scene->head, DRIVE_SECTION_frames,
                       frames); // every frame belongs to an object
}

static int check_frames(const checker* check, const drive_scene* scene) {
    for (uint64_t i = 0; i < count_of(scene->head, DRIVE_SECTION_frames); i++) {
        const pv_frame* frame = &scene->frames[i];
        const uint64_t axis = first_outside(&frame->x_m, 3, MAX_COORDINATE_M);
        if (frame->speed == PV_FRAME_INVALID || axis == 3)
            continue;
        return bad(check,
                   offset_of(scene->head, DRIVE_SECTION_frames) + i * sizeof *frame + 4 * axis,
                   "frame.x_m, y_m, z_m", MAX_COORDINATE_M, (double)(&frame->x_m)[axis],
                   "magnitudes of at most");
    }
    return PV_OK;
}

static int check_cells(const checker* check, const drive_scene* scene) {
    const pv_scene* head = scene->head;
    const uint64_t candidates = count_of(head, DRIVE_SECTION_candidates);
    const uint64_t cells_at = offset_of(head, DRIVE_SECTION_cells);
    uint64_t listed = 0;
    for (uint64_t c = 0; c < (uint64_t)head->grid_nx * head->grid_ny; c++) {
        const pv_cell* cell = &scene->cells[c];
        if (cell->first == PV_CELL_EMPTY)
            continue;
        uint64_t at = cell->first;
        listed += (uint64_t)cell->count[0] + cell->count[1] + cell->count[2];
        if (listed > candidates)
            return bad(check, cells_at + c * sizeof *cell, "cell", (double)candidates,
                       (double)listed, "candidates of its own, up to here at most");
        for (int type = 0; type < PV_SEGMENT_TYPES; type++) {
            if (at + cell->count[type] > candidates)
                return bad(check, cells_at + c * sizeof *cell, "cell", (double)candidates,
                           (double)(at + cell->count[type]), "candidates that end at most at");
            uint32_t least = scene->first[type];
            for (uint64_t end = at + cell->count[type]; at < end; at++) {
                uint32_t segment = scene->candidates[at];
                if (segment < least || segment >= scene->first[type + 1])
                    return bad(check, offset_of(head, DRIVE_SECTION_candidates) + 2 * at,
                               "candidates", least, segment,
                               "ascending indices of the cell's type, at least");
                least = segment + 1;
            }
        }
    }
    return PV_OK;
}

// Checks that lanes divide the segments of their type among them, in order, and that all their
// links lead to lanes.
static int check_lanes(const checker* check, const drive_scene* scene) {
    const pv_scene* head = scene->head;
    const uint64_t count = count_of(head, DRIVE_SECTION_lanes),
                   links = count_of(head, DRIVE_SECTION_links);
    uint64_t next = 0;
    for (uint64_t i = 0; i < count; i++) {
        const pv_lane* lane = &scene->lanes[i];
        const uint64_t at = offset_of(head, DRIVE_SECTION_lanes) + i * sizeof *lane;
        const uint64_t room = head->segment_count[PV_LANE] - next;
        if (lane->first_segment != next || lane->segment_count == 0 || lane->segment_count > room)
            return bad(check, at, "lane.first_segment", (double)next, lane->first_segment,
                       "segments behind those before, from");
        for (; next < lane->first_segment + lane->segment_count; next++) {
            if (scene->polyline[next] != i)
                return bad(check, offset_of(head, DRIVE_SECTION_polyline) + 2 * next, "polyline",
                           (double)i, scene->polyline[next], "the index of the lane,");
        }
        if (!(lane->length_m >= 0.0f && (double)lane->length_m <= MAX_LENGTH_M))
            return bad(check, at, "lane.length_m", MAX_LENGTH_M, (double)lane->length_m, "0 to");
        if (!(lane->speed_limit_mps >= 0.0f && (double)lane->speed_limit_mps <= MAX_SIZE_M))
            return bad(check, at, "lane.speed_limit_mps", MAX_SIZE_M, (double)lane->speed_limit_mps,
                       "0 to");
        if ((uint64_t)lane->exits + lane->exit_count > links)
            return bad(check, at + offsetof(pv_lane, exits), "lane.exits", (double)links,
                       (double)lane->exits + lane->exit_count, "links that end at most at");
        if ((uint64_t)lane->entries + lane->entry_count > links)
            return bad(check, at + offsetof(pv_lane, entries), "lane.entries", (double)links,
                       (double)lane->entries + lane->entry_count, "links that end at most at");
        if (lane->left != PV_NO_LANE && lane->left >= count)
            return bad(check, at + offsetof(pv_lane, left), "lane.left", (double)count, lane->left,
                       "65535 or less than");
        if (lane->right != PV_NO_LANE && lane->right >= count)
            return bad(check, at + offsetof(pv_lane, right), "lane.right", (double)count,
                       lane->right, "65535 or less than");
    }
    if (next != head->segment_count[PV_LANE])
        return bad(check, offset_of(head, DRIVE_SECTION_lanes), "lanes",
                   head->segment_count[PV_LANE], (double)next,
                   "segments of all lanes, as many as there are,");
    for (uint64_t i = 0; i < links; i++) {
        if (scene->links[i] >= count)
            return bad(check, offset_of(head, DRIVE_SECTION_links) + 2 * i, "links", (double)count,
                       scene->links[i], "less than");
    }
    return PV_OK;
}

static int check_controls(const checker* check, const drive_scene* scene) {
    const pv_scene* head = scene->head;
    const uint64_t states = count_of(head, DRIVE_SECTION_states),
                   lanes = count_of(head, DRIVE_SECTION_lanes);
    for (uint64_t i = 0; i < count_of(head, DRIVE_SECTION_controls); i++) {
        const pv_control* control = &scene->controls[i];
        const uint64_t at = offset_of(head, DRIVE_SECTION_controls) + i * sizeof *control;
        const float numbers[] = {control->x_m,       control->y_m,       control->z_m,
                                 control->heading,   control->line_x0_m, control->line_y0_m,
                                 control->line_x1_m, control->line_y1_m};
        const uint64_t outside = first_outside(
            numbers, 8, MAX_COORDINATE_M); // numbers are its first members, in this order
        if (outside < 8)
            return bad(check, at + 4 * outside, "control", MAX_COORDINATE_M,
                       (double)numbers[outside], "a magnitude of at most");
        if (!(fabs((double)control->heading) <= 3.2))
            return bad(check, at + offsetof(pv_control, heading), "control.heading", 3.2,
                       (double)control->heading, "a magnitude of at most");
        if (control->state_count != 1 && control->state_count != head->frame_count)
            return bad(check, at, "control.state_count", head->frame_count, control->state_count,
                       "1 or");
        if ((uint64_t)control->states + control->state_count > states)
            return bad(check, at + offsetof(pv_control, states), "control.states", (double)states,
                       (double)control->states + control->state_count,
                       "states that end at most at");
        if (control->lane != PV_NO_LANE && control->lane >= lanes)
            return bad(check, at, "control.lane", (double)lanes, control->lane,
                       "65535 or less than");
        if (control->kind > PV_YIELD_SIGN)
            return bad(check, at, "control.kind", PV_YIELD_SIGN, control->kind, "at most");
    }
    for (uint64_t i = 0; i < states; i++) {
        if ((scene->states[i] & PV_STATE_COLOUR) > PV_STATE_OFF ||
            scene->states[i] >= 2 * PV_STATE_FLASHING)
            return bad(check, offset_of(head, DRIVE_SECTION_states) + i, "states", PV_STATE_OFF,
                       scene->states[i], "flags and a state of at most");
    }
    return PV_OK;
}

static int check_areas(const checker* check, const drive_scene* scene) {
    const pv_scene* head = scene->head;
    const uint64_t points = count_of(head, DRIVE_SECTION_points_x);
    for (uint64_t i = 0; i < count_of(head, DRIVE_SECTION_areas); i++) {
        const pv_area* area = &scene->areas[i];
        const uint64_t at = offset_of(head, DRIVE_SECTION_areas) + i * sizeof *area;
        if ((uint64_t)area->first + area->count > points)
            return bad(check, at, "area.first", (double)points, (double)area->first + area->count,
                       "points that end at most at");
        if (area->kind > PV_DRIVEWAY)
            return bad(check, at, "area.kind", PV_DRIVEWAY, area->kind, "at most");
    }
    return PV_OK;
}

// Checks that the box of group g is around its place i, and that the row of that place, which is
// copied into observations, agrees with it.
static int check_place(const checker* check, const drive_scene* scene, uint32_t g, uint32_t i) {
    const pv_road_group* group = &scene->groups[g];
    const uint64_t place = (uint64_t)g * PV_GROUP_LANES + i, stride = scene->box_stride;
    const float x = group->x[i], y = group->y[i], half = group->half[i],
                *row = scene->rows + 8 * place, *box = scene->boxes + g;
    const float reach_x = fabsf(group->ux[i]) * half, reach_y = fabsf(group->uy[i]) * half;
    const float wanted[] = {x, y, half, 1.0f, group->ux[i], group->uy[i], (float)group->type[i]};
    const uint64_t at = offset_of(scene->head, DRIVE_SECTION_rows) + 32 * place;
    float sine, cosine;
    for (uint32_t n = 0; n < 7; n++) {
        if (row[n] != wanted[n])
            return bad(check, at + 4 * n, "rows", (double)wanted[n], (double)row[n],
                       "a copy of a segment's");
    }
    if (!(fabsf(row[7]) <= 3.15f))
        return bad(check, at + 28, "rows", 3.15, (double)row[7], "an angle of at most");
    pv_sincos(row[7], &sine, &cosine);
    const float alike = cosine * group->ux[i] + sine * group->uy[i];
    if (alike < 0.999f)
        return bad(check, at + 28, "rows", 1.0, (double)alike,
                   "the segment's angle, its cosine to it");
    if (box[0] > x - reach_x || box[stride] > y - reach_y || box[2 * stride] < x + reach_x ||
        box[3 * stride] < y + reach_y)
        return bad(check, offset_of(scene->head, DRIVE_SECTION_boxes) + 4 * g, "boxes", (double)x,
                   (double)box[0], "a box around all of its group, at x");
    return PV_OK;
}

// Checks that each place of a group is unused, or a copy of the segment that it names.
static int check_group(const checker* check, const drive_scene* scene, uint32_t g) {
    const pv_road_group* group = &scene->groups[g];
    const uint64_t at = offset_of(scene->head, DRIVE_SECTION_groups) + g * sizeof *group;
    for (uint32_t i = 0; i < PV_GROUP_LANES; i++) {
        const uint32_t s = group->segment[i], type = (uint32_t)group->type[i];
        const float place[] = {group->x[i], group->y[i], group->ux[i], group->uy[i],
                               group->half[i]};
        float wanted[] = {0.0f, 0.0f, 0.0f, 0.0f, -1e6f};
        if (g * PV_GROUP_LANES + i < scene->first[PV_SEGMENT_TYPES]) {
            if (type >= PV_SEGMENT_TYPES || s < scene->first[type] || s >= scene->first[type + 1])
                return bad(check, at, "group.segment", type, s, "a segment of the type");
            const float segment[] = {scene->x[s], scene->y[s], scene->ux[s], scene->uy[s],
                                     scene->half[s]};
            memcpy(wanted, segment, sizeof wanted);
        } else if (type < PV_SEGMENT_TYPES) {
            return bad(check, at, "group.type", 255, type, "an unused place,");
        }
        for (int n = 0; n < 5; n++) {
            if (place[n] != wanted[n])
                return bad(check, at, "group", (double)wanted[n], (double)place[n],
                           "a copy of its segment,");
        }
        int code = type < PV_SEGMENT_TYPES ? check_place(check, scene, g, i) : PV_OK;
        if (code)
            return code;
    }
    return PV_OK;
}

static int check_groups(const checker* check, const drive_scene* scene) {
    int code = PV_OK;
    for (uint32_t g = 0; !code && g < scene->group_count; g++)
        code = check_group(check, scene, g);
    return code;
}

// Computes zlib's CRC-32, eight bytes at a time (Kounavis and Berry 2005, "slicing by 8").
static uint32_t crc32_of(const uint8_t* data, uint64_t bytes) {
    uint32_t table[8][256], crc = 0xFFFFFFFFu;
    for (uint32_t i = 0; i < 256; i++) {
        table[0][i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[0][i] = (table[0][i] >> 1) ^ (table[0][i] & 1 ? 0xEDB88320u : 0);
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++)
            table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 255];
    }
    for (; bytes >= 8; bytes -= 8, data += 8) {
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^
              table[4][low >> 24] ^ table[3][high & 255] ^ table[2][high >> 8 & 255] ^
              table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; bytes; bytes--, data++)
        crc = (crc >> 8) ^ table[0][(crc ^ *data) & 255];
    return crc ^ 0xFFFFFFFFu;
}

static int check_entry(checker* check, uint32_t scene_index) {
    const pv_scene_entry* entry = drive_entry(check->data, scene_index);
    uint64_t heads =
        sizeof(pv_scene_set) + (uint64_t)drive_set(check->data)->scene_count * sizeof *entry;
    check->scene = scene_index;
    check->base = (uint64_t)((const uint8_t*)entry - check->data);
    uint64_t least = check->end > heads ? check->end : heads;
    if (entry->offset % ALIGNMENT || entry->offset < least || entry->offset > check->bytes)
        return bad(check, 0, "entry.offset", (double)least, (double)entry->offset,
                   "a multiple of 64 within the set, at least");
    if (entry->bytes < sizeof(pv_scene) || entry->bytes > check->bytes - entry->offset)
        return bad(check, 8, "entry.bytes", (double)(check->bytes - entry->offset),
                   (double)entry->bytes, "a scene's head and at most");
    if (entry->bytes > PV_MOST_SCENE_BYTES)
        return bad(check, 8, "entry.bytes", PV_MOST_SCENE_BYTES, (double)entry->bytes, "at most");
    if (!memchr(entry->name, 0, PV_SCENE_NAME_BYTES))
        return bad(check, 0, "entry.name", 0.0, 1.0, "a name that ends with byte");
    check->end = entry->offset + entry->bytes;
    check->base = entry->offset;
    check->scene_bytes = entry->bytes;
    const pv_scene* head = (const pv_scene*)(const void*)(check->data + check->base);
    int code = check_head(check, head);
    return code ? code : check_sections(check, head);
}

int pv_drive_scenes_check(const uint8_t* data, uint64_t bytes, char* text) {
    int code = check_set_head(data, bytes, text);
    checker check = {.data = data, .bytes = bytes, .text = text};
    for (uint32_t i = 0; !code && i < drive_set(data)->scene_count; i++) {
        drive_scene scene;
        code = check_entry(&check, i);
        if (code)
            break;
        drive_scene_open(data, i, &scene);
        code = check_objects(&check, &scene);
    }
    return code;
}

int pv_drive_scene_check(
    const uint8_t* data, uint64_t bytes, uint32_t scene_index, int with_sum, char* text) {
    const pv_scene_entry* entry = drive_entry(data, scene_index);
    checker check = {.data = data, .bytes = bytes, .text = text, .scene = scene_index};
    check.base = (uint64_t)((const uint8_t*)entry - data);
    uint32_t sum = with_sum ? crc32_of(data + entry->offset, entry->bytes) : entry->crc32;
    if (sum != entry->crc32)
        return bad(&check, offsetof(pv_scene_entry, crc32), "entry.crc32", entry->crc32, sum,
                   "the sum of the scene's bytes,");
    check.base = entry->offset;
    check.scene_bytes = entry->bytes;
    drive_scene scene;
    drive_scene_open(data, scene_index, &scene);
    int code = check_numbers(&check, scene.head);
    if (!code)
        code = check_segments(&check, &scene);
    if (!code)
        code = check_frames(&check, &scene);
    if (!code)
        code = check_cells(&check, &scene);
    if (!code)
        code = check_lanes(&check, &scene);
    if (!code)
        code = check_controls(&check, &scene);
    if (!code)
        code = check_areas(&check, &scene);
    if (!code)
        code = check_groups(&check, &scene);
    return code;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The compiled form of driving scenes: one read-only file (or memory block) that every worker maps, so that a scene costs
// memory once per machine and not once per env. Written by drive_env/scenes/compile.py with the help of index.c, read by
// drive.c.
//
//   | pv_scene_set | scene_count x pv_scene_entry | scene 0 | scene 1 | ...        each scene starts on 64 bytes
//
//   scene: | pv_scene | pv_object[] | pv_frame[] | segments: x[] y[] ux[] uy[] half[] (float) | kind[] polyline[] |
//          | pv_cell[] | candidates[] (uint16) |                                   each array starts on 64 bytes
//
// Coordinates are metres relative to the scene's origin (the mean of its points), so that float32 keeps millimetres. Headings
// are radians in [-pi, pi), counter-clockwise from +x. All integers are little-endian. Offsets count from the start of the
// scene.
#pragma once

#include "../base.h"

/* [cffi] */
#define PV_SCENE_MAGIC 0x53565650u // "PVVS"
#define PV_SCENE_VERSION 1
#define PV_SCENE_NAME_BYTES 64

// Segment types, in this order in the segment arrays.
#define PV_LANE 0
#define PV_LINE 1
#define PV_EDGE 2
#define PV_SEGMENT_TYPES 3

// Object types.
#define PV_VEHICLE 0
#define PV_PEDESTRIAN 1
#define PV_CYCLIST 2
#define PV_OTHER 3

#define PV_OBJECT_EXPERT 1         // marked as expert by the data set: never controlled
#define PV_OBJECT_VALID_AT_START 2 // valid in frame 0
#define PV_OBJECT_MOVES 4          // its goal is at least 2 m from its start

#define PV_FRAME_INVALID (-32768) // pv_frame.speed of a frame in which the object is not there

typedef struct pv_scene_set {
    uint32_t magic;
    uint32_t version;
    uint64_t bytes; // of the whole file
    uint32_t crc32; // zlib's, of everything behind this head
    uint32_t scene_count;
    uint32_t index_k[PV_SEGMENT_TYPES]; // the cell index gives the exact k nearest up to this k, per type
    float index_range_m;                // ... among segments within this range
    uint32_t unused[6];
} pv_scene_set; // 64 bytes

typedef struct pv_scene_entry {
    uint64_t offset; // from the start of the set
    uint64_t bytes;
    uint32_t moving_vehicles; // vehicles controlled by default: valid at start, not expert, MOVES
    uint32_t valid_vehicles;  // vehicles valid at start
    uint32_t object_count;
    uint32_t unused;
    char name[PV_SCENE_NAME_BYTES]; // file name without folder, NUL-terminated, cut if longer
} pv_scene_entry;                   // 96 bytes

typedef struct pv_scene {
    double origin_x, origin_y; // world frame, metres: world = origin + local
    float dt_s;                // time between frames
    uint32_t frame_count;      // T, at least 2
    uint32_t object_count;
    uint32_t segment_count[PV_SEGMENT_TYPES];
    // Uniform grid over the scene; cell (ix, iy) covers [x0 + ix*cell_m, x0 + (ix+1)*cell_m) x likewise.
    float grid_x0_m, grid_y0_m, cell_m;
    uint32_t grid_nx, grid_ny;
    uint32_t candidate_count;
    // byte offsets from the start of the scene
    uint64_t objects_offset;                                        // pv_object[object_count]
    uint64_t frames_offset;                                         // pv_frame[]
    uint64_t x_offset, y_offset, ux_offset, uy_offset, half_offset; // float[segments]: midpoint, unit direction, half length
    uint64_t kind_offset;       // uint8_t[segments]: map_element_id of the road, 255 if it has none
    uint64_t polyline_offset;   // uint16_t[segments]: consecutive segments of one polyline share a number
    uint64_t cells_offset;      // pv_cell[grid_nx*grid_ny]
    uint64_t candidates_offset; // uint16_t[candidate_count]: segment indices, ascending within each type
} pv_scene;

typedef struct pv_object {
    float width_m, length_m, height_m;
    float goal_x_m, goal_y_m;
    uint32_t frames_index; // its first pv_frame in the frames array
    uint16_t frame_first;  // frames exist for [frame_first, frame_first + frame_count)
    uint16_t frame_count;
    uint8_t type;  // PV_VEHICLE...
    uint8_t flags; // PV_OBJECT_...
    uint16_t unused;
    int32_t id; // the data set's track id, -1 if it has none
} pv_object;

typedef struct pv_frame {
    float x_m, y_m;
    int16_t heading; // radians * 32768 / pi
    int16_t speed;   // signed, along the heading, cm/s; PV_FRAME_INVALID: not there
} pv_frame;

// Candidates of one cell: for any point of the cell they contain the k nearest segments of each type within the index range.
// A cell without candidates of any kind that is marked PV_CELL_EMPTY was left out of the index: scan all segments instead.
typedef struct pv_cell {
    uint32_t first;                   // in candidates; PV_CELL_EMPTY: not indexed
    uint16_t count[PV_SEGMENT_TYPES]; // lanes, then lines, then edges
    uint16_t unused;
} pv_cell;
#define PV_CELL_EMPTY 0xFFFFFFFFu

// Checks a whole set: magic, version, sizes, counts, offsets, index ranges, finite numbers. After PV_OK every accessor stays
// within the set's bytes. PV_ERROR_DATA comes with a text (PV_ERROR_TEXT bytes) that names the byte, the field, what was
// expected and found. The checksum is left to the reader of the file. Runs in the learner, once per set.
int pv_drive_scenes_check(const uint8_t* data, uint64_t bytes, char* text);
/* [/cffi] */

// One scene of a checked set, its offsets resolved. Points into the set.
typedef struct drive_scene {
    const pv_scene* head;
    const pv_object* objects;
    const pv_frame* frames;
    const float *x, *y, *ux, *uy, *half; // (segments,)
    const pv_cell* cells;
    const uint16_t* candidates;
    uint32_t first[PV_SEGMENT_TYPES + 1]; // segments of type t are [first[t], first[t + 1])
    uint32_t index_k[PV_SEGMENT_TYPES];
    float index_range_m;
    float cells_per_m;
} drive_scene;

static inline const pv_scene_set* drive_set(const uint8_t* data) { return (const pv_scene_set*)(const void*)data; }

static inline const pv_scene_entry* drive_entry(const uint8_t* data, uint32_t scene) {
    return (const pv_scene_entry*)(const void*)(data + sizeof(pv_scene_set)) + scene;
}

void drive_scene_open(const uint8_t* data, uint32_t scene, drive_scene* out);

// The object's frame at time t, or NULL if it is not there.
static inline const pv_frame* drive_frame(const drive_scene* scene, const pv_object* object, uint32_t t) {
    if (t < object->frame_first || t - object->frame_first >= object->frame_count) return NULL;
    const pv_frame* frame = &scene->frames[object->frames_index + (t - object->frame_first)];
    return frame->speed == PV_FRAME_INVALID ? NULL : frame;
}

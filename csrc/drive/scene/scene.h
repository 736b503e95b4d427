// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Compiled driving scenes, the format of .pvs files: one read-only file (or memory block) that
// every worker maps, so that a scene costs memory once per machine and not once per env. Written by
// drive_env/scenes/compile.py and sceneset.py with the help of index.c, read by drive.c.
// docs/pvs.md describes it for those who read or write such files.
//
//   file:   | pv_scene_set | scene_count x pv_scene_entry | scene 0 | scene 1 | ...
//   scene:  | pv_scene with a table of sections | section | section | ...
//
// Each scene and each section starts on 64 bytes.
//
// Coordinates are metres relative to the scene's origin (the mean of its points), so that float32
// keeps millimetres; heights are relative to origin_z. Headings are radians in [-pi, pi),
// counter-clockwise from +x. All numbers are little-endian. Offsets of scenes count from the start
// of the file, those of sections from the start of their scene.
#pragma once

#include "contract/base.h"

/* [cffi] */
#define PV_SCENE_MAGIC 0x53565650u // "PVVS"
#define PV_SCENE_VERSION 2
#define PV_SCENE_NAME_BYTES 64
#define PV_SCENE_SECTIONS 25 // sections of a scene, in the order of DRIVE_SECTIONS below

#define PV_SCENE_HAS_HEIGHT 1 // heights are known; else they are all 0
#define PV_SCENE_LEVELS \
    2 // heights in one place differ so much that contacts depend on them (set by the compiler)
#define PV_SCENE_LANES_INFERRED \
    4 // the source has no connectivity: exits, entries and neighbours of lanes come from geometry

// Segment types, in this order in the segment arrays.
#define PV_LANE 0
#define PV_LINE 1
#define PV_EDGE 2
#define PV_SEGMENT_TYPES 3
#define PV_GROUP_LANES 16
#define PV_MOST_HALF_M 100 // half the length of a segment
#define PV_MOST_SCENE_BYTES \
    1073741824 // a scene is checked without a break, at about a second per gigabyte

// Object types.
#define PV_VEHICLE 0
#define PV_PEDESTRIAN 1
#define PV_CYCLIST 2
#define PV_OTHER 3

#define PV_OBJECT_EXPERT 1         // marked as expert by the data set: never controlled
#define PV_OBJECT_VALID_AT_START 2 // valid in frame 0
#define PV_OBJECT_MOVES 4          // its goal is at least 2 m from its start
#define PV_OBJECT_TO_PREDICT 8     // one of the data set's tracks to predict
#define PV_OBJECT_OF_INTEREST 16   // one of its objects of interest
#define PV_OBJECT_SDC 32           // the self-driving car

// Things that tell traffic to stop, and their states. The low three bits of a state say which
// colour it shows.
#define PV_STOP_SIGN 0
#define PV_TRAFFIC_LIGHT 1
#define PV_YIELD_SIGN 2
#define PV_STATE_UNKNOWN 0
#define PV_STATE_RED 1
#define PV_STATE_YELLOW 2
#define PV_STATE_GREEN 3
#define PV_STATE_OFF 4
#define PV_STATE_COLOUR 7    // mask of the above
#define PV_STATE_ARROW 8     // an arrow shows it
#define PV_STATE_FLASHING 16 // it flashes

// Areas.
#define PV_CROSSWALK 0
#define PV_SPEED_BUMP 1
#define PV_DRIVEWAY 2

#define PV_FRAME_INVALID (-32768) // pv_frame.speed of a frame without the object
#define PV_NO_LANE 0xFFFF

typedef struct pv_scene_set {
    uint32_t magic;
    uint32_t version;
    uint64_t bytes; // of the whole file
    uint32_t crc32; // zlib's, of this head (with 0 here) and the entries
    uint32_t scene_count;
    uint32_t index_k[PV_SEGMENT_TYPES]; // the cell index gives the exact k nearest up to this k,
                                        // per type
    float index_range_m;                // ... among segments within this range
    float simplify_m; // no point of a lane or line in the source is farther from its segments than
                      // this
    float simplify_edges_m; // the same for road edges
    float split_m;          // longest segment
    uint32_t unused[3];
} pv_scene_set; // 64 bytes

typedef struct pv_scene_entry {
    uint64_t offset; // from the start of the set
    uint64_t bytes;
    uint32_t crc32;           // zlib's, of the scene's bytes
    uint32_t moving_vehicles; // vehicles controlled by default: valid at start, not expert, MOVES
    uint32_t valid_vehicles;  // vehicles valid at start
    uint32_t object_count;
    char name[PV_SCENE_NAME_BYTES]; // file name without folder, NUL-terminated, cut if longer
} pv_scene_entry;                   // 96 bytes

typedef struct pv_section {
    uint64_t offset; // from the start of the scene, a multiple of 64
    uint64_t count;  // elements
} pv_section;

typedef struct pv_scene {
    double origin_x, origin_y, origin_z; // world frame, metres: world = origin + local
    float dt_s;                          // time between frames
    uint32_t frame_count;                // T, at least 1
    uint32_t flags;                      // PV_SCENE_HAS_HEIGHT...
    int32_t sdc;                         // index of the self-driving car in objects, or -1
    uint32_t object_count;
    uint32_t segment_count[PV_SEGMENT_TYPES];
    // Uniform grid over the scene; cell (ix, iy) covers [x0 + ix*cell_m, x0 + (ix+1)*cell_m) in x,
    // and the same in y.
    float grid_x0_m, grid_y0_m, cell_m;
    uint32_t grid_nx, grid_ny;
    uint32_t unused;
    pv_section sections[PV_SCENE_SECTIONS];
} pv_scene;

typedef struct pv_object {
    float width_m, length_m, height_m;
    float goal_x_m, goal_y_m, goal_z_m;
    uint32_t frames_index; // its first pv_frame in the frames section
    uint16_t frame_first;  // frames exist for [frame_first, frame_first + frame_count)
    uint16_t frame_count;
    uint8_t type;  // PV_VEHICLE...
    uint8_t flags; // PV_OBJECT_...
    uint16_t unused;
    int32_t id; // the data set's track id, -1 if it has none
} pv_object;

typedef struct pv_frame {
    float x_m, y_m, z_m; // centre of the box
    int16_t heading;     // radians * 32768 / pi
    int16_t speed;       // signed, along the heading, cm/s; PV_FRAME_INVALID: not there
} pv_frame;

// Neighbouring segments of all types, an array per number; all segments of a scene are in groups
// once. Unused places of the last group have a half length of -1e6.
typedef struct pv_road_group {
    float x[PV_GROUP_LANES], y[PV_GROUP_LANES], ux[PV_GROUP_LANES], uy[PV_GROUP_LANES],
        half[PV_GROUP_LANES];
    int32_t type[PV_GROUP_LANES];     // PV_LANE...; 255: unused
    uint16_t segment[PV_GROUP_LANES]; // its index in the arrays of segments
    uint16_t unused[PV_GROUP_LANES];
} pv_road_group; // 448 bytes

// Candidates of one cell: for any point of the cell they contain the k nearest segments of each
// type within the index range. A cell without candidates of any kind that is marked PV_CELL_EMPTY
// was left out of the index: scan all segments instead.
typedef struct pv_cell {
    uint32_t first;                   // in candidates; PV_CELL_EMPTY: not indexed
    uint16_t count[PV_SEGMENT_TYPES]; // lanes, then lines, then edges
    uint16_t unused;
} pv_cell;

#define PV_CELL_EMPTY 0xFFFFFFFFu

// One lane: consecutive segments of type PV_LANE, which have its index as their polyline number.
typedef struct pv_lane {
    uint32_t first_segment, segment_count; // at least 1
    float length_m;
    float speed_limit_mps; // 0: unknown
    uint32_t exits;        // first in links: lanes that continue from its end
    uint32_t entries;      // first in links: lanes that end where it starts
    uint16_t exit_count, entry_count;
    uint16_t left, right; // lanes next to it in the same direction, or PV_NO_LANE
    int32_t id;           // the data set's, -1 if it has none
    uint8_t kind;         // as in the section `kind`
    uint8_t unused[3];
} pv_lane;

// One stop sign, yield sign or traffic light, and the lane that it holds for. A light for several
// lanes is one control each.
typedef struct pv_control {
    float x_m, y_m, z_m; // where a sign stands; the stop point of a light
    float heading;       // of the traffic that it stops, rad
    float line_x0_m, line_y0_m, line_x1_m,
        line_y1_m;        // ends of the stop line, from left to right; no length: not known
    uint32_t states;      // its first entry in states
    uint32_t state_count; // frame_count, or 1: always the same
    uint16_t lane;        // or PV_NO_LANE
    uint8_t kind;         // PV_STOP_SIGN...
    uint8_t unused;
    int32_t id; // of a sign: the map element's; of a light: the lane's in the data set; -1 if there
                // is none
} pv_control;

// A polygon without its closing point.
typedef struct pv_area {
    uint32_t first, count; // in points_x, points_y and points_z
    int32_t id;            // the data set's, -1 if it has none
    uint8_t kind;          // PV_CROSSWALK...
    uint8_t unused[3];
} pv_area;

// The name and element size of each section, in the order of pv_scene.sections.
typedef struct pv_section_info {
    const char* name;
    uint32_t element_bytes;
} pv_section_info;

const pv_section_info* pv_drive_sections(uint32_t* count);

// Checks of a set, in two depths, since a file may have gigabytes. PV_ERROR_DATA comes with a text
// (PV_ERROR_TEXT bytes) that names the byte, the field, the value and what was expected.
//
// Checks a set at the start, in the learner: magic, version, sizes, entries, and of each scene its
// sections and objects. After PV_OK scenes can be opened and their objects counted.
int pv_drive_scenes_check(const uint8_t* data, uint64_t bytes, char* text);
// Checks a scene of such a set before it is driven for the first time, in each worker: its checksum
// and all its contents. After PV_OK every accessor stays within the scene's bytes, and all numbers
// are finite. with_sum 0: skips the checksum.
int pv_drive_scene_check(
    const uint8_t* data, uint64_t bytes, uint32_t scene, int with_sum, char* text);
/* [/cffi] */

// X(name, type): the sections of a scene. Arrays of segments hold lanes, then lines, then edges.
#define DRIVE_SECTIONS(X) \
    X(objects, pv_object) \
    X(frames, pv_frame) \
    X(x, float) /* segments: midpoint */ \
    X(y, float) \
    X(z, float) \
    X(ux, float) /* segments: unit direction in the plane */ \
    X(uy, float) \
    X(slope, float)       /* segments: rise per metre in that direction */ \
    X(half, float)        /* segments: half length in the plane */ \
    X(kind, uint8_t)      /* segments: map_element_id of the road, 255 if it has none */ \
    X(polyline, uint16_t) /* segments: consecutive ones of one polyline share a number; that of a \
                             lane is its index */ \
    X(cells, pv_cell)     /* grid_nx * grid_ny */ \
    X(candidates, uint16_t) /* segment indices, ascending within each type */ \
    X(lanes, pv_lane) \
    X(links, uint16_t) /* lane indices: exits and entries */ \
    X(controls, pv_control) \
    X(states, uint8_t) /* of controls: PV_STATE_... */ \
    X(areas, pv_area) \
    X(points_x, float) /* of areas */ \
    X(points_y, float) \
    X(points_z, float) \
    X(text, \
      uint8_t) /* JSON in UTF-8: names, metadata, what the compiler left out (docs/pvs.md) */ \
    X(boxes, \
      float) /* low x, low y, high x, high y of all groups, (4, n rounded up to PV_GROUP_LANES) */ \
    X(groups, pv_road_group) /* n = segments / PV_GROUP_LANES, rounded up */ \
    X(rows, float) /* of groups, 8 a segment: x, y, half length, 1, ux, uy, type, angle of u; \
                      unused ones are 0 */

enum {

#define SECTION(name, type) DRIVE_SECTION_##name,
    DRIVE_SECTIONS(SECTION)
#undef SECTION
        DRIVE_SECTION_COUNT
};
_Static_assert(DRIVE_SECTION_COUNT == PV_SCENE_SECTIONS, "one entry in pv_scene.sections for each");

// One scene of a checked set, with pointers into the set.
typedef struct drive_scene {
    const pv_scene* head;
#define SECTION(name, type) const type* name;
    DRIVE_SECTIONS(SECTION)
#undef SECTION
    uint32_t first[PV_SEGMENT_TYPES + 1]; // segments of type t are [first[t], first[t + 1])
    uint32_t group_count, box_stride;
    uint32_t index_k[PV_SEGMENT_TYPES];
    float index_range_m;
    float cells_per_m;
} drive_scene;

static inline const pv_scene_set* drive_set(const uint8_t* data) {
    return (const pv_scene_set*)(const void*)data;
}

static inline const pv_scene_entry* drive_entry(const uint8_t* data, uint32_t scene) {
    return (const pv_scene_entry*)(const void*)(data + sizeof(pv_scene_set)) + scene;
}

void drive_scene_open(const uint8_t* data, uint32_t scene, drive_scene* out);

// Returns whether contacts depend on heights.
static inline int drive_has_levels(const drive_scene* scene) {
    return (scene->head->flags & PV_SCENE_LEVELS) != 0;
}

// Returns the object's frame at time t, or NULL if it has none.
static inline const pv_frame* drive_frame(const drive_scene* scene,
                                          const pv_object* object,
                                          uint32_t t) {
    if (t < object->frame_first || t - object->frame_first >= object->frame_count)
        return NULL;
    const pv_frame* frame = &scene->frames[object->frames_index + (t - object->frame_first)];
    return frame->speed == PV_FRAME_INVALID ? NULL : frame;
}

// Returns what a control shows at time t: PV_STATE_RED...
static inline int drive_state(const drive_scene* scene, const pv_control* control, uint32_t t) {
    uint32_t last = control->state_count - 1;
    return scene->states[control->states + (t < last ? t : last)] & PV_STATE_COLOUR;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The bird's-eye view of an agent: a picture of bytes, one plane of size x size pixels per channel
// (DRIVE_COLUMNS_channel in tables.h), centred on the car and turned with it. Row 0 is farthest
// ahead, column 0 farthest to the left. It is drawn directly into the observation row.
//
// Fill rule: a pixel is set if the object touches it; nothing is blended. Points are first rounded
// down to 1/64 of a pixel. From then on all arithmetic is on integers: in each row of pixels that a
// shape reaches, the pixels from its leftmost to its rightmost point within that row are set. So
// nothing is too thin or too small to be seen, and outlines have no gaps.
// tests/twins/drive_raster.py does the same in NumPy.
#include "drive/observe/raster.h"

#include "contract/base.h"
#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"
#include "envs/kernels.h"

#include <limits.h>
#include <string.h>

#define UNIT_BITS 6
#define UNIT (1 << UNIT_BITS) // units of a point per pixel
#define PIECE 64              // number of segments that are processed together
#define SET 255
#define HINT 128 // value of the straight line to the goal, and of places where cars must yield

typedef struct point {
    int32_t u, v; // units from the picture's upper left corner: to the right, and down
} point;

// The picture, and how the scene maps to it.
typedef struct canvas {
    uint8_t* planes;
    int32_t size;              // pixels of a side
    float x, y, cosine, sine;  // of the car, scene frame
    float units_per_m, u0, v0; // u0, v0: units of the car's centre
    float middle_x, middle_y;  // of the picture, scene frame
    float radius;              // m, of a circle around the picture
} canvas;

// Columns that a shape covers in the rows first to last: from low[row] to high[row], in units.
typedef struct extent {
    int32_t first, last;
    int32_t low[DRIVE_MAX_RASTER], high[DRIVE_MAX_RASTER];
} extent;

// ---- shapes in integers ----

PV_INLINE int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

PV_INLINE int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

PV_INLINE int32_t pixel_of(int32_t units) {
    return units >> UNIT_BITS;
} // rounds down

PV_INLINE int64_t divide_down(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
} // b > 0

PV_INLINE uint8_t* plane_of(const canvas* at, uint32_t channel) {
    return at->planes + (uint64_t)channel * (uint64_t)at->size * (uint64_t)at->size;
}

PV_INLINE void fill(const canvas* at, const extent* shape, uint32_t channel, uint8_t value) {
    uint8_t* plane = plane_of(at, channel);
    for (int32_t row = shape->first; row <= shape->last; row++) {
        int32_t first = larger(pixel_of(shape->low[row]), 0),
                last = smaller(pixel_of(shape->high[row]), at->size - 1);
        if (first <= last)
            memset(plane + row * at->size + first, value, (size_t)(last - first + 1));
    }
}

// Adds the part of a row that a side covers to a shape, or sets its pixels immediately if there is
// no shape. A line has one or two pixels in most rows.
PV_INLINE void cover(
    extent* shape, uint8_t* plane, int32_t size, uint8_t value, int32_t row, int32_t a, int32_t b) {
    if (shape) {
        shape->low[row] = smaller(shape->low[row], smaller(a, b));
        shape->high[row] = larger(shape->high[row], larger(a, b));
        return;
    }
    int32_t first = larger(pixel_of(smaller(a, b)), 0),
            last = smaller(pixel_of(larger(a, b)), size - 1);
    if (first > last)
        return;
    uint8_t* line = plane + row * size;
    line[first] = line[last] = value;
    if (last - first > 1)
        memset(line + first, value, (size_t)(last - first));
}

// Follows a side from a to b through the rows of the picture. Between two rows of pixels it is at
// a.u + floor((v - a.v) * (b.u - a.u) / (b.v - a.v)), where a is its upper end; the quotient is
// carried from row to row with its remainder.
PV_INLINE void follow(
    point a, point b, extent* shape, uint8_t* plane, int32_t size, uint8_t value) {
    if (a.v > b.v) {
        point upper = b;
        b = a, a = upper;
    }
    const int32_t top = pixel_of(a.v), bottom = pixel_of(b.v), end = smaller(bottom, size - 1);
    int32_t row = larger(top, 0), u = a.u;
    if (row > end)
        return;
    if (top == bottom) {
        cover(shape, plane, size, value, row, a.u, b.u);
        return;
    }
    const int64_t across = (int64_t)b.u - a.u, down = (int64_t)b.v - a.v;
    const int64_t step = divide_down(UNIT * across, down), step_rest = UNIT * across - step * down;
    const int64_t leaves =
        ((int64_t)(row + 1) * UNIT - a.v) * across; // where it leaves this row, times `down`
    int64_t next = divide_down(leaves, down), rest = leaves - next * down;
    if (row > top)
        u = (int32_t)(a.u + next - step - (rest < step_rest)); // where it came into this row
    for (; row <= end; row++) {
        int32_t out = row == bottom ? b.u : (int32_t)(a.u + next);
        cover(shape, plane, size, value, row, u, out);
        u = out;
        next += step;
        rest += step_rest;
        next += rest >= down;
        rest -= rest >= down ? down : 0;
    }
}

static void draw_box(const canvas* at, const point corners[4], uint32_t channel, uint8_t value) {
    extent shape;
    int32_t top = smaller(smaller(corners[0].v, corners[1].v), smaller(corners[2].v, corners[3].v));
    int32_t bottom = larger(larger(corners[0].v, corners[1].v), larger(corners[2].v, corners[3].v));
    shape.first = larger(pixel_of(top), 0);
    shape.last = smaller(pixel_of(bottom), at->size - 1);
    for (int32_t row = shape.first; row <= shape.last; row++)
        shape.low[row] = INT_MAX, shape.high[row] = INT_MIN;
    for (int i = 0; i < 4; i++)
        follow(corners[i], corners[(i + 1) % 4], &shape, NULL, at->size, value);
    fill(at, &shape, channel, value);
}

static void draw_line(const canvas* at, point a, point b, uint8_t* plane, uint8_t value) {
    follow(a, b, NULL, plane, at->size, value);
}

static void draw_disc(
    const canvas* at, point centre, int32_t radius, uint32_t channel, uint8_t value) {
    extent shape;
    shape.first = larger(pixel_of(centre.v - radius), 0);
    shape.last = smaller(pixel_of(centre.v + radius), at->size - 1);
    for (int32_t row = shape.first; row <= shape.last; row++) {
        int64_t off = larger(larger(row * UNIT - centre.v, centre.v - (row + 1) * UNIT),
                             0); // of the row's nearest line
        int32_t half = (int32_t)__builtin_sqrt(
            (double)((int64_t)radius * radius - off * off)); // exact: below 2^52
        shape.low[row] = centre.u - half;
        shape.high[row] = centre.u + half;
    }
    fill(at, &shape, channel, value);
}

// ---- from the scene to the picture ----

#define FARTHEST 1e9f // units; what is in the picture is nearer

PV_INLINE int32_t round_down(float v) {
    int32_t whole = (int32_t)v;
    return whole - (v < (float)whole);
}

// Returns the point that lies `ahead` and `left` metres from the car's centre, in units of the
// picture.
PV_INLINE point point_at(const canvas* at, float ahead, float left) {
    return (point){round_down(at->u0 - left * at->units_per_m),
                   round_down(at->v0 - ahead * at->units_per_m)};
}

static canvas canvas_of(const pv_drive_config* config, const drive_pose* pose, uint8_t* planes) {
    float size = (float)config->raster, half_m = 0.5f * size * config->raster_pixel_m;
    float middle_ahead = (2.0f * config->raster_ahead - 1.0f) * half_m;
    return (canvas){.planes = planes,
                    .size = config->raster,
                    .x = pose->x,
                    .y = pose->y,
                    .cosine = pose->cosine,
                    .sine = pose->sine,
                    .units_per_m = (float)UNIT / config->raster_pixel_m,
                    .u0 = 0.5f * size * (float)UNIT,
                    .v0 = config->raster_ahead * size * (float)UNIT,
                    .middle_x = pose->x + middle_ahead * pose->cosine,
                    .middle_y = pose->y + middle_ahead * pose->sine,
                    .radius = 1.4143f * half_m +
                              2.0f * config->raster_pixel_m}; // sqrt(2), and room for rounding
}

// Computes the ends of `n` segments, starting with segment `base`, in units: u, v of one end, then
// of the other. Values of segments far from the picture are undefined.
PV_INLINE void place_ends(const canvas* at,
                          const drive_scene* scene,
                          uint32_t base,
                          uint32_t n,
                          int32_t (*restrict ends)[PIECE]) {
    const float *x = scene->x + base, *y = scene->y + base, *ux = scene->ux + base,
                *uy = scene->uy + base;
    const float *half = scene->half + base, car_x = at->x, car_y = at->y, c = at->cosine,
                s = at->sine;
    const float u0 = at->u0, v0 = at->v0, units_per_m = at->units_per_m;
    float places[4][PIECE];
    PV_APART
    for (uint32_t i = 0; i < n; i++) {
        float dx = x[i] - car_x, dy = y[i] - car_y;
        float ahead = dx * c + dy * s, left = dy * c - dx * s;
        float along = (ux[i] * c + uy[i] * s) * half[i], aside = (uy[i] * c - ux[i] * s) * half[i];
        places[0][i] = drive_clamp(u0 - (left - aside) * units_per_m, -FARTHEST, FARTHEST);
        places[1][i] = drive_clamp(v0 - (ahead - along) * units_per_m, -FARTHEST, FARTHEST);
        places[2][i] = drive_clamp(u0 - (left + aside) * units_per_m, -FARTHEST, FARTHEST);
        places[3][i] = drive_clamp(v0 - (ahead + along) * units_per_m, -FARTHEST, FARTHEST);
    }
    for (int k = 0; k < 4; k++) {
        PV_APART
        for (uint32_t i = 0; i < n; i++)
            ends[k][i] = round_down(places[k][i]);
    }
}

// Draws the segments of a type. Neighbours in the list are neighbours in the scene, so most pieces
// of it are skipped as a whole: none of the circles around their segments touches the circle around
// the picture.
PV_CLONES static void draw_segments(const canvas* at,
                                    const drive_scene* scene,
                                    int type,
                                    uint32_t channel) {
    uint8_t* plane = plane_of(at, channel);
    const int32_t limit = at->size * UNIT;
    for (uint32_t base = scene->first[type]; base < scene->first[type + 1]; base += PIECE) {
        uint32_t n = scene->first[type + 1] - base < PIECE ? scene->first[type + 1] - base : PIECE,
                 hits = 0;
        int32_t ends[4][PIECE];
        uint32_t list[PIECE], count = 0;
        for (uint32_t i = 0; i < n; i++) {
            float dx = scene->x[base + i] - at->middle_x, dy = scene->y[base + i] - at->middle_y;
            float reach = at->radius + scene->half[base + i];
            hits += (uint32_t)(dx * dx + dy * dy <= reach * reach);
        }
        if (!hits)
            continue;
        place_ends(at, scene, base, n, ends);
        for (uint32_t i = 0; i < n; i++) {
            list[count] = i;
            count += (uint32_t)((larger(ends[0][i], ends[2][i]) >= 0) &
                                (larger(ends[1][i], ends[3][i]) >= 0) &
                                (smaller(ends[0][i], ends[2][i]) < limit) &
                                (smaller(ends[1][i], ends[3][i]) < limit));
        }
        for (uint32_t k = 0; k < count; k++) {
            uint32_t i = list[k];
            draw_line(at, (point){ends[0][i], ends[1][i]}, (point){ends[2][i], ends[3][i]}, plane,
                      SET);
        }
    }
}

// An object is as bright as it is fast: 128 where it stands, 4 more for each m/s along its heading.
static uint8_t brightness(float speed) {
    return (uint8_t)(drive_clamp(128.0f + 4.0f * speed, 1.0f, 255.0f) + 0.5f);
}

static void draw_body(const canvas* at, const drive_bodies* bodies, uint32_t i, uint32_t channel) {
    float dx = bodies->x[i] - at->x, dy = bodies->y[i] - at->y;
    float ahead = dx * at->cosine + dy * at->sine, left = dy * at->cosine - dx * at->sine;
    float cosine = bodies->cosine[i] * at->cosine + bodies->sine[i] * at->sine;
    float sine = bodies->sine[i] * at->cosine - bodies->cosine[i] * at->sine;
    float along = bodies->half_length[i] * cosine,
          aside = bodies->half_length[i] * sine; // to the middle of its front
    float back = bodies->half_width[i] * sine,
          side = bodies->half_width[i] * cosine; // ... of its left side: -back, side
    const point corners[4] = {point_at(at, ahead + along - back, left + aside + side),
                              point_at(at, ahead + along + back, left + aside - side),
                              point_at(at, ahead - along + back, left - aside - side),
                              point_at(at, ahead - along - back, left - aside + side)};
    draw_box(at, corners, channel, brightness(bodies->speed[i]));
}

static void draw_bodies(const canvas* at, const drive_turn* turn, uint32_t row) {
    static const uint32_t channels[] = {
        [PV_VEHICLE] = DRIVE_channel_vehicles,
        [PV_PEDESTRIAN] = DRIVE_channel_pedestrians,
        [PV_CYCLIST] = DRIVE_channel_cyclists,
        [PV_OTHER] = DRIVE_channel_others,
    };
    const drive_bodies* bodies = &turn->scratch.bodies;
    const drive_agents* agents = &turn->agents;
    if (agents->flags[row] & DRIVE_ALONE) {
        float half_length = 0.5f * agents->length[row], half_width = 0.5f * agents->width[row];
        const drive_bodies own = {.x = agents->x + row,
                                  .y = agents->y + row,
                                  .cosine = agents->cosine + row,
                                  .sine = agents->sine + row,
                                  .speed = agents->speed + row,
                                  .half_length = &half_length,
                                  .half_width = &half_width};
        draw_body(at, &own, 0, DRIVE_channel_own);
        return;
    }
    for (uint32_t i = 0; i < bodies->count; i++) {
        float dx = bodies->x[i] - at->middle_x, dy = bodies->y[i] - at->middle_y,
              reach = at->radius + bodies->radius[i];
        if (dx * dx + dy * dy > reach * reach)
            continue;
        int own = bodies->row[i] == (int32_t)row;
        draw_body(at, bodies, i,
                  own ? DRIVE_channel_own : channels[turn->scene.objects[bodies->object[i]].type]);
    }
}

static void draw_goal(const canvas* at, const pv_drive_config* config, float goal_x, float goal_y) {
    float dx = goal_x - at->x, dy = goal_y - at->y, radius = config->goal_radius_m;
    float ahead = dx * at->cosine + dy * at->sine, left = dy * at->cosine - dx * at->sine;
    float distance = drive_sqrt(ahead * ahead + left * left),
          reach = 2.0f * (float)at->size * config->raster_pixel_m;
    float share = distance > reach
                      ? reach / distance
                      : 1.0f; // of the way: its end is outside the picture, and small in units
    const point car = point_at(at, 0.0f, 0.0f), goal = point_at(at, ahead * share, left * share);
    draw_line(at, car, goal, plane_of(at, DRIVE_channel_goal), HINT);
    if (distance <= reach + radius)
        draw_disc(at, point_at(at, ahead, left), round_down(radius * at->units_per_m),
                  DRIVE_channel_goal, SET);
}

// ---- traffic rules ----

static point place_of(const canvas* at, float x, float y) {
    float dx = x - at->x, dy = y - at->y;
    float ahead = dx * at->cosine + dy * at->sine, left = dy * at->cosine - dx * at->sine;
    return (point){round_down(drive_clamp(at->u0 - left * at->units_per_m, -FARTHEST, FARTHEST)),
                   round_down(drive_clamp(at->v0 - ahead * at->units_per_m, -FARTHEST, FARTHEST))};
}

// Where an area is hollow within a row of pixels, it is filled there too.
static void draw_area(const canvas* at,
                      const drive_scene* scene,
                      const pv_area* area,
                      uint32_t channel) {
    const float *x = scene->points_x + area->first, *y = scene->points_y + area->first;
    extent shape;
    int32_t top = INT_MAX, bottom = INT_MIN;
    for (uint32_t i = 0; i < area->count; i++) {
        int32_t v = place_of(at, x[i], y[i]).v;
        top = smaller(top, v);
        bottom = larger(bottom, v);
    }
    shape.first = larger(pixel_of(top), 0);
    shape.last = smaller(pixel_of(bottom), at->size - 1);
    if (shape.first > shape.last)
        return;
    for (int32_t row = shape.first; row <= shape.last; row++)
        shape.low[row] = INT_MAX, shape.high[row] = INT_MIN;
    point from = place_of(at, x[area->count - 1], y[area->count - 1]);
    for (uint32_t i = 0; i < area->count; i++) {
        point to = place_of(at, x[i], y[i]);
        follow(from, to, &shape, NULL, at->size, SET);
        from = to;
    }
    fill(at, &shape, channel, SET);
}

static void draw_control(const canvas* at, const drive_turn* turn, const pv_control* control) {
    static const uint32_t channels[] = {[PV_STATE_RED] = DRIVE_channel_red,
                                        [PV_STATE_YELLOW] = DRIVE_channel_yellow,
                                        [PV_STATE_GREEN] = DRIVE_channel_green};
    const int is_light = control->kind == PV_TRAFFIC_LIGHT,
              state = drive_state(&turn->scene, control, drive_log_frame(turn));
    if (is_light && (state < PV_STATE_RED || state > PV_STATE_GREEN))
        return;
    uint8_t* plane = plane_of(at, is_light ? channels[state] : DRIVE_channel_stops);
    const point left = place_of(at, control->line_x0_m, control->line_y0_m);
    const point right = place_of(at, control->line_x1_m, control->line_y1_m);
    draw_line(at, left, right, plane, control->kind == PV_YIELD_SIGN ? HINT : SET);
}

static void draw_traffic(const canvas* at, const drive_turn* turn) {
    const pv_section* sections = turn->scene.head->sections;
    for (uint64_t i = 0; i < sections[DRIVE_SECTION_areas].count; i++) {
        const pv_area* area = &turn->scene.areas[i];
        if (area->kind == PV_CROSSWALK && area->count)
            draw_area(at, &turn->scene, area, DRIVE_channel_crosswalks);
    }
    for (uint64_t i = 0; i < sections[DRIVE_SECTION_controls].count; i++)
        draw_control(at, turn, &turn->scene.controls[i]);
}

void drive_write_raster(const drive_turn* turn,
                        uint32_t row,
                        const drive_pose* pose,
                        uint8_t* out) {
    const canvas at = canvas_of(turn->config, pose, out);
    // to the end of the row: it may have some bytes more than the picture, so that the next row is
    // aligned
    memset(out, 0,
           turn->block->rows[0].observation_bytes - turn->layout->observed[DRIVE_BLOCK_raster]);
    draw_segments(&at, &turn->scene, PV_EDGE, DRIVE_channel_edges);
    draw_segments(&at, &turn->scene, PV_LINE, DRIVE_channel_lines);
    draw_segments(&at, &turn->scene, PV_LANE, DRIVE_channel_lanes);
    if (turn->config->raster_channels == DRIVE_IS_raster_channels_traffic)
        draw_traffic(&at, turn);
    draw_goal(&at, turn->config, turn->agents.goal_x[row], turn->agents.goal_y[row]);
    draw_bodies(&at, turn, row);
}

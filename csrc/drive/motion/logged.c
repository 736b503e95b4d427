// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Compares an agent with its log: how far it is from the path, and how soon the log is at the goal.
// For the metrics.
#include "drive/motion/logged.h"

#include "drive/scalar.h"
#include "drive/scene/scene.h"
#include "drive/state.h"

// Returns the squared distance from (x, y) to the segment between two frames.
static float square_to(float x, float y, const pv_frame* from, const pv_frame* to) {
    float dx = to->x_m - from->x_m, dy = to->y_m - from->y_m, px = x - from->x_m,
          py = y - from->y_m;
    float length = dx * dx + dy * dy;
    float along = length > 0.0f ? drive_clamp((px * dx + py * dy) / length, 0.0f, 1.0f) : 0.0f;
    float across_x = px - along * dx, across_y = py - along * dy;
    return across_x * across_x + across_y * across_y;
}

float drive_path_distance(const drive_turn* turn, uint32_t row) {
    const pv_object* object = &turn->scene.objects[turn->agents.object[row]];
    const float x = turn->agents.x[row], y = turn->agents.y[row];
    float nearest = __builtin_inff();
    const pv_frame* last = NULL;
    for (uint32_t t = object->frame_first; t < (uint32_t)object->frame_first + object->frame_count;
         t++) {
        const pv_frame* frame = drive_frame(&turn->scene, object, t);
        if (!frame)
            continue;
        nearest = drive_min(nearest, square_to(x, y, last ? last : frame, frame));
        last = frame;
    }
    return last ? drive_sqrt(nearest) : 0.0f;
}

uint32_t drive_log_arrival(const drive_turn* turn, uint32_t row) {
    const pv_object* object = &turn->scene.objects[turn->agents.object[row]];
    const float radius = turn->config->goal_radius_m;
    const uint32_t start = (uint32_t)turn->config->init_step,
                   end = (uint32_t)object->frame_first + object->frame_count;
    for (uint32_t t = start + 1; t < end; t++) {
        const pv_frame* frame = drive_frame(&turn->scene, object, t);
        if (!frame)
            continue;
        float dx = frame->x_m - object->goal_x_m, dy = frame->y_m - object->goal_y_m;
        if (dx * dx + dy * dy <= radius * radius)
            return t - start;
    }
    return 0;
}

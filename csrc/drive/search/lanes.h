// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Routes along the lane graph.
#pragma once

#include "drive/state.h"

#define DRIVE_JOIN_M 10.0f // an agent farther from all lanes has no route to a next goal

// Returns the nearest lane segment within reach_m whose direction differs by at most 45 degrees
// from (cosine, sine) and that is on the level of `ground`, or DRIVE_NO_SEGMENT.
uint32_t drive_lane_segment_at(const drive_turn* turn,
                               float x,
                               float y,
                               float cosine,
                               float sine,
                               float ground,
                               float reach_m);
// Returns the next segment of a random route along the lane graph, or DRIVE_NO_SEGMENT. If a lane
// has several exits, one is drawn, keyed by step, draws and the lane, so that the same key gives
// the same route.
uint32_t drive_lane_segment_after(const drive_turn* turn,
                                  uint32_t segment,
                                  uint32_t step,
                                  uint32_t draws);
// Returns the next segment of the route to a goal, or DRIVE_NO_SEGMENT. If a lane has several
// exits, the route takes the one whose end is nearest to the goal, on ties the first one.
uint32_t drive_lane_segment_towards(const drive_scene* scene,
                                    uint32_t segment,
                                    float goal_x,
                                    float goal_y);
// Returns the share that an agent has covered of the shortest route from its start to its goal, up
// to the point of the route that is nearest to it; below 0 if no route along the lanes leads to the
// goal.
float drive_way_share(const drive_turn* turn, uint32_t row);
// Gives the agent a goal farther along its lane. Returns 0 if there is none.
int drive_next_goal(const drive_turn* turn, uint32_t row);

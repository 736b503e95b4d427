// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Ways along the lane graph.
#pragma once

#include "drive/state.h"

#define DRIVE_JOIN_M 10.0f // an agent farther from all lanes has no way to a next goal

// Returns the nearest lane segment within reach that leads at most 45 degrees off a direction and
// is on the level of `ground`, or DRIVE_NO_SEGMENT.
uint32_t drive_lane_segment_at(const drive_turn* turn,
                               float x,
                               float y,
                               float cosine,
                               float sine,
                               float ground,
                               float reach_m);
// Returns the segment that follows on a way along the lane graph, or DRIVE_NO_SEGMENT. Where a lane
// has several exits, one is drawn, keyed by step, draws and the lane: the same way results each
// time.
uint32_t drive_lane_segment_after(const drive_turn* turn,
                                  uint32_t segment,
                                  uint32_t step,
                                  uint32_t draws);
// Returns the segment that follows on the way to a goal, or DRIVE_NO_SEGMENT. Where a lane has
// several exits, the way takes the one whose end is nearest to the goal, the first of equals.
uint32_t drive_lane_segment_towards(const drive_scene* scene,
                                    uint32_t segment,
                                    float goal_x,
                                    float goal_y);
// Returns which share of the shortest way from its start to its goal an agent has covered, up to
// the point of the way nearest to it; below 0 where no way along the lanes leads to the goal.
float drive_way_share(const drive_turn* turn, uint32_t row);
// Gives the agent a goal farther along its lane. Returns 0 where there is none.
int drive_next_goal(const drive_turn* turn, uint32_t row);

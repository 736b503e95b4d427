// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Predicts the paths of bodies, called ways, along the lanes; finds where two of them cross or
// merge; and decides which body has the right of way there.
#pragma once

#include "drive/state.h"

// What controls the traffic on a piece of a way (drive_way_piece.rule). If a lane has several
// controls, the one with the largest number applies.
#define DRIVE_RULE_NONE 0u
#define DRIVE_RULE_GREEN 1u   // a light that is green or yellow
#define DRIVE_RULE_UNKNOWN 2u // a light of no known colour
#define DRIVE_RULE_SIGN 3u    // a stop or yield sign, or a light that flashes red
#define DRIVE_RULE_RED 4u

#define DRIVE_MOST_CONFLICT_S 10.0f // upper limit of times to a shared area
#define DRIVE_YIELD_S 3.0f          // least time gap to a body that has the right of way

// A conflict: a point where the ways of two bodies cross or merge. The shared area extends 2 m
// (half a lane) from the point where the centre lines meet.
typedef struct drive_conflict {
    uint32_t own, other;             // bodies
    uint32_t own_piece, other_piece; // pieces of the two ways; of a merge, the last ones before it
    float own_at, other_at;          // m along the ways from the bodies' centres to the point
    float distance, other_distance;  // m from the bodies' fronts to the area, negative inside it
    float time, other_time;          // s to the area at constant speeds
    float x, y;                      // the point, m
    uint32_t joins;                  // the ways merge and continue along the same lane
} drive_conflict;

// Computes the ways of all bodies of the slot.
void drive_lay_out_ways(const drive_turn* turn);
// Computes the way of an agent again, after its goal has changed.
void drive_lay_out_way_of(const drive_turn* turn, uint32_t row);
// Writes the k nearest conflicts on an agent's way to `out`, at most one per other body, sorted by
// distance. Returns their number.
uint32_t drive_find_conflicts(const drive_turn* turn,
                              uint32_t row,
                              uint32_t k,
                              drive_conflict* out);
// Returns 1 if the own body has the right of way, -1 if the other one has, 0 if it is undecided.
// entering: ignore that the own body is already in the area.
int drive_goes_first(const drive_turn* turn, const drive_conflict* conflict, int entering);
// Returns whether the other body has already passed, so that the own body may enter behind it.
int drive_has_passed(const drive_turn* turn, const drive_conflict* conflict);

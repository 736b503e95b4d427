// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Finds where the ways of bodies cross or join, and decides which body goes first there.
#pragma once

#include "drive/state.h"

// What controls the traffic that has come to a piece of a way (drive_way_piece.rule); of several
// controls of a lane the one with the largest number counts.
#define DRIVE_RULE_NONE 0u
#define DRIVE_RULE_GREEN 1u   // a light that is green or yellow
#define DRIVE_RULE_UNKNOWN 2u // a light of no known colour
#define DRIVE_RULE_SIGN 3u    // a stop or yield sign, or a light that flashes red
#define DRIVE_RULE_RED 4u

#define DRIVE_MOST_CONFLICT_S 10.0f // no time to a shared area is longer
#define DRIVE_YIELD_S 3.0f // an agent that enters one leaves those that go first at least this long

// A place where the way of a body crosses or joins that of another one. The shared area reaches
// 2 m (half a lane) from the point where the middle lines meet.
typedef struct drive_conflict {
    uint32_t own, other;             // bodies
    uint32_t own_piece, other_piece; // of their ways; where they join, the last ones before that
    float own_at, other_at;          // m along the ways from the centres to the point
    float distance, other_distance;  // m from the fronts to the area, below 0 within it
    float time, other_time;          // s to the area at constant speeds
    float x, y;                      // the point, m
    uint32_t joins;                  // they join, and go on along the same lane
} drive_conflict;

// Lays out the ways of all bodies of the slot.
void drive_lay_out_ways(const drive_turn* turn);
// Lays out the way of an agent again, whose goal has changed.
void drive_lay_out_way_of(const drive_turn* turn, uint32_t row);
// Lists the k nearest conflicts on an agent's way, one for each other body, sorted by distance.
// Returns how many there are.
uint32_t drive_find_conflicts(const drive_turn* turn,
                              uint32_t row,
                              uint32_t k,
                              drive_conflict* out);
// Returns 1 if the body itself goes first, -1 if the other one does, 0 if it cannot be known.
// entering: judges it as it was before the body entered the area.
int drive_goes_first(const drive_turn* turn, const drive_conflict* conflict, int entering);
// Returns whether the other body has passed, so that a body that enters the area follows it.
int drive_has_passed(const drive_turn* turn, const drive_conflict* conflict);

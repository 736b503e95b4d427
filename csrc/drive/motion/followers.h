// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Followers: vehicles that the intelligent driver model drives. This file knows which they are and
// where they are on their paths; follow.c moves them. Followers are numbered within their slot (k).
#pragma once

#include "contract/env.h"
#include "drive/scene/scene.h"
#include "drive/state.h"

// A place on a path.
typedef struct drive_place {
    uint32_t phase, to;  // the piece, as in drive_followers
    float x, y, heading; // where it starts
} drive_place;

// A straight piece of a path.
typedef struct drive_piece {
    float ux, uy, length;   // from the start to the end
    float x1, y1, heading1; // the end
    float ground1;          // m
} drive_piece;

// Where a follower is, as a body.
typedef struct drive_follower {
    float x, y, heading, speed, ground;
} drive_follower;

int drive_is_follower(const pv_context* context, const drive_scene* scene, const pv_object* object);
uint32_t drive_scene_followers(const pv_context* context, uint32_t scene_index);
// Sets what stays the same for an episode.
void drive_followers_prepare(const drive_turn* turn);
void drive_followers_start(const drive_turn* turn);
// Puts a waiting follower on its path if its log begins in frame `frame_now`.
void drive_follower_enter(const drive_turn* turn, uint32_t k, uint32_t frame_now);
// Puts the follower that moves an agent back to the start, as the agent was.
void drive_follower_respawn(const drive_turn* turn, uint32_t row);

// Returns whether the follower is in the scene.
int drive_follower_there(const drive_turn* turn, uint32_t k);
drive_follower drive_follower_now(const drive_turn* turn, uint32_t k);

void drive_follower_set_place(const drive_turn* turn, uint32_t k, const drive_place* at);
drive_piece drive_follower_piece(const drive_turn* turn, uint32_t k, const drive_place* at);
// Moves a place to the start of the next piece. Returns 0 where the path ends.
int drive_follower_next(const drive_turn* turn,
                        uint32_t k,
                        drive_place* at,
                        const drive_piece* done);

// Returns whether a follower of a state from outside can be in a phase with this `to`.
int drive_follower_can_be(const drive_turn* turn, uint32_t k, uint32_t phase, uint32_t to);
// Returns whether a step can continue from the followers of a loaded env.
int drive_followers_sound(const drive_turn* turn);

static inline const pv_object* drive_follower_object(const drive_turn* turn, uint32_t k) {
    return &turn->scene.objects[turn->followers.object[turn->slot->follower + k]];
}

static inline drive_place drive_follower_place(const drive_turn* turn, uint32_t k) {
    const drive_followers* all = &turn->followers;
    const uint32_t f = turn->slot->follower + k;
    return (drive_place){all->phase[f], all->to[f], all->from_x[f], all->from_y[f],
                         all->from_heading[f]};
}

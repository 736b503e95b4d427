// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// How pedestrians and cyclists move: as models.h says for vehicles, but with limits of their own.
#pragma once

#include "drive/motion/models.h"
#include "drive/scene/scene.h"

void drive_walk(const drive_mover* mover, int type, drive_motion* body, const float* action);
// Computes the action that brings a walker nearest to its logged pose after this step.
void drive_inverse_walk(const drive_mover* mover,
                        int type,
                        const drive_motion* body,
                        const drive_aim* aim,
                        float* action);

// Moves a body of any type.
static inline void drive_move_any(const drive_mover* mover,
                                  int type,
                                  drive_motion* body,
                                  const float* action) {
    if (type == PV_VEHICLE)
        drive_move(mover, body, action);
    else
        drive_walk(mover, type, body, action);
}

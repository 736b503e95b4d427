// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Actions that follow a log.
#pragma once

#include "drive/motion/models.h"

// How to continue along the log.
typedef struct drive_course {
    float speed;    // after the step, m/s
    float distance; // of the step, m
    float turn;     // in the step, rad
} drive_course;

// Computes the action that brings a vehicle nearest to its logged pose after this step. The action
// is not clipped.
void drive_inverse(const drive_mover* mover,
                   const drive_motion* body,
                   const drive_aim* aim,
                   float* action);
// Returns the course towards `aim`. moves_with_new: the model moves with the speed after the step
// rather than with the mean of both; lever: distance in m from the centre back to the point about
// which the body turns.
drive_course drive_course_to(const drive_mover* mover,
                             const drive_motion* body,
                             const drive_aim* aim,
                             int moves_with_new,
                             float lever);

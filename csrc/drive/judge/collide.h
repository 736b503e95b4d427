// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Contacts of agents with other objects and with road edges.
#pragma once

#include "drive/state.h"

// Sets DRIVE_COLLIDED and scratch.new_contacts of the slot's rows. moved: a step led here, so that
// contacts may have begun.
void drive_collisions(drive_turn* turn, int moved);
// Returns whether an agent touches a road edge or, if it moved, has crossed one. edges: those that
// were observed.
int drive_touches_edge(const drive_turn* turn, uint32_t row, const drive_near* edges, int moved);

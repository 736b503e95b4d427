// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// States of an env as bytes: saved and loaded whole, or read and set as named fields.
#pragma once

#include "contract/env.h"
#include "drive/state.h"

void drive_describe_state(const drive_block* layout, pv_spec* spec);
int drive_save(pv_block* block, uint32_t env, uint8_t* out);
int drive_load(pv_block* block, uint32_t env, const uint8_t* in);
int drive_peek(pv_block* block, uint32_t env, uint8_t* out);
// Sets agents, clocks and step from a readable state, or returns an error code and changes nothing.
int drive_take_state(drive_turn* turn, const uint8_t* in);

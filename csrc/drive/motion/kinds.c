// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Kinds of drivers, and the driver of a follower in an episode. Drivers are drawn again when needed
// instead of being stored: the seed of a driver's draws is a random number whose key is the
// bundle's seed, its number, the turn in which the episode starts, and the follower.
//
// "varied" is the variation among ordinary drivers. A hasty driver is faster, keeps about half of
// the distance and accelerates and brakes harder; a timid one is the opposite. An inattentive one
// drives by the settings, but does not see some partners. A late one brakes too late (follow.c).
//
// Sources: published parameters of the model have headways of 1 to 1.6 s, accelerations of 0.73 to
// 1.4 m/s^2 and comfortable decelerations of 1.5 to 2 m/s^2 (Treiber, Hennecke, Helbing 2000, table
// I; Kesting, Treiber, Helbing 2010, table 1; Treiber, Kesting 2013, table 11.2; follow.c has the
// titles). "varied" scatters over about this range; "hasty" and "timid" lie on either side of it,
// by our choice. "late" begins at 3.4 m/s^2, the deceleration that road design assumes, which nine
// of ten drivers exceed in an emergency (Fambro, Fitzpatrick, Koppa, "Determination of stopping
// sight distances", NCHRP Report 400, 1997). "unseen" is our choice: real inattention lasts for
// seconds, so the probability is high enough to matter in short episodes.
#include "drive/motion/kinds.h"

#include "contract/base.h"
#include "contract/env.h"
#include "contract/rng.h"
#include "drive/motion/followers.h"
#include "drive/scene/control.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"

#include <string.h>

#define KIND_DRAWS 0x60000000u // lower draw numbers: the bundle, traffic and weights

// What is drawn: this replaces the bundle's number in the key of a driver's draws.
#define ABOUT_ITSELF 0
#define ABOUT_PARTNERS 1

#define ONE {1.0f, 1.0f}
#define OFF {0.0f, 0.0f}

// clang-format off
static const pv_drive_kind kinds[] = {
    // name, factors of speed, headway, gap, acceleration and braking, unseen, late
    {"plain", ONE, ONE, ONE, ONE, ONE, OFF, OFF},
    {"varied", {0.85f, 1.15f}, {0.6f, 1.4f}, {0.75f, 1.5f}, {0.6f, 1.4f}, {0.75f, 1.5f}, OFF, OFF},
    {"hasty", {1.1f, 1.3f}, {0.4f, 0.7f}, {0.5f, 0.8f}, {1.3f, 2.0f}, {1.25f, 1.75f}, OFF, OFF},
    {"timid", {0.7f, 0.9f}, {1.3f, 2.0f}, {1.25f, 2.0f}, {0.5f, 0.8f}, {0.6f, 0.9f}, OFF, OFF},
    {"inattentive", ONE, ONE, ONE, ONE, ONE, {0.1f, 0.5f}, OFF},
    {"late", ONE, ONE, ONE, ONE, ONE, OFF, {3.4f, 6.0f}},
};
// clang-format on
_Static_assert(sizeof kinds / sizeof kinds[0] == DRIVE_KINDS, "each kind has a share");

const pv_drive_kind* pv_drive_kinds(uint32_t* count) {
    *count = DRIVE_KINDS;
    return kinds;
}

// The param "traffic_kinds", (kinds,) float32, holds the cumulative shares of the kinds. Without it
// all drivers are plain.
void drive_kinds_init(const pv_context* context, drive_block* out) {
    uint64_t count = 0;
    const float* shares = pv_params_find(context->params, "traffic_kinds", PV_F32, &count);
    out->kinds = count == DRIVE_KINDS;
    if (out->kinds)
        memcpy(out->kind_shares, shares, sizeof out->kind_shares);
}

static const pv_drive_kind* draw_kind(const drive_turn* turn, uint64_t seed) {
    const float share = pv_rng_f32(seed, ABOUT_ITSELF, 0, 0);
    uint32_t kind = 0;
    while (kind + 1 < DRIVE_KINDS && !(share < turn->layout->kind_shares[kind]))
        kind++;
    return &kinds[kind];
}

// Returns the driver's own number from a range. Each range has a draw of its own.
static float draw_from(const float range[2], uint64_t seed, uint32_t draw) {
    return range[0] + pv_rng_f32(seed, ABOUT_ITSELF, 0, draw) * (range[1] - range[0]);
}

drive_style drive_style_of(const drive_turn* turn, uint32_t k) {
    const pv_drive_config* config = turn->config;
    const drive_env* env = turn->state;
    drive_style style = {.speed = 1.0f,
                         .headway_s = config->idm_headway_s,
                         .gap_m = config->idm_gap_m,
                         .acceleration = config->idm_acceleration_mps2,
                         .braking = config->idm_braking_mps2};
    if (!turn->layout->kinds)
        return style;
    if (config->idm_agents &&
        drive_object_controlled(turn->block->context, &turn->scene, drive_follower_object(turn, k)))
        return style; // agents that IDM drives are plain
    const uint64_t seed = pv_rng_u64(drive_bundle_seed(env), env->episode, turn->start,
                                     KIND_DRAWS + turn->slot->follower + k);
    const pv_drive_kind* kind = draw_kind(turn, seed);
    style.seed = seed;
    style.speed = draw_from(kind->speed, seed, 1);
    style.headway_s *= draw_from(kind->headway, seed, 2);
    style.gap_m *= draw_from(kind->gap, seed, 3);
    style.acceleration *= draw_from(kind->acceleration, seed, 4);
    style.braking *= draw_from(kind->braking, seed, 5);
    style.unseen = draw_from(kind->unseen, seed, 6);
    style.late = draw_from(kind->late, seed, 7);
    return style;
}

int drive_style_sees(const drive_style* style, uint32_t object) {
    return style->unseen <= 0.0f ||
           pv_rng_f32(style->seed, ABOUT_PARTNERS, 0, object) >= style->unseen;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Lays out a block's state and points into it. The only file that computes such addresses.
#include "drive/block/layout.h"

#include "contract/base.h"
#include "contract/env.h"
#include "drive/judge/reward.h"
#include "drive/motion/actions.h"
#include "drive/motion/followers.h"
#include "drive/motion/kinds.h"
#include "drive/scene/control.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"

#include <string.h>

#define ALIGNMENT 64
#define ROUND 16 // arrays that vectors run over are readable up to a multiple of this

static uint64_t place(uint64_t* end, uint64_t bytes) {
    uint64_t offset = pv_align_up(*end, ALIGNMENT);
    *end = offset + bytes;
    return offset;
}

// Determines the largest scenes of the set, for which room is made, and the largest number of
// scenes in a bundle.
static void measure_scenes(const pv_context* context, drive_block* out) {
    uint32_t smallest = out->agents, bodies = 0, segments = 0;
    for (uint32_t i = 0; i < drive_set(context->data)->scene_count; i++) {
        const pv_scene_entry* entry = drive_entry(context->data, i);
        uint32_t size = drive_scene_agents(context, i);
        if (!size || size > out->agents)
            continue;
        const pv_scene* head = (const pv_scene*)(const void*)(context->data + entry->offset);
        out->scenes++;
        if (size < smallest)
            smallest = size;
        uint64_t followers = (uint64_t)drive_scene_followers(context, i) * out->agents /
                             size; // if copies of this scene fill the bundle
        if (followers > out->followers)
            out->followers = (uint32_t)followers;
        if (head->object_count > bodies)
            bodies = head->object_count;
        uint32_t all = head->segment_count[0] + head->segment_count[1] + head->segment_count[2];
        if (all > segments)
            segments = all;
    }
    out->slots = out->agents / smallest;
    out->bodies = (uint32_t)pv_align_up(bodies + 1, ROUND);
    out->segments = (uint32_t)pv_align_up(segments + 1, ROUND);
    out->groups = (uint32_t)pv_align_up(segments / PV_GROUP_LANES + 1, ROUND) +
                  ROUND; // lists are written 16 at a time
}

// Lays out the work space from address `base` on and returns its size; base 0: only counts.
static uint64_t place_scratch(const drive_block* layout, uintptr_t base, drive_scratch* out) {
    const uint64_t bodies = layout->bodies, agents = layout->agent_stride, groups = layout->groups,
                   near = (bodies > layout->segments ? bodies : layout->segments) + ROUND;
    uint64_t end = 0;
#define TAKE(member, count) out->member = (void*)(base + end), end += (count) * sizeof *out->member
    TAKE(bodies.x, bodies);
    TAKE(bodies.y, bodies);
    TAKE(bodies.heading, bodies);
    TAKE(bodies.cosine, bodies);
    TAKE(bodies.sine, bodies);
    TAKE(bodies.speed, bodies);
    TAKE(bodies.half_length, bodies);
    TAKE(bodies.half_width, bodies);
    TAKE(bodies.radius, bodies);
    TAKE(bodies.ground, bodies);
    TAKE(old_x, agents);
    TAKE(old_y, agents);
    TAKE(old_cosine, agents);
    TAKE(old_sine, agents);
    TAKE(old_ground, agents);
    TAKE(old_speed, agents);
    TAKE(old_heading, agents);
    TAKE(was_x, bodies);
    TAKE(was_y, bodies);
    TAKE(was_heading, bodies);
    TAKE(was_ground, bodies);
    TAKE(planned, bodies);
    TAKE(square, near);
    TAKE(bodies.object, bodies);
    TAKE(bodies.row, bodies);
    TAKE(body_frames, bodies);
    TAKE(bodies.driven, bodies);
    TAKE(new_contacts, agents);
    TAKE(index, near);
    TAKE(road_groups, groups);
    TAKE(close_groups, groups);
    TAKE(road_keys, groups * PV_GROUP_LANES);
    TAKE(body_rows, bodies * 8);
    TAKE(numbers, layout->numbers);
    if (layout->ways) {
        TAKE(pieces, bodies * DRIVE_WAY_PIECES);
        TAKE(way_box, bodies * 4);
        TAKE(piece_count, bodies);
        TAKE(body_of, agents);
    }
    TAKE(touch, bodies);
#undef TAKE
    out->bodies.count = out->bodies.driven_count = 0;
    return end;
}

static void place_observation(const pv_drive_config* config, drive_block* out) {
    uint32_t end = 0;
#define PLACE(block, set, kind, k, bound) \
    out->observed[DRIVE_BLOCK_##block] = end; \
    if ((uint32_t)(k)) \
        out->blocks |= 1u << DRIVE_BLOCK_##block; \
    if (kind != DRIVE_PICTURE && (uint32_t)(k) * DRIVE_COUNT_##set > out->numbers) \
        out->numbers = (uint32_t)(k) * DRIVE_COUNT_##set; \
    end += (uint32_t)(k) * drive_columns(config, DRIVE_BLOCK_##block, DRIVE_COUNT_##set) * \
           (kind == DRIVE_PICTURE ? (uint32_t)(k) : drive_number_bytes(config));
    DRIVE_BLOCKS(PLACE)
#undef PLACE
    out->numbers = (uint32_t)pv_align_up(out->numbers, ROUND);
}

// Sets what is needed to move agents. If `describe` refuses the settings, there are no axes.
static void place_motion(const pv_context* context, drive_block* out) {
    const pv_drive_config* config = drive_config_of(context);
    const int limited = config->max_acceleration_mps2 > 0.0f || config->max_lateral_mps2 > 0.0f ||
                        config->max_jerk_mps3 > 0.0f || config->max_steering_rate_radps > 0.0f;
    char text[PV_ERROR_TEXT];
    out->repeats = config->replay_failed > 0.0f;
    out->traffic = config->traffic_idm > 0.0f || config->traffic_log > 0.0f;
    drive_kinds_init(context, out);
    out->motion = limited || config->observe_motion || config->dynamics == DRIVE_IS_dynamics_jerk;
    if (drive_axes_fill(context, &out->axes, text))
        memset(&out->axes, 0, sizeof out->axes);
}

const float* drive_scene_weights(const pv_context* context) {
    uint64_t count = 0;
    const float* weights = pv_params_find(context->params, "scene_weights", PV_F32, &count);
    return count == drive_set(context->data)->scene_count ? weights : NULL;
}

void drive_layout(const pv_context* context, uint32_t env_count, drive_block* out) {
    drive_scratch unused;
    memset(out, 0, sizeof *out);
    place_observation(drive_config_of(context), out);
    drive_rewards_init(context, out);
    out->ways = out->parts & DRIVE_PART_YIELD || out->blocks >> DRIVE_BLOCK_conflicts & 1;
    out->agents = (uint32_t)drive_config_of(context)->num_agents;
    out->agent_stride = (uint32_t)pv_align_up(out->agents, ROUND) +
                        ROUND; // a slot's vectors may run past the last row
    measure_scenes(context, out);
    uint64_t env_end = sizeof(drive_env);
    out->slots_offset = place(&env_end, out->slots * sizeof(drive_slot));
    out->arrays_offset = place(&env_end, (uint64_t)DRIVE_AGENT_FIELD_COUNT * out->agent_stride * 4);
    if (out->parts)
        out->judged_offset =
            place(&env_end, (uint64_t)DRIVE_JUDGED_FIELD_COUNT * out->agent_stride * 4);
    if (out->conditioned)
        out->weights_offset = place(&env_end, (uint64_t)DRIVE_REWARD_COUNT * out->agent_stride * 4);
    place_motion(context, out);
    if (out->motion)
        out->motion_offset =
            place(&env_end, (uint64_t)DRIVE_MOTION_FIELD_COUNT * out->agent_stride * 4);
    if (drive_config_of(context)->expert_actions)
        out->played_offset = place(&env_end, (uint64_t)out->axes.count * out->agent_stride * 4);
    if (out->followers)
        out->followers_offset =
            place(&env_end, (uint64_t)DRIVE_FOLLOWER_FIELD_COUNT * out->followers * 4);
    out->env_bytes = pv_align_up(env_end, ALIGNMENT);
    uint64_t end = sizeof *out;
    out->agents_offset = place(&end, drive_set(context->data)->scene_count * sizeof(uint32_t));
    out->checked_offset = place(&end, drive_set(context->data)->scene_count);
    out->opened_offset = place(&end, drive_set(context->data)->scene_count * sizeof(drive_scene));
    out->order_offset = place(&end, out->scenes * sizeof(uint32_t));
    out->sizes_offset = place(&end, (out->agents + 2) * sizeof(uint32_t));
    out->waste_offset = place(&end, (out->agents + 1) * sizeof(uint32_t));
    if (drive_scene_weights(context))
        out->shares_offset = place(&end, (out->scenes + 1) * sizeof(double));
    out->scratch_offset = place(&end, place_scratch(out, 0, &unused));
    out->envs_offset = place(&end, env_count * out->env_bytes);
    out->bytes = end;
}

drive_env* drive_env_at(const pv_block* block, uint32_t env) {
    const drive_block* layout = (const drive_block*)block->state;
    return (drive_env*)(void*)((uint8_t*)block->state + layout->envs_offset +
                               env * layout->env_bytes);
}

void drive_turn_open(pv_block* block, uint32_t env, drive_turn* out) {
    const drive_block* layout = (const drive_block*)block->state;
    out->block = block;
    out->layout = layout;
    out->config = drive_config_of(block->context);
    out->env = env;
    out->first_row = (uint64_t)env * layout->agents;
    out->state = drive_env_at(block, env);
    uint8_t* base = (uint8_t*)out->state;
    out->slots = (drive_slot*)(void*)(base + layout->slots_offset);
    uint8_t* at = base + layout->arrays_offset;
#define FIELD(type, name) \
    out->agents.name = (type*)(void*)at, at += (uint64_t)layout->agent_stride * sizeof(type);
    DRIVE_AGENT_FIELDS(FIELD)
#undef FIELD
    if (layout->parts) {
        at = base + layout->judged_offset;
#define FIELD(type, code, name, unit, high) \
    out->judged.name = (type*)(void*)at, at += (uint64_t)layout->agent_stride * 4;
        DRIVE_JUDGED_FIELDS(FIELD)
#undef FIELD
    }
    out->weights = (float*)(void*)(base + layout->weights_offset);
    at = base + layout->motion_offset;
#define FIELD(type, name) \
    out->agents.name = layout->motion ? (type*)(void*)at : NULL; \
    at += (uint64_t)layout->agent_stride * sizeof(type);
    DRIVE_MOTION_FIELDS(FIELD)
#undef FIELD
    out->played = layout->played_offset ? (float*)(void*)(base + layout->played_offset) : NULL;
    at = base + layout->followers_offset;
#define FIELD(type, code, name, unit, low, high) \
    out->followers.name = (type*)(void*)at, at += (uint64_t)layout->followers * 4;
    DRIVE_FOLLOWER_FIELDS(FIELD)
#undef FIELD
#define FIELD(type, name) \
    out->followers.name = (type*)(void*)at, at += (uint64_t)layout->followers * 4;
    DRIVE_FOLLOWER_CONSTANTS(FIELD)
#undef FIELD
    place_scratch(layout, (uintptr_t)block->state + layout->scratch_offset, &out->scratch);
}

drive_scene* drive_opened(const drive_block* layout) {
    return (drive_scene*)(void*)((uint8_t*)(uintptr_t)layout + layout->opened_offset);
}

void drive_turn_slot(drive_turn* turn, uint32_t slot) {
    turn->slot = &turn->slots[slot];
    turn->scene = drive_opened(turn->layout)[turn->slot->scene];
}

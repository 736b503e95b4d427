// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// States of one env: the flat form of save and load, and the readable form of peek and poke.
#include "drive/block/saved.h"

#include "contract/base.h"
#include "contract/env.h"
#include "drive/block/bundle.h"
#include "drive/block/layout.h"
#include "drive/motion/followers.h"
#include "drive/scalar.h"
#include "drive/scene/control.h"
#include "drive/scene/scene.h"
#include "drive/state.h"
#include "drive/tables.h"
#include "drive/turn.h"

#include <math.h>
#include <string.h>

// ---- save and load ----

int drive_save(pv_block* block, uint32_t env, uint8_t* out) {
    memcpy(out, drive_env_at(block, env), ((const drive_block*)block->state)->env_bytes);
    return PV_OK;
}

#define MOST_PLAYED 1e7f // no unit has larger numbers than metres of a map

// Returns whether the sums, weights and played actions of a row are finite and in range.
static int judged_sound(const drive_turn* turn, uint32_t row) {
    int sound = 1;
    if (turn->layout->parts) {
#define CHECK(type, code, name, unit, high) sound &= fabsf((float)turn->judged.name[row]) <= high;
        DRIVE_JUDGED_FIELDS(CHECK)
#undef CHECK
    }
    for (uint32_t t = 0; t < DRIVE_REWARD_COUNT && turn->layout->conditioned; t++)
        sound &= fabsf(turn->weights[(uint64_t)row * DRIVE_REWARD_COUNT + t]) <= 1000.0f;
    const uint32_t axes = turn->layout->axes.count;
    for (uint32_t i = 0; i < axes && turn->played; i++)
        sound &= fabsf(turn->played[(uint64_t)row * axes + i]) <= MOST_PLAYED;
    return sound;
}

static int goals_change(const pv_drive_config* config) {
    return config->goal_behavior == DRIVE_IS_goal_behavior_next;
}

static int goal_sound(const drive_turn* turn, uint32_t row, const pv_object* object) {
    const drive_agents* agents = &turn->agents;
    if (goals_change(turn->config))
        return fabsf(agents->goal_x[row]) <= 1e7f && fabsf(agents->goal_y[row]) <= 1e7f;
    return agents->goal_x[row] == object->goal_x_m && agents->goal_y[row] == object->goal_y_m;
}

// Returns whether a run can have left these numbers in a row: those that the scene determines equal
// the scene's, and the others are finite and in range.
static int agent_sound(const drive_turn* turn, uint32_t row, uint32_t o) {
    const drive_agents* agents = &turn->agents;
    const pv_object* object = &turn->scene.objects[o];

    const struct {
        float value, most;
    } numbers[] = {{agents->x[row], 1e7f},
                   {agents->y[row], 1e7f},
                   {agents->heading[row], 3.2f},
                   {agents->cosine[row], 1.001f},
                   {agents->sine[row], 1.001f},
                   {agents->speed[row], 400.0f},
                   {agents->ground[row], 1e7f},
                   {agents->progress[row], 1e9f},
                   {agents->goal_distance[row], 1e8f},
                   {agents->episode_return[row], 1e30f},
                   {agents->steering ? agents->acceleration[row] : 0.0f, 1e4f},
                   {agents->steering ? agents->lateral[row] : 0.0f, 1e7f},
                   {agents->steering ? agents->steering[row] : 0.0f, 10.0f}};

    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!(fabsf(numbers[i].value) <= numbers[i].most))
            return 0;
    }
    if (!judged_sound(turn, row))
        return 0;
    return agents->object[row] == o && agents->slot[row] == (uint32_t)(turn->slot - turn->slots) &&
           agents->length[row] == object->length_m && agents->width[row] == object->width_m &&
           goal_sound(turn, row, object);
}

// Returns whether the agents of the slot are those of its scene.
static int slot_sound(const drive_turn* turn) {
    uint32_t row = turn->slot->row, end = row + turn->slot->count, driven = 0;
    for (uint32_t o = 0; o < turn->scene.head->object_count && row < end; o++) {
        if (!drive_object_controlled(turn->block->context, &turn->scene, &turn->scene.objects[o]))
            continue;
        driven += !(turn->agents.flags[row] & DRIVE_TRAFFIC);
        if (!agent_sound(turn, row++, o))
            return 0;
    }
    return row == end && driven;
}

// Returns whether a step can run safely on an env that was just loaded.
static int env_sound(drive_turn* turn) {
    const drive_env* env = turn->state;
    const uint8_t* data = turn->block->context->data;
    uint32_t rows = 0, followers = 0;
    if (env->slots > turn->layout->slots)
        return 0;
    for (uint32_t i = 0; i < env->slots; i++) {
        const drive_slot* slot = &turn->slots[i];
        if (slot->scene >= drive_set(data)->scene_count || slot->row != rows)
            return 0;
        if (drive_scene_verify(turn->block, turn->env, slot->scene))
            return 0;
        uint32_t size = drive_scene_rows(turn->layout, slot->scene);
        if (!size || slot->count != size || size > turn->layout->agents - rows)
            return 0;
        rows += size;
        if (slot->follower != followers)
            return 0;
        if (slot->follower_count != drive_scene_followers(turn->block->context, slot->scene))
            return 0;
        followers += slot->follower_count;
        drive_turn_slot(turn, i);
        if (!slot_sound(turn) || !drive_followers_sound(turn))
            return 0;
    }
    return rows == env->rows;
}

int drive_load(pv_block* block, uint32_t env, const uint8_t* in) {
    drive_turn turn;
    memcpy(drive_env_at(block, env), in, ((const drive_block*)block->state)->env_bytes);
    drive_turn_open(block, env, &turn);
    if (env_sound(&turn))
        return PV_OK;
    memset(turn.state, 0, turn.layout->env_bytes);
    pv_block_error(block, env, "drive: the saved state does not fit these scenes and settings");
    return PV_ERROR_STATE;
}

// ---- the readable state ----

// X(type, code, name, unit, low, high, count), in the order of the bytes. In rows without an agent
// all values are 0, except that object, slot and surface are -1, as are missing scenes. The fields
// of `motion` exist only with DRIVE_MOTION_FIELDS, that of `traffic` only where agents may be
// traffic, those of `repeated` with replay_failed.
#define ABSENT UINT32_MAX
#define DRIVE_STATE(X) \
    X(float, PV_F32, x, "m", -1e6f, 1e6f, agents) \
    X(float, PV_F32, y, "m", -1e6f, 1e6f, agents) \
    X(float, PV_F32, heading, "rad", -DRIVE_PI, DRIVE_PI, agents) \
    X(float, PV_F32, speed, "m/s", -400.0f, 400.0f, agents) \
    X(float, PV_F32, length, "m", 0.0f, 1e3f, agents) \
    X(float, PV_F32, width, "m", 0.0f, 1e3f, agents) \
    X(float, PV_F32, goal_x, "m", -1e6f, 1e6f, agents) \
    X(float, PV_F32, goal_y, "m", -1e6f, 1e6f, agents) \
    X(float, PV_F32, ground, "m", -1e6f, 1e6f, agents)   /* as in DRIVE_AGENT_FIELDS */ \
    X(int32_t, PV_I32, surface, "", -1.0f, 1e9f, agents) /* ... and -1 for none */ \
    X(int32_t, PV_I32, object, "", -1.0f, 1e9f, agents) \
    X(int32_t, PV_I32, slot, "", -1.0f, 1e9f, agents) \
    X(uint8_t, PV_U8, active, "", 0.0f, 1.0f, agents) \
    X(uint8_t, PV_U8, collided, "", 0.0f, 1.0f, agents) \
    X(uint8_t, PV_U8, offroad, "", 0.0f, 1.0f, agents) \
    X(uint8_t, PV_U8, reached, "", 0.0f, 1.0f, agents) \
    X(uint8_t, PV_U8, ended, "", 0.0f, 4.0f, \
      agents) /* DRIVE_END_...; 0 stands for that of the goal where it is reached */ \
    X(uint8_t, PV_U8, alone, "", 0.0f, 1.0f, agents) \
    X(int32_t, PV_I32, slot_scene, "", -1.0f, 1e9f, slots) \
    X(int32_t, PV_I32, slot_clock, "", -1.0f, 1e9f, slots) \
    X(uint64_t, PV_U64, episode, "", 0.0f, 1e9f, one) \
    X(uint64_t, PV_U64, drawn, "", 0.0f, 1e15f, one) \
    X(uint64_t, PV_U64, bundle_seed, "", 0.0f, 0x1p64f, one) \
    X(uint32_t, PV_U32, step, "", 0.0f, 1e9f, one) \
    X(float, PV_F32, model_acceleration, "m/s^2", -1e4f, 1e4f, motion) \
    X(float, PV_F32, model_lateral, "m/s^2", -1e7f, 1e7f, motion) \
    X(float, PV_F32, steering, "rad", -10.0f, 10.0f, motion) \
    X(uint8_t, PV_U8, traffic, "", 0.0f, 2.0f, traffic)      /* 0: no, 1: by IDM, 2: by its log */ \
    X(uint8_t, PV_U8, slot_failed, "", 0.0f, 1.0f, repeated) /* as in drive_slot */ \
    X(uint8_t, PV_U8, slot_repeats, "", 0.0f, 255.0f, repeated)

// Pointers into the bytes of a readable state.
typedef struct drive_view {
#define FIELD(type, code, name, unit, low, high, count) type* name;
    DRIVE_STATE(FIELD)
#undef FIELD
#define FIELD(type, code, name, unit, high) type* name; // (A,), where layout->parts
    DRIVE_JUDGED_FIELDS(FIELD)
    DRIVE_SUM_FIELDS(FIELD)
#undef FIELD
    float* reward_weights;     // (A, DRIVE_REWARD_COUNT), where layout->conditioned
    float* played;             // (A, axes), under expert_actions
    drive_followers followers; // (layout->followers,)
} drive_view;

void drive_describe_state(const drive_block* layout, pv_spec* spec) {
    const uint32_t agents = layout->agents, slots = layout->slots, one = 0,
                   motion = layout->motion ? agents : ABSENT;
    const uint32_t traffic = layout->traffic ? agents : ABSENT,
                   repeated = layout->repeats ? slots : ABSENT;
#define FIELD(type, code, name, unit, low, high, count) \
    if ((count) != ABSENT) \
        pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, #name, unit, \
                     code, count, 0, low, high, 1.0f);
    DRIVE_STATE(FIELD)
#undef FIELD
    if (layout->parts) {
#define FIELD(type, code, name, unit, high) \
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, #name, unit, code, \
                 agents, 0, code == PV_F32 ? -high : 0.0f, high, 1.0f);
        DRIVE_JUDGED_FIELDS(FIELD)
        DRIVE_SUM_FIELDS(FIELD)
#undef FIELD
    }
    if (layout->conditioned)
        pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "reward_weights",
                     "", PV_F32, agents, DRIVE_REWARD_COUNT, -1000.0f, 1000.0f, 1.0f);
    if (layout->played_offset)
        pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "played", "",
                     PV_F32, agents, layout->axes.count, -MOST_PLAYED, MOST_PLAYED, 1.0f);
    if (!layout->followers)
        return;
#define FIELD(type, code, name, unit, low, high) \
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "follower_" #name, \
                 unit, code, layout->followers, 0, low, high, 1.0f);
    DRIVE_FOLLOWER_FIELDS(FIELD)
#undef FIELD
}

static drive_view view_of(const drive_block* layout, uint8_t* bytes) {
    const uint32_t agents = layout->agents, slots = layout->slots, one = 1,
                   motion = layout->motion ? agents : 0;
    const uint32_t traffic = layout->traffic ? agents : 0, repeated = layout->repeats ? slots : 0;
    uint64_t at = 0;
    drive_view view;
#define FIELD(type, code, name, unit, low, high, count) \
    at = pv_align_up(at, sizeof(type)); \
    view.name = (type*)(void*)(bytes + at); \
    at += (count) * sizeof(type);
    DRIVE_STATE(FIELD)
#undef FIELD
    at = pv_align_up(at, sizeof(float));
#define FIELD(type, code, name, unit, high) \
    view.name = (type*)(void*)(bytes + at), at += agents * sizeof(type);
    if (layout->parts) {
        DRIVE_JUDGED_FIELDS(FIELD)
        DRIVE_SUM_FIELDS(FIELD)
    }
#undef FIELD
    view.reward_weights = (float*)(void*)(bytes + at);
    if (layout->conditioned)
        at += (uint64_t)agents * DRIVE_REWARD_COUNT * sizeof(float);
    view.played = (float*)(void*)(bytes + at);
    if (layout->played_offset)
        at += (uint64_t)agents * layout->axes.count * sizeof(float);
#define FIELD(type, code, name, unit, low, high) \
    view.followers.name = (type*)(void*)(bytes + at), \
    at += (uint64_t)layout->followers * sizeof(type);
    DRIVE_FOLLOWER_FIELDS(FIELD)
#undef FIELD
    return view;
}

// Copies the sums and draws of each agent; 0 in rows without one.
static void show_judged(const drive_turn* turn, const drive_view* view) {
    const uint32_t agents = turn->layout->agents;
    if (turn->layout->parts) {
#define SHOW(type, code, name, unit, high) \
    memcpy(view->name, turn->judged.name, agents * sizeof(type));
        DRIVE_JUDGED_FIELDS(SHOW)
#undef SHOW
#define SHOW(type, code, name, unit, high) \
    memcpy(view->name, turn->agents.name, agents * sizeof(type));
        DRIVE_SUM_FIELDS(SHOW)
#undef SHOW
    }
    if (turn->layout->conditioned)
        memcpy(view->reward_weights, turn->weights, agents * DRIVE_REWARD_COUNT * sizeof(float));
    if (turn->played)
        memcpy(view->played, turn->played,
               (size_t)agents * turn->layout->axes.count * sizeof(float));
}

int drive_peek(pv_block* block, uint32_t env, uint8_t* out) {
    drive_turn turn;
    drive_turn_open(block, env, &turn);
    const drive_agents* agents = &turn.agents;
    const drive_view view = view_of(turn.layout, out);
    const uint32_t rows = turn.state->rows;
    for (uint32_t i = 0; i < turn.layout->agents; i++) {
        const uint32_t flags = i < rows ? agents->flags[i] : 0;
        view.x[i] = agents->x[i];
        view.y[i] = agents->y[i];
        view.heading[i] = agents->heading[i];
        view.speed[i] = agents->speed[i];
        view.length[i] = agents->length[i];
        view.width[i] = agents->width[i];
        view.goal_x[i] = agents->goal_x[i];
        view.goal_y[i] = agents->goal_y[i];
        view.ground[i] = agents->ground[i];
        view.surface[i] =
            i < rows && agents->surface[i] != DRIVE_NO_SEGMENT ? (int32_t)agents->surface[i] : -1;
        view.object[i] = i < rows ? (int32_t)agents->object[i] : -1;
        view.slot[i] = i < rows ? (int32_t)agents->slot[i] : -1;
        view.active[i] = (flags & DRIVE_ACTIVE) != 0;
        view.collided[i] = (flags & DRIVE_COLLIDED) != 0;
        view.offroad[i] = (flags & DRIVE_OFFROAD) != 0;
        view.reached[i] = (flags & DRIVE_REACHED) != 0;
        view.ended[i] = (uint8_t)drive_end_of(flags);
        view.alone[i] = (flags & DRIVE_ALONE) != 0;
        if (turn.layout->traffic)
            view.traffic[i] = flags & DRIVE_BY_IDM ? 1 : flags & DRIVE_BY_LOG ? 2 : 0;
    }
    if (turn.layout->motion) {
        const size_t bytes = turn.layout->agents * sizeof(float);
        memcpy(view.model_acceleration, agents->acceleration, bytes);
        memcpy(view.model_lateral, agents->lateral, bytes);
        memcpy(view.steering, agents->steering, bytes);
    }
    for (uint32_t i = 0; i < turn.layout->slots; i++) {
        view.slot_scene[i] = i < turn.state->slots ? (int32_t)turn.slots[i].scene : -1;
        view.slot_clock[i] = i < turn.state->slots ? (int32_t)turn.slots[i].clock : -1;
        if (!turn.layout->repeats)
            continue;
        view.slot_failed[i] = i < turn.state->slots && turn.slots[i].failed;
        view.slot_repeats[i] = i < turn.state->slots ? (uint8_t)turn.slots[i].repeats : 0;
    }
    *view.episode = turn.state->episode;
    *view.drawn = turn.state->drawn;
    *view.bundle_seed = drive_bundle_seed(turn.state);
    *view.step = turn.state->step;
    show_judged(&turn, &view);
#define SHOW(type, code, name, unit, low, high) \
    memcpy(view.followers.name, turn.followers.name, turn.layout->followers * sizeof(type));
    DRIVE_FOLLOWER_FIELDS(SHOW)
#undef SHOW
    return PV_OK;
}

// ---- a state from outside ----

// Refuses a number `given` that differs from the bundle's `own`, because the scene determines it or
// the row has no agent.
static int fixed(const drive_turn* turn, const char* name, uint32_t i, double given, double own) {
    if (given == own)
        return PV_OK;
    return pv_block_error(turn->block, turn->env,
                          "%s[%u] is %.7g: it cannot be changed and must stay %.7g", name, i, given,
                          own);
}

// Returns how the row ends in the state.
static uint32_t end_given(const pv_drive_config* config, const drive_view* view, uint32_t i) {
    if (view->ended[i] || !view->reached[i] || view->alone[i])
        return view->ended[i];
    return drive_end_at_goal(config);
}

// Refuses an end that the settings do not allow, or that does not fit the agent's other numbers.
static int check_end(const drive_turn* turn, const drive_view* view, uint32_t i) {
    const pv_drive_config* config = turn->config;
    const uint32_t end = end_given(config, view, i);
    const uint32_t mishaps = 1u << config->collision_behavior | 1u << config->offroad_behavior;
    const int by_goal = view->reached[i] && (end == drive_end_at_goal(config) ||
                                             (goals_change(config) && end == DRIVE_END_GONE));
    const int by_mishap =
        (end == DRIVE_END_STAYS && mishaps >> DRIVE_IS_collision_behavior_stop & 1) ||
        (end == DRIVE_END_GONE && mishaps >> DRIVE_IS_collision_behavior_remove & 1);
    const int can_be_alone =
        config->goal_behavior == DRIVE_IS_goal_behavior_respawn && view->reached[i];
    if (end && !by_goal && !by_mishap && !(end == DRIVE_END_CUT && config->replay_log))
        return pv_block_error(turn->block, turn->env,
                              "ended[%u] is %u: under these settings no row ends in this way", i,
                              end);
    if (view->alone[i] && !can_be_alone)
        return pv_block_error(
            turn->block, turn->env,
            "alone[%u] is 1: only agents that have reached their goal and respawn are", i);
    if (view->active[i] || (end && !view->collided[i] && !view->offroad[i]))
        return PV_OK;
    return pv_block_error(
        turn->block, turn->env,
        "active[%u] is 0: an agent leaves its scene when its row has ended, so that ended must not "
        "be 0 (or "
        "reached must be 1, where the goal ends it), and collided and offroad must be 0",
        i);
}

// Returns how the row's car is driven in the state: DRIVE_BY_..., 0 by the policy.
static uint32_t traffic_given(const drive_turn* turn, const drive_view* view, uint32_t i) {
    static const uint32_t flags[] = {0, DRIVE_BY_IDM, DRIVE_BY_LOG};
    return turn->layout->traffic ? flags[view->traffic[i]] : 0;
}

static int check_traffic(const drive_turn* turn, const drive_view* view, uint32_t i) {
    if (!(view->active[i] | view->collided[i] | view->offroad[i] | view->reached[i] |
          view->ended[i] | view->alone[i]))
        return PV_OK;
    return pv_block_error(turn->block, turn->env,
                          "traffic[%u] is %u: active, collided, offroad, reached, ended and alone "
                          "must be 0 in rows of traffic",
                          i, view->traffic[i]);
}

static int check_agent(const drive_turn* turn, const drive_view* view, uint32_t i) {
    const drive_agents* agents = &turn->agents;
    const int is_agent = i < turn->state->rows, motion = turn->layout->motion != 0;

    const struct {
        const char* name;
        double given, own;
    } numbers[] = {{"length", (double)view->length[i], (double)agents->length[i]},
                   {"width", (double)view->width[i], (double)agents->width[i]},
                   {"object", view->object[i], is_agent ? (double)agents->object[i] : -1.0},
                   {"slot", view->slot[i], is_agent ? (double)agents->slot[i] : -1.0},
                   {"goal_x", (double)view->goal_x[i], is_agent ? (double)agents->goal_x[i] : 0.0},
                   {"goal_y", (double)view->goal_y[i], is_agent ? (double)agents->goal_y[i] : 0.0},
                   {"x", (double)view->x[i], 0.0}, // from here on fixed in rows without an agent
                   {"y", (double)view->y[i], 0.0},
                   {"heading", (double)view->heading[i], 0.0},
                   {"speed", (double)view->speed[i], 0.0},
                   {"ground", (double)view->ground[i], 0.0},
                   {"surface", view->surface[i], -1.0},
                   {"model_acceleration", motion ? (double)view->model_acceleration[i] : 0.0, 0.0},
                   {"model_lateral", motion ? (double)view->model_lateral[i] : 0.0, 0.0},
                   {"steering", motion ? (double)view->steering[i] : 0.0, 0.0},
                   {"active", view->active[i], 0.0},
                   {"collided", view->collided[i], 0.0},
                   {"offroad", view->offroad[i], 0.0},
                   {"reached", view->reached[i], 0.0},
                   {"ended", view->ended[i], 0.0},
                   {"alone", view->alone[i], 0.0},
                   {"traffic", turn->layout->traffic ? view->traffic[i] : 0.0, 0.0}};

    const uint32_t count =
        is_agent ? goals_change(turn->config) ? 4 : 6 : sizeof numbers / sizeof numbers[0];
    for (uint32_t n = 0; n < count; n++) {
        int code = fixed(turn, numbers[n].name, i, numbers[n].given, numbers[n].own);
        if (code)
            return code;
    }
    if (!is_agent)
        return PV_OK;
    return traffic_given(turn, view, i) ? check_traffic(turn, view, i) : check_end(turn, view, i);
}

// Rows without an agent stay 0, and weights without a range stay as they are.
static int check_judged(const drive_turn* turn, const drive_view* view, uint32_t i) {
    const drive_block* layout = turn->layout;
    const int is_agent = i < turn->state->rows;
    int code = PV_OK;
    if (layout->parts && !is_agent) {
#define CHECK(type, number, name, unit, high) \
    if (!code) \
        code = fixed(turn, #name, i, (double)view->name[i], 0.0);
        DRIVE_JUDGED_FIELDS(CHECK)
        DRIVE_SUM_FIELDS(CHECK)
#undef CHECK
    }
    for (uint32_t t = 0; t < DRIVE_REWARD_COUNT && layout->conditioned && !code; t++) {
        const uint64_t at = (uint64_t)i * DRIVE_REWARD_COUNT + t;
        if (is_agent && (layout->conditioned >> t & 1))
            continue;
        code = fixed(turn, "reward_weights", i, (double)view->reward_weights[at],
                     (double)turn->weights[at]);
    }
    for (uint32_t a = 0; a < layout->axes.count && turn->played && !is_agent && !code; a++)
        code = fixed(turn, "played", i, (double)view->played[(uint64_t)i * layout->axes.count + a],
                     0.0);
    return code;
}

static void take_judged(const drive_turn* turn, const drive_view* view) {
    const uint32_t rows = turn->state->rows;
    if (turn->layout->parts) {
#define TAKE(type, code, name, unit, high) \
    memcpy(turn->judged.name, view->name, rows * sizeof(type));
        DRIVE_JUDGED_FIELDS(TAKE)
#undef TAKE
#define TAKE(type, code, name, unit, high) \
    memcpy(turn->agents.name, view->name, rows * sizeof(type));
        DRIVE_SUM_FIELDS(TAKE)
#undef TAKE
    }
    if (turn->layout->conditioned)
        memcpy(turn->weights, view->reward_weights, rows * DRIVE_REWARD_COUNT * sizeof(float));
    if (turn->played)
        memcpy(turn->played, view->played, (size_t)rows * turn->layout->axes.count * sizeof(float));
}

static int check_slot(drive_turn* turn, const drive_view* view, uint32_t i) {
    const int is_there = i < turn->state->slots;
    int code = fixed(turn, "slot_scene", i, view->slot_scene[i],
                     is_there ? (double)turn->slots[i].scene : -1.0);
    if (code)
        return code;
    if (!is_there && turn->layout->repeats)
        code = fixed(turn, "slot_failed", i, view->slot_failed[i], 0.0);
    if (!is_there && turn->layout->repeats && !code)
        code = fixed(turn, "slot_repeats", i, view->slot_repeats[i], 0.0);
    if (code)
        return code;
    if (!is_there)
        return fixed(turn, "slot_clock", i, view->slot_clock[i], -1.0);
    drive_turn_slot(turn, i);
    const uint32_t steps = drive_episode_steps(turn), row = turn->slot->row;
    uint32_t traffic = 0;
    while (traffic < turn->slot->count && traffic_given(turn, view, row + traffic))
        traffic++;
    if (traffic == turn->slot->count)
        return pv_block_error(
            turn->block, turn->env,
            "traffic[%u:%u] is nowhere 0: each scene needs an agent that the policy drives", row,
            row + traffic);
    if (view->slot_clock[i] >= 0 && (uint32_t)view->slot_clock[i] <= steps)
        return PV_OK;
    return pv_block_error(turn->block, turn->env,
                          "slot_clock[%u] is %d: episodes of its scene have 0 to %u steps", i,
                          view->slot_clock[i], steps);
}

static int check_followers(drive_turn* turn, const drive_followers* given) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < turn->state->slots; i++) {
        drive_turn_slot(turn, i);
        for (uint32_t k = 0; k < turn->slot->follower_count; k++, used++) {
            if (!drive_follower_can_be(turn, k, given->phase[used], given->to[used]))
                return pv_block_error(turn->block, turn->env,
                                      "follower_phase[%u] is %u and follower_to[%u] is %u: its "
                                      "path has no such place",
                                      used, given->phase[used], used, given->to[used]);
        }
    }
    for (; used < turn->layout->followers; used++) {
        int code = fixed(turn, "follower_phase", used, given->phase[used], 0.0);
        if (!code)
            code = fixed(turn, "follower_to", used, given->to[used], 0.0);
        if (code)
            return code;
    }
    return PV_OK;
}

int drive_take_state(drive_turn* turn, const uint8_t* in) {
    const drive_view view = view_of(turn->layout, (uint8_t*)(uintptr_t)in);
    const drive_agents* agents = &turn->agents;
    int code = PV_OK;
    for (uint32_t i = 0; i < turn->layout->agents && !code; i++)
        code = check_agent(turn, &view, i);
    for (uint32_t i = 0; i < turn->layout->agents && !code; i++)
        code = check_judged(turn, &view, i);
    for (uint32_t i = 0; i < turn->layout->slots && !code; i++)
        code = check_slot(turn, &view, i);
    if (!code)
        code = check_followers(turn, &view.followers);
    if (code)
        return code;
    if (*view.step > (uint32_t)turn->config->resample_steps)
        return pv_block_error(turn->block, turn->env,
                              "step is %u: a bundle of scenes stays for 0 to %d", *view.step,
                              turn->config->resample_steps);
    for (uint32_t i = 0; i < turn->state->rows; i++) {
        agents->x[i] = view.x[i];
        agents->y[i] = view.y[i];
        agents->heading[i] = view.heading[i];
        agents->speed[i] = view.speed[i];
        if (turn->layout->motion) {
            agents->acceleration[i] = view.model_acceleration[i];
            agents->lateral[i] = view.model_lateral[i];
            agents->steering[i] = view.steering[i];
        }
        agents->goal_x[i] = view.goal_x[i];
        agents->goal_y[i] = view.goal_y[i];
        agents->ground[i] = view.ground[i];
        agents->surface[i] = view.surface[i] < 0 ? DRIVE_NO_SEGMENT : (uint32_t)view.surface[i];
        const uint32_t goals = view.reached[i] ? DRIVE_SCORED | ~0u << DRIVE_AGAIN_SHIFT : 0;
        const uint32_t kept = agents->flags[i] & (DRIVE_NO_GOAL | DRIVE_BLANK | goals);
        agents->flags[i] =
            kept | (view.active[i] ? DRIVE_ACTIVE : 0) | (view.collided[i] ? DRIVE_COLLIDED : 0) |
            (view.offroad[i] ? DRIVE_OFFROAD : 0) | (view.reached[i] ? DRIVE_REACHED : 0) |
            (view.alone[i] ? DRIVE_ALONE : 0) | traffic_given(turn, &view, i) |
            end_given(turn->config, &view, i) << DRIVE_END_SHIFT;
    }
    for (uint32_t i = 0; i < turn->state->slots; i++) {
        turn->slots[i].clock = (uint32_t)view.slot_clock[i];
        if (!turn->layout->repeats)
            continue;
        turn->slots[i].failed = view.slot_failed[i];
        turn->slots[i].repeats = view.slot_repeats[i];
    }
    turn->state->episode = *view.episode;
    turn->state->drawn = *view.drawn;
    turn->state->poked = turn->state->seed ^ *view.bundle_seed;
    turn->state->step = *view.step;
    take_judged(turn, &view);
#define TAKE(type, code, name, unit, low, high) \
    memcpy(turn->followers.name, view.followers.name, turn->layout->followers * sizeof(type));
    DRIVE_FOLLOWER_FIELDS(TAKE)
#undef TAKE
    return PV_OK;
}

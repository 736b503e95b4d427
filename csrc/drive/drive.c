// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// `drive`: the driving env's table of functions (env.h). An env is a bundle of scenes that fills num_agents rows. Each scene
// has its own clock and restarts in place; every resample_steps turns another bundle is drawn. Runs in workers; describe runs
// in the learner.
//
// Files: tables (settings, observation), scene (compiled scenes), layout (addresses), bundle (which scenes), episode (one
// scene's step), dynamics, collide, segments and partners (the k nearest), observe. index runs in the learner only.
#include "kernels.h"
#include "state.h"

#include <math.h>

// ---- settings -----------------------------------------------------------------------------------------------------

#define KIND_int32_t PV_I32
#define KIND_float PV_F32

static const pv_config_field config_fields[] = {
#define FIELD(type, name, low, high) {#name, KIND_##type, offsetof(pv_drive_config, name)},
    DRIVE_SETTINGS(FIELD)
#undef FIELD
};

static int check_config(const pv_drive_config* config, char* text) {
    // The bounds are written as decimals; float settings are compared as float.
#define CHECK(type, name, low, high)                                                                                           \
    if (!(config->name >= (type)(low) && config->name <= (type)(high)))                                                        \
        return pv_describe_error(text, PV_ERROR_CONFIG, "drive: %s is %g; it must be from %g to %g", #name,                    \
                                 (double)config->name, (double)(low), (double)(high));
    DRIVE_SETTINGS(CHECK)
#undef CHECK
    return PV_OK;
}

// ---- describe -----------------------------------------------------------------------------------------------------

static void describe_records(pv_spec* spec) {
#define NAME(name) strcpy(spec->record_names[spec->record_count++], #name);
    DRIVE_RECORD_VALUES(NAME)
#undef NAME
}

// Readable state, in the order in which peek writes it.
static void describe_state(const drive_block* layout, pv_spec* spec) {
#define FLOATS(name, unit, low, high)                                                                                          \
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, name, unit, PV_F32, layout->agents, 0, low, high, \
                 1.0f);
#define INTEGERS(name, dtype, count)                                                                                           \
    pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, name, "", dtype, count, 0, -1.0f, 1e9f, 1.0f);
    FLOATS("x", "m", -1e6f, 1e6f)
    FLOATS("y", "m", -1e6f, 1e6f)
    FLOATS("heading", "rad", -DRIVE_PI, DRIVE_PI)
    FLOATS("speed", "m/s", -400.0f, 400.0f)
    FLOATS("length", "m", 0.0f, 1e3f)
    FLOATS("width", "m", 0.0f, 1e3f)
    FLOATS("goal_x", "m", -1e6f, 1e6f)
    FLOATS("goal_y", "m", -1e6f, 1e6f)
    INTEGERS("object", PV_I32, layout->agents)
    INTEGERS("slot", PV_I32, layout->agents)
    INTEGERS("active", PV_U8, layout->agents)
    INTEGERS("collided", PV_U8, layout->agents)
    INTEGERS("offroad", PV_U8, layout->agents)
    INTEGERS("reached", PV_U8, layout->agents)
    INTEGERS("slot_scene", PV_I32, layout->slots)
    INTEGERS("slot_clock", PV_I32, layout->slots)
    INTEGERS("episode", PV_U64, 0)
    INTEGERS("step", PV_U32, 0)
#undef FLOATS
#undef INTEGERS
}

static int check_drawable(const pv_context* context, const drive_block* layout, char* text) {
    const pv_drive_config* config = drive_config_of(context);
    uint32_t count = drive_set(context->data)->scene_count, most = 0;
    if (layout->scenes) return PV_OK;
    if (!count) return pv_describe_error(text, PV_ERROR_DATA, "drive: there are no scenes; name a folder that holds some");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t agents = drive_scene_agents(context, i);
        if (agents > most) most = agents;
    }
    if (!most)
        return pv_describe_error(
            text, PV_ERROR_DATA, "drive: none of the %u scenes has a vehicle to control under control=%d%s; use other scenes",
            count, config->control, config->control == PV_CONTROL_VALID ? "" : " (control=1 takes those marked as expert too)");
    return pv_describe_error(
        text, PV_ERROR_CONFIG,
        "drive: num_agents is %d, but every scene with vehicles to control has more (up to %u); use at least that",
        config->num_agents, most);
}

static int drive_describe(const pv_context* context, pv_spec* spec, char* text) {
    const pv_drive_config* config = drive_config_of(context);
    int code = check_config(config, text);
    if (code) return code;
    if (!context->data) return pv_describe_error(text, PV_ERROR_DATA, "drive: no compiled scenes were given");
    code = pv_drive_scenes_check(context->data, context->data_bytes, text);
    if (code) return code;
    drive_block layout;
    drive_layout(context, 1, &layout);
    code = check_drawable(context, &layout, text);
    if (code) return code;
    spec->group_count = 1;
    pv_group_spec* group = &spec->groups[0];
    strcpy(group->name, "agents");
    group->agents = layout.agents;
    drive_describe_observation(config, &layout, group);
    group->action_kind = PV_DISCRETE;
    group->action_dims = 1;
    group->action_sizes[0] = DRIVE_ACTIONS;
    drive_describe_counters(spec);
    describe_records(spec);
    describe_state(&layout, spec);
    spec->save_bytes = (uint32_t)layout.env_bytes;
    spec->records_per_turn = layout.slots;
    spec->task_count = drive_set(context->data)->scene_count;
    return PV_OK;
}

static uint64_t drive_bytes(const pv_context* context, uint32_t env_count) {
    drive_block layout;
    drive_layout(context, env_count, &layout);
    return layout.bytes;
}

static int drive_init(pv_block* block) {
    drive_block* layout = (drive_block*)block->state;
    drive_layout(block->context, block->env_count, layout);
    drive_actions_init(layout->actions);
    drive_bundle_init(block->context, layout);
    return PV_OK;
}

static void drive_close(pv_block* block) { (void)block; }

// ---- reset and step -----------------------------------------------------------------------------------------------

// Counts the rows that no scene of the bundle uses. They were blanked when the bundle was filled.
static uint32_t count_padding(const drive_turn* turn) {
    uint32_t count = turn->layout->agents - turn->state->rows;
    turn->block->counters[DRIVE_COUNTER_PADDING] += count;
    return count;
}

// Fills the env with new scenes and starts them. The rest of the state is cleared, so that its bytes do not depend on what ran
// there before.
static int start_bundle(drive_turn* turn) {
    drive_env* env = turn->state;
    env->task = turn->block->tasks[turn->env];
    env->step = 0;
    env->over = 0;
    memset((uint8_t*)env + sizeof *env, 0, turn->layout->env_bytes - sizeof *env);
    memset(turn->block->rows[0].agent_types + turn->first_row, 0, turn->layout->agents); // cars are the only type
    int code = drive_bundle_fill(turn);
    if (code) return code;
    for (uint32_t slot = 0; slot < env->slots; slot++) {
        drive_turn_slot(turn, slot);
        drive_slot_start(turn);
    }
    drive_rows_blank(turn, env->rows, count_padding(turn));
    return PV_OK;
}

static int drive_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env]) continue;
        pv_block_at(block, env);
        drive_turn turn;
        drive_turn_open(block, env, &turn);
        if (seeds) {
            turn.state->seed = seeds[env];
            turn.state->episode = 0;
        } else {
            turn.state->episode++;
        }
        int code = start_bundle(&turn);
        if (code) return code;
    }
    return PV_OK;
}

static int next_bundle(drive_turn* turn) {
    turn->state->episode++;
    return start_bundle(turn);
}

static int start_slot(drive_turn* turn) {
    drive_slot_start(turn);
    return PV_OK;
}

// Keeps the last observations of the scene's agents that are done.
static void keep_observations(const drive_turn* turn) {
    const pv_rows* rows = &turn->block->rows[0];
    uint64_t first = turn->first_row + turn->slot->row, bytes = rows->observation_bytes;
    for (uint64_t row = first; row < first + turn->slot->count; row++) {
        if (rows->terminals[row] || rows->truncations[row])
            memcpy(rows->final_observations + row * bytes, rows->observations + row * bytes, bytes);
    }
}

// Same-step autoreset of `count` rows: calls `start` and then restores the rewards and flags of the last step. The counters are
// restored too, since a row counts once per turn.
static int restart(drive_turn* turn, uint32_t row, uint32_t count, int (*start)(drive_turn* turn)) {
    float rewards[DRIVE_MAX_AGENTS];
    uint8_t terminals[DRIVE_MAX_AGENTS], truncations[DRIVE_MAX_AGENTS];
    uint64_t counters[PV_COUNTERS];
    const pv_rows* rows = &turn->block->rows[0];
    uint64_t at = turn->first_row + row;
    memcpy(counters, turn->block->counters, sizeof counters);
    memcpy(rewards, rows->rewards + at, count * sizeof(float));
    memcpy(terminals, rows->terminals + at, count);
    memcpy(truncations, rows->truncations + at, count);
    int code = start(turn);
    memcpy(rows->rewards + at, rewards, count * sizeof(float));
    memcpy(rows->terminals + at, terminals, count);
    memcpy(rows->truncations + at, truncations, count);
    memcpy(turn->block->counters, counters, sizeof counters);
    return code;
}

// One turn of a scene that is over: it restarts, unless autoreset is disabled or the bundle ends with this turn.
static void step_idle_slot(drive_turn* turn, int last) {
    if (turn->block->context->autoreset == PV_NEXT_STEP && !last) {
        drive_slot_start(turn);
        return;
    }
    drive_rows_blank(turn, turn->slot->row, turn->slot->count);
    turn->block->counters[DRIVE_COUNTER_IDLE] += turn->slot->count;
}

static int step_env(pv_block* block, uint32_t env) {
    const int same_step = block->context->autoreset == PV_SAME_STEP;
    drive_turn turn;
    drive_turn_open(block, env, &turn);
    if (turn.state->over) return next_bundle(&turn); // next-step autoreset: this turn's actions are ignored
    turn.state->step++;
    int last = turn.state->step >= (uint32_t)turn.config->resample_steps;
    for (uint32_t slot = 0; slot < turn.state->slots; slot++) {
        drive_turn_slot(&turn, slot);
        if (turn.slot->over) {
            step_idle_slot(&turn, last);
            continue;
        }
        drive_slot_advance(&turn);
        if (last) drive_slot_cut(&turn);
        if (same_step) keep_observations(&turn);
        if (same_step && !last && turn.slot->over) restart(&turn, turn.slot->row, turn.slot->count, start_slot);
    }
    count_padding(&turn);
    turn.state->over = (uint32_t)(last && !same_step);
    return last && same_step ? restart(&turn, 0, turn.layout->agents, next_bundle) : PV_OK;
}

static int drive_step(pv_block* block) {
    for (uint32_t env = 0; env < block->env_count; env++) {
        pv_block_at(block, env);
        int code = step_env(block, env);
        if (code) return code;
    }
    return PV_OK;
}

// ---- save, load, peek ---------------------------------------------------------------------------------------------

static int drive_save(pv_block* block, uint32_t env, uint8_t* out) {
    memcpy(out, drive_env_at(block, env), ((const drive_block*)block->state)->env_bytes);
    return PV_OK;
}

// True if a run can have left these numbers in a row: those of the scene are equal to it, the others finite and in range.
static int agent_sound(const drive_turn* turn, uint32_t row, uint32_t o) {
    const drive_agents* agents = &turn->agents;
    const pv_object* object = &turn->scene.objects[o];
    const float inverse_wheelbase = 1.0f / (turn->config->wheelbase_factor * object->length_m);
    const struct {
        float value, most;
    } numbers[] = {{agents->x[row], 1e7f},
                   {agents->y[row], 1e7f},
                   {agents->heading[row], 3.2f},
                   {agents->cosine[row], 1.001f},
                   {agents->sine[row], 1.001f},
                   {agents->speed[row], 400.0f},
                   {agents->progress[row], 1e9f},
                   {agents->goal_distance[row], 1e8f},
                   {agents->episode_return[row], 1e30f}};
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!(fabsf(numbers[i].value) <= numbers[i].most)) return 0;
    }
    return agents->object[row] == o && agents->slot[row] == (uint32_t)(turn->slot - turn->slots) &&
           agents->length[row] == object->length_m && agents->width[row] == object->width_m &&
           agents->goal_x[row] == object->goal_x_m && agents->goal_y[row] == object->goal_y_m &&
           agents->inverse_wheelbase[row] == inverse_wheelbase;
}

// True if the agents of the slot are those of its scene.
static int slot_sound(const drive_turn* turn) {
    uint32_t row = turn->slot->row, end = row + turn->slot->count;
    for (uint32_t o = 0; o < turn->scene.head->object_count && row < end; o++) {
        if (!drive_object_controlled(turn->config, &turn->scene, &turn->scene.objects[o])) continue;
        if (!agent_sound(turn, row++, o)) return 0;
    }
    return row == end;
}

// True if a step can run safely on an env that was just loaded.
static int env_sound(drive_turn* turn) {
    const drive_env* env = turn->state;
    const uint8_t* data = turn->block->context->data;
    uint32_t rows = 0;
    if (env->slots > turn->layout->slots) return 0;
    for (uint32_t i = 0; i < env->slots; i++) {
        const drive_slot* slot = &turn->slots[i];
        if (slot->scene >= drive_set(data)->scene_count || slot->row != rows) return 0;
        uint32_t size = drive_scene_rows(turn->layout, slot->scene);
        if (!size || slot->count != size || size > turn->layout->agents - rows) return 0;
        rows += size;
        drive_turn_slot(turn, i);
        if (!slot_sound(turn)) return 0;
    }
    return rows == env->rows;
}

static int drive_load(pv_block* block, uint32_t env, const uint8_t* in) {
    drive_turn turn;
    memcpy(drive_env_at(block, env), in, ((const drive_block*)block->state)->env_bytes);
    drive_turn_open(block, env, &turn);
    if (env_sound(&turn)) return PV_OK;
    memset(turn.state, 0, turn.layout->env_bytes);
    pv_block_error(block, env, "drive: the saved state does not fit these scenes and settings");
    return PV_ERROR_STATE;
}

static uint8_t* put(uint8_t* out, const void* from, uint64_t bytes) {
    memcpy(out, from, bytes);
    return out + bytes;
}

// Writes one integer per agent, -1 (or 0 for bytes) in padding rows.
static uint8_t* put_integers(uint8_t* out, const uint32_t* values, uint32_t rows, uint32_t agents) {
    for (uint32_t i = 0; i < agents; i++) {
        int32_t value = i < rows ? (int32_t)values[i] : -1;
        out = put(out, &value, sizeof value);
    }
    return out;
}

static uint8_t* put_flag(uint8_t* out, const drive_turn* turn, uint32_t flag) {
    for (uint32_t i = 0; i < turn->layout->agents; i++) {
        *out++ = (uint8_t)(i < turn->state->rows && (turn->agents.flags[i] & flag));
    }
    return out;
}

static int drive_peek(pv_block* block, uint32_t env, uint8_t* out) {
    drive_turn turn;
    drive_turn_open(block, env, &turn);
    const drive_agents* agents = &turn.agents;
    const float* const floats[] = {agents->x,      agents->y,     agents->heading, agents->speed,
                                   agents->length, agents->width, agents->goal_x,  agents->goal_y};
    const uint32_t flags[] = {DRIVE_ACTIVE, DRIVE_COLLIDED, DRIVE_OFFROAD, DRIVE_REACHED};
    uint32_t count = turn.layout->agents, rows = turn.state->rows;
    const uint8_t* start = out;
    for (uint32_t i = 0; i < sizeof floats / sizeof floats[0]; i++) out = put(out, floats[i], count * sizeof(float));
    out = put_integers(out, agents->object, rows, count);
    out = put_integers(out, agents->slot, rows, count);
    for (uint32_t i = 0; i < sizeof flags / sizeof flags[0]; i++) out = put_flag(out, &turn, flags[i]);
    out += pv_align_up((uint64_t)(out - start), 4) - (uint64_t)(out - start);
    for (int clock = 0; clock < 2; clock++) {
        for (uint32_t i = 0; i < turn.layout->slots; i++) {
            int32_t value = i >= turn.state->slots ? -1 : (int32_t)(clock ? turn.slots[i].clock : turn.slots[i].scene);
            out = put(out, &value, sizeof value);
        }
    }
    out += pv_align_up((uint64_t)(out - start), 8) - (uint64_t)(out - start);
    out = put(out, &turn.state->episode, sizeof turn.state->episode);
    put(out, &turn.state->step, sizeof turn.state->step);
    return PV_OK;
}

const pv_env_type pv_drive_type = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = "drive",
    .config_fields = config_fields,
    .config_count = sizeof config_fields / sizeof config_fields[0],
    .config_bytes = sizeof(pv_drive_config),
    .flags = PV_OWN_AUTORESET,
    .describe = drive_describe,
    .bytes = drive_bytes,
    .init = drive_init,
    .reset = drive_reset,
    .step = drive_step,
    .save = drive_save,
    .load = drive_load,
    .peek = drive_peek,
    .close = drive_close,
};

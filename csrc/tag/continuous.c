// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// tag_continuous: reset and step. See continuous.h.
//
// The order of a step is WarpDrive's: everybody moves, observations are taken (so they show who was in the game before this step's
// tags), then runners are tagged.
#include "continuous.h"

#include "../kernels.h"
#include "../rng.h"

#include <math.h>
#include <string.h>

uint64_t tag_lay_out(const tag_config* config, uint64_t envs, uint8_t* base, tag_state* state) {
    uint64_t agents = tag_agents(config), rows = envs * agents, at = 0;
#define TAKE(member, count)                              \
    state->member = (void*)(base + at);                  \
    at = pv_align_up(at + (count) * sizeof *state->member, 64)
    TAKE(constants, 1);
    TAKE(acceleration_change, (uint64_t)config->num_acceleration_levels + 1);
    TAKE(turn_change, (uint64_t)config->num_turn_levels + 1);
    TAKE(ids, agents);
    TAKE(sums, agents);
    TAKE(near, agents);
    TAKE(seed, envs);
    TAKE(episode, envs);
    TAKE(task, envs);
    TAKE(survived, envs);
    TAKE(time, envs);
    TAKE(left, envs);
    TAKE(tags, envs);
    TAKE(over, envs);
    TAKE(returns, 2 * envs);
    TAKE(x, rows);
    TAKE(y, rows);
    TAKE(speed, rows);
    TAKE(direction, rows);
    TAKE(acceleration, rows);
    TAKE(alive, rows);
    TAKE(type, rows);
    TAKE(edge, rows);
    for (int f = 0; f < 5; f++) {
        TAKE(shown[f], rows);
    }
#undef TAKE
    return at;
}

tag_state tag_state_of(const pv_block* block) {
    tag_state state;
    tag_lay_out(tag_config_of(block->context), block->env_count, block->state, &state);
    return state;
}

static uint64_t tag_bytes(const pv_context* context, uint32_t env_count) {
    tag_state unused;
    return tag_lay_out(tag_config_of(context), env_count, NULL, &unused);
}

// ---- init ------------------------------------------------------------------------------------------------------------------------

static void fill_constants(const pv_context* context, tag_constants* constants) {
    const tag_config* config = tag_config_of(context);
    uint64_t count;
    memcpy(&constants->rewards, pv_params_find(context->params, "rewards", PV_F64, &count), sizeof(tag_rewards));
    memcpy(&constants->margin, pv_params_find(context->params, "margin", PV_F32, &count), sizeof(float));
    constants->cap[TAG_RUNNER] = config->max_speed * config->skill_level_runner;
    constants->cap[TAG_TAGGER] = config->max_speed * config->skill_level_tagger;
    for (int edge = 0; edge < 2; edge++) {
        double hit = edge ? constants->rewards.edge_hit : 0.0;
        constants->base[TAG_RUNNER][edge] = 0.0 + hit + constants->rewards.runner_step; // 0.0 + -0.0 is 0.0
        constants->base[TAG_TAGGER][edge] = 0.0 + hit + constants->rewards.tagger_step;
    }
    constants->per_length = (float)(1.0 / ((double)config->grid_length * sqrt(2.0)));
    constants->per_speed = (float)(1.0 / ((double)config->max_speed + 1e-10));
    constants->per_turn = 1.0f / TAG_TWO_PI;
}

static void fill_ids(const uint8_t* types, uint32_t agents, int32_t* ids) {
    for (int type = TAG_TAGGER; type >= TAG_RUNNER; type--) {
        for (uint32_t i = 0; i < agents; i++) {
            if (types[i] == type) *ids++ = (int32_t)i;
        }
    }
}

static int tag_init(pv_block* block) {
    const pv_context* context = block->context;
    const uint32_t agents = tag_agents(tag_config_of(context));
    tag_state state = tag_state_of(block);
    uint64_t count;
    fill_constants(context, state.constants);
    const float* changes = pv_params_find(context->params, "acceleration_changes", PV_F32, &count);
    memcpy(state.acceleration_change, changes, count * sizeof(float));
    const float* turns = pv_params_find(context->params, "turn_changes", PV_F32, &count);
    for (uint64_t i = 0; i < count; i++) state.turn_change[i] = fmodf(turns[i], TAG_TWO_PI); // then one correction is enough
    const uint8_t* types = pv_params_find(context->params, "types", PV_U8, &count);
    fill_ids(types, agents, state.ids);
    for (uint64_t r = 0; r < (uint64_t)block->env_count * agents; r++) state.type[r] = types[r % agents];
    return PV_OK;
}

static void tag_close(pv_block* block) { (void)block; }

// ---- reset -----------------------------------------------------------------------------------------------------------------------

static void place(const pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    const uint64_t first = (uint64_t)env * agents, seed = state->seed[env], episode = state->episode[env];
    const char* const names[] = {"start_x", "start_y", "start_direction"};
    float* const arrays[] = {state->x + first, state->y + first, state->direction + first};
    if (!config->random_starts) {
        uint64_t count;
        for (int a = 0; a < 3; a++)
            memcpy(arrays[a], pv_params_find(block->context->params, names[a], PV_F32, &count), agents * sizeof(float));
        return;
    }
    for (uint32_t i = 0; i < agents; i++) {
        arrays[0][i] = config->grid_length * pv_rng_f32(seed, episode, 0, 3 * i);
        arrays[1][i] = config->grid_length * pv_rng_f32(seed, episode, 0, 3 * i + 1);
        arrays[2][i] = (float)pv_rng_below(seed, episode, 0, 3 * i + 2, 4) * (TAG_TWO_PI / 4);
    }
}

// Sets the state of a new episode. Its rows are written with those of the other envs.
static void begin_episode(pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    const uint64_t first = (uint64_t)env * agents;
    state->task[env] = block->tasks[env];
    state->time[env] = 0;
    state->over[env] = 0;
    state->left[env] = config->num_runners;
    state->tags[env] = 0;
    state->survived[env] = 0;
    state->returns[2 * (uint64_t)env] = state->returns[2 * (uint64_t)env + 1] = 0.0f;
    place(block, state, env);
    memset(state->speed + first, 0, agents * sizeof(float));
    memset(state->acceleration + first, 0, agents * sizeof(float));
    for (uint32_t i = 0; i < agents; i++) state->alive[first + i] = 1.0f;
    tag_scale(state, first, agents);
}

static void write_reset_flags(const pv_block* block, const tag_state* state, uint32_t env) {
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const pv_rows* rows = &block->rows[0];
    const uint64_t first = (uint64_t)env * agents;
    memset(rows->rewards + first, 0, agents * sizeof(float));
    memset(rows->terminals + first, 0, agents);
    memset(rows->truncations + first, 0, agents);
    memset(rows->masks + first, 1, agents);
    for (uint32_t i = 0; i < agents; i++) rows->agent_types[first + i] = (uint8_t)state->type[first + i];
}

static int tag_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    tag_state state = tag_state_of(block);
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env]) continue;
        pv_block_at(block, env);
        state.episode[env] = seeds ? 0 : state.episode[env] + 1;
        if (seeds) state.seed[env] = seeds[env];
        begin_episode(block, &state, env);
        write_reset_flags(block, &state, env);
        tag_observe(block, &state, env, 1);
    }
    return PV_OK;
}

// ---- step: everybody moves -------------------------------------------------------------------------------------------------------

// Looks up what the actions change; the scratch of observations holds it until then.
static void look_up(const pv_block* block, const tag_state* state) {
    const int32_t* actions = block->rows[0].indices;
    for (uint64_t r = 0; r < block->rows[0].count; r++) {
        state->shown[0][r] = state->acceleration_change[actions[2 * r]];
        state->shown[1][r] = state->turn_change[actions[2 * r + 1]];
    }
}

// Turns, speeds up and moves every row. Agents that are out stand still; envs that are over are moved for nothing.
PV_CLONES static void move_all(const pv_block* block, const tag_state* state) {
    const float length = tag_config_of(block->context)->grid_length;
    const float runner_cap = state->constants->cap[TAG_RUNNER], tagger_cap = state->constants->cap[TAG_TAGGER];
    const float* restrict faster = state->shown[0];
    const float* restrict turn = state->shown[1];
    const float* restrict alive = state->alive;
    const int32_t* restrict type = state->type;
    float* restrict x = state->x;
    float* restrict y = state->y;
    float* restrict speed = state->speed;
    float* restrict direction = state->direction;
    float* restrict acceleration = state->acceleration;
    int32_t* restrict edge = state->edge;
    for (uint64_t r = 0; r < block->rows[0].count; r++) {
        float d = direction[r] + turn[r];
        d = d >= TAG_TWO_PI ? d - TAG_TWO_PI : d;
        d = d < 0.0f ? d + TAG_TWO_PI : d;
        d = d * alive[r];
        float cap = type[r] == TAG_TAGGER ? tagger_cap : runner_cap, a = acceleration[r] + faster[r];
        float s = speed[r] + a;
        s = s < 0.0f ? 0.0f : s;
        s = s > cap ? cap : s;
        s = s * alive[r];
        float sine, cosine;
        pv_sincos(d, &sine, &cosine);
        float to_x = x[r] + s * cosine, to_y = y[r] + s * sine;
        float new_x = to_x < 0.0f ? 0.0f : to_x, new_y = to_y < 0.0f ? 0.0f : to_y;
        new_x = new_x > length ? length : new_x;
        new_y = new_y > length ? length : new_y;
        edge[r] = (new_x != to_x) | (new_y != to_y);
        direction[r] = d;
        speed[r] = s;
        acceleration[r] = (s > 0.0f) & (s < cap) ? a : 0.0f;
        x[r] = new_x;
        y[r] = new_y;
    }
}

// Rewards, flags and masks of a step in which nobody is tagged and nothing ends.
PV_CLONES static void write_flags(const pv_block* block, const tag_state* state) {
    const pv_rows* rows = &block->rows[0];
    const tag_constants constants = *state->constants;
    const float runner = (float)constants.base[TAG_RUNNER][0], runner_edge = (float)constants.base[TAG_RUNNER][1];
    const float tagger = (float)constants.base[TAG_TAGGER][0], tagger_edge = (float)constants.base[TAG_TAGGER][1];
    const float* restrict alive = state->alive;
    const int32_t* restrict type = state->type;
    const int32_t* restrict edge = state->edge;
    float* restrict rewards = rows->rewards;
    uint8_t* restrict masks = rows->masks;
    for (uint64_t r = 0; r < rows->count; r++) {
        float inside = type[r] ? tagger : runner, outside = type[r] ? tagger_edge : runner_edge;
        float reward = edge[r] ? outside : inside;
        rewards[r] = alive[r] != 0.0f ? reward : 0.0f;
        masks[r] = alive[r] != 0.0f;
    }
    memset(rows->terminals, 0, rows->count);
    memset(rows->truncations, 0, rows->count);
}

// ---- step: tags and ends of one env ----------------------------------------------------------------------------------------------

// Distance of a runner to its nearest tagger, whose place in state->ids goes to *nearest; ties to the lowest id.
static float nearest_tagger(const tag_state* state, uint64_t first, int32_t taggers, int32_t runner, int32_t* nearest) {
    const float x = state->x[first + (uint64_t)runner], y = state->y[first + (uint64_t)runner];
    float best = INFINITY;
    for (int32_t k = 0; k < taggers; k++) {
        uint64_t row = first + (uint64_t)state->ids[k];
        float dx = state->x[row] - x, dy = state->y[row] - y, distance = sqrtf(dx * dx + dy * dy);
        if (distance < best) {
            best = distance;
            *nearest = state->ids[k];
        }
    }
    return best;
}

// Fills state->sums with the rewards of the env's agents so far, in float64.
static void open_sums(const tag_state* state, uint64_t first, uint32_t agents) {
    for (uint32_t i = 0; i < agents; i++) {
        uint64_t row = first + i;
        state->sums[i] = state->alive[row] != 0.0f ? state->constants->base[state->type[row]][state->edge[row]] : 0.0;
    }
}

// Tags runners of one env. Returns whether state->sums were filled.
static int tag_runners(const pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const tag_rewards* rewards = &state->constants->rewards;
    const uint32_t agents = tag_agents(config);
    const uint64_t first = (uint64_t)env * agents;
    const int32_t* runners = state->ids + config->num_taggers;
    int tagged = 0;
    for (int32_t k = 0; k < config->num_runners; k++) {
        const int32_t runner = runners[k];
        const uint64_t row = first + (uint64_t)runner;
        int32_t tagger = 0;
        if (state->alive[row] == 0.0f) continue;
        if (!(nearest_tagger(state, first, config->num_taggers, runner, &tagger) < state->constants->margin)) continue;
        if (!tagged) open_sums(state, first, agents);
        tagged = 1;
        state->sums[runner] += rewards->runner_tag;
        state->sums[tagger] += rewards->tagger_tag;
        state->tags[env]++;
        if (!config->runner_exits_game_after_tagged) continue;
        state->alive[row] = 0.0f;
        state->left[env]--;
        state->survived[env] += state->time[env];
        block->rows[0].terminals[row] = 1;
    }
    return tagged;
}

// Gives the runners that are left their reward at the time limit.
static void reward_end(const pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const uint64_t first = (uint64_t)env * tag_agents(config);
    for (int32_t k = config->num_taggers; k < config->num_taggers + config->num_runners; k++) {
        int32_t runner = state->ids[k];
        if (state->alive[first + (uint64_t)runner] != 0.0f) state->sums[runner] += state->constants->rewards.runner_end;
    }
}

static void end_rows(const pv_block* block, const tag_state* state, uint32_t env) {
    const pv_rows* rows = &block->rows[0];
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const uint64_t first = (uint64_t)env * agents;
    uint8_t* flags = state->left[env] ? rows->truncations : rows->terminals;
    for (uint64_t r = first; r < first + agents; r++) flags[r] |= state->alive[r] != 0.0f; // others have theirs, or are masked
}

static void leave_records(pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const float counts[2] = {(float)config->num_runners, (float)config->num_taggers};
    const int64_t survived = state->survived[env] + (int64_t)state->left[env] * state->time[env];
    for (uint32_t type = 0; type < 2; type++) {
        pv_record* record = pv_block_record(block);
        if (!record) return;
        memset(record, 0, sizeof *record);
        record->episode = state->episode[env];
        record->task = state->task[env];
        record->env = block->first_env + env;
        record->slot = type;
        record->agent_type = type;
        record->length = (uint32_t)state->time[env];
        record->episode_return = state->returns[2 * (uint64_t)env + type] / counts[type];
        record->values[0] = (float)state->tags[env];
        record->values[1] = (float)state->left[env] / counts[TAG_RUNNER];
        record->values[2] = (float)survived / counts[TAG_RUNNER];
        record->values[3] = counts[type];
    }
}

static void finish_step(pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    const uint64_t first = (uint64_t)env * agents;
    float* rewards = block->rows[0].rewards + first;
    const int timed_out = state->time[env] >= config->episode_length;
    int summed = tag_runners(block, state, env);
    if (timed_out && !summed) open_sums(state, first, agents);
    if (timed_out) reward_end(block, state, env);
    if (summed || timed_out) {
        for (uint32_t i = 0; i < agents; i++) rewards[i] = (float)state->sums[i];
    }
    float sums[2] = {0.0f, 0.0f};
    for (uint32_t i = 0; i < agents; i++) sums[state->type[i]] += rewards[i];
    state->returns[2 * (uint64_t)env] += sums[0];
    state->returns[2 * (uint64_t)env + 1] += sums[1];
    if (!timed_out && state->left[env]) return;
    state->over[env] = 1;
    end_rows(block, state, env);
    leave_records(block, state, env);
}

static int tag_step(pv_block* block) {
    tag_state state = tag_state_of(block);
    look_up(block, &state);
    move_all(block, &state);
    tag_scale(&state, 0, block->rows[0].count);
    write_flags(block, &state);
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (PV_LIKELY(!state.over[env])) {
            state.time[env]++;
            continue;
        }
        pv_block_at(block, env); // next-step autoreset
        state.episode[env]++;
        begin_episode(block, &state, env);
        write_reset_flags(block, &state, env);
    }
    tag_observe(block, &state, 0, block->env_count);
    for (uint32_t env = 0; env < block->env_count; env++) {
        pv_block_at(block, env);
        if (state.time[env]) finish_step(block, &state, env);
    }
    return PV_OK;
}

const pv_env_type pv_tag_continuous_type = {
    .abi = PV_ABI,
    .struct_bytes = sizeof(pv_env_type),
    .name = "tag_continuous",
    .config_fields = tag_config_fields,
    .config_count = sizeof(tag_config) / 4,
    .config_bytes = sizeof(tag_config),
    .describe = tag_continuous_describe,
    .bytes = tag_bytes,
    .init = tag_init,
    .reset = tag_reset,
    .step = tag_step,
    .save = tag_continuous_save,
    .load = tag_continuous_load,
    .peek = tag_continuous_peek,
    .close = tag_close,
};

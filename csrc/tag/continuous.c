// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// tag_continuous: reset and step. See continuous.h.
//
// The order of a step is WarpDrive's: all agents move, observations are taken (so they show the
// agents that were in the game before this step's tags), then runners are tagged.
#include "continuous.h"

#include "envs/kernels.h"
#include "contract/rng.h"

#include <math.h>
#include <string.h>

static uint64_t tag_bytes(const pv_context* context, uint32_t env_count) {
    tag_state unused;
    return tag_lay_out(tag_config_of(context), env_count, NULL, &unused);
}

// ---- init ----

static void fill_constants(const pv_context* context, tag_constants* constants) {
    const tag_config* config = tag_config_of(context);
    uint64_t count;
    memcpy(&constants->rewards, pv_params_find(context->params, "rewards", PV_F64, &count),
           sizeof(tag_rewards));
    memcpy(&constants->margin, pv_params_find(context->params, "margin", PV_F32, &count),
           sizeof(float));
    constants->cap[TAG_RUNNER] = config->max_speed * config->skill_level_runner;
    constants->cap[TAG_TAGGER] = config->max_speed * config->skill_level_tagger;
    for (int edge = 0; edge < 2; edge++) {
        double hit = edge ? constants->rewards.edge_hit : 0.0;
        constants->base[TAG_RUNNER][edge] =
            0.0 + hit + constants->rewards.runner_step; // 0.0 + -0.0 is 0.0
        constants->base[TAG_TAGGER][edge] = 0.0 + hit + constants->rewards.tagger_step;
    }
    constants->per_length = (float)(1.0 / ((double)config->grid_length * sqrt(2.0)));
    constants->per_speed = (float)(1.0 / ((double)config->max_speed + 1e-10));
    constants->per_turn = 1.0f / TAG_TWO_PI;
}

static void fill_ids(const uint8_t* types, uint32_t agents, int32_t* ids) {
    for (int type = TAG_TAGGER; type >= TAG_RUNNER; type--) {
        for (uint32_t i = 0; i < agents; i++) {
            if (types[i] == type)
                *ids++ = (int32_t)i;
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
    for (uint64_t i = 0; i < count; i++)
        state.turn_change[i] = fmodf(turns[i], TAG_TWO_PI); // then one correction is enough
    const uint8_t* types = pv_params_find(context->params, "types", PV_U8, &count);
    fill_ids(types, agents, state.ids);
    for (uint32_t r = 0; r < tag_tile_envs(tag_config_of(context)) * agents; r++)
        state.tagger[r] = (float)types[r % agents];
    return PV_OK;
}

// ---- reset ----

static void place(const pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    const uint64_t first = (uint64_t)env * agents, seed = state->seed[env],
                   episode = state->episode[env];
    const char* const names[] = {"start_x", "start_y", "start_direction"};
    float* const arrays[] = {state->x + first, state->y + first, state->direction + first};
    if (!config->random_starts) {
        uint64_t count;
        for (int a = 0; a < 3; a++)
            memcpy(arrays[a], pv_params_find(block->context->params, names[a], PV_F32, &count),
                   agents * sizeof(float));
        return;
    }
    for (uint32_t i = 0; i < agents; i++) {
        arrays[0][i] = config->grid_length * pv_rng_f32(seed, episode, 0, 3 * i);
        arrays[1][i] = config->grid_length * pv_rng_f32(seed, episode, 0, 3 * i + 1);
        arrays[2][i] = (float)pv_rng_below(seed, episode, 0, 3 * i + 2, 4) * (TAG_TWO_PI / 4);
    }
}

// Sets the state of a new episode of an env, the one at `at` of the tile. Its rows are written with
// those of the others.
static void begin_episode(pv_block* block, const tag_state* state, uint32_t env, uint64_t at) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    const uint64_t first = (uint64_t)env * agents;
    tag_forget_episode(block, state, env);
    state->time[env] = 0;
    state->left[env] = config->num_runners;
    state->stale[env] = 1;
    place(block, state, env);
    memset(state->speed + first, 0, agents * sizeof(float));
    memset(state->acceleration + first, 0, agents * sizeof(float));
    memset(state->left_at + first, 0, agents * sizeof(int32_t));
    for (uint32_t i = 0; i < agents; i++)
        state->alive[first + i] = 1.0f;
    tag_scale(state, first, at, agents);
}

// Writes the rewards, flags, masks and types of a start.
static void write_reset_rows(const pv_block* block, const tag_state* state, uint32_t env) {
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const pv_rows* rows = &block->rows[0];
    const uint64_t first = (uint64_t)env * agents;
    memset(rows->rewards + first, 0, agents * sizeof(float));
    memset(rows->terminals + first, 0, agents);
    memset(rows->truncations + first, 0, agents);
    memset(rows->masks + first, 1, agents);
    for (uint32_t i = 0; i < agents; i++)
        rows->agent_types[first + i] = (uint8_t)state->tagger[i];
}

static int tag_reset(pv_block* block, const uint8_t* mask, const uint64_t* seeds) {
    tag_state state = tag_state_of(block);
    for (uint32_t env = 0; env < block->env_count; env++) {
        if (mask && !mask[env])
            continue;
        pv_block_at(block, env);
        state.episode[env] = seeds ? 0 : state.episode[env] + 1;
        if (seeds)
            state.seed[env] = seeds[env];
        begin_episode(block, &state, env, 0);
        write_reset_rows(block, &state, env);
        tag_observe(block, &state, env, 1);
    }
    return PV_OK;
}

// ---- step: moves ----

// Rows [first, first + count) of the block: the tile.
typedef struct tile_rows {
    uint64_t first, count;
} tile_rows;

// Looks up what the actions change.
static void look_up(const pv_block* block, const tag_state* state, tile_rows tile) {
    const int32_t* actions = block->rows[0].indices + 2 * tile.first;
    for (uint64_t r = 0; r < tile.count; r++) {
        state->faster[r] = state->acceleration_change[actions[2 * r]];
        state->turn[r] = state->turn_change[actions[2 * r + 1]];
    }
}

// Turns, accelerates and moves every row. Agents that are out stand still; moving envs that are
// over has no effect.
PV_CLONES static void move(const pv_block* block, const tag_state* state, tile_rows tile) {
    const float length = tag_config_of(block->context)->grid_length;
    const float runner_cap = state->constants->cap[TAG_RUNNER],
                tagger_cap = state->constants->cap[TAG_TAGGER];
    const float* restrict faster = state->faster;
    const float* restrict turn = state->turn;
    const float* restrict alive = state->alive + tile.first;
    const float* restrict tagger = state->tagger;
    float* restrict x = state->x + tile.first;
    float* restrict y = state->y + tile.first;
    float* restrict speed = state->speed + tile.first;
    float* restrict direction = state->direction + tile.first;
    float* restrict acceleration = state->acceleration + tile.first;
    int32_t* restrict edge = state->edge;
    PV_APART for (uint64_t r = 0; r < tile.count; r++) {
        float d = direction[r] + turn[r];
        d = d >= TAG_TWO_PI ? d - TAG_TWO_PI : d;
        d = d < 0.0f ? d + TAG_TWO_PI : d;
        d = d * alive[r];
        float cap = tagger[r] != 0.0f ? tagger_cap : runner_cap, a = acceleration[r] + faster[r];
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

// Writes the rewards, flags and masks of a step as if nobody were tagged and no episode ended.
PV_CLONES static void write_rows(const pv_block* block, const tag_state* state, tile_rows tile) {
    const pv_rows* rows = &block->rows[0];
    const tag_constants constants = *state->constants;
    const float runner = (float)constants.base[TAG_RUNNER][0],
                runner_edge = (float)constants.base[TAG_RUNNER][1];
    const float tagger = (float)constants.base[TAG_TAGGER][0],
                tagger_edge = (float)constants.base[TAG_TAGGER][1];
    const float* restrict alive = state->alive + tile.first;
    const float* restrict type = state->tagger;
    const int32_t* restrict edge = state->edge;
    float* restrict rewards = rows->rewards + tile.first;
    uint8_t* restrict masks = rows->masks + tile.first;
    PV_APART for (uint64_t r = 0; r < tile.count; r++) {
        float inside = type[r] != 0.0f ? tagger : runner,
              outside = type[r] != 0.0f ? tagger_edge : runner_edge;
        float reward = edge[r] ? outside : inside;
        rewards[r] = alive[r] != 0.0f ? reward : 0.0f;
        masks[r] = alive[r] != 0.0f;
    }
    memset(rows->terminals + tile.first, 0, tile.count);
    memset(rows->truncations + tile.first, 0, tile.count);
}

// ---- step: tags and ends of one env ----

// Returns the distance of a runner to its nearest tagger, whose place in state->ids goes to
// *nearest; ties to the lowest id.
static float nearest_tagger(
    const tag_state* state, uint64_t first, int32_t taggers, int32_t runner, int32_t* nearest) {
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

// Returns whether a runner of the env may be near enough to a tagger: a quick check, since in most
// steps none is.
PV_CLONES static int any_near(const tag_state* state,
                              uint64_t first,
                              uint32_t agents,
                              int32_t taggers) {
    const float margin = state->constants->margin, square = margin * margin * 1.00001f;
    const float* restrict x = state->x + first;
    const float* restrict y = state->y + first;
    const float* restrict alive = state->alive + first;
    const float* restrict tagger = state->tagger;
    int32_t any = 0;
    for (int32_t k = 0; k < taggers; k++) {
        const float at_x = x[state->ids[k]], at_y = y[state->ids[k]];
        for (uint32_t i = 0; i < agents; i++) {
            float dx = x[i] - at_x, dy = y[i] - at_y;
            any |= (dx * dx + dy * dy <= square) & (alive[i] > tagger[i]);
        }
    }
    return any;
}

// Fills state->sums with the rewards of the env's agents so far, in float64. The env is at `at` of
// the tile.
static void open_sums(const tag_state* state, uint64_t first, uint64_t at, uint32_t agents) {
    for (uint32_t i = 0; i < agents; i++) {
        const double base = state->constants->base[state->tagger[i] != 0.0f][state->edge[at + i]];
        state->sums[i] = state->alive[first + i] != 0.0f ? base : 0.0;
    }
}

// Tags the runners of one env and adds the rewards to state->sums.
static void tag_runners(const pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const tag_rewards* rewards = &state->constants->rewards;
    const uint64_t first = (uint64_t)env * tag_agents(config);
    const int32_t* runners = state->ids + config->num_taggers;
    for (int32_t k = 0; k < config->num_runners; k++) {
        const int32_t runner = runners[k];
        const uint64_t row = first + (uint64_t)runner;
        int32_t tagger = 0;
        if (state->alive[row] == 0.0f)
            continue;
        if (!(nearest_tagger(state, first, config->num_taggers, runner, &tagger) <
              state->constants->margin))
            continue;
        state->sums[runner] += rewards->runner_tag;
        state->sums[tagger] += rewards->tagger_tag;
        state->tags[env]++;
        if (!config->runner_exits_game_after_tagged)
            continue;
        state->alive[row] = 0.0f;
        state->left_at[row] = state->time[env];
        state->left[env]--;
        state->stale[env] = 1;
        block->rows[0].terminals[row] = 1;
    }
}

// Gives the runners that are left their reward at the time limit.
static void reward_end(const pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const uint64_t first = (uint64_t)env * tag_agents(config);
    for (int32_t k = config->num_taggers; k < config->num_taggers + config->num_runners; k++) {
        int32_t runner = state->ids[k];
        if (state->alive[first + (uint64_t)runner] != 0.0f)
            state->sums[runner] += state->constants->rewards.runner_end;
    }
}

// Returns how many steps the env's runners were in the game, summed over the runners.
static int64_t survived(const tag_state* state, uint32_t env, uint64_t first, uint32_t agents) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < agents; i++) {
        const uint64_t row = first + i;
        if (state->tagger[i] == 0.0f)
            sum += state->alive[row] != 0.0f ? state->time[env] : state->left_at[row];
    }
    return sum;
}

static void leave_records(pv_block* block, const tag_state* state, uint32_t env) {
    const tag_config* config = tag_config_of(block->context);
    const float counts[2] = {(float)config->num_runners, (float)config->num_taggers};
    const uint32_t agents = tag_agents(config);
    const float steps = (float)survived(state, env, (uint64_t)env * agents, agents);
    for (uint32_t type = 0; type < 2; type++) {
        pv_record* record = pv_block_record(block, env);
        if (!record)
            return;
        record->episode = state->episode[env];
        record->task = state->task[env];
        record->slot = type;
        record->agent_type = type;
        record->length = (uint32_t)state->time[env];
        record->episode_return = state->returns[2 * (uint64_t)env + type] / counts[type];
        record->values[0] = (float)state->tags[env];
        record->values[1] = (float)state->left[env] / counts[TAG_RUNNER];
        record->values[2] = steps / counts[TAG_RUNNER];
        record->values[3] = counts[type];
    }
}

static void add_returns(const tag_state* state,
                        uint32_t env,
                        const float* rewards,
                        uint32_t agents) {
    float runners = 0.0f, taggers = 0.0f;
    for (uint32_t i = 0; i < agents; i++) {
        runners += rewards[i] * (1.0f - state->tagger[i]);
        taggers += rewards[i] * state->tagger[i];
    }
    state->returns[2 * (uint64_t)env + TAG_RUNNER] += runners;
    state->returns[2 * (uint64_t)env + TAG_TAGGER] += taggers;
}

// Handles the tags, rewards, records and the end of an env, which is at `at` of the tile.
static void finish_step(pv_block* block, const tag_state* state, uint32_t env, uint64_t at) {
    const tag_config* config = tag_config_of(block->context);
    const uint32_t agents = tag_agents(config);
    const uint64_t first = (uint64_t)env * agents;
    float* rewards = block->rows[0].rewards + first;
    const int timed_out = state->time[env] >= config->episode_length;
    const int near = any_near(state, first, agents, config->num_taggers);
    if (PV_UNLIKELY(near | timed_out)) {
        open_sums(state, first, at, agents);
        if (near)
            tag_runners(block, state, env);
        if (timed_out)
            reward_end(block, state, env);
        for (uint32_t i = 0; i < agents; i++)
            rewards[i] = (float)state->sums[i];
    }
    add_returns(state, env, rewards, agents);
    if (PV_LIKELY(!timed_out && state->left[env]))
        return;
    state->over[env] = 1;
    tag_end_rows(block, state, env);
    leave_records(block, state, env);
}

static void step_tile(pv_block* block, const tag_state* state, uint32_t first, uint32_t count) {
    const uint32_t agents = tag_agents(tag_config_of(block->context));
    const tile_rows tile = {(uint64_t)first * agents, (uint64_t)count * agents};
    look_up(block, state, tile);
    move(block, state, tile);
    tag_scale(state, tile.first, 0, tile.count);
    write_rows(block, state, tile);
    for (uint32_t env = first; env < first + count; env++) {
        if (PV_LIKELY(!state->over[env])) {
            state->time[env]++;
            continue;
        }
        pv_block_at(block, env); // next-step autoreset
        state->episode[env]++;
        begin_episode(block, state, env, (uint64_t)(env - first) * agents);
        write_reset_rows(block, state, env);
    }
    tag_observe(block, state, first, count);
    for (uint32_t env = first; env < first + count; env++) {
        pv_block_at(block, env);
        if (state->time[env])
            finish_step(block, state, env, (uint64_t)(env - first) * agents);
    }
}

static int tag_step(pv_block* block) {
    const tag_state state = tag_state_of(block);
    const uint32_t tile = tag_tile_envs(tag_config_of(block->context)), envs = block->env_count;
    for (uint32_t first = 0; first < envs; first += tile)
        step_tile(block, &state, first, envs - first < tile ? envs - first : tile);
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
    .poke = tag_continuous_poke,
};

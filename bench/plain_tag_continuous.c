// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// tag_continuous as anybody would write it down in C: one struct per env, loops over agents, sinf
// and cosf, every distance for every agent. What the env of the package is measured against
// (bench/plain_continuous.py compiles both with the same flags); not part of the package.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TWO_PI 6.28318530717958648f

typedef struct settings {
    int32_t taggers, runners, episode_length, full, nearest, exits;
    float length, max_speed, runner_skill, tagger_skill, margin;
    float edge_hit, tagger_step, runner_step, tagger_tag, runner_tag, runner_end;
    const uint8_t* types; // (agents,)
    const float *start_x, *start_y, *start_direction;
    const float *acceleration_changes, *turn_changes;
} settings;

typedef struct agent {
    float x, y, speed, direction, acceleration;
    int32_t in_game, is_tagger, hit_edge;
} agent;

typedef struct game {
    int32_t time, left, over;
    agent agents[];
} game;

typedef struct rows {
    float *observations, *rewards;
    uint8_t* dones;
} rows;

static int32_t agents_of(const settings* s) {
    return s->taggers + s->runners;
}

static float distance(const agent* a, const agent* b) {
    float dx = a->x - b->x, dy = a->y - b->y;
    return sqrtf(dx * dx + dy * dy);
}

static void reset(const settings* s, game* g) {
    g->time = g->over = 0;
    g->left = s->runners;
    for (int32_t i = 0; i < agents_of(s); i++)
        g->agents[i] = (agent){s->start_x[i],
                               s->start_y[i],
                               0.0f,
                               s->start_direction[i],
                               0.0f,
                               1,
                               s->types[i] == 1,
                               0};
}

static void move(const settings* s, agent* a, float change, float turn) {
    float cap = s->max_speed * (a->is_tagger ? s->tagger_skill : s->runner_skill);
    a->direction = fmodf(a->direction + turn, TWO_PI);
    if (a->direction < 0.0f)
        a->direction += TWO_PI;
    a->direction *= (float)a->in_game;
    a->acceleration += change;
    a->speed = fminf(fmaxf(a->speed + a->acceleration, 0.0f), cap) * (float)a->in_game;
    if (!(a->speed > 0.0f && a->speed < cap))
        a->acceleration = 0.0f;
    a->x += a->speed * cosf(a->direction);
    a->y += a->speed * sinf(a->direction);
    a->hit_edge = !(a->x >= 0.0f && a->x <= s->length && a->y >= 0.0f && a->y <= s->length);
    a->x = fminf(fmaxf(a->x, 0.0f), s->length);
    a->y = fminf(fmaxf(a->y, 0.0f), s->length);
}

static void observe_one(const settings* s,
                        const agent* self,
                        const agent* other,
                        int32_t at,
                        int32_t others,
                        float* out) {
    float diagonal = s->length * sqrtf(2.0f), top = s->max_speed + 1e-10f;
    if (self->in_game) {
        out[at] = (other->x - self->x) / diagonal;
        out[others + at] = (other->y - self->y) / diagonal;
        out[2 * others + at] = (other->speed - self->speed) / top;
        out[3 * others + at] = (other->acceleration - self->acceleration) / top;
        out[4 * others + at] = (other->direction - self->direction) / TWO_PI;
    }
    out[5 * others + at] = (float)other->is_tagger;
    out[6 * others + at] = (float)other->in_game;
}

static void observe_full(const settings* s, const game* g, int32_t self, float* out) {
    int32_t n = agents_of(s), at = 0;
    memset(out, 0, (size_t)(7 * (n - 1) + 1) * sizeof(float));
    for (int32_t j = 0; j < n; j++) {
        if (j != self)
            observe_one(s, &g->agents[self], &g->agents[j], at++, n - 1, out);
    }
    out[7 * (n - 1)] = g->agents[self].in_game ? (float)g->time / (float)s->episode_length : 0.0f;
}

static void observe_nearest(const settings* s, const game* g, int32_t self, float* out) {
    int32_t k = s->nearest, found = 0, ids[k];
    float near[k];
    memset(out, 0, (size_t)(7 * k + 1) * sizeof(float));
    if (!g->agents[self].in_game)
        return;
    for (int32_t j = 0; j < agents_of(s); j++) {
        if (j == self || !g->agents[j].in_game)
            continue;
        float d = distance(&g->agents[j], &g->agents[self]);
        if (found == k && d >= near[k - 1])
            continue;
        int32_t at = found < k ? found++ : k - 1;
        for (; at > 0 && near[at - 1] > d; at--) {
            near[at] = near[at - 1];
            ids[at] = ids[at - 1];
        }
        near[at] = d;
        ids[at] = j;
    }
    for (int32_t i = 0; i < found; i++)
        observe_one(s, &g->agents[self], &g->agents[ids[i]], i, k, out);
    out[7 * k] = (float)g->time / (float)s->episode_length;
}

static void tag(const settings* s, game* g, float* rewards) {
    for (int32_t i = 0; i < agents_of(s); i++) {
        agent* runner = &g->agents[i];
        if (runner->is_tagger || !runner->in_game)
            continue;
        float best = INFINITY;
        int32_t nearest = 0;
        for (int32_t j = 0; j < agents_of(s); j++) {
            if (!g->agents[j].is_tagger)
                continue;
            float d = distance(runner, &g->agents[j]);
            if (d < best) {
                best = d;
                nearest = j;
            }
        }
        if (best >= s->margin)
            continue;
        rewards[i] += s->runner_tag;
        rewards[nearest] += s->tagger_tag;
        if (!s->exits)
            continue;
        runner->in_game = 0;
        g->left--;
    }
}

static void observe(const settings* s, const game* g, float* observations) {
    int32_t floats = 7 * (s->full ? agents_of(s) - 1 : s->nearest) + 1;
    for (int32_t i = 0; i < agents_of(s); i++) {
        if (s->full)
            observe_full(s, g, i, observations + i * floats);
        else
            observe_nearest(s, g, i, observations + i * floats);
    }
}

static void step(const settings* s, game* g, const int32_t* actions, rows out) {
    int32_t n = agents_of(s);
    memset(out.rewards, 0, (size_t)n * sizeof(float));
    memset(out.dones, 0, (size_t)n);
    if (g->over) {
        reset(s, g);
        observe(s, g, out.observations);
        return;
    }
    g->time++;
    for (int32_t i = 0; i < n; i++)
        move(s, &g->agents[i], s->acceleration_changes[actions[2 * i]],
             s->turn_changes[actions[2 * i + 1]]);
    observe(s, g, out.observations);
    for (int32_t i = 0; i < n; i++) {
        const agent* a = &g->agents[i];
        if (!a->in_game)
            continue;
        if (a->hit_edge)
            out.rewards[i] += s->edge_hit;
        out.rewards[i] += a->is_tagger ? s->tagger_step : s->runner_step;
    }
    tag(s, g, out.rewards);
    for (int32_t i = 0; i < n && g->time == s->episode_length; i++) {
        if (!g->agents[i].is_tagger && g->agents[i].in_game)
            out.rewards[i] += s->runner_end;
    }
    g->over = g->time >= s->episode_length || g->left == 0;
    if (g->over)
        memset(out.dones, 1, (size_t)n);
}

// Resets `envs` games and takes `steps` steps of each, turn t with the actions of batch t %
// batches: (batches, envs, agents, 2). Writes (envs, agents, floats) observations, and (envs,
// agents) rewards and dones, of each turn over those of the one before; next-step autoreset.
// Returns the number of env-steps, -1 without memory.
__attribute__((visibility("default"))) int64_t plain_tag_continuous(const settings* s,
                                                                    int32_t envs,
                                                                    int32_t steps,
                                                                    const int32_t* actions,
                                                                    int32_t batches,
                                                                    float* observations,
                                                                    float* rewards,
                                                                    uint8_t* dones);

int64_t plain_tag_continuous(const settings* s,
                             int32_t envs,
                             int32_t steps,
                             const int32_t* actions,
                             int32_t batches,
                             float* observations,
                             float* rewards,
                             uint8_t* dones) {
    int64_t n = agents_of(s), floats = 7 * (s->full ? n - 1 : s->nearest) + 1;
    size_t bytes = (sizeof(game) + (size_t)n * sizeof(agent) + 15) / 16 * 16;
    char* memory = malloc(bytes * (size_t)envs);
    if (!memory)
        return -1;
    for (int64_t env = 0; env < envs; env++)
        reset(s, (game*)(void*)(memory + (size_t)env * bytes));
    for (int64_t t = 0; t < steps; t++) {
        for (int64_t env = 0; env < envs; env++) {
            rows out = {observations + env * n * floats, rewards + env * n, dones + env * n};
            step(s, (game*)(void*)(memory + (size_t)env * bytes),
                 actions + (t % batches * envs + env) * n * 2, out);
        }
    }
    free(memory);
    return (int64_t)envs * steps;
}

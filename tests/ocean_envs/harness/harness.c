// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
// Steps the envs FIRST to FIRST + COUNT - 1 in one process as their generation's own vectorizer
// does, and writes all that they show. The test compiles it once per env:
//
//     cc -DGENERATION=4 -DSOURCE='"binding.c"' -DAGENTS=2 ... harness.c
//     harness FIRST COUNT STEPS ACTIONS OUT SETTING=VALUE ...
//
// ACTIONS: floats (steps, envs, agents, actions); with a mask, the next choice that it allows is
// taken. OUT: per env of the reset, then of each step: the
// observations, the action mask, the rewards (float) and the ends (bytes). The means of the log go
// to stdout, one "name value" per line, and before them the number of bytes per observation, of
// actions and of mask entries.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include SOURCE

#ifndef MASK
#ifdef MY_ACTION_MASK
#define MASK MY_ACTION_MASK
#else
#define MASK 0
#endif
#endif

#if GENERATION == 3 // OBS_BYTES, OBS_SIZE, NUM_ATNS come from the class in Python, so from the test
#define ELEMENT OBS_BYTES
#elif GENERATION == 5
#define ELEMENT sizeof(obs_t)
#elif defined(OBS_TENSOR_T)
#define ELEMENT sizeof(*((OBS_TENSOR_T*)0)->data)
#else
#define ELEMENT sizeof(float)
#endif

static int first, count;
static char *observations, *actions;
static float *rewards, *float_ends;
static unsigned char *byte_ends, *masks;
static Env* envs;

// ---- settings, log: what each generation hands over ----

#if GENERATION == 3
typedef PyObject Table;
#else
typedef Dict Table;
#endif

static void put_setting(Table* table, const char* key, char* value) {
#if GENERATION == 3
    PyDict_SetItemString(table, key, new_object(PLAIN, atof(value), NULL));
#elif GENERATION == 4
    dict_set(table, key, atof(value));
#else
    DictItem* item = &table->items[table->size++];
    *item = (DictItem){.key = key, .str = value, .value = atof(value)};
    if (strchr(value, ',')) {
        item->values = calloc(32, sizeof(double));
        for (char* at = value; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
            item->values[item->len++] = atof(at);
        item->value = item->values[0];
    }
#endif
}

static void print_log(Log* means) {
    Table* out = calloc(1, sizeof(Table));
#if GENERATION == 3
    my_log(out, means);
    for (int i = 0; i < out->size; i++)
        printf("%s %.9g\n", out->keys[i], out->values[i]->number);
#else
#if GENERATION == 4
    my_log(means, out);
#else
    puf_log(means, out);
#endif
    for (int i = 0; i < out->size; i++)
        printf("%s %.9g\n", out->items[i].key, out->items[i].value);
#endif
}

// ---- create, reset, step ----

static int agents_of(Env* env) {
#if GENERATION == 3
    (void)env;
    return AGENTS;
#else
    return env->num_agents;
#endif
}

static void point_at(Env* env, int agent) {
    for (int i = 0; i < agents_of(env); i++, agent++) {
#if GENERATION == 5
        env->agents[i].observations = (void*)(observations + agent * OBS_SIZE * ELEMENT);
        env->agents[i].actions = (float*)(void*)actions + agent * NUM_ATNS;
        env->agents[i].rewards = rewards + agent;
        env->agents[i].terminals = float_ends + agent;
        env->agents[i].action_mask = masks + agent * MASK;
#else
        if (i > 0)
            continue;
        env->observations = (void*)(observations + agent * OBS_SIZE * ELEMENT);
        env->actions = (void*)(actions + agent * NUM_ATNS * sizeof(*env->actions));
        env->rewards = rewards + agent;
        env->terminals = _Generic(env->terminals,
            float*: (void*)(float_ends + agent),
            default: (void*)(byte_ends + agent));
#if MASK
        env->action_mask = masks + agent * MASK;
#endif
#endif
    }
}

static void create_all(Table* settings) {
#if GENERATION == 3
#ifdef MY_SHARED
    PyDict_SetItemString(settings, "state", my_shared(NULL, NULL, settings));
#endif
    for (int i = 0; i < count; i++) {
        point_at(&envs[i], i * AGENTS);
        srand(first + i);
        my_init(&envs[i], NULL, settings);
    }
#elif defined(MY_VEC_INIT)
    Dict vec = {0};
    int start, made;
    dict_set(&vec, "total_agents", count * AGENTS);
    dict_set(&vec, "num_buffers", 1);
    envs = my_vec_init(&made, &start, &made, &vec, settings);
    for (int i = 0; i < count; i++)
        envs[i].rng = first + i;
#else
    for (int i = 0; i < count; i++) {
#if GENERATION == 4
        srand(first + i);
#endif
#ifndef NO_RNG
        envs[i].rng = first + i;
#endif
#if GENERATION == 4
        my_init(&envs[i], settings);
#else
        puf_init(&envs[i], settings);
#endif
    }
#endif
    for (int i = 0; i < count; i++)
        point_at(&envs[i], i * AGENTS);
}

static void reset_all(void) {
    for (int i = 0; i < count; i++) {
#if GENERATION == 3
        srand(first + i);
#endif
#if GENERATION == 5
        puf_reset(&envs[i]);
#else
        c_reset(&envs[i]);
#endif
    }
    memset(rewards, 0, count * AGENTS * sizeof(float));
    memset(float_ends, 0, count * AGENTS * sizeof(float));
    memset(byte_ends, 0, count * AGENTS);
}

static void step_all(void) {
#if GENERATION > 3
    memset(rewards, 0, count * AGENTS * sizeof(float));
    memset(float_ends, 0, count * AGENTS * sizeof(float));
#endif
    for (int i = 0; i < count; i++) {
#if GENERATION == 5
        puf_step(&envs[i]);
#else
        c_step(&envs[i]);
#endif
    }
}

// The next choice that the mask allows, from this one upwards and round.
static float allowed(int row, int head, int value) {
#if MASK
    static const int sizes[] = ACT_SIZES;
    const unsigned char* mask = masks + row * MASK;
    for (int i = 0; i < head; i++)
        mask += sizes[i];
    for (int tried = 0; tried < sizes[head] && !mask[value]; tried++)
        value = (value + 1) % sizes[head];
#endif
    return value;
}

static void read_actions(FILE* file) {
    for (int i = 0; i < count * AGENTS * NUM_ATNS; i++) {
        float value;
        if (fread(&value, sizeof value, 1, file) != 1)
            exit(3);
        if (MASK)
            value = allowed(i / NUM_ATNS, i % NUM_ATNS, (int)value);
#if GENERATION == 5
        ((float*)(void*)actions)[i] = value;
#else
        envs->actions[i] = value; // rows of all envs follow each other
#endif
    }
}

static void write_rows(FILE* out) {
    for (int i = 0; i < count * AGENTS; i++) {
        unsigned char end = byte_ends[i] || float_ends[i] != 0;
        fwrite(observations + i * OBS_SIZE * ELEMENT, ELEMENT, OBS_SIZE, out);
        fwrite(masks + i * MASK, 1, MASK, out);
        fwrite(&rewards[i], sizeof(float), 1, out);
        fwrite(&end, 1, 1, out);
    }
}

int main(int argc, char** argv) {
    first = atoi(argv[1]);
    count = atoi(argv[2]);
    int steps = atoi(argv[3]), rows = count * AGENTS;
    FILE *in = fopen(argv[4], "rb"), *out = fopen(argv[5], "wb");
    Table* settings = calloc(1, sizeof(Table));
    for (int i = 6; i < argc; i++) {
        char* equals = strchr(argv[i], '=');
        *equals = 0;
        put_setting(settings, argv[i], equals + 1);
    }
    observations = calloc(rows, OBS_SIZE * ELEMENT);
    actions = calloc(rows, NUM_ATNS * sizeof(double));
    rewards = calloc(rows, sizeof(float));
    float_ends = calloc(rows, sizeof(float));
    byte_ends = calloc(rows, 1);
    masks = calloc(rows, MASK + 1);
    memset(masks, 1, rows * (MASK + 1));
    envs = calloc(count, sizeof(Env));
    create_all(settings);
    reset_all();
    write_rows(out);

    enum { FLOATS = sizeof(Log) / sizeof(float) };

    double sums[FLOATS] = {0};
    for (int t = 0; t < steps; t++) {
        read_actions(in);
        step_all();
        write_rows(out);
        for (int i = 0; i < count; i++) {
            if (envs[i].log.n == 0)
                continue;
            for (int j = 0; j < FLOATS; j++)
                sums[j] += ((float*)(void*)&envs[i].log)[j];
            memset(&envs[i].log, 0, sizeof(Log));
        }
    }
    fclose(out);
    printf("%d %d %d\n", (int)ELEMENT, NUM_ATNS, MASK);
    const double n = sums[offsetof(Log, n) / sizeof(float)];
    if (n > 0) {
        Log means;
        for (int j = 0; j < FLOATS; j++)
            ((float*)(void*)&means)[j] = (float)(sums[j] / n);
        print_log(&means);
        printf("n %.9g\n", n);
    }
    return 0;
}

// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Makes an env type of puffervec from an env of PufferLib 3.0, 4.0 or 5.0 without hand-written glue
// code: puffervec/wings/ocean/compiling.py generates a file that includes the env, compiled with
// the headers of ocean/ instead of PufferLib's, and then this file. It defines OCEAN_NAME,
// OCEAN_GENERATION (3, 4 or 5) and OCEAN_FOLDER, and if needed:
//
//     OCEAN_HAS_RNG   the env's struct has a member rng
//     OCEAN_RANDOM    see host.h
//     OCEAN_MASKS     the env writes action masks (5.0)
//     OCEAN_OBS_T     see pufferenv.h
//     OCEAN_RAYLIB    see raylib.h; the env can be drawn, by pv_ocean_picture
//
// All else comes from Python as params, for a config:
//
//     keys, texts, counts, whole, numbers    the settings: see ocean_read_settings
//     shared_keys, ..., shared_as            3.0: the arguments of my_shared, and the setting that
//                                            its result becomes
//     space       int32: agents, dtype, masked, keeps, axes, 3 lengths, kind, dims, choices...
//     bounds      float32: of the observation, then the lows and highs of continuous actions
//     table       float64: what each choice of each dim writes as an action; may be empty
//     log         the names of the log
//
// Python learns most of these from pv_ocean_probe, which makes an env in a forked process.
#pragma once

#include "pv_env.h"

#ifdef OCEAN_GENERATION

#include <signal.h>
#include <sys/wait.h>
#ifdef OCEAN_RAYLIB
#include "ocean/raylib.h" // which some envs do not include
#endif

// ---- what differs by generation ----

#define OCEAN_ENV Env
#ifdef OCEAN_RAYLIB
static Env* ocean_last; // the env that was reset last
#define OCEAN_NOTE(env) (ocean_last = (env))
#else
#define OCEAN_NOTE(env) ((void)0)
#endif
#if OCEAN_GENERATION == 5
#define OCEAN_OBSERVATION obs_t
#define OCEAN_ACTION float
#define OCEAN_TERMINAL float
#define OCEAN_RESET(env) (OCEAN_NOTE(env), puf_reset(env))
#define OCEAN_CLOSE(env) puf_close(env)
#define OCEAN_RENDER(env) puf_render(env)
#define OCEAN_STEP(block, env, index) puf_step(env)
#else
#define OCEAN_ACTION __typeof__(*((Env*)NULL)->actions)
#define OCEAN_TERMINAL __typeof__(*((Env*)NULL)->terminals)
#define OCEAN_RESET(env) (OCEAN_NOTE(env), c_reset(env))
#define OCEAN_CLOSE(env) c_close(env)
#define OCEAN_RENDER(env) c_render(env)
#if OCEAN_GENERATION == 4
#define OCEAN_OBSERVATION __typeof__(*((OBS_TENSOR_T*)NULL)->data)
#else
#define OCEAN_OBSERVATION __typeof__(*((Env*)NULL)->observations)
#endif
#ifdef MY_VEC_STEP_RANGE
#define OCEAN_STEP(block, env, index) \
    MY_VEC_STEP_RANGE(&ocean_head_of(block)->shared.vec, (int)(index), 1, 1)
#elif defined(MY_VEC_STEP)
static void ocean_step_alone(pv_block* block, uint32_t index);
#define OCEAN_STEP(block, env, index) ocean_step_alone(block, index)
#else
#define OCEAN_STEP(block, env, index) c_step(env)
#endif
#endif

// Observations of 16 bits are bf16 in 4.0 and 5.0.
#if OCEAN_GENERATION == 3
#define OCEAN_HALF 0
#else
#define OCEAN_HALF _Generic((OCEAN_OBSERVATION)0, unsigned short: 1, default: 0)
#define OCEAN_DTYPE \
    _Generic((OCEAN_OBSERVATION)0, \
        float: PV_F32, \
        unsigned short: PV_F32, \
        double: PV_F64, \
        unsigned char: PV_U8, \
        bool: PV_U8, \
        char: PV_I8, \
        signed char: PV_I8, \
        short: PV_I16, \
        int: PV_I32, \
        unsigned: PV_U32, \
        long: PV_I64, \
        unsigned long: PV_U64)
#endif

#ifdef MY_VEC_INIT // it makes all envs at once; a reset with a seed must keep their differences
#define OCEAN_REMADE 0
#define OCEAN_CLOSED(block) ocean_close_made(block)
static void ocean_close_made(pv_block* block);
#else
#define OCEAN_REMADE 1
#endif

typedef struct ocean_shared {
    pv_ocean_random random; // for what runs once per block
    pv_ocean_settings settings;
    pv_ocean_log log; // with the names of the record
#if OCEAN_GENERATION == 3
    PyObject* kwargs;
    PyObject logged;
#else
    Dict kwargs;
    Dict logged;
#endif
#if OCEAN_GENERATION == 4
    StaticVec vec;
#endif
#ifdef MY_VEC_INIT
    Env* made; // all envs, also those of the blocks before this one
    int made_count;
#endif
} ocean_shared;

#define OCEAN_SHARED ocean_shared
#include "pv_ocean_engine.h"

_Static_assert(_Generic(((Env*)NULL)->log, Log: 1, default: 0), "log must be a Log");
#if OCEAN_GENERATION != 5
_Static_assert(sizeof(*((Env*)NULL)->rewards) == sizeof(float), "rewards must be float*");
#endif

// ---- settings ----

// Returns the next of the NUL-separated texts in an array of bytes; "" at its end.
static const char* ocean_next_text(const char** at, const char* end) {
    const char* text = *at;
    if (text >= end)
        return "";
    *at += strlen(text) + 1;
    return text;
}

// Reads the settings whose arrays' names begin with `prefix`. Each has a key, a text, and `counts`
// of the numbers. Texts and numbers alias the params.
static void ocean_read_settings(const pv_params* params,
                                const char* prefix,
                                pv_ocean_settings* settings) {
    char name[PV_NAME_BYTES];
    uint64_t key_bytes, text_bytes, count, unused;
#define OCEAN_FIND(part, dtype, found) \
    (snprintf(name, sizeof name, "%s%s", prefix, part), pv_params_find(params, name, dtype, found))
    const char* keys = OCEAN_FIND("keys", PV_U8, &key_bytes);
    const char* texts = OCEAN_FIND("texts", PV_U8, &text_bytes);
    const int32_t* counts = OCEAN_FIND("counts", PV_I32, &count);
    const int32_t* whole = OCEAN_FIND("whole", PV_I32, &unused);
    const double* numbers = OCEAN_FIND("numbers", PV_F64, &unused);
#undef OCEAN_FIND
    const char *key_end = keys + key_bytes, *text_end = texts + text_bytes;
    settings->count = count < PV_OCEAN_SETTINGS ? (int)count : PV_OCEAN_SETTINGS;
    for (int i = 0; i < settings->count; i++) {
        settings->items[i] = (pv_ocean_setting){
            .key = ocean_next_text(&keys, key_end),
            .text = ocean_next_text(&texts, text_end),
            .numbers = numbers,
            .count = counts[i],
            .whole = whole[i],
        };
        numbers += counts[i];
    }
}

#if OCEAN_GENERATION == 3

static PyObject* ocean_object(const pv_ocean_setting* setting) {
    if (setting->count == 0)
        return strcmp(setting->text, "None") == 0 ? Py_None : PyUnicode_FromString(setting->text);
    PyObject* list = setting->count > 1 ? PyList_New(0) : NULL;
    for (int i = 0; i < setting->count; i++) {
        PyObject* number = setting->whole ? PyLong_FromLong((long)setting->numbers[i])
                                          : PyFloat_FromDouble(setting->numbers[i]);
        if (!list)
            return number;
        PyList_Append(list, number);
    }
    return list;
}

static PyObject* ocean_kwargs_of(const pv_ocean_settings* settings) {
    PyObject* kwargs = PyDict_New();
    for (int i = 0; i < settings->count; i++)
        PyDict_SetItemString(kwargs, settings->items[i].key, ocean_object(&settings->items[i]));
    return kwargs;
}

static void ocean_read_kwargs(ocean_shared* shared, const pv_params* params) {
    shared->kwargs = ocean_kwargs_of(&shared->settings);
    shared->logged = (PyObject){.ob_refcnt = 1, .kind = PV_PY_LOG, .log = &shared->log};
    uint64_t named;
    const char* shared_as = pv_params_find(params, "shared_as", PV_U8, &named);
    if (!named)
        return;
#ifdef MY_SHARED
    static _Thread_local pv_ocean_settings arguments;
    ocean_read_settings(params, "shared_", &arguments);
    PyDict_SetItemString(shared->kwargs, shared_as,
                         my_shared(NULL, PyTuple_New(0), ocean_kwargs_of(&arguments)));
#else
    pv_ocean_fail("the setting %s is what my_shared returns, and MY_SHARED is not defined",
                  shared_as);
#endif
}

static void ocean_call_log(ocean_shared* shared, Log* means) {
    my_log(&shared->logged, means);
}

#else

static void ocean_read_kwargs(ocean_shared* shared, const pv_params* params) {
    (void)params;
    const int most = 256; // numbers of a log
#if OCEAN_GENERATION == 4
    shared->kwargs = *create_dict(PV_OCEAN_SETTINGS);
    shared->logged = *create_dict(most);
    for (int i = 0; i < shared->settings.count; i++) {
        const pv_ocean_setting* setting = &shared->settings.items[i];
        dict_set(&shared->kwargs, setting->key, setting->count ? setting->numbers[0] : 0.0);
        const void* pointer = setting->count ? (const void*)setting->numbers : setting->text;
        dict_get(&shared->kwargs, setting->key)->ptr = (void*)(uintptr_t)pointer;
    }
#else
    shared->kwargs.name = dict_strdup("env");
    dict_reserve(&shared->logged, most);
    for (int i = 0; i < shared->settings.count; i++) {
        const pv_ocean_setting* setting = &shared->settings.items[i];
        DictItem* item = dict_set_str(&shared->kwargs, setting->key, setting->text);
        item->value = setting->count ? setting->numbers[0] : 0.0;
        item->values = setting->count > 1 ? (double*)(uintptr_t)setting->numbers : NULL;
        item->len = setting->count > 1 ? setting->count : 0;
    }
#endif
}

static void ocean_call_log(ocean_shared* shared, Log* means) {
    shared->logged.size = 0;
#if OCEAN_GENERATION == 4
    my_log(means, &shared->logged);
#else
    puf_log(means, &shared->logged);
#endif
    for (int i = 0; i < shared->logged.size; i++)
        pv_ocean_put(&shared->log, shared->logged.items[i].key,
                     (float)shared->logged.items[i].value);
}

#endif

// ---- envs ----

#ifdef MY_VEC_INIT
typedef Env* ocean_vec_init(int* count, int* starts, int* counts, Dict* vec, Dict* kwargs);
typedef Env* ocean_early_vec_init(int* count, Dict* vec, Dict* kwargs); // of the first 4.0
#define OCEAN_VEC_INIT(is_early, is_later) \
    _Generic(&my_vec_init, ocean_early_vec_init*: is_early, ocean_vec_init*: is_later, default: 0)
_Static_assert(OCEAN_VEC_INIT(1, 1),
               "my_vec_init must be Env* my_vec_init(int*, int*, int*, Dict*, Dict*)");

// Makes all envs, with `agents` agents together, by the binding's own function, and returns them.
static Env* ocean_make_all(ocean_shared* shared, int agents, int* count) {
    int start[1] = {0}, counts[1] = {0};
    Dict kwargs = {0};
#if OCEAN_GENERATION == 4
    kwargs = *create_dict(16);
#endif
    dict_set(&kwargs, "total_agents", agents);
    dict_set(&kwargs, "num_buffers", 1);
    dict_set(&kwargs, "num_threads", 1);
    dict_set(&kwargs, "num_policies", 1);
    dict_set(&kwargs, "num_frozen_banks", 0);
    dict_set(&kwargs, "frozen_bank_pct", 0);
    dict_set(&kwargs, "hist_policy_percent", 0);
    void* const make = (void*)my_vec_init; // a call with other arguments would not compile
    if (OCEAN_VEC_INIT(1, 0))
        return ((ocean_early_vec_init*)make)(count, &kwargs, &shared->kwargs);
    return ((ocean_vec_init*)make)(count, start, counts, &kwargs, &shared->kwargs);
}
#endif

// Reads what all envs of a block share.
static void ocean_prepare(ocean_shared* shared, const pv_params* params) {
    pv_ocean_stream = &shared->random;
    pv_ocean_seed(pv_ocean_stream, 1);
    ocean_read_settings(params, "", &shared->settings);
    ocean_read_kwargs(shared, params);
}

#ifndef MY_VEC_INIT // with which a binding needs no my_init
// Gives a zeroed env its settings. pv_ocean_stream already points to its generator.
static void ocean_init_env(ocean_shared* shared, Env* env, unsigned seed) {
#ifdef OCEAN_HAS_RNG
    env->rng = (__typeof__(env->rng))seed;
#endif
#if OCEAN_GENERATION == 3
    PyObject* number = PyDict_GetItemString(shared->kwargs, "seed");
    if (!number) {
        number = PyLong_FromLong(0);
        PyDict_SetItemString(shared->kwargs, "seed", number);
    }
    number->whole = seed;
    number->real = seed;
    my_init(env, PyTuple_New(0), shared->kwargs);
#elif OCEAN_GENERATION == 4
    (void)seed;
    my_init(env, &shared->kwargs);
#else
    (void)seed;
    puf_init(env, &shared->kwargs);
#endif
}
#endif

static void ocean_bind(pv_block* block, uint32_t index) {
    Env* env = &ocean_head_of(block)->envs[index];
    const ocean_rows rows = ocean_rows_at(block, index);
    const ocean_sizes sizes = ocean_head_of(block)->sizes;
#if OCEAN_GENERATION == 5
    for (uint32_t a = 0; a < sizes.agents; a++) {
        env->agents[a].observations = (void*)((obs_t*)rows.observations + a * sizes.numbers);
        env->agents[a].actions = rows.actions + a * sizes.dims;
        env->agents[a].rewards = rows.rewards + a;
        env->agents[a].terminals = rows.terminals + a;
        env->agents[a].action_mask =
            rows.masks ? rows.masks + a * block->spec->groups[0].action_mask_size : NULL;
    }
#else
    (void)sizes;
    env->observations = rows.observations;
    env->actions = rows.actions;
    env->rewards = (void*)rows.rewards;
    env->terminals = rows.terminals;
#ifdef MY_ACTION_MASK
    env->action_mask = rows.masks;
#endif
#ifdef MY_USES_PERM
    my_setup_perm(&ocean_head_of(block)->shared.vec, env, (int)(index * sizes.agents));
#endif
#endif
}

static void ocean_open(pv_block* block) {
    ocean_head* head = ocean_head_of(block);
    ocean_shared* shared = &head->shared;
    const pv_params* params = block->context->params;
    uint64_t count;
    head->table = pv_params_find(params, "table", PV_F64, &count);
    if (!count)
        head->table = NULL;
    for (uint32_t d = 1; d < head->sizes.dims && head->table; d++)
        head->starts[d] = head->starts[d - 1] + block->spec->groups[0].action_sizes[d - 1];
    for (uint32_t i = 0; i + 1 < block->spec->record_count; i++)
        pv_ocean_put(&shared->log, block->spec->record_names[i], 0.0f);
    ocean_prepare(shared, params);
#ifdef MY_VEC_INIT
    const uint32_t wanted = block->first_env + block->env_count;
    shared->made = ocean_make_all(shared, (int)(wanted * head->sizes.agents), &shared->made_count);
    if (!shared->made || shared->made_count != (int)wanted)
        pv_ocean_fail("my_vec_init made %d envs for %u: the number of agents must be the same in "
                      "all envs",
                      shared->made_count, wanted);
    head->envs = shared->made + block->first_env;
#endif
#if OCEAN_GENERATION == 4
    const ocean_rows rows = ocean_rows_at(block, 0);
    const int agents = (int)(block->env_count * head->sizes.agents);
    shared->vec = (StaticVec){
        .envs = head->envs,
        .size = (int)block->env_count,
        .total_agents = agents,
        .buffers = 1,
        .agents_per_buffer = agents,
        .observations = rows.observations,
        .actions = (void*)rows.actions,
        .rewards = rows.rewards,
        .terminals = (void*)rows.terminals,
        .action_mask = rows.masks,
        .obs_size = (int)head->sizes.numbers,
        .num_atns = (int)head->sizes.dims,
        .action_mask_size = (int)block->spec->groups[0].action_mask_size,
    };
#endif
}

#if OCEAN_GENERATION != 3
static void ocean_compare_agents(int agents, int others) {
    if (agents != others)
        pv_ocean_fail("this env has %d agents and another one %d: the number of agents must be the "
                      "same in all envs",
                      agents, others);
}
#endif

static void ocean_make(pv_block* block, uint32_t index, unsigned seed) {
    ocean_head* head = ocean_head_of(block);
    Env* env = &head->envs[index];
#if OCEAN_GENERATION == 3 // these pointers are set before the init, those of 4.0 and 5.0 after it
    ocean_bind(block, index);
#endif
#ifndef MY_VEC_INIT
    ocean_init_env(&head->shared, env, seed);
#endif
    (void)seed, (void)env;
#if OCEAN_GENERATION != 3
    ocean_compare_agents((int)env->num_agents, (int)head->sizes.agents);
    ocean_bind(block, index);
#endif
}

static void ocean_reseed(pv_block* block, uint32_t index, unsigned seed) {
    (void)block, (void)index;
#if OCEAN_GENERATION == 3 || defined(MY_VEC_INIT) // which seed rand() at a reset too
    pv_ocean_seed(pv_ocean_stream, seed);
#endif
#if defined(MY_VEC_INIT) && defined(OCEAN_HAS_RNG)
    Env* env = &ocean_head_of(block)->envs[index];
    env->rng = (__typeof__(env->rng))seed;
#endif
    (void)seed;
}

#if OCEAN_GENERATION == 4 && defined(MY_VEC_STEP) && !defined(MY_VEC_STEP_RANGE)
// Steps one env by the function that steps all envs of a vector, as a vector of this env alone.
static void ocean_step_alone(pv_block* block, uint32_t index) {
    ocean_head* head = ocean_head_of(block);
    const ocean_rows rows = ocean_rows_at(block, index);
    StaticVec vec = head->shared.vec;
    vec.envs = &head->envs[index];
    vec.size = 1;
    vec.total_agents = vec.agents_per_buffer = (int)head->sizes.agents;
    vec.observations = rows.observations;
    vec.actions = (void*)rows.actions;
    vec.rewards = rows.rewards;
    vec.terminals = (void*)rows.terminals;
    vec.action_mask = rows.masks;
    MY_VEC_STEP(&vec);
}
#endif

#ifdef MY_VEC_INIT
// Closes the envs that my_vec_init made for the blocks before this one, and frees all.
static void ocean_close_made(pv_block* block) {
    ocean_shared* shared = &ocean_head_of(block)->shared;
    Env* envs = shared->made;
    if (!envs)
        return;
    shared->made = NULL;
    pv_ocean_stream = &shared->random;
    for (uint32_t i = 0; i < block->first_env && (int)i < shared->made_count; i++) {
        pv_ocean_closing = &envs[i];
        OCEAN_CLOSE(&envs[i]);
    }
#ifdef MY_VEC_CLOSE
    pv_ocean_closing = envs; // in some envs this function frees the array too
    my_vec_close(envs);
#endif
    pv_ocean_closing = NULL;
    free(envs);
}
#endif

static void ocean_show_agents(pv_block* block, uint32_t index) {
    const uint32_t agents = ocean_head_of(block)->sizes.agents;
    uint8_t* types = block->rows[0].agent_types + (uint64_t)index * agents;
    memset(types, 0, agents);
#if OCEAN_GENERATION == 5
    for (uint32_t a = 0; a < agents; a++)
        types[a] = (uint8_t)ocean_head_of(block)->envs[index].agents[a].policy;
#endif
}

static void ocean_read_log(pv_block* block, Log* means, float* values) {
    pv_ocean_log* log = &ocean_head_of(block)->shared.log;
    memset(log->values, 0, sizeof log->values);
    ocean_call_log(&ocean_head_of(block)->shared, means);
    memcpy(values, log->values, (block->spec->record_count - 1) * sizeof(float));
}

// ---- describe ----

enum { OCEAN_SPACE_HEAD = 10 }; // numbers of `space` before the choices

static ocean_sizes ocean_sizes_of(const pv_context* context) {
    uint64_t count;
    const int32_t* space = pv_params_find(context->params, "space", PV_I32, &count);
    uint32_t numbers = 1;
    for (int axis = 0; axis < space[4]; axis++)
        numbers *= (uint32_t)space[5 + axis];
    return (ocean_sizes){
        .agents = (uint32_t)space[0],
        .numbers = numbers,
        .dims = (uint32_t)space[9],
        .keeps = (uint32_t)space[3],
    };
}

static int ocean_describe_group(const pv_context* context, pv_group_spec* group, char* text) {
    uint64_t count;
    const int32_t* space = pv_params_find(context->params, "space", PV_I32, &count);
    const float* bounds = pv_params_find(context->params, "bounds", PV_F32, &count);
    const ocean_sizes sizes = ocean_sizes_of(context);
    const uint32_t dtype = (uint32_t)space[1], bytes = pv_dtype_bytes(dtype);
    const uint32_t shape[3] = {(uint32_t)space[5], (uint32_t)space[6], (uint32_t)space[7]};
    if (OCEAN_GENERATION == 3 && bytes < sizeof(OCEAN_OBSERVATION))
        return pv_describe_error(text, PV_ERROR_CONFIG,
                                 "its Python class has observations of %u bytes each, and its "
                                 "header of %u: use the same type in both",
                                 bytes, (uint32_t)sizeof(OCEAN_OBSERVATION));
    group->agents = sizes.agents;
    group->action_kind = (uint32_t)space[8];
    group->action_dims = sizes.dims;
    for (uint32_t d = 0; d < sizes.dims; d++) {
        if (group->action_kind == PV_CONTINUOUS) {
            group->action_low[d] = bounds[2 + d];
            group->action_high[d] = bounds[2 + sizes.dims + d];
        } else {
            group->action_sizes[d] = (uint32_t)space[OCEAN_SPACE_HEAD + d];
            group->action_mask_size += space[2] ? group->action_sizes[d] : 0;
        }
    }
    pv_add_array(group->fields, &group->field_count, &group->observation_bytes, "observation", "",
                 dtype, (uint32_t)space[4], shape, bounds[0], bounds[1], 1.0f);
    return PV_OK;
}

static void ocean_name_records(const pv_context* context, pv_spec* spec) {
    uint64_t bytes;
    const char* names = pv_params_find(context->params, "log", PV_U8, &bytes);
    const char* end = names + bytes;
    while (names < end)
        strncpy(spec->record_names[spec->record_count++], ocean_next_text(&names, end),
                PV_NAME_BYTES - 1);
}

OCEAN_TABLE(NULL, 0, 0);

// Begins a forked process, which ends after `seconds`.
static void ocean_begin_child(unsigned seconds) {
    // A handler of this process would print its stack for a crash that is only reported.
    const int fatal[] = {SIGALRM, SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], SIG_DFL);
    alarm(seconds);
}

// ---- pictures ----

#ifdef OCEAN_RAYLIB

PV_EXPORT void* pv_ocean_env(void);
PV_EXPORT uint8_t* pv_ocean_picture(void* env, int32_t* size, char* text);

// Returns the env of this process that was reset last.
void* pv_ocean_env(void) {
    return ocean_last;
}

// Returns whether raylib can open a window. A forked process tries it, since raylib may crash where
// there is no display.
static int ocean_window_opens(void) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        ocean_begin_child(10);
        InitWindow(1, 1, "");
        _exit(!IsWindowReady());
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static uint8_t* ocean_picture_of(Env* env, int32_t* size) {
    if (!IsWindowReady()) {
        SetConfigFlags(FLAG_WINDOW_HIDDEN);
        if (!ocean_window_opens())
            pv_ocean_fail("raylib opens no window: check that DISPLAY names a display");
    }
    OCEAN_RENDER(env);
    if (!IsWindowReady())
        pv_ocean_fail("its render function opens no window");
    Image image = LoadImageFromScreen();
    ImageFormat(&image, PIXELFORMAT_UNCOMPRESSED_R8G8B8);
    size[0] = image.height;
    size[1] = image.width;
    const size_t bytes = (size_t)image.height * (size_t)image.width * 3;
    uint8_t* pixels = (uint8_t*)malloc(bytes ? bytes : 1);
    if (pixels)
        memcpy(pixels, image.data, bytes);
    UnloadImage(image);
    return pixels;
}

// Lets an env draw itself in a hidden window. Returns the window's pixels, (height, width, 3) with
// `size` = height, width, which the caller frees; NULL if that fails, and `text` (1024 bytes) says
// why. Drawing uses random numbers of its own, so it changes no episode.
uint8_t* pv_ocean_picture(void* env, int32_t* size, char* text) {
    static pv_ocean_random random;
    pv_ocean_random* const stream = pv_ocean_stream;
    pv_ocean_stream = &random;
    pv_ocean_seed(&random, 1);
    pv_ocean_catcher catcher;
    uint8_t* pixels;
    snprintf(text, sizeof catcher.text, "out of memory");
    pv_ocean_caught = &catcher;
    if (setjmp(catcher.back) == 0) {
        pixels = ocean_picture_of((Env*)env, size);
    } else {
        pixels = NULL;
        memcpy(text, catcher.text, sizeof catcher.text);
    }
    pv_ocean_caught = NULL;
    pv_ocean_stream = stream;
    return pixels;
}

#endif // OCEAN_RAYLIB

// ---- the probe ----

// What an env says of itself once it is made; puffervec/wings/ocean/probing.py reads it.
typedef struct ocean_facts {
    int32_t failed; // 1: `text` says why; the rest is 0
    int32_t agents;
    int32_t dtype, numbers; // of an observation; 3.0: 0, since the Python class says it
    int32_t dims, masked;   // 3.0: 0
    int32_t sizes[PV_MAX_ACTION_DIMS];
    int32_t logged;
    char names[PV_OCEAN_LOGGED][PV_OCEAN_NAME];
    uint8_t policies[256];
    char text[1024];
} ocean_facts;

static void ocean_look(const pv_params* params, ocean_facts* facts) {
    ocean_shared* shared = (ocean_shared*)calloc(1, sizeof *shared);
    Env* env = (Env*)calloc(1, sizeof *env);
    if (!shared || !env)
        pv_ocean_fail("out of memory");
    ocean_prepare(shared, params);
#ifdef MY_VEC_INIT
    int made = 0;
    env = ocean_make_all(shared, 120, &made); // a multiple of most numbers of agents
    if (!env || made < 1)
        pv_ocean_fail("my_vec_init makes no env for 120 agents");
    for (int i = 1; i < made; i++)
        ocean_compare_agents((int)env[i].num_agents, (int)env->num_agents);
#else
    ocean_init_env(shared, env, 1);
#endif
#if OCEAN_GENERATION == 3
    facts->agents = 1;
#else
    const int choices[] = ACT_SIZES;
    facts->agents = env->num_agents;
    facts->dtype = OCEAN_DTYPE;
    facts->numbers = (int32_t)(OBS_SIZE);
    facts->dims = (int32_t)(sizeof choices / sizeof choices[0]);
    if (facts->dims > PV_MAX_ACTION_DIMS)
        pv_ocean_fail("ACT_SIZES has %d entries: at most %d are supported", facts->dims,
                      PV_MAX_ACTION_DIMS);
    if (facts->dims != (NUM_ATNS))
        pv_ocean_fail("NUM_ATNS is %d, and ACT_SIZES has %d entries", (int)(NUM_ATNS), facts->dims);
    if (facts->agents < 1)
        pv_ocean_fail("the settings make %d agents: use at least 1", facts->agents);
    int total = 0;
    for (int d = 0; d < facts->dims; d++)
        total += facts->sizes[d] = choices[d];
#ifdef MY_ACTION_MASK
    if ((MY_ACTION_MASK) != total)
        pv_ocean_fail("MY_ACTION_MASK is %d, and ACT_SIZES adds up to %d", (int)(MY_ACTION_MASK),
                      total);
    facts->masked = 1;
#endif
#ifdef OCEAN_MASKS
    facts->masked = 1;
#endif
    (void)total;
#endif
#if OCEAN_GENERATION == 5
    for (int a = 0; a < facts->agents && a < (int)sizeof facts->policies; a++)
        facts->policies[a] = (uint8_t)env->agents[a].policy;
#endif
    Log zeros;
    memset(&zeros, 0, sizeof zeros);
    ocean_call_log(shared, &zeros);
    facts->logged = shared->log.count;
    memcpy(facts->names, shared->log.names, sizeof facts->names);
}

// In the forked process: looks, and writes what it sees.
static void ocean_report(const pv_params* params, int out) {
    ocean_facts facts;
    memset(&facts, 0, sizeof facts);
    pv_ocean_catcher catcher;
    pv_ocean_caught = &catcher;
    if (setjmp(catcher.back) == 0) {
        ocean_look(params, &facts);
    } else {
        memset(&facts, 0, sizeof facts);
        facts.failed = 1;
        memcpy(facts.text, catcher.text, sizeof facts.text);
    }
    fflush(NULL);
    const char* at = (const char*)&facts;
    for (size_t left = sizeof facts; left;) {
        const ssize_t written = write(out, at, left);
        if (written <= 0)
            break;
        at += written;
        left -= (size_t)written;
    }
    _exit(0);
}

// Makes an env in a forked process, so that an env that crashes or hangs there does not end this
// one, and fills `facts`. Returns 0; else the signal that ended the process, or -1.
PV_EXPORT int pv_ocean_probe(const pv_params* params, ocean_facts* facts, unsigned seconds);

int pv_ocean_probe(const pv_params* params, ocean_facts* facts, unsigned seconds) {
    int ends[2];
    if (pipe(ends))
        return -1;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        ocean_begin_child(seconds);
        ocean_report(params, ends[1]);
    }
    close(ends[1]);
    size_t done = 0;
    while (child > 0 && done < sizeof *facts) {
        const ssize_t got = read(ends[0], (char*)facts + done, sizeof *facts - done);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    close(ends[0]);
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (done == sizeof *facts)
        return 0;
    return child > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

#endif // OCEAN_GENERATION

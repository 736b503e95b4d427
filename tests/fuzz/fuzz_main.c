// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Feeds mutated bytes to the readers that are written in C. Compiled by tests/fuzz/program.py, with
// sanitizers:
//
//   fuzz_main scenes SEED FIRST COUNT TRACE SET...     compiled scene sets: check, and what passes
//   is driven for some steps fuzz_main cuts SEED FIRST COUNT TRACE SET...       ... cut off at
//   every byte, as they are and with a head that fits fuzz_main replay SEED FIRST COUNT TRACE
//   FILE...    ... as they are fuzz_main states SEED FIRST COUNT TRACE CASE...    saved states of
//   every env: load, and what passes is stepped fuzz_main pokes SEED FIRST COUNT TRACE CASE...
//   readable states of every env: poke, and what passes is stepped fuzz_main configs SEED FIRST
//   COUNT TRACE CASE...   config structs of every env fuzz_main actions SEED FIRST COUNT TRACE
//   arrays of actions of every dtype at the border (csrc/core/action.c)
//
// A CASE is NAME:CONFIG:PARAMS[:SET], the last three being files. Input number i depends on (SEED,
// i) alone, so FIRST = i and COUNT = 1 replay it. TRACE is a file that holds number, size and bytes
// of the input at hand, for whoever finds the program dead. It ends by itself where one input takes
// more than a second of CPU time, and prints one line of JSON when all is well.
#include "../../csrc/core/action.h"
#include "../../csrc/core/state.h"
#include "fuzz_env.h"
#include "fuzz_mutate.h"

#include "../../csrc/drive/tables.h"
#include "../../csrc/drive/scene/scene.h"

#include <fcntl.h>
#include <float.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define STEPS 4
#define MOST_FILES 64
#define TRACE_BYTES (1u << 20)
#define MOST_MUTATIONS 3

typedef struct file {
    const char* name;
    uint8_t* data;
    uint64_t bytes;
} file;

typedef struct trace {
    uint64_t input, bytes;
    uint8_t data[TRACE_BYTES - 16];
} trace;

static file files[MOST_FILES];
static uint32_t file_count;
static trace* tracing;
static uint64_t accepted, refused, too_large;
static uint64_t last_tick_input = UINT64_MAX;
static uint32_t ticks;

// ---- the world outside ----

static void read_file(const char* path, file* out) {
    FILE* stream = fopen(path, "rb");
    if (!stream || fseek(stream, 0, SEEK_END))
        broken("%s cannot be read", path);
    out->name = path;
    out->bytes = (uint64_t)ftell(stream);
    rewind(stream);
    out->data = zeros(out->bytes, 1);
    if (fread(out->data, 1, out->bytes, stream) != out->bytes)
        broken("%s cannot be read", path);
    fclose(stream);
}

static void open_trace(const char* path) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, TRACE_BYTES))
        broken("%s cannot be written", path);
    tracing = mmap(NULL, TRACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (tracing == MAP_FAILED)
        broken("%s cannot be mapped", path);
    close(fd);
}

// The largest resident memory so far. getrusage would tell of the parent before exec too.
static uint64_t peak_rss_bytes(void) {
    char line[256];
    uint64_t kib = 0;
    FILE* stream = fopen("/proc/self/status", "r");
    while (stream && fgets(line, sizeof line, stream)) {
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtoull(line + 6, NULL, 10);
    }
    if (stream)
        fclose(stream);
    return 1024 * kib;
}

static void show(const uint8_t* data, uint64_t bytes) {
    tracing->bytes = bytes < sizeof tracing->data ? bytes : sizeof tracing->data;
    memcpy(tracing->data, data, tracing->bytes);
}

// Called after every half second of CPU time: three times in one input are more than a second.
static void tick(int number) {
    (void)number;
    ticks = tracing->input == last_tick_input ? ticks + 1 : 0;
    last_tick_input = tracing->input;
    if (ticks < 2)
        return;
    static const char words[] = "hang: an input takes more than a second\n";
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
        abort();
    abort();
}

// ---- targets ----

static const pv_drive_config drive_config = {.num_agents = 8,
                                             .control = 1,
                                             .resample_steps = 3,
                                             .partners = 3,
                                             .lanes = 4,
                                             .lines = 3,
                                             .edges = 4,
                                             .range_m = 50.0f,
                                             .goal_radius_m = 2.0f,
                                             .goal_behavior = 1,
                                             .reward_goal = 1.0f,
                                             .reward_collision = -1.0f,
                                             .reward_offroad = -1.0f,
                                             .reward_progress = 0.1f,
                                             .max_speed_mps = 30.0f,
                                             .max_reverse_mps = 5.0f,
                                             .wheelbase_factor = 0.6f,
                                             .box_scale = 1.0f,
                                             .raster_pixel_m = 0.5f,
                                             .raster_ahead = 0.75f,
                                             .route_step_m = 5.0f,
                                             .lidar_fov_deg = 200.0f,
                                             .lidar_range_m = 40.0f,
                                             .next_goal_m = 30.0f,
                                             .idm_headway_s = 1.5f,
                                             .idm_gap_m = 2.0f,
                                             .idm_acceleration_mps2 = 1.5f,
                                             .idm_braking_mps2 = 2.0f};
static const pv_params no_params = {.bytes = sizeof no_params};

// True if all scenes of a set with a sound table are sound. Workers ask the same of each scene
// before they first draw it.
static int is_sound(const uint8_t* data, uint64_t bytes) {
    char text[PV_ERROR_TEXT];
    for (uint32_t s = 0; s < ((const pv_scene_set*)(const void*)data)->scene_count; s++) {
        if (pv_drive_scene_check(data, bytes, s, 1, text))
            return 0;
    }
    return 1;
}

// Who is driven and by whom, what is observed and measured.
static void mix_settings(fuzz_rng* rng, pv_drive_config* config) {
    config->control = (int32_t)below(rng, DRIVE_IS_control_ids);
    config->others = (int32_t)below(rng, DRIVE_IS_others_idm + 1);
    config->goal_behavior = (int32_t)below(rng, DRIVE_IS_goal_behavior_next + 1);
    config->observation = (int32_t)below(rng, DRIVE_IS_observation_gpudrive + 1);
    config->roads = config->observation ? 20 : 0;
    config->metrics = (int32_t)below(rng, 2);
    config->replay_failed = below(rng, 2) ? 0.5f : 0.0f;
    if (below(rng, 2))
        config->traffic_idm = config->traffic_log = 0.4f;
    config->init_step = (int32_t)below(rng, 3);
    config->max_steps = below(rng, 2) ? 0 : 9;
    if (below(rng, 2))
        config->route = config->controls = config->lidar_rays = 5;
}

// One set, in memory that ends where the set ends. mixed: under settings that are drawn.
static void run_set(fuzz_rng* rng, const uint8_t* data, uint64_t bytes, int mixed) {
    pv_drive_config config = drive_config;
    config.replay_log = below(rng, 4) == 0;
    config.raster = below(rng, 4) == 0 ? 16 : 0;
    if (mixed)
        mix_settings(rng, &config);
    pv_context context = {
        .config = &config, .params = &no_params, .data = data, .data_bytes = bytes};
    context.autoreset = below(rng, 2) ? PV_NEXT_STEP : PV_SAME_STEP;
    fuzz_env env;
    int code = env_open(&env, pv_env_find("drive"), &context);
    if (code == PV_OK && !is_sound(data, bytes)) {
        refused++;
    } else if (code == PV_OK) {
        accepted++;
        code = env_reset(&env, rng);
        if (code)
            broken("a reset failed: %s", env.text);
        env_steps(&env, rng, STEPS);
    } else if (code < 0) {
        too_large++;
    } else if (code == PV_ERROR_DATA || code == PV_ERROR_CONFIG) {
        refused++;
    } else {
        broken("refused with code %d: %s", code, env.text);
    }
    env_close(&env);
}

static uint8_t* copy_of(const file* from, uint64_t bytes) {
    uint8_t* data = malloc(bytes ? bytes : 1);
    if (!data)
        broken("no memory");
    memcpy(data, from->data, bytes);
    return data;
}

static void run_scenes(fuzz_rng* rng) {
    const file* from = &files[below(rng, file_count)];
    uint64_t bytes = from->bytes;
    if (below(rng, 32) == 0)
        bytes = below(rng, bytes);
    uint8_t* data = copy_of(from, bytes);
    if (bytes >= sizeof(pv_scene_set) + sizeof(pv_scene_entry)) {
        for (uint64_t i = 1 + below(rng, MOST_MUTATIONS); i; i--)
            mutate_set(rng, data, bytes);
        ((pv_scene_set*)(void*)data)->bytes = bytes;
        if (below(rng, 8))
            fix_table(data, bytes);
    }
    show(data, bytes);
    run_set(rng, data, bytes, 1);
    free(data);
}

// Input 2n is file bytes cut to n, 2n + 1 the same with a head that says n bytes; the files one
// after another.
static void run_cut(uint64_t input, fuzz_rng* rng) {
    for (uint32_t f = 0; f < file_count; f++) {
        if (input >= 2 * files[f].bytes) {
            input -= 2 * files[f].bytes;
            continue;
        }
        uint64_t bytes = input / 2;
        uint8_t* data = copy_of(&files[f], bytes);
        if (input % 2 && bytes >= sizeof(pv_scene_set))
            ((pv_scene_set*)(void*)data)->bytes = bytes;
        show(data, bytes);
        run_set(rng, data, bytes, 0);
        free(data);
        return;
    }
}

static void run_replay(uint64_t input, fuzz_rng* rng) {
    const file* from = &files[input % file_count];
    uint8_t* data = copy_of(from, from->bytes);
    show(data, from->bytes);
    run_set(rng, data, from->bytes, 0);
    free(data);
}

typedef struct env_case {
    char name[PV_NAME_BYTES];
    file config, params, set;
} env_case;

static env_case cases[MOST_FILES];

static void read_case(const char* text, env_case* out) {
    char* copy = strdup(text);
    char* rest = copy;
    snprintf(out->name, sizeof out->name, "%s", strsep(&rest, ":"));
    file* const parts[] = {&out->config, &out->params, &out->set};
    for (size_t i = 0; i < 3 && rest; i++)
        read_file(strdup(strsep(&rest, ":")), parts[i]);
    free(copy);
}

static pv_context context_of(const env_case* from, const void* config) {
    return (pv_context){.config = config,
                        .params = (const pv_params*)(const void*)from->params.data,
                        .data = from->set.data,
                        .data_bytes = from->set.bytes};
}

// An env of every case, with states saved at the start and after some steps.
typedef struct played {
    fuzz_env env;
    uint8_t *saved[4], *shown[4];
} played;

static played games[MOST_FILES];

static void play(uint32_t at) {
    played* game = &games[at];
    pv_context context = context_of(&cases[at], cases[at].config.data);
    fuzz_rng rng = {at};
    int code = env_open(&game->env, pv_env_find(cases[at].name), &context);
    if (code || env_reset(&game->env, &rng))
        broken("%s cannot be made: %s", cases[at].name, game->env.text);
    for (int i = 0; i < 4; i++) {
        game->saved[i] = zeros(game->env.spec.save_bytes, 1);
        game->env.type->save(&game->env.block, 0, game->saved[i]);
        game->shown[i] = zeros(game->env.spec.state_bytes, 1);
        game->env.type->peek(&game->env.block, 0, game->shown[i]);
        env_steps(&game->env, &rng, 1 + 2 * (uint32_t)i);
    }
}

// One of four states with some bytes changed.
static uint8_t* mutated(fuzz_rng* rng, uint8_t* const from[4], uint64_t bytes) {
    uint8_t* state = malloc(bytes);
    memcpy(state, from[below(rng, 4)], bytes);
    for (uint64_t i = 1 + below(rng, MOST_MUTATIONS); i; i--) {
        if (below(rng, 4))
            mutate_bytes(rng, state, bytes);
        else
            mutate_copy(rng, state, bytes, from[below(rng, 4)], bytes);
    }
    show(state, bytes);
    return state;
}

// What is refused leaves the env as it was.
static void run_poke(fuzz_rng* rng) {
    played* game = &games[below(rng, file_count)];
    fuzz_env* env = &game->env;
    uint64_t bytes = env->spec.save_bytes;
    uint8_t *state = mutated(rng, game->shown, env->spec.state_bytes), *before = zeros(bytes, 1),
            *after = zeros(bytes, 1);
    if (!env->type->poke)
        broken("%s has no poke", env->type->name);
    env->text[0] = 0;
    env->type->load(&env->block, 0, game->saved[below(rng, 4)]);
    env->type->save(&env->block, 0, before);
    int code = pv_state_check(&env->block, 0, state);
    if (!code)
        code = env->type->poke(&env->block, 0, state);
    if (code == PV_OK) {
        accepted++;
        check_rows(env);
        env_steps(env, rng, STEPS);
    } else {
        refused++;
        if (!env->text[0])
            broken("refused without a word");
        env->type->save(&env->block, 0, after);
        if (memcmp(before, after, bytes))
            broken("a state was refused and changed the env: %s", env->text);
    }
    free(state);
    free(before);
    free(after);
    if (env_reset(env, rng))
        broken("a reset failed after a poke: %s", env->text);
}

static void run_state(fuzz_rng* rng) {
    played* game = &games[below(rng, file_count)];
    fuzz_env* env = &game->env;
    uint8_t* state = mutated(rng, game->saved, env->spec.save_bytes);
    env->text[0] = 0;
    if (env->type->load(&env->block, 0, state) == PV_OK) {
        accepted++;
        env_steps(env, rng, STEPS);
    } else {
        refused++;
        if (!env->text[0])
            broken("refused without a word");
    }
    free(state);
    if (env_reset(env, rng))
        broken("a reset failed after a load: %s", env->text);
}

// Takes out of a probe's config what is meant to break it, or to take long.
static void tame(const pv_env_type* type, uint8_t* config) {
    int32_t work;
    for (uint32_t f = 0; f < type->config_count; f++) {
        uint8_t* at = config + type->config_fields[f].offset;
        if (strcmp(type->config_fields[f].name, "fault") == 0)
            memset(at, 0, 4);
        if (strcmp(type->config_fields[f].name, "work") != 0)
            continue;
        memcpy(&work, at, sizeof work);
        if (work > 100)
            memset(at, 0, 4);
    }
}

static void run_config(fuzz_rng* rng) {
    const env_case* from = &cases[below(rng, file_count)];
    const pv_env_type* type = pv_env_find(from->name);
    uint8_t* config = copy_of(&from->config, from->config.bytes);
    for (uint64_t i = 1 + below(rng, MOST_MUTATIONS); i; i--)
        set_number(rng, config + type->config_fields[below(rng, type->config_count)].offset, 4);
    tame(type, config);
    show(config, from->config.bytes);
    pv_context context = context_of(from, config);
    fuzz_env env;
    int code = env_open(&env, type, &context);
    if (code == PV_OK) {
        accepted++;
        if (env_reset(&env, rng))
            broken("a reset failed: %s", env.text);
        env_steps(&env, rng, STEPS);
    } else if (code < 0) {
        too_large++;
    } else {
        refused++;
    }
    env_close(&env);
    free(config);
}

// ---- the action border ----

#define MOST_ACTIONS 192

static const uint32_t integer_bytes[PV_DTYPES] = {[PV_U8] = 1,  [PV_I8] = 1,  [PV_U16] = 2,
                                                  [PV_I16] = 2, [PV_U32] = 4, [PV_I32] = 4,
                                                  [PV_U64] = 8, [PV_I64] = 8};

static void draw_group(fuzz_rng* rng, pv_group_spec* group, int continuous) {
    group->action_kind = continuous ? PV_CONTINUOUS : PV_MULTI_DISCRETE;
    group->action_dims = 1 + (uint32_t)below(rng, 3);
    for (uint32_t d = 0; d < group->action_dims; d++) {
        static const uint32_t sizes[] = {1, 2, 5, 91, 255, 256, 65536, 0x7FFFFFFF};
        static const float bounds[] = {0.0f, 1.0f, 2.5f, 1e-40f, 1e30f, 3.4e38f, INFINITY};
        group->action_sizes[d] = sizes[below(rng, sizeof sizes / sizeof sizes[0])];
        group->action_low[d] = -bounds[below(rng, sizeof bounds / sizeof bounds[0])];
        group->action_high[d] = bounds[below(rng, sizeof bounds / sizeof bounds[0])];
    }
}

// What the border is to make of element i: the slow twin of csrc/core/action.c. Returns 1 where it
// is replaced.
static int expected_index(
    const uint8_t* source, uint32_t dtype, uint64_t i, uint32_t size, int32_t* out) {
    uint64_t value = 0;
    uint32_t bytes = integer_bytes[dtype];
    memcpy(&value, source + i * bytes, bytes);
    int is_signed = dtype == PV_I8 || dtype == PV_I16 || dtype == PV_I32 || dtype == PV_I64;
    int negative = is_signed && (source[i * bytes + bytes - 1] & 0x80);
    int bad = negative || value >= size;
    *out = bad ? 0 : (int32_t)value;
    return bad;
}

static int expected_real(
    const uint8_t* source, uint32_t dtype, uint64_t i, float low, float high, float* out) {
    float f;
    double d;
    memcpy(&f, source + 4 * i, sizeof f);
    if (dtype == PV_F64)
        memcpy(&d, source + 8 * i, sizeof d);
    if (dtype == PV_F32)
        d = (double)f;
    int bad = !isfinite(d);
    if (bad)
        d = 0.0;
    d = fmax((double)low, fmin((double)high, d));
    *out = fabs(d) > (double)FLT_MAX ? (d > 0.0 ? FLT_MAX : -FLT_MAX) : (float)d;
    return bad;
}

static void check_written(const pv_group_spec* group,
                          const uint8_t* source,
                          uint32_t dtype,
                          const uint8_t* rows,
                          uint64_t count,
                          uint64_t replaced) {
    uint64_t bad = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t d = (uint32_t)(i % group->action_dims);
        int32_t index, found;
        float value, real_found;
        memcpy(&found, rows + 4 * i, sizeof found);
        memcpy(&real_found, rows + 4 * i, sizeof real_found);
        if (pv_has_byte_actions(group))
            found = rows[i];
        if (group->action_kind == PV_CONTINUOUS) {
            bad += (uint64_t)expected_real(source, dtype, i, group->action_low[d],
                                           group->action_high[d], &value);
            if (!isfinite(real_found) || real_found != value)
                broken("action %llu is %g, not %g", (unsigned long long)i, (double)real_found,
                       (double)value);
        } else {
            bad += (uint64_t)expected_index(source, dtype, i, group->action_sizes[d], &index);
            if (found != index)
                broken("action %llu is %d, not %d", (unsigned long long)i, found, index);
        }
    }
    if (bad != replaced)
        broken("%llu actions were replaced, not %llu", (unsigned long long)replaced,
               (unsigned long long)bad);
}

static void run_actions(fuzz_rng* rng) {
    static pv_slab* slab;
    if (!slab)
        slab = zeros(1, sizeof *slab + 4 * MOST_ACTIONS + 64);
    static const uint32_t integers[] = {PV_U8,  PV_I8,  PV_U16, PV_I16,
                                        PV_U32, PV_I32, PV_U64, PV_I64};
    int continuous = below(rng, 2) == 0;
    uint32_t dtype = continuous ? (below(rng, 2) ? PV_F32 : PV_F64) : integers[below(rng, 8)];
    uint32_t size = continuous ? (dtype == PV_F64 ? 8 : 4) : integer_bytes[dtype];
    pv_group_spec* group = &slab->spec.groups[0];
    draw_group(rng, group, continuous);
    uint64_t rows = below(rng, 1 + MOST_ACTIONS / group->action_dims),
             count = rows * group->action_dims;
    slab->bytes = sizeof *slab + 4 * MOST_ACTIONS + 64;
    slab->halves[0].groups[0].actions = (sizeof *slab + 63) / 64 * 64;
    slab->halves[0].groups[0].rows = rows;
    uint8_t* out = (uint8_t*)slab + slab->halves[0].groups[0].actions;
    memset(out, 0xA5, 4 * MOST_ACTIONS);
    uint8_t* source = malloc(count * size ? count * size : 1);
    for (uint64_t i = 0; i < count * size; i++)
        source[i] = (uint8_t)(below(rng, 3) ? 0 : draw(rng));
    for (uint64_t i = 0; i < count; i++) {
        if (below(rng, 4) == 0)
            set_number(rng, source + i * size, size);
    }
    show(source, count * size);
    uint64_t first = 0, checked = pv_actions_check(slab, 0, 0, source, dtype, &first);
    uint64_t replaced = pv_actions_write(slab, 0, 0, source, dtype);
    check_written(group, source, dtype, out, count, replaced);
    if (checked != replaced)
        broken("check counts %llu, write %llu", (unsigned long long)checked,
               (unsigned long long)replaced);
    const uint64_t end = rows * pv_action_bytes(group);
    for (uint64_t i = end; i < 4 * MOST_ACTIONS; i++) {
        if (out[i] != 0xA5)
            broken("byte %llu behind the actions was written", (unsigned long long)(i - end));
    }
    accepted += replaced == 0;
    refused += replaced != 0;
    free(source);
}

// ---- main ----

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void run_one(const char* target, uint64_t input, fuzz_rng* rng) {
    if (strcmp(target, "scenes") == 0)
        run_scenes(rng);
    else if (strcmp(target, "cuts") == 0)
        run_cut(input, rng);
    else if (strcmp(target, "replay") == 0)
        run_replay(input, rng);
    else if (strcmp(target, "states") == 0)
        run_state(rng);
    else if (strcmp(target, "pokes") == 0)
        run_poke(rng);
    else if (strcmp(target, "configs") == 0)
        run_config(rng);
    else if (strcmp(target, "actions") == 0)
        run_actions(rng);
    else
        broken("no target %s", target);
}

int main(int argc, char** argv) {
    if (argc < 6)
        broken("usage: fuzz_main TARGET SEED FIRST COUNT TRACE [FILE|CASE]...");
    const char* target = argv[1];
    uint64_t seed = strtoull(argv[2], NULL, 10), first = strtoull(argv[3], NULL, 10),
             count = strtoull(argv[4], NULL, 10);
    uint64_t slowest_us = 0, slowest = 0;
    int plays = strcmp(target, "states") == 0 || strcmp(target, "pokes") == 0;
    int by_case = plays || strcmp(target, "configs") == 0;
    open_trace(argv[5]);
    for (int i = 6; i < argc && file_count < MOST_FILES; i++, file_count++) {
        if (by_case)
            read_case(argv[i], &cases[file_count]);
        else
            read_file(argv[i], &files[file_count]);
    }
    if (plays) {
        for (uint32_t i = 0; i < file_count; i++)
            play(i);
    }
    signal(SIGPROF, tick);
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 500000}, {0, 500000}}, NULL);
    for (uint64_t input = first; input < first + count; input++) {
        fuzz_rng rng = {seed};
        rng.state = draw(&rng) ^ (input * 0xD1342543DE82EF95ull);
        tracing->input = input;
        uint64_t begun = now_us();
        run_one(target, input, &rng);
        uint64_t took = now_us() - begun;
        if (took > slowest_us)
            slowest_us = took, slowest = input;
    }
    printf("{\"inputs\": %llu, \"accepted\": %llu, \"refused\": %llu, \"too_large\": %llu, "
           "\"slowest_us\": %llu, \"slowest\": "
           "%llu, "
           "\"peak_rss_bytes\": %llu}\n",
           (unsigned long long)count, (unsigned long long)accepted, (unsigned long long)refused,
           (unsigned long long)too_large, (unsigned long long)slowest_us,
           (unsigned long long)slowest, (unsigned long long)peak_rss_bytes());
    return 0;
}

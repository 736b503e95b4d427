// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// The contract between an env type and the rest: a table of functions that work on a block, which
// is a worker's contiguous range of envs. The env type owns the memory layout of its state over
// that range (one struct per env, or structure of arrays).
//
//   learner                     worker (a process, a thread, or the learner itself)
//   describe(context) -> spec   init(block)                  once
//                               reset(block, mask, seeds)    when the learner asks for it
//                               step(block)                  in every turn: reads the action rows,
//                                                            writes all other rows in place
//                               save, load, peek, poke (block, env)   while no turn is pending
//                               close(block)                 once
//
// Rules for every function: state holds indices, never pointers into itself, so that it can be
// saved and moved. step allocates nothing, opens nothing, locks nothing and reads no clock.
// Randomness comes from rng.h only, keyed by the env's seed. The block's rows are already checked:
// discrete actions are in range and continuous ones finite and clipped (action.c).
//
// Rows (see ARCHITECTURE.md): masks[k] is 1 where row k holds a live agent's observation or its
// last step. Autoreset by default is next-step: a finished row carries the true last observation;
// at the next turn its action is ignored and it becomes the reset row (reward 0, flags 0). `step`
// does this itself, since only the type knows which rows restart together.
//
// A type whose envs end as a whole (all live rows are done in the same step) need not know the
// other two modes: in same-step mode the worker keeps a copy of the last observations and calls
// reset(mask, NULL) in the same turn; in disabled mode a finished env is not stepped before the
// learner has reset it. A type whose rows restart one by one sets PV_OWN_AUTORESET and reads
// context->autoreset.
#pragma once

#include "base.h"

#include <string.h>

/* [cffi] */
#define PV_DISCRETE 0       // one index per row
#define PV_MULTI_DISCRETE 1 // several indices per row
#define PV_CONTINUOUS 2     // float32 per row and dim, clipped to [low, high]
#define PV_RAW 3            // action_bytes per row, as they were sent: for envs that are not C

#define PV_NEXT_STEP 0 // autoreset: the step after the last one resets
#define PV_SAME_STEP 1 // the last step resets; last observations go to final_observations
#define PV_DISABLED 2  // the learner resets

#define PV_ANY_TASK 0x7fffffffffffffffull // pv_spec.task_count of a type that takes any number

// pv_env_type.flags:
#define PV_OWN_AUTORESET 1 // step does same-step and disabled itself
#define PV_BYTE_ACTIONS \
    2 // step reads pv_rows.actions where indices are NULL, which saves a pass over the actions

// One named part of an observation row or of the readable state. Several fields of one dtype that
// fill the row without gaps are shown by Python as one (rows, floats) array; rows of mixed dtypes
// are shown as a dict by field. Arrays of three axes and pictures (bytes from 0 to 255 of two axes,
// each of at least 8) keep their shape: alone in a row as (rows, *shape), beside other fields as an
// entry of a dict.
typedef struct pv_field {
    char name[PV_NAME_BYTES];
    char unit[PV_UNIT_BYTES]; // of the value times scale, "" for a pure number
    uint32_t dtype;           // PV_F32...
    uint32_t ndim;            // 0 is a scalar
    uint32_t shape[PV_MAX_NDIM];
    uint32_t offset; // bytes from the start of the row
    float low, high; // bounds of the stored value
    float scale;     // stored value * scale = value in unit
} pv_field;

// Rows that share spaces.
typedef struct pv_group_spec {
    char name[PV_NAME_BYTES];
    uint32_t agents;            // A: rows per env in this group
    uint32_t observation_bytes; // stride of a row
    uint32_t field_count;
    pv_field fields[PV_MAX_FIELDS];
    uint32_t action_kind;                      // PV_DISCRETE...
    uint32_t action_dims;                      // D
    uint32_t action_sizes[PV_MAX_ACTION_DIMS]; // number of choices per dim (discrete kinds)
    float action_low[PV_MAX_ACTION_DIMS];      // bounds per dim (continuous)
    float action_high[PV_MAX_ACTION_DIMS];
    uint32_t action_mask_size; // 0, or the sum of action_sizes: one byte per choice, 1 = allowed
    uint32_t action_bytes;     // stride of an action row for PV_RAW; for other kinds see
                               // pv_action_bytes (slab.h)
    // For choices that stand for numbers whose mean is an action too, such as steering angles: the
    // numbers on each axis, one axis after another. A discrete action is the index of a
    // combination, in which the last axis varies fastest; each dim of a multi-discrete one is an
    // axis. A policy that does not sample takes the choice nearest to the mean. 0 axes: no numbers.
    uint32_t axis_count;
    uint32_t axis_sizes[PV_MAX_ACTION_DIMS];
    float axis_values[PV_MAX_AXIS_VALUES];
} pv_group_spec;

typedef struct pv_spec {
    uint32_t group_count;
    pv_group_spec groups[PV_MAX_GROUPS];
    uint32_t record_count; // names in record_names that are used
    char record_names[PV_RECORD_VALUES][PV_NAME_BYTES];
    uint32_t counter_count;
    char counter_names[PV_COUNTERS][PV_NAME_BYTES];
    uint32_t state_count; // readable state, for peek and poke
    uint32_t state_bytes; // bytes of one peek
    pv_field
        state_fields[PV_MAX_FIELDS]; // peek writes numbers within their bounds, poke gets no others
    uint32_t save_bytes;       // bytes of one saved env (the worker saves its rows along with it)
    uint32_t records_per_turn; // most episode records that one env can leave in one turn
    uint64_t
        task_count; // tasks are 0 to task_count - 1, such as scenes or start layouts; 0 counts as 1
} pv_spec;

// One named array of the params blob (start positions, action tables); offset counts from the start
// of the blob.
typedef struct pv_param {
    char name[PV_NAME_BYTES];
    uint32_t dtype;
    uint32_t ndim;
    uint64_t shape[PV_MAX_NDIM];
    uint64_t offset;
    uint64_t bytes;
} pv_param;

typedef struct pv_params {
    uint64_t bytes; // whole blob, this head included
    uint32_t count;
    uint32_t unused;
    // count x pv_param follow, then the data, each array aligned to 64 bytes
} pv_params;

// The data that an env type may read: owned by the caller, read-only, alive as long as the block.
typedef struct pv_context {
    const void* config;      // the env type's config struct
    const pv_params* params; // never NULL; count may be 0
    const uint8_t*
        data; // shared read-only data (compiled scenes), mapped once per process, NULL if none
    uint64_t data_bytes;
    uint32_t autoreset; // PV_NEXT_STEP...
} pv_context;

// A finished episode. `values` are named by pv_spec.record_names.
typedef struct pv_record {
    uint64_t episode; // number of the env's episode (0 after a seeded reset)
    int64_t task;     // the task it ran (scene index, start layout); -1 none
    uint32_t env;     // global env index
    uint32_t slot;    // agent slot or scene slot within the env
    uint32_t agent_type;
    uint32_t length;      // steps
    float episode_return; // undiscounted sum of rewards
    uint32_t unused;
    float values[PV_RECORD_VALUES];
} pv_record;

// One group's rows of a block. Row r of env e and agent slot a is e * agents + a. All arrays alias
// the slab.
typedef struct pv_rows {
    uint8_t* observations; // (rows, observation_bytes)
    uint64_t observation_bytes;
    float* rewards;              // (rows,)
    uint8_t* terminals;          // (rows,) 0 or 1
    uint8_t* truncations;        // (rows,) 0 or 1
    uint8_t* masks;              // (rows,) 0 or 1
    uint8_t* agent_types;        // (rows,)
    uint8_t* action_masks;       // (rows, action_mask_size) or NULL
    uint8_t* final_observations; // (rows, observation_bytes) in same-step mode: valid in rows that
                                 // are done; else NULL
    const uint8_t* actions; // what indices or values point to; (rows, D) indices of a byte each
                            // where both are NULL
    const int32_t* indices; // (rows, D) for discrete kinds; else NULL, also where a type with
                            // PV_BYTE_ACTIONS gets bytes
    const float* values;    // (rows, D) for continuous, else NULL
    uint64_t count;         // rows
} pv_rows;

// A worker's contiguous range of envs of one half, with everything that step may touch.
typedef struct pv_block {
    const pv_context* context;
    const pv_spec* spec;
    void* state;        // bytes(context, env_count) bytes, 64-byte aligned, zeroed before init
    uint32_t first_env; // global index of the block's env 0
    uint32_t env_count; // E
    pv_rows rows[PV_MAX_GROUPS];
    const int64_t* tasks;     // (E,) read at each reset; -1: the env draws its own
    pv_record* records;       // records of this turn
    uint32_t* record_count;   // how many of them are filled
    uint32_t* record_dropped; // how many did not fit
    uint32_t record_capacity;
    uint64_t* counters;  // (PV_COUNTERS,) running sums, named by pv_spec.counter_names
    char* error_text;    // (PV_ERROR_TEXT,) set with pv_block_error
    uint32_t* error_env; // global index of the env at work, noted with pv_block_at
} pv_block;

// One member of a config struct, so that Python can compare its dataclass with the struct. kind:
// PV_I32, PV_F32, ...
typedef struct pv_config_field {
    char name[PV_NAME_BYTES];
    uint32_t kind;
    uint32_t offset;
} pv_config_field;

typedef struct pv_env_type {
    uint32_t abi;          // PV_ABI
    uint32_t struct_bytes; // sizeof(pv_env_type)
    const char* name;
    const pv_config_field* config_fields;
    uint32_t config_count;
    uint32_t config_bytes;
    uint32_t flags; // PV_OWN_AUTORESET...
    // Fills a zeroed spec; text (PV_ERROR_TEXT) says what is wrong with config, params or data.
    // Runs in the learner.
    int (*describe)(const pv_context* context, pv_spec* spec, char* text);
    uint64_t (*bytes)(const pv_context* context, uint32_t env_count);
    int (*init)(pv_block* block);
    // Resets the envs whose mask byte is 1 (all if mask is NULL) and writes their rows. seeds NULL:
    // keep the seed, start the next episode; else start episode 0 of the given seed.
    int (*reset)(pv_block* block, const uint8_t* mask, const uint64_t* seeds);
    int (*step)(pv_block* block);
    int (*save)(pv_block* block, uint32_t env, uint8_t* out);
    int (*load)(pv_block* block, uint32_t env, const uint8_t* in);
    int (*peek)(pv_block* block, uint32_t env, uint8_t* out);
    // The inverse of peek: puts the env into the state `in` and writes its rows: observations,
    // masks and action masks of that state, reward 0. Flags are set where the state is the last one
    // of an episode, as after the step that ends it, so that a state that peek returned can always
    // be set. An env whose episode had ended begins its next one, unless the state ends that too.
    // Numbers are within the bounds of their fields: the worker has checked them. A state that the
    // env cannot be in is refused with pv_block_error before anything is changed; any other code is
    // a failure, which ends the vector env. NULL: the state cannot be set.
    int (*poke)(pv_block* block, uint32_t env, const uint8_t* in);
    void (*close)(pv_block* block); // NULL: there is nothing to release
    int (*call)(
        pv_block* block); // NULL: the type answers no calls from the learner (Python envs do)
} pv_env_type;

/* [/cffi] */

// Finds a named array. Returns NULL if it is absent; *count receives the number of elements.
const void* pv_params_find(const pv_params* params,
                           const char* name,
                           uint32_t dtype,
                           uint64_t* count);
// Sets the error text and env of a block (printf format). Returns PV_ERROR_ENV, so that a function
// can end with `return pv_block_error(...)`.
int pv_block_error(pv_block* block, uint32_t env, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
// Writes a message (printf format) of at most PV_ERROR_TEXT bytes and returns `code`.
int pv_describe_error(char* text, int code, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
// Adds a field of `ndim` axes at the current end of the row (`*row_bytes`, aligned to the dtype)
// and returns its byte offset.
uint32_t pv_add_array(pv_field* fields,
                      uint32_t* count,
                      uint32_t* row_bytes,
                      const char* name,
                      const char* unit,
                      uint32_t dtype,
                      uint32_t ndim,
                      const uint32_t* shape,
                      float low,
                      float high,
                      float scale);
// Adds a field of up to two axes: a number (rows and columns 0), `rows` numbers (columns 0), or a
// table of objects. See pv_add_array.
uint32_t pv_add_field(pv_field* fields,
                      uint32_t* count,
                      uint32_t* row_bytes,
                      const char* name,
                      const char* unit,
                      uint32_t dtype,
                      uint32_t rows,
                      uint32_t columns,
                      float low,
                      float high,
                      float scale);
// Adds a picture: bytes of 0 to 255, (height, width, channels) in memory order; channels 0:
// (height, width). See pv_add_array.
uint32_t pv_add_picture(pv_field* fields,
                        uint32_t* count,
                        uint32_t* row_bytes,
                        const char* name,
                        uint32_t height,
                        uint32_t width,
                        uint32_t channels);
uint32_t pv_dtype_bytes(uint32_t dtype);

// Notes in the slab which env is at work, so that the learner can name it if this process dies or
// hangs there. One store; volatile, since nothing else in this process reads it.
static inline void pv_block_at(const pv_block* block, uint32_t env) {
    *(volatile uint32_t*)block->error_env = block->first_env + env;
}

// Returns a record for an episode of `env` that has ended, with all but `env` 0; NULL (which is
// counted) where this turn has no room for another.
static inline pv_record* pv_block_record(pv_block* block, uint32_t env) {
    if (*block->record_count >= block->record_capacity) {
        ++*block->record_dropped;
        return NULL;
    }
    pv_record* record = &block->records[(*block->record_count)++];
    memset(record, 0, sizeof *record);
    record->env = block->first_env + env;
    return record;
}

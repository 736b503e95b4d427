// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
#include "three_flock.h"
#define Env Flock
#include "../env_binding.h"

static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    env->num_birds = unpack(kwargs, "num_birds");
    env->crowding = unpack(kwargs, "crowding");
    init(env);
    return 0;
}

static int my_log(PyObject* dict, Log* log) {
    assign_to_dict(dict, "score", log->score);
    assign_to_dict(dict, "collisions", log->collisions);
    return 0;
}

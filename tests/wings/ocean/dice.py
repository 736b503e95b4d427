# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""One small game in the style of each generation of PufferLib, written to a folder for the tests.

Every agent sees the tick, a die, its last action and its bonus, and is paid gain x action; after
`limit` steps all end.
"""

from __future__ import annotations

from pathlib import Path

GAME = """
#include <math.h>
#include <stdlib.h>
STRUCT
void observe(Env_* env) {
    for (int a = 0; a < env->num_agents; a++) {
        OBS(a)[0] = env->tick;
        OBS(a)[1] = DRAW % 6;
        OBS(a)[2] = ACT(a);
        OBS(a)[3] = env->bonus;
    }
}
void RESET(Env_* env) {
    env->tick = 0;
    observe(env);
}
void STEP(Env_* env) {
    env->tick++;
    for (int a = 0; a < env->num_agents; a++) {
        REW(a) = env->gain * ACT(a);
        END(a) = env->tick == env->limit;
    }
    FAULT
    if (env->tick == env->limit) {
        env->log.score += env->bonus;
        env->log.episode_length += env->tick;
        env->log.n += 1;
        RESET(env);
        return;
    }
    observe(env);
}
void RENDER(Env_* env) {
    if (!IsWindowReady()) InitWindow(100, 100, "dice");
    BeginDrawing();
    DrawText(TextFormat("%d", env->tick), 10, 10, 20, IsKeyDown(KEY_A) ? RED : (Color){1, 2, 3, 4});
    EndDrawing();
}
void CLOSE(Env_* env) { env->tick = -1; }
"""
# n is neither first nor last.
LOG = "struct Log { float score; float n; float episode_length; };"
MEMBERS = (
    "int num_agents; int limit; int tick; float gain; float bonus; unsigned int rng; "
    "struct Log log;"
)
INI = """
[env]
num_envs = 64     ; copies in a class of 3.0
num_agents = 2
limit = 4
gain = 1          # a float in C
bonus = 0.25
{more}
[vec]
total_agents = 256
num_buffers = 2
[policy]
hidden_size = 32
[train]
total_timesteps = 1_000_000
learning_rate = 0.02
horizon = 32
minibatch_size = 10_000
prio_alpha = 0.5
[sweep]
metric = score
[sweep.train.learning_rate]
distribution = log_normal
min = 0.001
max = 0.1
[sweep.env.gain]
distribution = uniform
min = 0.5
max = 2
"""
THREE = {
    "STRUCT": "typedef " + LOG.replace("};", "} Log;")
    + "typedef struct { float* observations; int* actions; float* rewards; unsigned char* "
    "terminals; " + MEMBERS + "} Env_;",
    "RESET": "c_reset", "STEP": "c_step", "RENDER": "c_render", "CLOSE": "c_close",
    "OBS(a)": "(env->observations + 4 * a)", "ACT(a)": "env->actions[a]",
    "REW(a)": "env->rewards[a]", "END(a)": "env->terminals[a]", "DRAW": "rand()",
}  # fmt: skip
FOUR = THREE | {
    "STRUCT": "typedef " + LOG.replace("};", "} Log;")
    + "typedef struct { float* observations; float* actions; float* rewards; float* terminals; "
    + MEMBERS + "} Env_;",
}  # fmt: skip
FIVE = FOUR | {
    "STRUCT": '#include "raylib.h"\ntypedef float obs_t;\n#include "pufferenv.h"\n'
    "#define OBS_SIZE 4\n#define NUM_ATNS 1\n#define ACT_SIZES {3}\ntypedef Env Env_;\n"
    + LOG + "struct Env { Agent agents[8]; int tag; int boundary_reached; " + MEMBERS + "};",
    "RESET": "puf_reset", "STEP": "puf_step", "RENDER": "puf_render", "CLOSE": "puf_close",
    "OBS(a)": "((obs_t*)env->agents[a].observations)", "ACT(a)": "env->agents[a].actions[0]",
    "REW(a)": "env->agents[a].rewards[0]", "END(a)": "env->agents[a].terminals[0]",
    "DRAW": "rand_r(&env->rng)",
}  # fmt: skip
SETTINGS = ("num_agents", "limit", "gain", "bonus")
BINDING_THREE = """
#include "dice.h"
#define Env Env_
#include "../env_binding.h"
static int my_init(Env* env, PyObject* args, PyObject* kwargs) {
    SET
    return 0;
}
static int my_log(PyObject* dict, Log* log) {
    assign_to_dict(dict, "score", log->score);
    assign_to_dict(dict, "episode_length", log->episode_length);
    return 0;
}
"""
BINDING_FOUR = """
#include "dice.h"
#define OBS_SIZE 4
#define NUM_ATNS 1
#define ACT_SIZES {3}
#define OBS_TENSOR_T FloatTensor
MORE
#define Env Env_
#include "vecenv.h"
void my_init(Env* env, Dict* kwargs) {
    SET
}
void my_log(Log* log, Dict* out) {
    dict_set(out, "score", log->score);
    dict_set(out, "episode_length", log->episode_length);
}
"""
INIT_FIVE = """
void puf_init(Env* env, Dict* kwargs) {
    SET
}
void puf_log(Log* log, Dict* out) {
    dict_set(out, "score", log->score);
    dict_set(out, "episode_length", log->episode_length);
}
"""
PYTHON = """
import gymnasium
import numpy as np
import a_package_that_nobody_has
import pufferlib
from pufferlib.ocean.dice import binding

class Dice(pufferlib.PufferEnv):
    def __init__(self, num_envs=8, num_agents=3, limit=9, gain=1.0, bonus=0.0, buf=None, seed=0):
        self.single_observation_space = gymnasium.spaces.Box(-1, 1000, (4,), np.float32)
        self.single_action_space = gymnasium.spaces.Discrete(3)
        self.num_agents = num_envs * num_agents
        super().__init__(buf)
        envs = []
        for i in range(num_envs):
            rows = slice(i * num_agents, (i + 1) * num_agents)
            envs.append(binding.env_init(
                self.observations[rows], self.actions[rows], self.rewards[rows],
                self.terminals[rows], self.truncations[rows], seed + i, num_agents=num_agents,
                limit=limit, gain=gain, bonus=bonus,
            ))
        self.c_envs = binding.vectorize(*envs)

    def reset(self, seed=0):
        binding.vec_reset(self.c_envs, seed)
        return self.observations, []

    def step(self, actions):
        self.actions[:] = actions
        binding.vec_step(self.c_envs)
        return self.observations, self.rewards, self.terminals, self.truncations, []
"""


def game(words: dict[str, str], fault: str = "") -> str:
    """Return the game's C code with the words of a generation."""
    code = GAME.replace("FAULT", fault)
    for word in sorted(words, key=len, reverse=True):
        code = code.replace(word, words[word])
    return code


def write(
    folder: Path, generation: int, fault: str = "", more: str = "", ini: str = "", setup: str = ""
) -> Path:
    """Write the game in the style of a generation; return its folder.

    Args:
        folder: where; it is made.
        generation: 3, 4 or 5.
        fault: a statement at each step.
        more: defines of a binding (4).
        ini: more settings.
        setup: statements after the settings of an init.
    """
    folder = folder / "dice"
    folder.mkdir(parents=True)
    get = {
        3: 'unpack(kwargs, "{0}")',
        4: 'dict_get(kwargs, "{0}")->value',
        5: 'dict_get(kwargs, "{0}")',
    }
    lines = [f"env->{name} = {get[generation].format(name)};" for name in SETTINGS]
    lines = "\n    ".join([*lines, setup])
    if generation == 5:
        (folder / "dice.h").write_text(game(FIVE, fault) + INIT_FIVE.replace("SET", lines))
    else:
        words, binding = (THREE, BINDING_THREE) if generation == 3 else (FOUR, BINDING_FOUR)
        (folder / "dice.h").write_text('#include "raylib.h"\n' + game(words, fault))
        (folder / "binding.c").write_text(binding.replace("SET", lines, 1).replace("MORE", more))
    if generation == 3:
        (folder / "dice.py").write_text(PYTHON)
    (folder.parent / "config").mkdir()
    (folder.parent / "config" / "dice.ini").write_text(INI.replace("{more}", ini))
    return folder

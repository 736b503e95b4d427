# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""csrc/contract/pv_ocean.h: several agents that respawn alone, floats for actions, an init
function, and what it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec import EnvData, NativeEnv
from puffervec._ffi import ffi, lib
from puffervec.contract.env_types import find as env_type
from puffervec.errors import ConfigError
from puffervec.vec.vector_env import VectorEnv
from tests.libraries import compile_library

# Every agent counts its steps and ends at its own limit; at `limit` all end together. Observation:
# agent, steps, last action (both dims), a random number, the number of init calls.
HEADER = """
#include <stdlib.h>
typedef struct { float alone; float n; float together; } Log;
typedef struct {
    float* observations;
    FLOATS_OR_INTS* actions;
    float* rewards;
    FLAGS* terminals;
    Log log;
    int num_agents;
    float gain;
    int limit;
    int steps[8];
    int inits;
    int clock;
    unsigned int rng;
} Swarm;
static void init(Swarm* env) { env->inits++; srand(1); }
static void show(Swarm* env, int agent) {
    float* row = env->observations + 6 * agent;
    row[0] = (float)agent;
    row[1] = (float)env->steps[agent];
    row[2] = (float)env->actions[2 * agent];
    row[3] = (float)env->actions[2 * agent + 1];
    row[4] = (float)(DRAW % 1000);
    row[5] = (float)env->inits;
}
void c_reset(Swarm* env);
void c_step(Swarm* env);
void c_close(Swarm* env);
void c_reset(Swarm* env) {
    env->clock = 0;
    for (int i = 0; i < env->num_agents; i++) {
        env->steps[i] = 0;
        show(env, i);
        env->rewards[i] = 7;
        env->terminals[i] = 1;
    }
}
void c_step(Swarm* env) {
    env->clock++;
    for (int i = 0; i < env->num_agents; i++) {
        env->steps[i]++;
        env->rewards[i] = env->gain * (float)env->actions[2 * i] + (float)i;
        env->terminals[i] = 0;
    }
    if (env->clock == env->limit) { /* all of them */
        env->log.together += 1;
        env->log.n += 1;
        c_reset(env);
        for (int i = 0; i < env->num_agents; i++) env->rewards[i] = 1;
        return;
    }
    for (int i = 0; i < env->num_agents; i++) {
        if (env->steps[i] == 2 + i) { /* one of them */
            env->terminals[i] = 255;
            env->steps[i] = 0;
            env->log.alone += 1;
            env->log.n += 1;
        }
        show(env, i);
    }
}
void c_close(Swarm* env) { env->inits = -1; }
"""
GLUE = """
#define OCEAN_HEADER "swarm.h"
#define OCEAN_NAME swarm
#define OCEAN_ENV Swarm
#define OCEAN_SETTINGS(INT, FLOAT) INT(num_agents) FLOAT(gain) INT(limit)
#define OCEAN_LOG(X) X(alone) X(together)
#define OCEAN_OBSERVATION_DTYPE PV_F32
#define OCEAN_OBSERVATION_COUNT 6
#define OCEAN_OBSERVATION_LOW -1.0f
#define OCEAN_OBSERVATION_HIGH 1000.0f
#define OCEAN_AGENTS config->num_agents
#define OCEAN_INIT(env) init(env)
{actions}
#include "pv_ocean.h"
"""
DISCRETE, CONTINUOUS = "#define OCEAN_ACTION_SIZES 3, 5", "#define OCEAN_ACTION_DIMS 2"


@dataclass(frozen=True)
class SwarmConfig:
    num_agents: int = 3
    gain: float = 0.5
    limit: int = 7


def swarm(
    folder: Path, actions: str, kind: str, flags: str = "unsigned char", draw: str = "rand()"
) -> NativeEnv:
    """Compile the env with these actions.

    Args: kind, flags: of what its pointers to actions and terminals point to; draw: an expression
        for a random number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    header = HEADER.replace("FLOATS_OR_INTS", kind).replace("FLAGS", flags).replace("DRAW", draw)
    (folder / "swarm.h").write_text(header)
    source = folder / "glue.c"
    source.write_text(GLUE.replace("{actions}", actions))
    library = compile_library(source, folder / "swarm.so", f"-I{folder}")
    return NativeEnv(
        name="swarm",
        config=SwarmConfig,
        build=lambda config: EnvData(),
        shared_library=str(library),
    )


SEEDED = DISCRETE + "\n#define OCEAN_SEED(env, seed) (env)->rng = (seed)"


@pytest.fixture(scope="module", params=["bytes and rand", "floats and rand_r"])
def env(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NativeEnv:
    """The same env as PufferLib 3.0 and as 4.0 would have it."""
    folder = tmp_path_factory.mktemp("swarm")
    if request.param == "bytes and rand":
        return swarm(folder, DISCRETE, "int")
    return swarm(folder, SEEDED, "int", "float", "rand_r(&env->rng)")


@pytest.fixture
def vec(env: NativeEnv) -> Iterator[VectorEnv]:
    with puffervec.make(env, backend="serial", num_envs=2) as made:
        yield made


def rows_of(vec: VectorEnv) -> Any:
    return vec.halves[0].groups["agents"]


@pytest.mark.slow
def test_a_reset_ends_nothing_and_init_was_called_once(vec: VectorEnv) -> None:
    """Also where the env's own reset sets flags."""
    observations, _ = vec.reset(seed=0)
    assert observations[:, :4].tolist() == [[agent, 0, 0, 0] for agent in (0, 1, 2)] * 2
    assert set(observations[:, 5].tolist()) == {1.0}
    rows = rows_of(vec)
    assert (rows.rewards.any(), rows.terminals.any(), rows.masks.all()) == (False, False, True)


def test_agents_that_end_alone_pass_and_all_together_are_held_for_a_turn(vec: VectorEnv) -> None:
    vec.reset(seed=0)
    actions = [[1, 4], [2, 0], [0, 3]] * 2
    ends, steps, rewards = [], [], []
    for _ in range(9):
        observations, reward, terminals, truncations, _ = vec.step(actions)
        assert not truncations.any()
        ends.append(terminals[:3].tolist())
        steps.append(observations[:3, 1].tolist())
        rewards.append(reward[:3].tolist())
        if not terminals.all():
            assert observations[:3, 2:4].tolist() == actions[:3]
    acted, last, held = [0.5, 2.0, 2.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]
    assert rewards == [acted] * 6 + [last, held, acted]
    assert [sum(turn) for turn in ends] == [0, 1, 1, 2, 0, 2, 3, 0, 0]
    assert steps[6:] == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]


def test_a_held_turn_shows_the_same_observations_again(vec: VectorEnv) -> None:
    vec.reset(seed=0)
    for _ in range(7):
        shown = vec.step([[1, 1]] * 6)[0].copy()
    np.testing.assert_array_equal(shown, vec.step([[2, 2]] * 6)[0])


def test_records_hold_means_of_the_log_and_n(vec: VectorEnv) -> None:
    assert vec.spec.record_names == ("alone", "together", "n")
    vec.set_tasks([1], [0])
    vec.reset(seed=0)
    found = [
        (turn, record.copy())
        for turn in range(1, 10)
        for record in vec.step([[1, 1]] * 6)[4].episodes
    ]
    first = [
        (turn, record["values"][:3].tolist(), int(record["length"]))
        for turn, record in found
        if record["env"] == 0
    ]
    assert first == [
        (2, [1, 0, 1], 2),
        (3, [1, 0, 1], 3),
        (4, [1, 0, 2], 4),
        (6, [1, 0, 2], 6),
        (7, [0, 1, 1], 7),
    ]
    assert {int(record["task"]) for _, record in found if record["env"] == 1} == {0}
    # Six steps of 3 x 0.5 and 0 + 1 + 2, and 1 for each in the last one.
    assert float(found[-1][1]["return"]) == 6 * (1.5 + 3) + 3
    assert [int(vec.peek(0)[name]) for name in ("episode", "steps")] == [1, 1]
    with pytest.raises(
        ConfigError,
        match="poke: env 0 of .* since its state cannot be set: the env type has no poke",
    ):
        vec.poke(0, {"steps": 3})


def test_random_numbers_belong_to_the_env(env: NativeEnv) -> None:
    """A seed gives its numbers whatever runs beside it, in one process or several; srand within the
    env changes nothing.
    """
    one, many = {"backend": "serial", "num_envs": 1}, {"backend": "serial", "num_envs": 4}
    shown = []
    for settings in (one, many, {"num_envs": 4, "num_workers": 2}):
        with puffervec.make(env, **settings) as vec:  # type: ignore[arg-type]
            vec.reset(seed=30)
            rows = rows_of(vec)
            shown.append(
                [
                    rows.observations[:3, 4].tolist()
                    for _ in range(12)
                    if vec.step([[0, 0]] * vec.num_agents)
                ]
            )
    assert shown[0] == shown[1] == shown[2]
    assert len({number for turn in shown[0] for number in turn}) > 20


def test_another_seed_draws_other_numbers_and_a_reset_without_one_goes_on(vec: VectorEnv) -> None:
    drawn = [vec.reset(seed=seed)[0][:, 4].tolist() for seed in (1, 2, 1)] + [
        vec.reset()[0][:, 4].tolist()
    ]
    assert drawn[0] == drawn[2]
    assert drawn[0] != drawn[1]
    assert drawn[3] != drawn[2]


@pytest.mark.slow
@pytest.mark.parametrize(("actions", "kind"), [(DISCRETE, "float"), (CONTINUOUS, "float")])
def test_float_actions(tmp_path: Path, actions: str, kind: str) -> None:
    with puffervec.make(swarm(tmp_path, actions, kind), backend="serial") as vec:
        vec.reset(seed=0)
        given = (
            [[1, 4], [2, 0], [0, 3]] if actions == DISCRETE else [[0.25, -1], [1, 0.5], [-0.75, 0]]
        )
        dtype = np.int64 if actions == DISCRETE else np.float32
        observations, rewards, *_ = vec.step(np.array(given, dtype))
        assert observations[:, 2:4].tolist() == given
        assert rewards.tolist() == [0.5 * given[agent][0] + agent for agent in range(3)]


def test_continuous_actions_need_a_float_pointer(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="continuous actions need float"):
        swarm(tmp_path, CONTINUOUS, "int")


def test_the_glue_must_say_what_actions_are(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="OCEAN_ACTION_SIZES .* or OCEAN_ACTION_DIMS"):
        swarm(tmp_path, "", "int")


REFUSED = {
    "rand_r without seeds": (
        "typedef struct",
        "typedef struct",
        "rand_r in the header needs OCEAN_SEED",
    ),
    "a log of integers": ("float together; }", "int together; }", "Log.together must be a float"),
    "a counter of integers": ("float n;", "int n;", "Log.n must be a float"),
    "rewards in double": ("float* rewards", "double* rewards", "rewards must be float"),
    "ends as integers": ("unsigned char* terminals", "int* terminals", "_Generic"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_go_wrong_silently_does_not_compile(tmp_path: Path, case: str) -> None:
    ours, theirs, words = REFUSED[case]
    draw = "rand_r(&env->rng)" if case.startswith("rand_r") else "rand()"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match=words):
        patch.setitem(
            globals(), "HEADER", HEADER.replace("FLAGS", "unsigned char").replace(ours, theirs, 1)
        )
        swarm(tmp_path, DISCRETE, "int", draw=draw)


@pytest.mark.parametrize("mode", ["same_step", "disabled"])
def test_other_autoreset_modes_are_refused_with_the_reason(env: NativeEnv, mode: str) -> None:
    with pytest.raises(ConfigError, match=r"loses the last observation.*next_step"):
        puffervec.make(env, backend="serial", autoreset_mode=mode)


def test_settings_without_an_agent_are_refused(env: NativeEnv) -> None:
    with pytest.raises(ConfigError, match="0 agents"):
        puffervec.make(env, env_kwargs={"num_agents": 0}, backend="serial")


def test_save_and_load_are_refused_with_the_reason(env: NativeEnv) -> None:
    """By Python where it sees that there is nothing to save, and by the type itself."""
    with puffervec.make(env, backend="serial") as vec:
        assert vec.spec.save_bytes == 0
        vec.reset(seed=0)
        with pytest.raises(ConfigError, match="cannot be saved"):
            vec.save()
        block, unused = vec.workers.opened[0].blocks + 0, ffi.new("uint8_t[]", 8)
        for refused in (
            env_type("swarm", env.shared_library).save,
            env_type("swarm", env.shared_library).load,
        ):
            assert refused(block, 0, unused) == lib.PV_ERROR_ENV
            assert b"contains pointers: it cannot be saved or loaded" in ffi.string(
                block.error_text
            )

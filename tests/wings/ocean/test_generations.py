# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/door.py, compiling.py, probing.py and config.py: a small game (dice.py) in
the style of PufferLib 3.0, 4.0 and 5.0 is an env here as it is.

The numbers are compared with the game in Python, on the C library's own rand and rand_r, seeded as
each generation's harness does. C: csrc/contract/pv_ocean_engine.h, pv_ocean_generated.h and the
headers of csrc/contract/ocean. Sources: puffervec/wings/ocean/door.py,
puffervec/wings/ocean/compiling.py, puffervec/wings/ocean/probing.py,
puffervec/wings/ocean/config.py, puffervec/wings/ocean/source.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from puffervec.errors import ConfigError, WorkerDied, WorkerError
from puffervec.wings.ocean import source
from tests.wings.ocean import dice

GENERATIONS = (3, 4, 5)
LIBC = ctypes.CDLL(None)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this module, so that libraries are compiled."""
    folder = tmp_path_factory.getbasetemp() / "ocean_cache"
    monkeypatch.setenv("PUFFERVEC_CACHE", str(folder))
    monkeypatch.setenv("PUFFERVEC_OCEAN_FLAGS", "-O1")  # Compiles in half the time.
    return folder


def draws(generation: int, seed: int) -> Callable[[], int]:
    """Return the generator that a harness gives to the env with this seed."""
    if generation == 5:
        state = ctypes.c_uint(seed)
        return lambda: int(LIBC.rand_r(ctypes.byref(state)))
    LIBC.srand(ctypes.c_uint(seed))
    numbers = iter([int(LIBC.rand()) for _ in range(2000)])
    return lambda: next(numbers)


class Game:
    """The game of dice.py in Python, with the turn for which an env is held at its end."""

    def __init__(self, generation: int, seed: int, agents: int, limit: int, bonus: float) -> None:
        self.draw, self.agents, self.limit = draws(generation, seed), agents, limit
        self.bonus, self.tick, self.over = bonus, 0, False
        self.rows = self.observe(np.zeros(agents))

    def observe(self, actions: np.ndarray) -> np.ndarray:
        dice = [self.draw() % 6 for _ in range(self.agents)]
        return np.stack(
            [np.full(self.agents, self.tick), dice, actions, np.full(self.agents, self.bonus)], 1
        )

    def step(self, actions: np.ndarray, gain: float) -> tuple[np.ndarray, np.ndarray, bool]:
        if self.over:
            self.over = False
            return self.rows, np.zeros(self.agents), False
        self.tick += 1
        if self.over_now():
            self.tick = 0
        self.rows = self.observe(actions)
        return self.rows, gain * actions, self.over

    def over_now(self) -> bool:
        self.over = self.tick == self.limit
        return self.over


@pytest.fixture(scope="module", params=GENERATIONS)
def env(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The game in each generation, with its number."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PUFFERVEC_CACHE", str(tmp_path_factory.getbasetemp() / "ocean_cache"))
    patch.setenv("PUFFERVEC_OCEAN_FLAGS", "-O1")
    folder = dice.write(tmp_path_factory.mktemp(f"dice{request.param}"), request.param)
    yield request.param, folder, puffervec.ocean(folder)
    patch.undo()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"backend": "serial"}, {"num_workers": 2}], ids=str)
def test_rows_are_those_of_the_generations_harness(env: Any, settings: dict[str, Any]) -> None:
    """Also where several envs share a process, and seeds are large."""
    generation, _, native = env
    seeds = [5, 0, 2**31 + 9, 77]
    games = [Game(generation, seed, 3, 4, 0.25) for seed in seeds]
    rng = np.random.default_rng(0)
    with puffervec.make(
        native, num_envs=4, env_kwargs={"num_agents": 3, "gain": 0.5}, **settings
    ) as vec:
        observations, _ = vec.reset(seed=seeds)
        np.testing.assert_array_equal(observations, np.concatenate([g.rows for g in games]))
        for _ in range(60):
            actions = rng.integers(0, 3, 12)
            shown, rewards, terminals, truncations, infos = vec.step(actions)
            for i, game in enumerate(games):
                rows = slice(3 * i, 3 * i + 3)
                seen, paid, over = game.step(actions[rows], 0.5)
                np.testing.assert_array_equal(shown[rows], seen)
                np.testing.assert_array_equal(rewards[rows], paid)
                assert terminals[rows].tolist() == [over] * 3
            for record in infos.episodes:
                assert record["values"][:3].tolist() == [0.25, 4.0, 1.0]  # score, length, n
        assert not truncations.any()
        assert vec.spec.record_names == ("score", "episode_length", "n")


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_reset_with_seeds_clears_what_was_shown(tmp_path: Path, generation: int) -> None:
    """Some envs write only what changes, over what they showed before."""
    folder = dice.write(tmp_path, generation)
    header = folder / "dice.h"
    header.write_text(header.read_text().replace("[3] = env->bonus;", "[3] += env->bonus;"))
    with puffervec.make(puffervec.ocean(folder), num_envs=2, backend="serial") as vec:
        for _ in range(2):
            assert vec.reset(seed=0)[0][:, 3].tolist() == [0.25] * 4
            for turn in range(1, 4):
                assert vec.step([0] * 4)[0][:, 3].tolist() == [0.25 * (turn + 1)] * 4


def test_settings_come_from_the_ini_file_with_their_types(env: Any) -> None:
    """A whole number that C keeps in a float takes any number; others are refused."""
    _, folder, native = env
    config = native.config()
    assert (config.num_agents, config.limit, config.gain, config.bonus) == (2, 4, 1.0, 0.25)
    assert isinstance(config.gain, float) and isinstance(config.limit, int)
    assert native.agent_types == ()
    changed = puffervec.ocean(folder, limit=7, gain=0.5)
    assert (changed.config().limit, changed.config().gain) == (7, 0.5)
    with pytest.raises(ConfigError, match=r"limit is 2\.5"):
        native.config(limit=2.5)
    with pytest.raises(ConfigError, match="no setting 'limits': did you mean limit"):
        puffervec.ocean(folder, limits=7)


def test_the_names_of_an_env_lead_to_it(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder, its header and its binding, also relative."""
    generation, folder, native = env
    monkeypatch.chdir(folder.parent)
    for path in ("ocean:dice", f"ocean:{folder}/dice.h"):
        with puffervec.make(path, backend="serial") as vec:
            assert (vec.env.name, vec.num_agents) == (native.name, 2)


def test_a_run_takes_its_settings_from_the_ini_file(env: Any) -> None:
    from puffervec.train.config.sections import TrainConfig
    from puffervec.train.config.target import env_spec

    config = TrainConfig.of(f"ocean:{env[1]}")
    assert (config.vec.num_envs, config.train.horizon, config.train.lr) == (128, 32, 0.02)
    assert config.policy.hidden == (32,)
    rows = config.vec.num_envs * env_spec(config).agents
    assert rows * 32 % config.train.minibatch_size == 0 and config.train.minibatch_size > 8000
    training = env[2].training
    assert training.metric == "env/score"
    assert training.search == {"train.lr": "0.001:0.1:log", "env.gain": "0.5:2"}
    assert any("prio_alpha" in note for note in training.notes)


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_mistake_in_c_is_named_with_its_line(tmp_path: Path, generation: int) -> None:
    folder = dice.write(tmp_path, generation, fault="env->ticks = 1;")
    line = next(
        i
        for i, text in enumerate((folder / "dice.h").read_text().split("\n"), 1)
        if "ticks" in text
    )
    with pytest.raises(ConfigError, match=rf"dice\.h:{line}: .*no member named .ticks.") as caught:
        puffervec.ocean(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_function_that_nobody_defines_is_named_with_its_line(tmp_path: Path) -> None:
    folder = dice.write(
        tmp_path, 4, fault="extern int far_away(void);\n    env->tick += far_away();"
    )
    with pytest.raises(ConfigError, match=r"dice\.h:\d+: far_away is called but defined nowhere"):
        puffervec.ocean(folder)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or folder"):
        puffervec.make("ocean:" + str(tmp_path / "nothing"))
    (tmp_path / "plain.h").write_text("typedef int Env;\n// vecenv.h\n")
    with pytest.raises(ConfigError, match="nothing there includes env_binding"):
        puffervec.ocean(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("if (env->tick == 2) assert(env->tick > 5);", "assert.env->tick > 5. failed"),
        ("if (env->tick == 2) exit(3);", r"exit\(3\)"),
    ],
)
def test_an_env_that_gives_up_is_named_with_its_line(
    tmp_path: Path, generation: int, fault: str, words: str
) -> None:
    native = puffervec.ocean(
        dice.write(tmp_path, generation, fault="#include <assert.h>\n" + fault)
    )
    with puffervec.make(native, backend="serial", num_envs=2) as vec:
        vec.reset(seed=0)
        vec.step([0] * 4)
        with pytest.raises(WorkerError, match=rf"dice\.h:\d+: {words}"):
            vec.step([0] * 4)


@pytest.mark.slow
@pytest.mark.normal_build("the sanitizer reports the fault itself")
def test_an_env_that_crashes_is_named(tmp_path: Path) -> None:
    native = puffervec.ocean(dice.write(tmp_path, 5, fault="env->limit /= env->tick - 2;"))
    with puffervec.make(native, num_workers=1) as vec:
        vec.reset(seed=0)
        vec.step([0] * 2)
        with pytest.raises(WorkerDied, match="puf_step"):
            vec.step([0] * 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "words"),
    [
        ('env->limit = dict_get(kwargs, "nowhere");', "the setting nowhere is missing"),
        ("abort();", r"dice\.h:\d+: abort\(\)"),
        ("*(volatile int*)8 = 1;", "its init crashes with SIG"),
        ("env->num_agents = 0;", "0 agents"),
    ],
)
def test_an_init_that_fails_is_a_config_error(tmp_path: Path, setup: str, words: str) -> None:
    """It runs in a process of its own."""
    with pytest.raises(ConfigError, match=words):
        puffervec.make(puffervec.ocean(dice.write(tmp_path, 5, setup=setup)), backend="serial")


# ---- what only some generations have -------------------------------------------------------------


@pytest.mark.slow
def test_action_masks_of_4(tmp_path: Path) -> None:
    folder = dice.write(
        tmp_path, 4, more="#define MY_ACTION_MASK 3",
        fault="for (int a = 0; a < env->num_agents; a++) "
        "env->action_mask[3 * a + 2] = env->tick % 2;",
    )  # fmt: skip
    header = folder / "dice.h"
    header.write_text(
        header.read_text().replace("int num_agents;", "unsigned char* action_mask; int num_agents;")
    )
    with puffervec.make(puffervec.ocean(folder), backend="serial") as vec:
        vec.reset(seed=0)
        rows = vec.halves[0].groups["agents"]
        assert rows.action_masks.tolist() == [[1, 1, 1]] * 2
        vec.step([0, 0])
        vec.step([0, 0])
        assert rows.action_masks.tolist() == [[1, 1, 0]] * 2
        vec.reset(seed=0)
        assert rows.action_masks.tolist() == [[1, 1, 1]] * 2


def test_masks_policies_and_half_floats_of_5(tmp_path: Path) -> None:
    folder = dice.write(
        tmp_path, 5, setup="env->agents[1].policy = 2;",
        fault="if (env->agents[0].action_mask) env->agents[1].action_mask[0] = 0;",
    )  # fmt: skip
    header = folder / "dice.h"
    code = header.read_text().replace("typedef float obs_t;", "typedef unsigned short obs_t;")
    code = code.replace("[3] = env->bonus;", "[3] = f32_to_bf16(env->bonus);")
    # The include may be that of another header.
    (folder / "base.h").write_text('#include "pufferenv.h"\n')
    header.write_text(code.replace('"pufferenv.h"', '"base.h"').replace("(obs_t*)", ""))
    native = puffervec.ocean(folder)
    assert native.agent_types == ("policy0", "policy1", "policy2")
    with puffervec.make(native, backend="serial", env_kwargs={"bonus": -1.5}) as vec:
        observations, _ = vec.reset(seed=0)
        assert observations.dtype == np.float32 and observations[:, 3].tolist() == [-1.5, -1.5]
        vec.step([1, 1])
        rows = vec.halves[0].groups["agents"]
        assert rows.action_masks.tolist() == [[1, 1, 1], [0, 1, 1]]
        assert rows.agent_types.tolist() == [0, 2]


@pytest.mark.slow
def test_envs_that_are_made_together(tmp_path: Path) -> None:
    """my_vec_init, whose envs differ by index, and my_setup_perm; also where a binding has what
    nothing here calls.
    """
    more = """
#define MY_VEC_INIT
#define MY_USES_PERM
struct StaticVec;
"""
    folder = dice.write(tmp_path, 4, more=more)
    binding = folder / "binding.c"
    binding.write_text(
        binding.read_text()
        + """
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int my_state(void* env, StateField* fields, int most) {
    pthread_mutex_lock(&lock);
    fields[0] = (StateField){"dice", env, "int32", 2, {2, 1}, PUFF_STATE_ZERO_COPY};
    return 1;
}
void my_setup_perm(StaticVec* vec, Env* env, int slot) {
    env->observations = (float*)vec->observations + 4 * slot;
    env->rewards = vec->rewards + slot;
}
Env* my_vec_init(int* count, int* starts, int* counts, Dict* vec_kwargs, Dict* kwargs) {
    *count = (int)dict_get(vec_kwargs, "total_agents")->value / 2;
    Env* envs = calloc(*count, sizeof(Env));
    for (int i = 0; i < *count; i++) {
        my_init(&envs[i], kwargs);
        envs[i].bonus = i;
    }
    counts[0] = *count;
    return envs;
}
"""
    )
    with puffervec.make(puffervec.ocean(folder), num_envs=4, num_workers=2) as vec:
        observations, _ = vec.reset(seed=0)
        assert observations[:, 3].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        assert vec.step([2] * 8)[1].tolist() == [2.0] * 8


STEPPING = """
void step_all(StaticVec* vec) {
    memset(vec->rewards, 0, vec->total_agents * sizeof(float));
    memset(vec->terminals, 0, vec->total_agents * sizeof(float));
    for (int i = 0; i < vec->size; i++)
        c_step(&((Env*)vec->envs)[i]);
    for (int a = 0; a < vec->total_agents; a++)
        vec->rewards[a] += 100;
}
void step_some(StaticVec* vec, int start, int count, int workers) {
    for (int i = start; i < start + count; i++) {
        Env* env = &((Env*)vec->envs)[i];
        c_step(env);
        for (int a = 0; a < env->num_agents; a++)
            env->rewards[a] += 1000;
    }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "extra"),
    [
        ("#define MY_VEC_STEP step_all", 100),
        ("#define MY_VEC_STEP_RANGE step_some", 1000),
        ("#define MY_VEC_STEP step_all\n#define MY_VEC_STEP_RANGE step_some", 1000),
    ],
    ids=["all", "range", "both"],
)
def test_envs_that_are_stepped_together(tmp_path: Path, more: str, extra: int) -> None:
    """Also where an env pauses at its end while the others go on."""
    folder = dice.write(tmp_path, 4, more=more, setup="env->limit += env->rng;")
    binding = folder / "binding.c"
    binding.write_text(binding.read_text() + STEPPING)
    games = [Game(4, seed, 2, 4 + seed, 0.25) for seed in range(3)]
    actions = np.array([0, 1, 2, 0, 1, 2])
    with puffervec.make(puffervec.ocean(folder), num_envs=3, backend="serial") as vec:
        shown, _ = vec.reset(seed=[0, 1, 2])
        np.testing.assert_array_equal(shown, np.concatenate([game.rows for game in games]))
        for _ in range(20):
            shown, rewards, terminals, _, _ = vec.step(actions)
            for i, game in enumerate(games):
                rows = slice(2 * i, 2 * i + 2)
                pauses = game.over
                seen, paid, over = game.step(actions[rows], 1.0)
                np.testing.assert_array_equal(shown[rows], seen)
                np.testing.assert_array_equal(rewards[rows], paid + (0 if pauses else extra))
                assert terminals[rows].tolist() == [over] * 2


@pytest.mark.slow
def test_envs_whose_numbers_of_agents_differ_are_refused(tmp_path: Path) -> None:
    """Whether they are made one by one or together."""
    words = "has 3 agents and another one 2: the number of agents must be the same in all envs"
    folder = dice.write(tmp_path / "alone", 4, setup="env->num_agents += env->rng == 2;")
    with (
        puffervec.make(puffervec.ocean(folder), num_envs=3, backend="serial") as vec,
        pytest.raises(WorkerError, match=words),
    ):
        vec.reset(seed=0)
    folder = dice.write(tmp_path / "together", 4, more="#define MY_VEC_INIT")
    binding = folder / "binding.c"
    binding.write_text(
        binding.read_text()
        + """
Env* my_vec_init(int* count, int* starts, int* counts, Dict* vec_kwargs, Dict* kwargs) {
    *count = (int)dict_get(vec_kwargs, "total_agents")->value / 2;
    Env* envs = calloc(*count, sizeof(Env));
    for (int i = 0; i < *count; i++) {
        my_init(&envs[i], kwargs);
        envs[i].num_agents += i == 2;
    }
    return envs;
}
"""
    )
    with pytest.raises(ConfigError, match=words):
        puffervec.make(puffervec.ocean(folder), num_envs=2, backend="serial")


@pytest.mark.slow
@pytest.mark.parametrize("generation", [4, 5])
def test_more_actions_than_rows_can_hold_are_refused(tmp_path: Path, generation: int) -> None:
    folder = dice.write(tmp_path, generation)
    main = folder / ("binding.c" if generation == 4 else "dice.h")
    code = main.read_text().replace("#define NUM_ATNS 1", "#define NUM_ATNS 17")
    main.write_text(code.replace("ACT_SIZES {3}", "ACT_SIZES {" + ", ".join("3" * 17) + "}"))
    with pytest.raises(ConfigError, match="ACT_SIZES has 17 entries: at most 16 are supported"):
        puffervec.make(puffervec.ocean(folder), backend="serial")


@pytest.mark.slow
@pytest.mark.parametrize(
    "member",
    ["unsigned int rng;", "unsigned rng;", "uint32_t rng;", "int first, rng, last;"],
)
def test_the_seed_reaches_rng_however_it_is_declared(tmp_path: Path, member: str) -> None:
    folder = dice.write(tmp_path, 4, setup="env->bonus = env->rng;")
    header = folder / "dice.h"
    code = header.read_text().replace("unsigned int rng;", member)
    header.write_text("#include <stdint.h>\n" + code)
    with puffervec.make(puffervec.ocean(folder), num_envs=2, backend="serial") as vec:
        assert vec.reset(seed=[4, 9])[0][:, 3].tolist() == [4, 4, 9, 9]


@pytest.mark.slow
def test_headers_that_come_with_pufferlib(tmp_path: Path) -> None:
    """bf16.h of 4.0, with observations of the type PrecisionTensor, and puffer_os.h."""
    setup = (
        "float* lent = puffer_aligned_alloc(64, 64); *lent = (uintptr_t)lent % 64 - 1.5f; "
        "env->bonus = bf16_to_f32(f32_to_bf16(*lent)); puffer_aligned_free(lent);"
    )
    folder = dice.write(tmp_path, 4, setup=setup)
    header, binding = folder / "dice.h", folder / "binding.c"
    code = header.read_text().replace("float* observations", "bf16* observations")
    code = code.replace("[3] = env->bonus;", "[3] = f32_to_bf16(env->bonus);")
    header.write_text('#include "bf16.h"\n#include "puffer_os.h"\n' + code)
    binding.write_text(binding.read_text().replace("FloatTensor", "PrecisionTensor"))
    with puffervec.make(puffervec.ocean(folder), backend="serial") as vec:
        observations, _ = vec.reset(seed=0)
        assert observations.dtype == np.float32 and observations[:, 3].tolist() == [-1.5, -1.5]


LANES = """
typedef float lanes __attribute__((vector_size(16)));
static const lanes LOW = {1, 1, 1, 1}, HIGH = {2.5f, 2.5f, 2.5f, 2.5f};
static float sum_of_lanes(lanes squares) {
    lanes roots = __builtin_elementwise_sqrt(squares);
    lanes kept = __builtin_elementwise_min(__builtin_elementwise_max(roots, LOW), HIGH);
    return kept[0] + 10 * kept[1] + 100 * kept[2] + 1000 * kept[3];
}
"""


@pytest.mark.slow
def test_vectors_whose_builtins_the_compiler_lacks(tmp_path: Path) -> None:
    """Use clang's builtins, which the headers define for gcc; NaN is the lesser choice."""
    setup = "env->bonus = sum_of_lanes((lanes){4, 9, 0.25f, -1});"
    folder = dice.write(tmp_path, 5, setup=setup)
    header = folder / "dice.h"
    header.write_text(LANES + header.read_text())
    with puffervec.make(puffervec.ocean(folder), backend="serial") as vec:
        assert vec.reset(seed=0)[0][0, 3] == 2 + 25 + 100 + 1000


@pytest.mark.slow
def test_a_header_that_its_own_headers_include_again(tmp_path: Path) -> None:
    """Let an env and its tasks include each other; errors still name the lines of its header."""
    folder = dice.write(tmp_path, 5, setup="env->bonus = worth();")
    header = folder / "dice.h"
    task = '#include "dice.h"\nstatic float worth(void) { return 7; }\n'
    (folder / "task.h").write_text(task)
    include = '#include "pufferenv.h"'
    code = header.read_text().replace(include, f'{include}\n#include "task.h"')
    header.write_text("#pragma once\n" + code)
    with puffervec.make(puffervec.ocean(folder), backend="serial") as vec:
        assert vec.reset(seed=0)[0][0, 3] == 7
    header.write_text("#pragma once\nint wrong = unknown;\n" + code)
    with pytest.raises(ConfigError, match=r"dice\.h:2: "):
        puffervec.make(puffervec.ocean(folder), backend="serial")


TOGETHER = """
#define MY_VEC_INIT
Env* my_vec_init(int* count, Dict* vec_kwargs, Dict* kwargs) {
    *count = (int)dict_get(vec_kwargs, "total_agents")->value / 2;
    Env* envs = calloc(*count, sizeof(Env));
    for (int i = 0; i < *count; i++)
        my_init(&envs[i], kwargs);
    return envs;
}
"""


@pytest.mark.parametrize("together", ["", TOGETHER], ids=["alone", "together"])
def test_the_first_bindings_of_4(tmp_path: Path, together: str) -> None:
    """They include 3.0's header, name types otherwise, and have double actions and no rng; their
    my_vec_init has three arguments.
    """
    folder = dice.write(tmp_path, 4)
    code = (folder / "binding.c").read_text().replace("vecenv.h", "env_binding.h")
    words = "OBS_TYPE FLOAT\n#define ACT_TYPE DOUBLE"
    code = code.replace("OBS_TENSOR_T FloatTensor", words)
    (folder / "binding.c").write_text(code + together)
    header = folder / "dice.h"
    code = header.read_text().replace("float* actions", "double* actions")
    header.write_text(code.replace("unsigned int rng;", ""))
    assert source.locate(folder).generation == 4
    with puffervec.make(puffervec.ocean(folder), backend="serial") as vec:
        game = Game(4, 3, 2, 4, 0.25)
        np.testing.assert_array_equal(vec.reset(seed=3)[0], game.rows)
        np.testing.assert_array_equal(vec.step([2, 1])[0], game.step(np.array([2, 1]), 1.0)[0])


def test_a_my_vec_init_with_other_arguments_is_refused(tmp_path: Path) -> None:
    folder = dice.write(tmp_path, 4, more="#define MY_VEC_INIT")
    binding = folder / "binding.c"
    binding.write_text(binding.read_text() + "Env* my_vec_init(int* count) { return NULL; }")
    with pytest.raises(ConfigError, match="my_vec_init must be"):
        puffervec.ocean(folder)


def test_assets_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the program ran at the root of the env's repository."""
    folder = dice.write(
        tmp_path / "repository", 4,
        setup='FILE* file = fopen("resources/dice.txt", "r"); env->bonus = fgetc(file); '
        'fclose(file);',
    )  # fmt: skip
    assets = tmp_path / "repository" / "resources"
    assets.mkdir()
    (assets / "dice.txt").write_text("A")
    monkeypatch.chdir(tmp_path)
    with puffervec.make(puffervec.ocean(folder), backend="serial") as vec:
        assert vec.reset(seed=0)[0][0, 3] == 65


@pytest.mark.parametrize("name", ["env.h", "settings.h", "config.h"])
def test_an_env_may_have_headers_of_any_name(tmp_path: Path, name: str) -> None:
    """Next to it, also of the name of one of ours, and at the root of its repository."""
    folder = dice.write(
        tmp_path / "repository", 4, more=f'#include "{name}"', setup="env->bonus = OWN;"
    )
    (folder.parent if name == "config.h" else folder).joinpath(name).write_text("#define OWN 12")
    with puffervec.make(puffervec.ocean(folder), backend="serial") as vec:
        assert vec.reset(seed=0)[0][0, 3] == 12


def test_settings_that_are_lists_and_texts(tmp_path: Path) -> None:
    folder = dice.write(
        tmp_path, 5, ini="names = left, right\ncurve = 1, 2.5, 4\nfile = 'a b'",
        setup='DictItem* item = dict_find(kwargs, "curve"); '
        'env->bonus = item->values[item->len - 1] '
        '+ dict_get(kwargs, "curve") + (dict_get_str(kwargs, "file")[2] == \'b\') * 100;',
    )  # fmt: skip
    native = puffervec.ocean(folder)
    assert (native.config().curve, native.config().file) == ((1.0, 2.5, 4.0), "a b")
    with puffervec.make(native, backend="serial", env_kwargs={"curve": [8, 9]}) as vec:
        assert vec.reset(seed=0)[0][0, 3] == 117


@pytest.mark.slow
def test_a_library_is_compiled_once_for_its_content(tmp_path: Path, cache: Path) -> None:
    folder = dice.write(tmp_path, 4)
    first = puffervec.ocean(folder).shared_library
    assert puffervec.ocean(folder).shared_library == first
    header = folder / "dice.h"
    header.write_text(header.read_text().replace("% 6", "% 7"))
    second = puffervec.ocean(folder).shared_library
    assert first != second and Path(str(second)).is_relative_to(cache)


def test_generations_are_told_apart_by_what_is_included(tmp_path: Path) -> None:
    """Not by names, and not by comments."""
    for generation in GENERATIONS:
        found = source.locate(dice.write(tmp_path / str(generation), generation))
        assert found.generation == generation
        assert found.main.name == ("dice.h" if generation == 5 else "binding.c")
        assert found.ini is not None and found.ini.name == "dice.ini"
    assert source.generation_of('// #include "vecenv.h"\n/*\n#include "pufferenv.h"\n*/') is None

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Python envs as the learner sees them (puffervec/workers/python/env.py): kinds, spaces, the driver
env, and what is refused.
"""

from __future__ import annotations

import copy
import functools
import os
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import puffervec
from puffervec.compat.pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from puffervec.errors import ConfigError, WorkerError
from puffervec.workers.python.creators import Creator
from puffervec.workers.python.env import PythonEnv, dump_source
from tests.helpers import serial
from tests.mock_envs import make_multi
from tests.python_envs import Counting, Walkers

pytestmark = pytest.mark.usefixtures("no_leaks")


class Tenfold(GymnasiumPufferEnv):
    """An emulation wrapper with an override: rewards in tens."""

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        self.rewards[:] *= 10
        return observation, reward * 10, *rest


class TenfoldTeam(PettingZooPufferEnv):
    def step(self, actions: Any) -> Any:
        found = super().step(actions)
        self.rewards[:] *= 10
        return found


class Duck:
    """Looks like a Gymnasium env, and is none."""

    observation_space, action_space = spaces.Box(0, 9, (1,)), spaces.Discrete(3)

    def reset(self) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.full(1, action, np.float32), float(action), False, False, {}


def python_env(function: Any, *args: Any, autoreset: str = "next_step", seed: Any = 0) -> PythonEnv:
    return PythonEnv([Creator(function, args)], autoreset, seed)


def test_kinds_are_told_by_what_was_made() -> None:
    pytest.importorskip("pettingzoo")
    cases: list[tuple[Any, tuple[Any, ...], str, int, str]] = [
        (Counting, (), "gymnasium", 1, "Counting"),
        (Walkers, (4,), "puffer", 4, "Walkers"),
        (make_multi, ("box", "choice", "leaving"), "parallel", 3, "MockParallelEnv"),
        (lambda: GymnasiumPufferEnv(env=Counting()), (), "gymnasium", 1, "Counting"),
        (
            lambda: PettingZooPufferEnv(env=make_multi("box", "choice", "stable")),
            (),
            "parallel",
            2,
            "MockParallelEnv",
        ),
        (lambda: gymnasium.wrappers.TimeLimit(Counting(), 5), (), "gymnasium", 1, "Counting"),
        (lambda: Tenfold(env=Counting()), (), "puffer", 1, "Tenfold"),
        (
            lambda: TenfoldTeam(env=make_multi("box", "choice", "stable")),
            (),
            "puffer",
            2,
            "TenfoldTeam",
        ),
        (lambda: GymnasiumPufferEnv(env=Duck()), (), "gymnasium", 1, "Duck"),
    ]
    for function, args, kind, agents, name in cases:
        env = python_env(function, *args)
        assert (env.source.kind, env.source.agents) == (kind, agents)
        assert name in (
            env.name,
            type(env.driver).__name__,
            type(getattr(env.driver, "env", None)).__name__,
        )
        env.close()


def serial_of(function: Any, *args: Any, num_envs: int = 2, **settings: Any) -> Any:
    return puffervec.make(function, args, backend="serial", num_envs=num_envs, **settings)


def test_what_only_c_envs_can_do_is_refused_with_words() -> None:
    with serial_of(Counting) as vec:
        vec.reset(seed=0)
        with pytest.raises(ConfigError, match="peek: Counting has no readable state; use get_attr"):
            vec.peek(0)
        with pytest.raises(ConfigError, match="poke: Counting has no readable state; use set_attr"):
            vec.poke(0, {})
        for verb, call in (("save", vec.save), ("load", lambda: vec.load([b"", b""]))):
            with pytest.raises(ConfigError, match=f"{verb}: the state of Counting cannot be saved"):
                call()
        assert vec.counters() == {"invalid_actions": 0}
    with serial("probe", {}) as vec:
        for call in (
            lambda: vec.call("reset"),
            lambda: vec.get_attr("x"),
            lambda: vec.set_attr("x", 1),
        ):
            with pytest.raises(ConfigError, match="probe is a C env and has no Python attributes"):
                call()
        vec.notify()


class NoCrowd:
    """Says less and less like a parallel env."""

    metadata: dict[str, Any] = {}
    possible_agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (2 if agent == "a" else 3,))

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)


class Crowd(NoCrowd):
    possible_agents = ["a", "b"]


class Turns(Crowd):
    def agent_iter(self) -> Any:
        return iter(())


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: 5,
            r"the env creator made builtins.int: give a gymnasium.Env, a PettingZoo ParallelEnv or "
            r"a PufferEnv",
        ),
        (lambda: None, r"the env creator made builtins.NoneType"),
        (lambda: Counting, r"the env creator made builtins.type"),
        (NoCrowd, r"NoCrowd has no possible_agents: rows need a fixed list"),
        (
            Crowd,
            r"Crowd: observation_space of 'b' is Box.*\(3,\).*that of 'a' Box.*\(2,\).*"
            r"pad them \(supersuit",
        ),
        (Turns, r"a PettingZoo AEC env: convert it with pettingzoo.utils.aec_to_parallel"),
    ],
)
def test_what_is_no_env_is_refused(made: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        puffervec.make(made, backend="serial")


def test_the_driver_is_closed_with_the_vec_env_and_after_a_failed_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serial_of(Counting, 3, "env", str(log)):
        assert not log.exists()
    assert log.read_text() == "env closed\n" * 3  # two envs and the driver
    log.unlink()
    with pytest.raises(ConfigError, match="cannot be sent"):
        puffervec.make(holding_a_lock(log), num_workers=1)
    assert log.read_text() == "driver closed\n"


def holding_a_lock(log: Path) -> Any:
    lock = threading.Lock()

    def make_with_a_lock() -> Any:
        with lock:
            return Counting(3, "driver", str(log))

    return make_with_a_lock


def test_a_creator_that_cannot_travel_is_named(tmp_path: Path) -> None:
    env = PythonEnv([Creator(holding_a_lock(tmp_path / "log"))], "next_step", None)
    with pytest.raises(
        ConfigError,
        match=r"the env creator <function .*make_with_a_lock.*cannot be sent to worker.*"
        r"TypeError.*lock",
    ) as caught:
        dump_source(env)
    assert "backend='serial'" in str(caught.value) and isinstance(caught.value.__cause__, TypeError)
    with puffervec.make(holding_a_lock(tmp_path / "log"), backend="serial") as vec:
        vec.reset(seed=0)


def test_creators_that_name_a_seed_get_their_envs() -> None:
    """The driver has that of env 0; with a list of seeds, or none, creators keep their default."""
    with serial_of(Walkers, num_envs=3, seed=40) as vec:
        assert vec.get_attr("first_seed") == (40, 41, 42) and vec.driver_env.first_seed == 40
    for seed in (None, [4, 5]):
        with serial_of(Walkers, seed=seed) as vec:
            assert vec.get_attr("first_seed") == (0, 0)


def make_tenfold(
    length: int, log: str | None = None, buf: Any = None, seed: int | None = None
) -> Any:
    return Tenfold(env=Counting(length), buf=buf, seed=seed)


def make_tenfold_alone(length: int) -> Any:
    """A creator that does not pass `buf` on."""
    return Tenfold(env=Counting(length))


def make_plain(length: int) -> Any:
    return GymnasiumPufferEnv(env=Counting(length))


def play(function: Any, steps: int = 7, **settings: Any) -> Any:
    found = []
    with serial_of(function, 3, **settings) as vec:
        observations, infos = vec.reset(seed=5)
        found.append((observations.tolist(), list(infos)))
        for _ in range(steps):
            observations, rewards, terminals, truncations, infos = vec.step([1, 2])
            flags = terminals.tolist(), truncations.tolist()
            found.append((observations.tolist(), rewards.tolist(), flags, list(infos)))
        assert (
            vec.emulated["observation_dtype"] == np.float32
            and vec.single_action_space == Counting().action_space
        )
    return found


@pytest.mark.parametrize("function", [make_tenfold, make_tenfold_alone])
def test_a_subclass_of_an_emulation_wrapper_is_stepped_with_its_overrides(function: Any) -> None:
    """The same rows, flags and infos as of the plain wrapper, resets at the ends of episodes
    included, but for the rewards.
    """
    plain, tenfold = play(make_plain), play(function)
    assert tenfold[0] == plain[0]
    assert any(any(step[2][0]) or any(step[2][1]) for step in plain[1:])
    for ours, theirs in zip(tenfold[1:], plain[1:], strict=True):
        assert ours == (theirs[0], [10 * reward for reward in theirs[1]], *theirs[2:])
    assert any(reward for step in plain[1:] for reward in step[1])


def make_team(kind: Any, buf: Any = None, seed: int | None = None) -> Any:
    return kind(env=make_multi("mixed", "dict", "leaving"), buf=buf, seed=seed)


def test_a_subclass_of_the_pettingzoo_wrapper_is_stepped_with_its_overrides() -> None:
    pytest.importorskip("pettingzoo")
    found = []
    for kind, factor in ((PettingZooPufferEnv, 10), (TenfoldTeam, 1)):
        with serial_of(make_team, kind) as vec:
            vec.async_reset(5)
            steps = []
            vec.action_space.seed(1)
            for _ in range(12):
                observations, rewards, terminals, truncations, _, _, masks = vec.recv()
                steps.append(
                    [
                        observations.tolist(),
                        (factor * rewards).tolist(),
                        masks.tolist(),
                        terminals.tolist(),
                    ]
                )
                steps[-1].append(truncations.tolist())
                vec.send(vec.action_space.sample())
            vec.recv()
            found.append(steps)
            assert vec.emulated["emulated_observation_dtype"].names
    assert found[0] == found[1]
    assert any(False in step[2] for step in found[0]) and any(True in step[3] for step in found[0])


def test_a_subclass_of_an_emulation_wrapper_knows_one_autoreset_mode() -> None:
    with pytest.raises(
        ConfigError,
        match="'same_step' for Tenfold, a subclass of an emulation wrapper.*'next_step'",
    ):
        serial_of(make_tenfold, 3, autoreset_mode="same_step")


@pytest.mark.parametrize("mode", ["same_step", "disabled"])
def test_a_puffer_env_resets_itself(mode: str) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"autoreset_mode is '{mode}' for Walkers, a PufferEnv: it resets itself.*"
        "'next_step'",
    ):
        serial_of(Walkers, autoreset_mode=mode)


def test_the_threading_backend_refuses_python_envs() -> None:
    with pytest.raises(
        ConfigError, match="'threading'.*C envs only; use 'multiprocessing' or 'serial'"
    ):
        puffervec.make(Counting, backend="threading")
    with pytest.raises(ConfigError, match="C envs only"):
        puffervec.make(Counting, backend=puffervec.Threading)


def test_an_unknown_setting_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="make has no setting 'num_worker'") as caught:
        puffervec.make(Counting, num_worker=2)
    first = (
        "env_creator_or_creators, env_args, env_kwargs, backend, num_envs, seed, num_workers, "
        "batch_size, zero_copy, overwork"
    )
    assert first in str(caught.value)
    assert {"sync_traj", "num_buffers", "split", "autoreset_mode", "start_method"} < set(
        str(caught.value).split(", ")
    )
    assert "unknown" not in str(caught.value)


def test_make_takes_the_arguments_in_pufferlibs_order() -> None:
    with puffervec.make(
        [Counting] * 2, [[4], [5]], [{"label": "a"}, {"label": "b"}], puffervec.Serial, 2, 7
    ) as vec:
        assert vec.get_attr("length") == (4, 5) and vec.get_attr("label") == ("a", "b")
        assert vec.reset()[0][:, 0].tolist() == [7, 8]


# ---- one env for several rows --------------------------------------------------------------------


class Around(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Does nothing."""


class Adapter(Counting):
    """Keeps an env under a name of its own, as adapters of other interfaces do."""

    def __init__(self, game: Any) -> None:
        super().__init__()
        self.game = game


def one_env(how: str) -> list[Any]:
    """Return creators of two rows that have one env between them."""
    env, cache = Counting(), {}

    def cached() -> Any:
        return cache.setdefault("env", env)

    return {
        "the function twice": [lambda: env] * 2,
        "two functions": [lambda: env for _ in range(2)],
        "two wrappers": [lambda: Around(env), lambda: Around(Around(env))],
        "an argument": [functools.partial(lambda given: given, env)] * 2,
        "a cache": [cached, cached],
        "two adapters": [lambda: Adapter(env), lambda: Adapter(env)],
    }[how]


@pytest.mark.parametrize(
    "how",
    [
        "the function twice",
        "two functions",
        "two wrappers",
        "an argument",
        "a cache",
        "two adapters",
    ],
)
@pytest.mark.parametrize(
    "layout", [{"backend": "serial"}, {"num_workers": 1}, {"num_workers": 2}], ids=str
)
def test_one_env_for_two_rows_is_refused_in_every_layout(how: str, layout: dict[str, Any]) -> None:
    """Else its episodes mix, and differently so for each number of workers."""
    with pytest.raises(
        (ConfigError, WorkerError),
        match=r"envs 0 and 1 are one object \(Counting\).*make a new env",
    ):
        puffervec.make(one_env(how), num_envs=2, **layout)


@pytest.mark.parametrize(
    "layout", [{"backend": "serial"}, {"num_workers": 1}, {"num_workers": 3}], ids=str
)
def test_one_env_for_some_rows_is_refused_behind_a_row_with_its_own(layout: dict[str, Any]) -> None:
    env = Counting()
    with pytest.raises(
        (ConfigError, WorkerError), match=r"envs 1 and 2 are one object \(Counting\)"
    ):
        puffervec.make([Counting, lambda: env, lambda: env], num_envs=3, **layout)


def test_functions_that_hold_an_env_and_make_their_own_are_called_twice_at_most() -> None:
    """In the learner, to see whether they return it; what they made there is closed."""
    template, calls, closed = Counting(), [], []

    class Closing(Counting):
        def close(self) -> None:
            closed.append(os.getpid())

    def make() -> Any:
        calls.append(template.spec)
        return Closing()

    env = PythonEnv([Creator(make)] * 5, "next_step", None)
    dump_source(env)
    assert len(calls) == 2 and closed == [os.getpid()]


@pytest.mark.slow
@pytest.mark.parametrize("layout", [{"backend": "serial"}, {"num_workers": 2}], ids=str)
def test_a_function_may_return_an_env_that_it_holds_for_a_single_row(
    layout: dict[str, Any],
) -> None:
    """As in Stable-Baselines3's DummyVecEnv([lambda: env])."""
    envs = [Counting(label=label) for label in "ab"]
    with puffervec.make([lambda env=env: env for env in envs], num_envs=2, **layout) as vec:
        assert vec.get_attr("label") == ("a", "b")
    template = Counting(label="t")
    with puffervec.make([lambda: copy.deepcopy(template)] * 2, num_envs=2, **layout) as vec:
        assert vec.get_attr("label") == ("t", "t")

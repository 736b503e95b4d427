# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Calls in two parts for C envs, and timeouts (puffervec/gym/two_part.py,
puffervec/gym/two_part.py).

The order of calls and the end are those of Python envs: see test_asynchronous.py.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest
from gymnasium.error import ResetNeeded

from puffervec.errors import ConfigError, WorkerTimeout
from puffervec.gym import AsyncVectorEnv, NativeVectorEnv
from tests.gym.envs import Slow
from tests.gym.kinds import DISABLED, NEXT, quick_start

BACKENDS = ("serial", "threading", "multiprocessing")
LAYOUTS = {
    "starting_location_x": [[0, 0, 0], [3, 4, 5]],
    "starting_location_y": [[0, 0, 0], [6, 7, 8]],
}
TAG = {"env": "tag_grid", "num_taggers": 2, "episode_length": 4, "flatten_agents": True, **LAYOUTS}
Make = Callable[..., NativeVectorEnv]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make two probes that are closed at the end; other settings on request."""
    made: list[NativeVectorEnv] = []

    def make(**settings: Any) -> NativeVectorEnv:
        settings = {"env": "probe", "num_envs": 2, "backend": "serial", **settings}
        if settings["backend"] == "multiprocessing":
            settings = {"start_method": quick_start(), "num_workers": 1, **settings}
        made.append(NativeVectorEnv(**settings))
        return made[-1]

    yield make
    for envs in made:
        envs.close(terminate=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", [NEXT, DISABLED])
def test_two_parts_are_the_same_as_one(make: Make, backend: str, mode: Any) -> None:
    whole, parted = (make(env="cartpole", backend=backend, autoreset_mode=mode) for _ in range(2))
    expected, _ = whole.reset(seed=[7, 3])
    parted.reset_async(seed=[7, 3])
    assert np.array_equal(parted.reset_wait(timeout=60)[0], expected)
    for step in range(6):
        actions = [step % 2, 0]
        parted.step_async(actions)
        for ours, theirs in zip(parted.step_wait(timeout=60), whole.step(actions), strict=True):
            assert np.array_equal(ours, theirs)
    parted.reset_async(options={"reset_mask": np.array([True, False])})
    assert np.array_equal(
        parted.reset_wait()[0], whole.reset(options={"reset_mask": np.array([True, False])})[0]
    )


def test_what_is_refused_is_not_pending(make: Make) -> None:
    envs = make(autoreset_mode=DISABLED, episode_length=1)
    with pytest.raises(ResetNeeded):
        envs.step_async([0, 0])
    for seed, options in (
        ([1], None),
        (None, {"typo": 1}),
        (None, {"task": "one"}),
        (None, {"reset_mask": np.zeros(2, bool)}),
    ):
        with pytest.raises(ValueError):
            envs.reset_async(seed, options)
    envs.reset()
    for actions, error in (([0], ValueError), (0, TypeError)):
        with pytest.raises(error):
            envs.step_async(actions)
    envs.step([0, 0])
    with pytest.raises(AssertionError, match="is done"):
        envs.step_async([0, 0])
    envs.reset()


def test_c_envs_have_no_attributes(make: Make) -> None:
    envs = make(env="tag_grid", num_taggers=2, flatten_agents=True)
    for name, use in (
        ("call", lambda: envs.call("speed", 1)), ("get", lambda: envs.get_attr("speed")),
        ("set", lambda: envs.set_attr("speed", 1)),
        ("set", lambda: envs.set_attr("speed", [1, 2, 3])),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"{name} 'speed': tag_grid is a C env"):
            use()
    with pytest.raises(
        ValueError,
        match="Trying to call function `reset` with `call`, use `reset` directly instead.",
    ):
        envs.call("reset")
    envs.reset()


# ---- timeouts ------------------------------------------------------------------------------------


def too_late(envs: NativeVectorEnv, verb: str, **arguments: Any) -> None:
    """Begin a call that times out, since its worker stands still until then."""
    worker = psutil.Process(envs.core.processes[0].pid)
    worker.suspend()
    getattr(envs, f"{verb}_async")(**arguments)
    with pytest.raises(
        multiprocessing.TimeoutError, match=rf"`{verb}_wait` has timed out after 0.001 second\(s\)"
    ):
        getattr(envs, f"{verb}_wait")(timeout=0.001)
    worker.resume()


def test_the_task_of_a_reset_that_timed_out_is_forgotten(make: Make) -> None:
    envs, other = make(**TAG, backend="multiprocessing"), make(**TAG)
    zero, one = (other.reset(seed=0, options={"task": task})[0] for task in (0, 1))
    assert not np.array_equal(zero, one)
    drawn = {seed: other.reset(seed=seed)[0] for seed in range(12)}
    seed = next(seed for seed, start in drawn.items() if not np.array_equal(start, one))
    too_late(envs, "reset", seed=0, options={"task": 1})
    assert np.array_equal(envs.reset(seed=seed)[0], drawn[seed]), "the envs draw again"


def test_python_envs_can_have_a_limit_too() -> None:
    envs = AsyncVectorEnv(
        [lambda: Slow(step_s=100.0)], timeout_s=0.1, context=quick_start(), num_workers=1
    )
    envs.reset()
    with pytest.raises(WorkerTimeout, match=r"no answer in 0.1 s"):
        envs.step([0])
    envs.close()

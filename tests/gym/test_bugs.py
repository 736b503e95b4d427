# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What goes wrong in Gymnasium 1.4's vector envs and right in ours (puffervec/gym/base.py, sync.py,
asynchronous.py).

Tests that Gymnasium's classes survive are run on them too and marked as expected failures,
strictly: when Gymnasium mends a bug, its mark goes. The others would hang, or leave errors behind
for the tests that follow.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import puffervec.gym
from tests.gym.envs import Rewarding, Slow, counts
from tests.gym.kinds import CLASSES, DISABLED, NEXT, SAME, Kind, param, quick_start


def kinds(broken: Sequence[str], names: Sequence[str] = tuple(CLASSES)) -> Any:
    """Parametrize `kind` over these kinds, of which `broken` fail."""
    fails = [pytest.mark.xfail(strict=True, reason="a bug of Gymnasium 1.4")]
    return pytest.mark.parametrize(
        "kind", [param(name, *(fails if name in broken else [])) for name in names], indirect=True
    )


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    made = Kind(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("kind", ["async"], indirect=True)
def test_a_reset_by_hand_after_the_end_is_not_followed_by_another(
    kind: Kind, shared_memory: bool
) -> None:
    envs = kind(counts((1, 3)), autoreset_mode=NEXT, shared_memory=shared_memory)
    envs.reset()
    assert envs.step([1, 1])[2].tolist() == [True, False]
    envs.reset()
    assert envs.step([2, 2])[1].tolist() == [2, 2]  # the action is not dropped
    assert envs.get_attr("resets") == (2, 2)


@kinds(broken=["gymnasium-async"])
def test_a_done_env_is_not_stepped_without_autoreset(kind: Kind) -> None:
    envs = kind(counts((1, 3)), autoreset_mode=DISABLED)
    envs.reset()
    envs.step([0, 0])
    with pytest.raises(AssertionError):
        envs.step([0, 0])
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.step([1, 2])[1].tolist() == [1, 2]


@kinds(broken=["gymnasium-sync", "gymnasium-async"])
def test_statistics_of_envs_that_a_mask_leaves_alone_go_on(kind: Kind) -> None:
    envs = RecordEpisodeStatistics(kind(counts((2, 5)), autoreset_mode=DISABLED))
    envs.reset()
    mask = np.array([True, False])
    for _ in range(2):
        envs.step([1, 1])
        *_, infos = envs.step([1, 1])
        if "episode" in infos and infos["_episode"][0]:
            envs.reset(options={"reset_mask": mask})
    *_, infos = envs.step([1, 1])
    assert infos["_episode"].tolist() == [False, True]
    assert (infos["episode"]["l"].tolist(), infos["episode"]["r"].tolist()) == ([0, 5], [0.0, 5.0])


@kinds(broken=["gymnasium-sync", "gymnasium-async"])
def test_the_callers_options_are_not_changed(kind: Kind) -> None:
    envs = kind(counts(), autoreset_mode=DISABLED)
    options = {"reset_mask": np.array([True, True, True]), "a": 1}
    envs.reset(options=options)
    assert list(options) == ["reset_mask", "a"]


@kinds(broken=["gymnasium-sync", "gymnasium-async"])
def test_final_observations_are_those_of_the_end(kind: Kind) -> None:
    """The env returns the same array each time, and the reset writes into it."""
    envs = kind(counts((2, 3)), autoreset_mode=SAME)
    envs.reset(seed=0)
    envs.step([0, 0])
    first = envs.step([0, 0])[4]["final_obs"]
    second = envs.step([0, 0])[4]["final_obs"]
    assert [None if entry is None else entry[0] for entry in first] == [2, None]
    assert [None if entry is None else entry[0] for entry in second] == [None, 3]


@kinds(broken=["gymnasium-sync", "gymnasium-async"])
def test_rewards_may_be_arrays_of_one_number(kind: Kind) -> None:
    envs = kind([lambda n=n: Rewarding(n) for n in (2, 3)])
    envs.reset()
    rewards = [envs.step([1, 2])[1].tolist() for _ in range(4)]
    assert rewards == [[1, 2], [1, 2], [0, 2], [1, 0]]


def deaf() -> gymnasium.Env[Any, Any]:
    """An env that no longer hears SIGTERM, as after drawing with SDL."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return Slow(step_s=100.0)


@pytest.mark.parametrize("terminate", [True, False])
def test_close_ends_workers_that_do_not_hear_sigterm(terminate: bool) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        others = puffervec.gym.AsyncVectorEnv(
            counts(), context=quick_start()
        )  # would inherit pipe ends, if there were any
        envs = puffervec.gym.AsyncVectorEnv([deaf, deaf], context=quick_start())
    finally:
        signal.signal(
            signal.SIGTERM, before
        )  # the first env is made in this process too, for its spaces
    pids = [process.pid for process in envs.processes]
    envs.reset()
    envs.step_async([0, 0])
    with pytest.warns(UserWarning, match="pending call"):
        envs.close(timeout=0.01, terminate=terminate)
    assert not any(psutil.pid_exists(pid) for pid in pids)
    others.close()

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The built-in envs of the core under the contract (tests/contract.py), and that the contract catches an env that breaks it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import puffervec
from puffervec.envs.probe import FAULTS
from tests import contract
from tests.cases import CASES, DRIVE, require
from tests.contract import EnvContract, RowRules
from tests.helpers import ManyInOne, serial


class TestProbe(EnvContract):
    env = "probe"
    settings: ClassVar[dict[str, Any]] = {"num_agents": 3, "episode_length": 4}


class TestProbeWithLeaving(EnvContract):
    env = "probe"
    settings: ClassVar[dict[str, Any]] = {"num_agents": 4, "leave": 1, "end_kind": 2, "episode_length": 6, "obs_size": 11}


class TestProbeOfOneStep(EnvContract):
    env = "probe"
    settings: ClassVar[dict[str, Any]] = {"episode_length": 1, "end_kind": 1}


class TestProbeWithTwoGroups(EnvContract):
    env = "probe"
    settings: ClassVar[dict[str, Any]] = {"mode": 1, "num_agents": 2, "leave": 1, "end_kind": 2, "episode_length": 5}


class TestTagFull(EnvContract):
    env = "tag_grid"
    settings: ClassVar[dict[str, Any]] = {"num_taggers": 4, "grid_length": 4, "episode_length": 20}
    random = False


class TestTagPartial(EnvContract):
    env = "tag_grid"
    settings: ClassVar[dict[str, Any]] = {
        "num_taggers": 3,
        "grid_length": 5,
        "episode_length": 15,
        "use_full_observation": False,
    }
    random = False


class TestTagRandomStarts(EnvContract):
    env = "tag_grid"
    settings: ClassVar[dict[str, Any]] = {"num_taggers": 2, "grid_length": 6, "episode_length": 25, "random_starts": True}


class TestDrive(EnvContract):
    env = "drive"
    settings: ClassVar[dict[str, Any]] = DRIVE
    num_envs = 4
    steps = 2400

    @pytest.fixture(autouse=True)
    def _available(self) -> None:
        require(next(case for case in CASES if case.env == "drive"))


# ---- the contract itself -----------------------------------------------------------------------------------


def faulty(fault: str, step: int = 3) -> type[EnvContract]:
    class Faulty(EnvContract):
        env = "probe"
        settings: ClassVar[dict[str, Any]] = {
            "fault": FAULTS.index(fault),
            "fault_step": step,
            "fault_env": 1,
            "episode_length": 9,
        }

    return Faulty


def test_a_nan_is_caught() -> None:
    broken = faulty("nan")()
    with broken.make() as vec, pytest.raises(AssertionError, match="not finite"):
        broken.test_random_steps_stay_in_bounds(vec)


@pytest.mark.normal_build("others catch it themselves")
@pytest.mark.parametrize("buffers", [1, 2])
def test_a_write_outside_the_rows_is_caught(buffers: int) -> None:
    """The probe's oob fault writes one float behind its worker's rewards. Env 1 is worker 0's, env 3 worker 1's."""

    class Faulty(EnvContract):
        env = "probe"
        settings: ClassVar[dict[str, Any]] = {"fault": FAULTS.index("oob"), "fault_step": 3, "fault_env": 2 * buffers - 1}

    with pytest.raises(AssertionError, match="outside were written"):
        Faulty().test_a_worker_writes_only_what_is_its_own(buffers)


def test_a_bound_is_caught() -> None:
    with serial("probe", {}, num_envs=2) as vec:
        vec.reset(seed=0)
        vec.halves[0].groups["agents"].observations[1, 3] = -2.0
        with pytest.raises(AssertionError, match="-2.0 to"):
            contract.check_bounds(vec, vec.spec.groups[0])


@pytest.mark.parametrize(
    ("array", "value", "message"),
    [
        ("masks", 0, "successor of a valid transition"),
        ("terminals", 2, "terminals are 0 or 1"),
        ("rewards", 1, "reset row has no reward"),
        ("truncations", 1, "reset row ends nothing"),
    ],
)
def test_broken_rows_are_caught(array: str, value: int, message: str) -> None:
    """One byte is changed behind the rules' back: in a row that goes on (0), or in a reset row (3)."""
    with serial("probe", {}) as vec:
        vec.reset(seed=0)
        rules = RowRules(vec, vec.spec.groups[0])
        steps = 4 if "reset" in message else 1
        for step in range(steps):
            vec.step([0])
            if step == steps - 1:
                contract.raw_rows(vec, 0, array, "agents")[0, -1] = value if array != "rewards" else 63
                if array == "masks":
                    vec.halves[0].groups["agents"].rewards[:] = 0
                with pytest.raises(AssertionError, match=message):
                    rules.check()
            else:
                rules.check()


def test_one_worker_at_a_time_leaves_the_other_pending() -> None:
    with puffervec.make("probe", env_kwargs={}, backend=ManyInOne, num_envs=2, num_workers=2) as vec:
        vec.reset(seed=0)
        vec.serving = 1
        vec.send([3, 3])
        assert vec.halves[0].groups["agents"].rewards.tolist() == [0, 1 + 3 / 16]

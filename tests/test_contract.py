# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The built-in envs of the core under the contract (tests/env_contract.py), and that the contract
catches an env that breaks it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tests.cases import CASES, DRIVE, PLAIN, require
from tests.env_contract import EnvContract


class TestProbe(EnvContract):
    env = "probe"
    settings: ClassVar[dict[str, Any]] = {"num_agents": 3, "episode_length": 4}


class TestProbeWithLeaving(EnvContract):
    env = "probe"
    settings: ClassVar[dict[str, Any]] = {
        "num_agents": 4,
        "leave": 1,
        "end_kind": 2,
        "episode_length": 6,
        "obs_size": 11,
    }


class TestProbeOfOneStep(EnvContract):
    env = "probe"
    settings: ClassVar[dict[str, Any]] = {"episode_length": 1, "end_kind": 1}


class TestProbeWithTwoGroups(EnvContract):
    env = "probe"
    settings: ClassVar[dict[str, Any]] = {
        "mode": 1,
        "num_agents": 2,
        "leave": 1,
        "end_kind": 2,
        "episode_length": 5,
    }


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
    settings: ClassVar[dict[str, Any]] = {
        "num_taggers": 2,
        "grid_length": 6,
        "episode_length": 25,
        "random_starts": True,
    }


class TestTagContinuousFull(EnvContract):
    env = "tag_continuous"
    settings: ClassVar[dict[str, Any]] = {
        "num_taggers": 2, "num_runners": 3, "grid_length": 3.0, "episode_length": 20,
        "tagging_distance": 0.1,
    }  # fmt: skip
    random = False


class TestCovid(EnvContract):
    env = "covid"
    settings: ClassVar[dict[str, Any]] = {
        "episode_length": 20,
        "action_cooldown_period": 3,
        "subsidy_interval": 5,
    }
    random = False


class TestTagContinuousPartial(EnvContract):
    env = "tag_continuous"
    settings: ClassVar[dict[str, Any]] = {
        "num_taggers": 3, "num_runners": 6, "grid_length": 4.0, "episode_length": 25,
        "tagging_distance": 0.1, "use_full_observation": False, "num_other_agents_observed": 4,
        "random_starts": True, "skill_level_runner": 0.7,
    }  # fmt: skip


class TestDrive(EnvContract):
    env = "drive"
    settings: ClassVar[dict[str, Any]] = DRIVE
    num_envs = 4
    steps = 2400

    @pytest.fixture(autouse=True)
    def _available(self) -> None:
        require(next(case for case in CASES if case.env == "drive"))


for _env in PLAIN:  # pytest finds them as it finds the classes above
    globals()[f"TestPlain_{_env}"] = type(f"TestPlain_{_env}", (EnvContract,), {"env": _env})


# Its rows differ from those of TestDrive in the raster only, which drive_env/test_raster_twin.py
# compares
@pytest.mark.slow
class TestDriveRaster(TestDrive):
    settings: ClassVar[dict[str, Any]] = {**DRIVE, "raster": 19, "raster_pixel_m": 2.0}
    steps = 1000


@pytest.mark.parametrize("observation", ["gpudrive", "pufferdrive", "driver"])
def test_other_observations_of_driving_stay_within_their_rows(observation: str) -> None:
    """What TestDrive checks of the default one: those of other simulators have layouts of their
    own.
    """
    require(next(case for case in CASES if case.env == "drive"))
    contract = TestDrive()
    preset = {} if observation == "driver" else {"partners": 63, "lanes": 0, "lines": 0, "edges": 0}
    contract.settings = {
        "num_agents": 24,
        "scenes": "generated:3",
        **preset,
        "observation": observation,
    }  # type: ignore[misc]
    contract.test_a_worker_writes_only_what_is_its_own(1)

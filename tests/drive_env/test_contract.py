# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""drive under the contract of envs (tests/env_contract.py), with each of the covering settings; all
but one are slow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

import puffervec
from drive_env.config import DriveConfig
from puffervec.contract.native import NativeEnv
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.covering import COVERING
from tests.drive_env.worlds import env_data, lit, random_scene, write_world
from tests.env_contract import EnvContract

WORLD: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def _world(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Three scenes of random numbers with traffic lights."""
    WORLD[:] = [tmp_path_factory.mktemp("contract") / "set"]
    write_world(
        WORLD[0],
        [
            lit(random_scene(seed, objects=12, spread_m=20.0 * seed, frames=25), seed)
            for seed in (1, 2, 3)
        ],
    )


class DriveContract(EnvContract):
    env = "drive"
    steps = 1200
    settings: ClassVar[dict[str, Any]] = {}

    def make(self, backend: Any = "serial", **changes: Any) -> VectorEnv:
        env = NativeEnv("drive", DriveConfig, lambda config: env_data(WORLD[0], config))
        settings = {"backend": backend, "num_envs": self.num_envs, **changes}
        given = {"resample_steps": 70, **self.settings, "num_agents": 16}
        return puffervec.make(env, env_kwargs=given, **settings)

    def test_the_python_defaults_make_an_env(self) -> None:
        pytest.skip("of the env with scenes of its own; tests/test_contract.py makes it")

    def test_random_steps_stay_in_bounds(self, vec: VectorEnv) -> None:
        if self.settings.get("expert_actions"):
            pytest.skip("experts read no actions, so none is invalid")
        super().test_random_steps_stay_in_bounds(vec)


QUICK = next(number for number, settings in enumerate(COVERING) if settings.get("others") == "idm")
for number, chosen in enumerate(COVERING):
    made = type(f"TestCovering{number}", (DriveContract,), {"settings": chosen})
    globals()[made.__name__] = made if number == QUICK else pytest.mark.slow(made)
del made, DriveContract, EnvContract

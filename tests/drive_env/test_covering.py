# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Each of the covering settings shows the same bytes on every backend and with any number of
workers.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from drive_env.config import DriveConfig
from puffervec.contract.native import NativeEnv
from tests.drive_env.covering import COVERING
from tests.drive_env.worlds import env_data, lit, random_scene, write_world
from tests.golden import record
from tests.golden.cases import Case
from tests.helpers import thinned

ENVS, STEPS, AGENTS = 4, 50, 24
MODES = ("next_step", "same_step", "disabled")
THREADS: dict[str, Any] = {"backend": "threading", "num_workers": 2}
WAYS: list[dict[str, Any]] = [
    {"backend": "threading", "num_workers": 1},
    {"backend": "multiprocessing", "num_workers": 1},
    {"backend": "multiprocessing", "num_workers": 2},
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes of random numbers: 20 to 40 objects of all kinds, of which some come and go, and roads
    that cross everywhere.
    """
    path = tmp_path_factory.mktemp("covering") / "set"
    write_world(
        path,
        [
            lit(random_scene(seed, objects=20, spread_m=20.0 * seed, frames=25), seed)
            for seed in (1, 2, 3)
        ],
    )
    return path


@cache
def shown(world: Path, number: int, mode: str, way: tuple[tuple[str, Any], ...]) -> record.Shown:
    """Hashes of all that settings `number` show."""
    import puffervec

    env = NativeEnv("drive", DriveConfig, lambda config: env_data(world, config))
    settings = {"num_agents": AGENTS, "resample_steps": 35, **COVERING[number]}
    with puffervec.make(
        env, env_kwargs=settings, num_envs=ENVS, autoreset_mode=mode, **dict(way)
    ) as vec:
        return record.run(vec, Case("covering", "drive", autoreset=mode), 1, STEPS)


def compare(world: Path, number: int, mode: str, way: dict[str, Any]) -> None:
    expected = shown(world, number, mode, (("backend", "serial"),))
    found = shown(world, number, mode, tuple(way.items()))
    assert found == expected, record.difference(
        str(COVERING[number]), expected, found, "this build", str(way)
    )


@pytest.mark.parametrize("number", thinned(4, range(len(COVERING))))
def test_two_threads_show_the_same_bytes(world: Path, number: int) -> None:
    compare(world, number, MODES[number % len(MODES)], THREADS)


@pytest.mark.slow
def test_two_processes_show_the_same_bytes(world: Path, no_leaks: None) -> None:
    compare(world, 1, MODES[1], WAYS[-1])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(len(COVERING)))
def test_every_backend_shows_the_same_bytes(world: Path, number: int, mode: str) -> None:
    for way in (THREADS, *WAYS):
        compare(world, number, mode, way)


def test_every_setting_is_covered() -> None:
    """Each number that a config may hold is, somewhere in the set, not the default."""
    python = {
        item.name for item in dataclasses.fields(DriveConfig) if item.metadata.get("python")
    } - {"reward_ranges", "traffic_kinds"}
    fixed = {"num_agents", "resample_steps", *python}  # of all, see `shown`; and of the world
    names = {
        name
        for settings in COVERING
        for name, value in settings.items()
        if value != getattr(DriveConfig, name)
    }
    assert {item.name for item in dataclasses.fields(DriveConfig)} - names - fixed == set()

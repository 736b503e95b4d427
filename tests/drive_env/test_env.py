# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The env as the registry knows it: built from a config, the same in every backend, refusing bad
scenes at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import puffervec
import puffervec.envs
from drive_env.config import DriveConfig
from drive_env.env import ENV, build
from puffervec.errors import ConfigError, SceneError, SceneWarning

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture
def scenes(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> str:
    """A folder with one scene of three cars."""
    path = tmp_path / "scenes"
    path.mkdir()
    (path / "a.json").write_text(json.dumps(tiny_tree(cars=3)))
    return str(path)


def test_the_registry_knows_it() -> None:
    assert puffervec.envs.get("drive") is ENV
    own = ENV.own_evaluation()
    assert own is not None and set(own.baselines) == {
        "random",
        "stop",
        "lane-follow",
        "log",
        "expert",
        "idm",
        "constant-velocity",
    }


def test_build_gives_a_file(scenes: str, cache: Path) -> None:
    data = build(DriveConfig(scenes=scenes, num_agents=6))
    assert data.data is not None and data.data.is_file() and data.data.is_relative_to(cache)
    assert list(data.params) == ["scenes_checked"]


def test_a_warning_says_what_was_left_out(scenes: str) -> None:
    Path(scenes, "b.json").write_text("{")
    with (
        pytest.warns(SceneWarning, match="drive: left out b.json: not JSON") as said,
        puffervec.make(
            "drive", env_kwargs={"scenes": scenes, "num_agents": 6}, backend="serial", num_envs=1
        ),
    ):
        pass
    assert len(said) == 1 and said[0].filename == __file__


def test_bad_scenes_are_refused_before_anything_starts(tmp_path: Path, cache: Path) -> None:
    for settings, error in (
        ({"scenes": "/nowhere"}, SceneError),
        ({"scenes": str(tmp_path)}, SceneError),
        ({"lanes": 99}, ConfigError),
    ):
        with pytest.raises(error):
            puffervec.make("drive", env_kwargs=settings, num_envs=2, num_workers=2)
    assert not cache.exists()


def test_all_that_the_log_shows_has_a_meaning() -> None:
    training = puffervec.envs.get("drive").training
    shown = {*training.rates, "complete", "goals_again"}
    assert shown <= set(training.meanings)

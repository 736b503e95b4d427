# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The summary of scenes says what is there: counts, what was left out, padding, and how far agents
see.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate.describe import describe_scenes

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> Path:
    """Three scenes with 2, 3 and 0 agents, and one that is left out."""
    path = tmp_path / "scenes"
    path.mkdir()
    trees = {
        "a": tiny_tree(),
        "b": tiny_tree(cars=3),
        "c": tiny_tree(speed_mps=0.0),
        "d": tiny_tree(frames=1),
    }
    for name, tree in trees.items():
        (path / f"{name}.json").write_text(json.dumps(tree))
    return path


def test_counts_padding_and_reach(folder: Path) -> None:
    found = describe_scenes(DriveConfig(scenes=str(folder), num_agents=6))
    assert (found.scenes, found.agents, found.most_agents, found.without_agents) == (3, 5, 3, 1)
    assert [item.path.name for item in found.left_out] == ["d.json"]
    assert 0 < found.mean_kb <= found.largest_kb < 300
    assert found.padding == 0.0
    assert found.reach["partners"].median_seen == 2 and found.reach["partners"].full == 0.0
    assert found.observation["lanes"] == (16, 7) and found.observation["ego"] == (13,)
    assert 0 < found.reach["edges"].median_reach_m <= 50.0


def test_padding_where_scenes_do_not_fill_the_rows(folder: Path) -> None:
    (folder / "b.json").unlink()
    found = describe_scenes(DriveConfig(scenes=str(folder), num_agents=5))
    assert found.padding == pytest.approx(0.2)


def test_broken_files_are_said_once_each(folder: Path) -> None:
    (folder / "e.json").write_text("{")
    text = describe_scenes(DriveConfig(scenes=str(folder), num_agents=6)).text()
    assert text.count("left out e.json: not JSON, or cut off") == 1

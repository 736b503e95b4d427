# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Recordings hold where everything was in every frame, and the events where they began; also
drive_env/render/frames.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.config import DriveConfig
from drive_env.env import ENV
from drive_env.prepare import prepare_scenes
from drive_env.render.frames import FrameRecorder
from drive_env.render.recording import record, roads_of
from drive_env.render.tracks import Tracks
from puffervec.errors import CallOrderError
from tests.drive_env.worlds import Straight

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture
def recorded(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> tuple[Tracks, np.ndarray]:
    """Car 0 runs into a standing car; an expert leaves the scene after frame 10; a late one comes
    in frame 5.
    """
    tree = tiny_tree(frames=40, cars=4)
    standing, expert, late = tree["objects"][1:]
    standing["position"] = [{"x": 12.2, "y": -1.75, "z": 0.0}] * 40
    standing["goalPosition"] = {"x": 12.2, "y": -1.75, "z": 0.0}
    expert["mark_as_expert"] = True
    expert["position"] = [{"x": 40.0 + 0.5 * t, "y": 1.75, "z": 0.0} for t in range(40)]
    expert["valid"][11:] = [False] * 29
    late["valid"][:5] = [False] * 5
    (tmp_path / "one.json").write_text(json.dumps(tree))
    config = DriveConfig(scenes=str(tmp_path / "one.json"), num_agents=3)
    scenes = prepare_scenes(config).scenes
    with puffervec.make(ENV, env_kwargs=config, backend="serial", num_envs=1, seed=0) as vec:
        tracks = record(Straight(), vec, scenes, 0, 0)
    head, _ = scenes.scene(0)
    return tracks, np.array([head["origin_x"], head["origin_y"]])


def test_poses(recorded: tuple[Tracks, np.ndarray]) -> None:
    tracks, origin = recorded
    assert tracks.agent.tolist() == [True, False, False, False]
    frames = len(tracks.x_m)
    np.testing.assert_allclose(tracks.x_m[:, 0] + origin[0], 0.5 * np.arange(frames), atol=1e-3)
    np.testing.assert_allclose(tracks.y_m[:, 0] + origin[1], -1.75, atol=1e-3)
    np.testing.assert_allclose(
        tracks.x_m[:11, 2] + origin[0], 40.0 + 0.5 * np.arange(11), atol=1e-3
    )
    assert tracks.there[:, 2].tolist() == [frame < 11 for frame in range(frames)]
    assert tracks.there[:, 3].tolist() == [frame >= 5 for frame in range(frames)]
    assert tracks.there[:, [0, 1]].all()
    np.testing.assert_allclose(tracks.goal_m[0] + origin, [19.5, -1.75], atol=1e-3)


def test_events(recorded: tuple[Tracks, np.ndarray]) -> None:
    tracks, _ = recorded
    assert tracks.collided[:, 0].sum() == 1 and not tracks.offroad.any()
    assert (
        np.flatnonzero(tracks.collided[:, 0])[0] == 16
    )  # the boxes meet at x = 12.2 m - 4.5 m, at 0.5 m a step
    assert tracks.reached.tolist() == [True, False, False, False]
    assert len(tracks.x_m) in (
        36,
        37,
    )  # 2 m before the goal at 19.5 m: after step 35 at 17.5 m or, by rounding, one later


def test_roads_are_put_together_again(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(tiny_tree()))
    scenes = prepare_scenes(DriveConfig(scenes=str(tmp_path / "one.json"))).scenes
    head, arrays = scenes.scene(0)
    roads = roads_of(arrays, head["segment_count"])
    origin = np.array([head["origin_x"], head["origin_y"]])
    assert (
        len(roads.lanes) == 2 and len(roads.edges) == 2 and [kind for kind, _ in roads.lines] == [6]
    )
    np.testing.assert_allclose(
        roads.lanes[0][[0, -1]] + origin, [[-20.0, -1.75], [120.0, -1.75]], atol=1e-3
    )
    assert [kind for kind, _ in roads.edges] == [15, 15]


def test_one_size(tiny_tree: Callable[..., dict[str, Any]], tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("PIL")
    trees = {"short": tiny_tree(cars=1), "long": tiny_tree(frames=90, cars=2, speed_mps=15.0)}
    for name, tree in trees.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(tree))
    with puffervec.make(
        "drive", env_kwargs={"scenes": str(tmp_path), "num_agents": 2}, backend="serial", num_envs=1
    ) as vec:
        recorder = FrameRecorder(vec)
        with pytest.raises(CallOrderError, match="call reset first"):
            recorder.picture()
        pictures = []
        for task in (0, 1):
            vec.set_tasks([0], [task])
            vec.reset(seed=0)
            recorder.begin()
            pictures.append(recorder.picture())
            for _ in range(12):
                vec.step(np.full(vec.num_agents, 6 * 13 + 12))  # full speed, hard to the left
                recorder.add()
            pictures.append(recorder.picture())
    assert len({picture.shape for picture in pictures}) == 1
    assert (pictures[2] != pictures[3]).any() and (pictures[0] != pictures[2]).any()

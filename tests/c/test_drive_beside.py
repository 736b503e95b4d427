# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Lanes beside each other (csrc/drive/compile/beside.c) equal their twin's, in every bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from drive_env.generate.generate import generate_scene
from drive_env.generate.streets import street_scene
from drive_env.scenes import lanes
from drive_env.scenes.schema import Road, Scene
from drive_env.scenes.segments import polylines_of, segments_of
from puffervec.errors import SceneError
from tests.drive_env.worlds import random_scene
from tests.twins import drive_beside as twin


def heap(seed: int) -> Scene:
    """Lanes of all directions on one spot, on two levels."""
    rng = np.random.default_rng(seed)
    starts, steps = (
        rng.uniform(-30, 30, (60, 1, 3)) * [1, 1, 0.1],
        rng.normal(0, 12, (60, 1, 3)) * [1, 0.2, 0.02],
    )
    points = starts + steps * np.arange(4)[:, None]
    roads = tuple(Road("lane", 2, index, line) for index, line in enumerate(points))
    return dataclasses.replace(random_scene(seed, objects=1, roads=0), roads=roads)


@pytest.mark.parametrize(
    "scene", [heap(0), heap(1), generate_scene(3, 0), street_scene(3, 1)], ids=range(4)
)
def test_lanes_are_seen_as_the_twin_sees_them(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = polylines_of(scene, np.zeros(3), (0.1, 0.1, 0.1), 15.0)
    segments, count = segments_of(lines), len(lines[0])
    seen = lanes.sights("s", segments, count)
    expected = twin.sights(segments, count)
    assert len(seen) > 20
    np.testing.assert_array_equal(
        np.stack([seen[name].astype(np.float64) for name in seen.dtype.names]), expected
    )
    monkeypatch.setattr(lanes, "MAX_PAIRS", 1000)
    with pytest.raises(
        SceneError,
        match="s: more than 1000 pairs of pieces of lanes lie close together: cut the scene",
    ):
        lanes.sights("s", segments, count)


def test_a_scene_without_lanes() -> None:
    lines = polylines_of(dataclasses.replace(heap(0), roads=()), np.zeros(3), (0.1, 0.1, 0.1), 15.0)
    assert len(lanes.sights("s", segments_of(lines), 0)) == 0

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""WOMD's tf.Examples (drive_env/scenes/womd_example.py)."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.convert import load, scenes_in
from drive_env.scenes.controls import controls_of
from drive_env.scenes.schema import GREEN, RED, UNKNOWN, Scene
from drive_env.scenes.womd_example import is_example, parse_example
from puffervec.errors import SceneError
from tests.drive_env import womd_files as wire
from tests.drive_env.test_womd import crossing

OBJECTS, PAST, FUTURE, LIGHTS = 5, 10, 80, 3
FRAMES = PAST + 1 + FUTURE


def feature(values: Any) -> bytes:
    """A Feature: bytes, whole numbers or floats."""
    if isinstance(values, bytes):
        return wire.block(1, wire.block(1, values))
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return wire.block(3, wire.packed_integers(1, array.ravel().tolist()))
    packed = b"".join(struct.pack("<f", value) for value in array.ravel().tolist())
    return wire.block(2, wire.block(1, packed))


def example(features: dict[str, Any]) -> bytes:
    entries = [
        wire.block(1, wire.block(1, name.encode()) + wire.block(2, feature(values)))
        for name, values in features.items()
    ]
    return wire.block(1, b"".join(entries))


def split(name: str, values: np.ndarray, by_frame: bool = False) -> dict[str, np.ndarray]:
    """Past, current and future of (count, frames)."""
    parts = np.split(values, [PAST, PAST + 1], axis=1)
    return {
        name.format(time): part.T if by_frame else part
        for time, part in zip(("past", "current", "future"), parts, strict=True)
    }


def features(without: Sequence[str] = (), **changes: Any) -> dict[str, Any]:
    frames = np.arange(FRAMES)
    valid = np.zeros((OBJECTS, FRAMES), np.int64)
    valid[:3] = 1
    valid[1, :20] = 0
    x = np.zeros((OBJECTS, FRAMES), np.float32)
    x[:3] = np.float32([[0.0], [50.0], [-4.0]]) + frames * np.float32([[1.0], [0.5], [0.1]])
    x[3:] = -1.0
    out: dict[str, Any] = {"scenario/id": b"abc", "state/id": np.array([7.0, 8, 9, -1, -1])}
    out |= split("state/{}/x", x) | split("state/{}/valid", valid)
    still = {"y": 2.0, "z": 1.0, "bbox_yaw": 0.25, "velocity_x": 10.0, "velocity_y": 0.0}
    for name, value in (still | {"width": 2.0, "length": 4.5, "height": 1.5}).items():
        out |= split(f"state/{{}}/{name}", np.full((OBJECTS, FRAMES), value, np.float32))
    micros = np.tile(frames * 100_000, (OBJECTS, 1))
    out |= split("state/{}/timestamp_micros", micros)
    out |= {
        "state/type": np.array([1.0, 1.0, 2.0, -1.0, -1.0]),
        "state/is_sdc": np.array([0, 1, 0, 0, 0]),
        "state/tracks_to_predict": np.array([1, 0, 0, 0, 0]),
        "state/objects_of_interest": np.array([0, 0, 1, 0, 0]),
        "roadgraph_samples/xyz": np.arange(27, dtype=np.float32).reshape(9, 3),
        "roadgraph_samples/id": np.array([4, 4, 4, 5, 5, 6, 7, 7, -1]),
        "roadgraph_samples/type": np.array([2, 2, 2, 15, 15, 17, 18, 18, -1]),
        "roadgraph_samples/valid": np.array([1] * 8 + [0]),
    }
    lit = np.zeros((LIGHTS, FRAMES), np.int64)
    lit[0, 5:] = 1
    colour = np.where(frames < 40, 4, 6) * np.ones((LIGHTS, 1), np.int64)
    for name, array in (("valid", lit), ("state", colour), ("id", np.full_like(lit, 4))):
        out |= split(f"traffic_light_state/{{}}/{name}", array, by_frame=True)
    for axis in "xyz":
        values = np.full((LIGHTS, FRAMES), 3.5, np.float32)
        out |= split(f"traffic_light_state/{{}}/{axis}", values, by_frame=True)
    out |= changes
    return {name: value for name, value in out.items() if name not in without}


def test_all_of_an_example_is_read() -> None:
    data = example(features())
    assert is_example(data) and not is_example(crossing())
    scene = parse_example(data, "here", "one")
    assert (scene.scenario_id, scene.frame_count) == ("abc", FRAMES)
    assert [item.id for item in scene.objects] == [7, 8, 9]
    assert [item.type for item in scene.objects] == [0, 0, 1]
    car, late, _ = scene.objects
    np.testing.assert_array_equal(car.position_m[:, 0], np.arange(FRAMES))
    assert late.valid.tolist() == [False] * 20 + [True] * (FRAMES - 20)
    assert late.goal_m.tolist() == [95.0, 2.0, 1.0] and car.heading_rad[3] == 0.25
    assert (car.length_m, car.width_m, car.height_m) == (4.5, 2.0, 1.5)
    assert scene.sdc == 1 and scene.to_predict == {0} and scene.of_interest == {9}
    kinds = [(road.type, road.map_element_id, road.id, len(road.points_m)) for road in scene.roads]
    assert kinds == [("lane", 2, 4, 3), ("road_edge", 15, 5, 2), ("crosswalk", 18, 7, 2)]
    assert scene.roads[1].points_m[0].tolist() == [9.0, 10.0, 11.0]
    sign, light = controls_of(scene)
    assert sign.position_m.tolist() == [15.0, 16.0, 17.0] and light.lane_id == 4
    assert light.states.tolist() == [UNKNOWN] * 5 + [RED] * 35 + [GREEN] * 51


def test_the_test_split_has_no_future() -> None:
    named = [name for name in features() if "/future/" in name]
    scene = parse_example(example(features(without=named)), "here", "one")
    assert scene.frame_count == PAST + 1 and len(scene.objects) == 2


@pytest.mark.parametrize(
    "data, message",
    [
        (features(without=["state/type"]), "state/type: expected this feature"),
        (features(**{"state/current/x": np.zeros(3)}), "state/current/x: expected numbers of"),
        (features(**{"state/current/y": np.full(OBJECTS, np.inf)}), "state/*/y[0][10]"),
        (features(**{"roadgraph_samples/type": np.full(9, 44)}), "type[0]: expected a known type"),
        (features(**{"state/id": np.full(OBJECTS, 7.0)}), "objects[1].id"),
        (
            features(**{"state/id": np.full(OBJECTS, np.nan)}),
            "state/id[0]: expected a whole number",
        ),
        (features(**{"roadgraph_samples/type": np.full(9, np.inf)}), "type[0]: expected a whole"),
        (features(**{"roadgraph_samples/id": np.full(9, 1e30)}), "id[0]: expected a whole number"),
        (
            features(**{"traffic_light_state/current/id": np.full(LIGHTS, np.nan)}),
            "*/id: expected a whole number",
        ),
    ],
)
def test_a_bad_value_is_named(data: dict[str, Any], message: str) -> None:
    with pytest.raises(SceneError) as error:
        parse_example(example(data), "here", "one")
    assert str(error.value).startswith("here: ") and message in str(error.value)


def test_mutated_examples_are_scenes_or_scene_errors() -> None:
    rng, sound = random.Random(9), example(features())
    read = refused = 0
    for _ in range(200):
        data = bytearray(sound)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            assert isinstance(parse_example(bytes(data), "here", "one"), Scene)
            read += 1
        except SceneError as error:
            assert str(error).startswith("here: ") and "\n" not in str(error)
            refused += 1
    assert read > 20 and refused > 5


def test_a_file_may_hold_both_forms(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(wire.tfrecord([example(features()), crossing()]))
    scenes = [load(path, index) for _, index in scenes_in(path)]
    assert [scene.scenario_id for scene in scenes] == ["abc", "abc123"]

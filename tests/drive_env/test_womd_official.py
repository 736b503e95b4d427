# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Our reader of WOMD's scenario files reads what TensorFlow and Waymo's own messages read.

These need NumPy 1, so womd_official.py runs them in another interpreter, whose path
PUFFERVEC_WOSAC_PYTHON gives. PUFFERVEC_WOMD may name a file of the data set, which is compared too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.scenes.controls import TRAFFIC_LIGHT, controls_of
from drive_env.scenes.reader import read_scenario
from drive_env.scenes.schema import OBJECT_TYPES, Road, Scene
from drive_env.scenes.tfrecord import list_records
from tests.drive_env import womd_files as wire
from tests.drive_env.test_womd import crossing
from tests.needs import OFFICIAL_PYTHON

pytestmark = [pytest.mark.slow, pytest.mark.needs("waymo_open_dataset")]

SCRIPT = Path(__file__).with_name("womd_official.py")
TYPES = ("other", "vehicle", "pedestrian", "cyclist", "other")
MPH = 0.44704
# Their numbers of light states: unknown, stops, cautions and goes with and without an arrow, ...
COLOURS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 1, 5: 2, 6: 3, 7: 1, 8: 2}


@pytest.fixture(params=["made", "PUFFERVEC_WOMD"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "made":
        path = tmp_path / "made.tfrecord-00000-of-00001"
        path.write_bytes(wire.tfrecord([crossing(seed) for seed in range(3)]))
        return path
    if request.param not in os.environ:
        pytest.skip("PUFFERVEC_WOMD names no file of WOMD")
    return Path(os.environ[request.param])


def official(file: Path, out: Path) -> list[dict[str, Any]]:
    command = [os.environ.get(OFFICIAL_PYTHON) or sys.executable, str(SCRIPT), str(file), str(out)]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))
    return found


def compare_tracks(scene: Scene, theirs: dict[str, Any]) -> None:
    for item, track in zip(scene.objects, theirs["tracks"], strict=True):
        assert (item.id, OBJECT_TYPES[item.type]) == (track["id"], TYPES[track["type"]])
        assert item.valid.tolist() == track["valid"]
        states = np.array(track["states"]).reshape(-1, 6)[item.valid]
        np.testing.assert_array_equal(item.position_m[item.valid], states[:, :3])
        np.testing.assert_array_equal(item.velocity_mps[item.valid], states[:, 4:])
        turn = item.heading_rad[item.valid] - states[:, 3]
        np.testing.assert_allclose((turn + np.pi) % (2 * np.pi) - np.pi, 0, atol=1e-12)
        if item.valid.any():
            last = int(np.flatnonzero(item.valid)[-1])
            assert [item.width_m, item.length_m, item.height_m] == track["sizes"][last]
            np.testing.assert_array_equal(item.goal_m, track["states"][last][:3])


def compare_map(roads: list[Road], features: list[dict[str, Any]]) -> None:
    for road, feature in zip(roads, features, strict=True):
        assert (road.type, road.id) == (feature["kind"], feature["id"])
        np.testing.assert_array_equal(road.points_m, np.array(feature["points"]).reshape(-1, 3))
        if road.type == "lane":
            assert road.links is not None
            assert list(road.links.exits) == feature["exits"]
            assert list(road.links.entries) == feature["entries"]
            assert road.links.speed_limit_mps == pytest.approx(feature["limit_mph"] * MPH)


def compare_controls(scene: Scene, theirs: dict[str, Any]) -> None:
    own = controls_of(scene)
    signs = [item for item in theirs["features"] if item["kind"] == "stop_sign"]
    assert sorted((item.id, item.lane_id) for item in own if item.kind != TRAFFIC_LIGHT) == sorted(
        (sign["id"], lane) for sign in signs for lane in sign["lanes"] or (-1,)
    )
    lights = {item.lane_id: item for item in own if item.kind == TRAFFIC_LIGHT}
    colours: dict[int, list[int]] = {lane: [0] * theirs["frames"] for lane in lights}
    for frame, listed in enumerate(theirs["lights"]):
        for lane, state, *_ in listed:
            colours[lane][frame] = COLOURS[state]
    assert {lane: (item.states & 7).tolist() for lane, item in lights.items()} == colours


def test_scenarios_are_those_that_tensorflow_reads(file: Path, tmp_path: Path) -> None:
    theirs = official(file, tmp_path / "out.json")
    records = list_records(file)
    assert len(records) == len(theirs) > 0
    for index, (record, other) in enumerate(zip(records, theirs, strict=True)):
        scene = read_scenario(file, index, record)
        assert (scene.scenario_id, scene.frame_count) == (other["scenario_id"], other["frames"])
        assert scene.sdc == other["sdc"] and scene.of_interest == set(other["of_interest"])
        assert scene.to_predict == set(other["to_predict"])
        compare_tracks(scene, other)
        features = [item for item in other["features"] if item["kind"] != "stop_sign"]
        compare_map(list(scene.roads), features)
        compare_controls(scene, other)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Stop signs, lights and areas: what files say of them, and what follows from where they stand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from drive_env.scenes import packed
from drive_env.scenes.controls import controls_of, pack_areas, pack_controls
from drive_env.scenes.reader import read_scene, scene_files
from drive_env.scenes.schema import GREEN, OFF, RED, UNKNOWN, YELLOW, Control, Road, Scene
from drive_env.scenes.segments import polylines_of
from puffervec._ffi import lib
from tests.drive_env.worlds import random_scene

LANES = (
    Road("lane", 2, 30, np.array([[0.0, 0, 1], [50, 0, 1]])),
    Road("lane", 2, 31, np.array([[50.0, 3.5, 1], [0, 3.5, 1]])),
)


def scene_with(*roads: Road, **fields: Any) -> Scene:
    return dataclasses.replace(
        random_scene(0, objects=1, roads=0), roads=(*LANES, *roads), **fields
    )


def packed_controls(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    origin = np.array([10.0, 0, 1])
    return pack_controls(scene, polylines_of(scene, origin, (0.1, 0.1, 0.1), 15.0)[0], origin)


def test_numbers_are_those_of_c() -> None:
    assert [UNKNOWN, RED, YELLOW, GREEN, OFF] == [
        lib.PV_STATE_UNKNOWN, lib.PV_STATE_RED, lib.PV_STATE_YELLOW, lib.PV_STATE_GREEN,
        lib.PV_STATE_OFF
    ]  # fmt: skip
    assert (lib.PV_STOP_SIGN, lib.PV_TRAFFIC_LIGHT, lib.PV_YIELD_SIGN) == (0, 1, 2)
    assert (lib.PV_CROSSWALK, lib.PV_SPEED_BUMP, lib.PV_DRIVEWAY) == (0, 1, 2)


def test_a_sign_holds_for_the_lane_that_it_stands_to_the_right_of() -> None:
    """And traffic stops on the lane beside it; a sign far from all lanes has no stop line."""
    signs = [
        Road("stop_sign", 17, 40 + i, np.array([place]))
        for i, place in enumerate([(47.0, -3, 4), (3.0, 6.5, 4), (9.0, 60, 4)])
    ]
    controls, states = packed_controls(scene_with(*signs))
    assert controls["lane"].tolist() == [0, 1, packed.NO_LANE] and controls["id"].tolist() == [
        40,
        41,
        42,
    ]
    np.testing.assert_allclose(
        controls[["x_m", "y_m", "z_m"]].tolist(),
        [(37, -3, 3), (-7, 6.5, 3), (-1, 60, 3)],
        atol=1e-6,
    )
    np.testing.assert_allclose(np.abs(controls["heading"]), [0, np.pi, 0], atol=1e-6)
    left = controls[["line_x0_m", "line_y0_m", "line_x1_m", "line_y1_m"]][0].tolist()
    np.testing.assert_allclose(left, [37, 1.75, 37, -1.75], atol=1e-6)
    assert states.tolist() == [RED] * 3 and controls["state_count"].tolist() == [1, 1, 1]


def test_lights_of_json_scenes() -> None:
    """One light per lane, a state per frame; odd entries are unknown, and a light without a place
    is left out.
    """
    words = ["stop", "go", "arrow_caution", "flashing_stop", "purple", 7]
    ones = [10.0] * 6
    lights = {
        "30": {
            "state": words,
            "x": ones,
            "y": [0.5] * 6,
            "z": [1.0] * 6,
            "time_index": [0, 1, 2, 3, 4, 5],
        },
        "77": {"state": ["go"], "x": [20.0], "y": [0.0], "z": [0.0], "time_index": [19]},
        "31": {"state": ["go"], "x": [None], "y": [0.0], "z": [0.0]},
        "32": "broken",
    }
    controls, states = packed_controls(scene_with(traffic_lights=lights))
    assert controls["lane"].tolist() == [0, packed.NO_LANE] and controls["kind"].tolist() == [1, 1]
    frames = 20
    assert controls["state_count"].tolist() == [frames, frames] and controls["states"].tolist() == [
        0,
        frames,
    ]
    assert states[:6].tolist() == [
        RED,
        GREEN,
        YELLOW | packed.STATE_ARROW,
        RED | packed.STATE_FLASHING,
        UNKNOWN,
        UNKNOWN,
    ]
    assert not states[6 : 2 * frames - 1].any() and states[-1] == GREEN
    np.testing.assert_allclose(controls[["x_m", "y_m", "z_m"]][0].tolist(), (0, 0.5, 0))


def test_controls_of_a_scene_replace_what_would_follow_from_its_roads() -> None:
    line = np.array([[8.0, 2, 1], [8, -2, 1]])
    own = Control(2, np.array([8.0, 0, 1]), 31, np.array([RED], np.uint8), 5, 1.0, line)
    scene = scene_with(Road("stop_sign", 17, 40, np.zeros((1, 3))), controls=(own,))
    assert controls_of(scene) == (own,)
    controls, _ = packed_controls(scene)
    assert controls[["kind", "lane", "id"]].tolist() == [(2, 1, 5)] and controls["heading"][0] == 1
    assert controls[["line_x0_m", "line_y0_m", "line_x1_m", "line_y1_m"]][0].tolist() == (
        -2,
        2,
        -2,
        -2,
    )


def test_areas_keep_their_points_without_the_closing_one() -> None:
    square = np.array([[0.0, 0, 2], [4, 0, 2], [4, 3, 2], [0, 0, 2]])
    roads = [
        Road("crosswalk", 18, 50, square),
        Road("driveway", 20, 51, square[:3]),
        Road("speed_bump", 19, 52, square[:0]),
    ]
    areas, points = pack_areas(scene_with(*roads), np.array([1.0, 0, 2]))
    assert areas[["first", "count", "id", "kind"]].tolist() == [(0, 3, 50, 0), (3, 3, 51, 2)]
    np.testing.assert_array_equal(points, np.concatenate([square[:3], square[:3]]) - [1, 0, 2])


def test_lights_and_signs_of_real_scenes(real_scenes: Path) -> None:
    """The scene with lights has 12, on its own lanes, that change; every real sign finds a lane."""
    signs = 0
    for path in scene_files(real_scenes):
        if "agent-" in path.name or "307" in path.name:
            continue
        scene = read_scene(path)
        controls, states = packed_controls(scene)
        assert (controls["lane"] != packed.NO_LANE).all(), path.name
        lights = controls[controls["kind"] == 1]
        assert len(lights) == len(scene.traffic_lights)
        signs += len(controls) - len(lights)
        if len(lights):
            assert len(lights) == 12 and set(states[lights["states"][0] :].tolist()) == {
                UNKNOWN,
                RED,
                GREEN,
            }
    assert signs == 25


def test_a_sign_to_the_left_of_its_nearest_lane_holds_for_the_next_one() -> None:
    """It stands between two lanes of one direction, nearer to the right one: it is to the right of
    the left one alone.
    """
    lanes = [
        Road("lane", 2, 60 + i, np.array([[0.0, y, 1], [50, y, 1]]))
        for i, y in enumerate((100.0, 104.0))
    ]
    sign = Road("stop_sign", 17, 70, np.array([[20.0, 101.0, 1]]))
    controls, _ = packed_controls(scene_with(*lanes, sign))
    assert controls["lane"].tolist() == [3]
    np.testing.assert_allclose(
        controls[["line_y0_m", "line_y1_m"]][0].tolist(), (105.75, 102.25), atol=1e-6
    )


def test_signs_among_lanes_of_all_directions() -> None:
    """A sign holds for the nearest lane within 8 m that passes it on its left, and the stop line
    lies across that lane, 3.5 m long; by a plain search.
    """
    rng, held = np.random.default_rng(1), 0
    for _ in range(60):
        ends, heights, place = (rng.uniform(-15, 15, shape) for shape in ((6, 2, 2), (6, 2), 2))
        lanes = [Road("lane", 2, 100 + k, np.column_stack([ends[k], heights[k]])) for k in range(6)]
        sign = Road("stop_sign", 17, 40, np.array([[*place, 1.0]]))
        scene = dataclasses.replace(random_scene(0, objects=1, roads=0), roads=(*lanes, sign))
        (control,) = packed_controls(scene)[0]
        most, lane, near, turn = 8.0, packed.NO_LANE, place, 0.0
        for k, (first, last) in enumerate(ends):
            step = last - first
            on = first + np.clip((place - first) @ step / (step @ step), 0, 1) * step
            gap = place - on
            if step[0] * gap[1] - step[1] * gap[0] < 0 and np.hypot(*gap) < most:
                most, lane, near, turn = np.hypot(*gap), k, on, np.arctan2(step[1], step[0])
        assert control["lane"] == lane
        half = 1.75 * (lane != packed.NO_LANE) * np.array([-np.sin(turn), np.cos(turn)])
        line = np.concatenate([near + half, near - half]) - [10, 0, 10, 0]
        found = control[["line_x0_m", "line_y0_m", "line_x1_m", "line_y1_m"]].tolist()
        np.testing.assert_allclose(found, line, atol=2e-3)
        assert np.cos(control["heading"] - turn) > 1 - 1e-6
        held += lane != packed.NO_LANE
    assert 10 < held < 60


def test_lights_of_scenes_without_lanes_or_in_odd_places() -> None:
    """Keys of at most nine digits are lanes; a place is one if it lies within 100 km; times outside
    of the log are left out.
    """

    def lights(key: str, x: float = 1.0, times: list[Any] | None = None) -> list[Control]:
        light = {"state": ["stop", "go"], "x": [x] * 2, "y": [2.0] * 2}
        tree = {key: light if times is None else {**light, "time_index": times}}
        return list(controls_of(scene_with(traffic_lights=tree)))

    keys = {"30": 30, "-7": -7, "x": -1, "123456789": 123456789, "1234567890": -1}
    for key, lane in keys.items():
        (light,) = lights(key)
        assert (light.lane_id, light.id) == (lane, lane) and light.position_m.tolist() == [1, 2, 0]
    assert len(lights("30", 99_999.0)) == 1 and lights("30", 100_001.0) == []
    assert len(lights("30", -99_999.0)) == 1 and lights("30", -100_001.0) == []
    for times, states in (
        (None, {0: RED, 1: GREEN}), ([0, 19], {0: RED, 19: GREEN}), ([3, 20], {3: RED}),
        ([-1, 2], {2: GREEN}), ([5], {5: RED, 1: GREEN}), (["a", 2.0], {}),
    ):  # fmt: skip
        (light,) = lights("30", times=times)
        expected = [states.get(frame, UNKNOWN) for frame in range(20)]
        assert light.states.tolist() == expected, times

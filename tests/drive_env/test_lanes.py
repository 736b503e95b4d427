# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The lane graph: connections of the file where it has them, else inferred from ends that meet and
lanes side by side.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.generate.generate import generate_scene
from drive_env.scenes import packed
from drive_env.scenes.lanes import pack_lanes
from drive_env.scenes.reader import read_scene, scene_files
from drive_env.scenes.schema import LaneLinks, Road
from drive_env.scenes.segments import polylines_of, segments_of
from tests.drive_env.worlds import random_scene

NONE = packed.NO_LANE


def graph(*roads: Road) -> tuple[Any, list[set[int]], list[set[int]], bool]:
    """Lane records, exits and entries per lane, and whether they were inferred."""
    scene = dataclasses.replace(random_scene(0, objects=1, roads=0), roads=roads)
    lines = polylines_of(scene, np.zeros(3), (0.1, 0.1, 0.1), 15.0)
    lanes, links, inferred = pack_lanes(scene.name, lines[0], segments_of(lines))
    exits, entries = (
        [set(links[row[first] : row[first] + row[count]].tolist()) for row in lanes]
        for first, count in (("exits", "exit_count"), ("entries", "entry_count"))
    )
    return lanes, exits, entries, inferred


def lane(
    number: int, *points: tuple[float, float], z: float = 0.0, links: LaneLinks | None = None
) -> Road:
    return Road("lane", 2, number, np.array([[x, y, z] for x, y in points]), links)


def test_a_lane_goes_on_where_it_ends() -> None:
    """0 leads to 1 (straight) and 2 (a turn), not to 3 (a wall of a turn), 4 (half a metre off) or
    5 (on a bridge).
    """
    lanes, exits, entries, inferred = graph(
        lane(10, (0, 0), (20, 0)),
        lane(11, (20, 0.05), (40, 0)),
        lane(12, (20, 0), (24, 1), (30, 8)),
        lane(13, (20, 0), (20, 30)),
        lane(14, (20, 0.5), (40, 4)),
        lane(15, (20, 0), (40, 0), z=6.0),
    )
    assert inferred and exits == [{1, 2}, set(), set(), set(), set(), set()]
    assert entries == [set(), {0}, {0}, set(), set(), set()]
    assert lanes["first_segment"].tolist()[:2] == [0, 2] and lanes["segment_count"][0] == 2
    assert lanes["length_m"][0] == 20 and lanes["id"].tolist() == [10, 11, 12, 13, 14, 15]
    assert lanes["kind"].tolist() == [2] * 6 and not lanes["speed_limit_mps"].any()


def test_neighbours_run_beside_in_the_same_direction() -> None:
    """Three lanes side by side, one the other way, one above, one that is beside 1 for a quarter of
    its length.
    """
    lanes, *_ = graph(
        lane(1, (0, 0), (60, 0)),
        lane(2, (0, 3.5), (60, 3.5)),
        lane(3, (60, 7), (0, 7)),
        lane(4, (10, -3.5), (50, -3.5)),
        lane(5, (0, -3.6), (60, -3.6), z=7.0),
        lane(6, (45, -4.5), (105, -4.5)),
    )
    assert lanes["left"].tolist() == [1, NONE, NONE, 0, NONE, NONE]
    assert lanes["right"].tolist() == [3, 0, NONE, NONE, NONE, NONE]


@pytest.mark.parametrize(
    ("gap_m", "turn_rad", "rise_m", "leads"),
    [
        (0.09, 0.0, 0.0, True), (0.115, 0.0, 0.0, False),
        (0.0, 0.48, 0.0, True), (0.0, 0.52, 0.0, False), (0.0, -0.48, 0.0, True),
        (0.0, -0.52, 0.0, False), (0.0, 0.0, 1.9, True), (0.0, 0.0, 2.1, False),
        (0.0, 0.0, -1.9, True), (0.0, 0.0, -2.1, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("course", [0.0, 2.0, np.pi])
def test_a_lane_goes_on_within_limits(
    course: float, gap_m: float, turn_rad: float, rise_m: float, leads: bool
) -> None:
    """10 cm, half a radian and 2 m, in any direction."""
    ahead, after = (np.array([np.cos(a), np.sin(a)]) for a in (course, course + turn_rad))
    begin = 20 * ahead + gap_m * np.array([-ahead[1], ahead[0]])
    _, exits, _, _ = graph(
        lane(10, (0, 0), tuple(20 * ahead)),
        lane(11, tuple(begin), tuple(begin + 20 * after), z=rise_m),
    )
    assert exits == [{1} if leads else set(), set()]


@pytest.mark.parametrize(
    ("offset_m", "rise_m", "begin_m", "beside"),
    [
        (1.6, 0.0, 0.0, True), (1.4, 0.0, 0.0, False),
        (5.4, 0.0, 0.0, True), (5.6, 0.0, 0.0, False),
        (3.5, 1.9, 0.0, True), (3.5, 2.1, 0.0, False),
        (3.5, 0.0, 26.0, True), (3.5, 0.0, 34.0, False),
    ],
)  # fmt: skip
def test_neighbours_are_beside_within_limits(
    offset_m: float, rise_m: float, begin_m: float, beside: bool
) -> None:
    """1.5 to 5.5 m to the side, 2 m up, along half of the shorter one."""
    for course in (0.0, 2.0):
        ahead = np.array([np.cos(course), np.sin(course)])
        left = np.array([-ahead[1], ahead[0]])
        first = begin_m * ahead + offset_m * left
        lanes, *_ = graph(
            lane(1, (0, 0), tuple(60 * ahead)),
            lane(2, tuple(first), tuple(first + 60 * ahead), z=rise_m),
        )
        assert lanes["left"].tolist() == [1 if beside else NONE, NONE]
        assert lanes["right"].tolist() == [NONE, 0 if beside else NONE]


def test_the_file_knows_better() -> None:
    """What it says of one side holds for both; ids of no lane are left out; neighbours it does not
    name are inferred.
    """
    lanes, exits, entries, inferred = graph(
        lane(7, (0, 0), (20, 0), links=LaneLinks(exits=(9, 99), right=9, speed_limit_mps=13.4)),
        lane(8, (20, 0), (40, 0), links=LaneLinks()),
        lane(9, (80, 0), (90, 0), links=LaneLinks(entries=(8,))),
        lane(5, (0, 3.5), (20, 3.5)),
    )
    assert (
        not inferred
        and exits == [{2}, {2}, set(), set()]
        and entries == [set(), set(), {0, 1}, set()]
    )
    assert lanes["speed_limit_mps"][0] == np.float32(13.4)
    assert lanes["right"].tolist() == [2, NONE, NONE, 0] and lanes["left"].tolist() == [
        3,
        NONE,
        NONE,
        NONE,
    ]


def test_no_lanes() -> None:
    lanes, exits, _, _ = graph(Road("road_edge", 15, 1, np.array([[0.0, 0, 0], [9, 0, 0]])))
    assert len(lanes) == 0 and exits == []


@pytest.mark.parametrize("index", [0, 2])
def test_generated_crossings_connect(index: int) -> None:
    """Every lane of an arm leads into the crossing or out of the scene, and each turn joins two
    lanes.
    """
    scene = generate_scene(1, index)
    _, exits, entries, _ = graph(*scene.roads)
    turns = [number for number in range(len(exits)) if exits[number] and entries[number]]
    assert len(turns) >= 6
    assert all(len(exits[number]) == 1 == len(entries[number]) for number in turns)
    into = [number for number in range(len(exits)) if exits[number] and number not in turns]
    assert set().union(*(exits[number] for number in into)) == set(turns)


def test_real_lanes_connect(real_scenes: Path) -> None:
    """In a town every lane leads to another; neighbours name each other, up to lanes that split."""
    (town,) = (path for path in scene_files(real_scenes) if "Town01" in path.name)
    _, exits, entries, inferred = graph(*read_scene(town).roads)
    assert inferred and all(exits) and all(entries)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Which scenes have levels (drive_env/scenes/levels.py): bridges have, hills have not; and against
all pairs of points.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from drive_env.scenes import levels, packed
from drive_env.scenes.schema import Scene
from tests.drive_env.test_height import (
    along,
    bridge,
    car,
    crossing,
    drive,
    flat,
    ramp,
    road,
    scene_of,
)
from tests.drive_env.worlds import write_world

Height = Callable[[np.ndarray], np.ndarray]


def hill(xy: np.ndarray) -> np.ndarray:
    return np.asarray(0.06 * xy[:, 0])


def flags_of(scene: Scene, folder: Path) -> bool:
    sets = write_world(folder, [scene])
    return bool(sets.scene(0)[0]["flags"] & packed.LEVELS)


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [(bridge, flat, True), (hill, hill, False), (ramp, ramp, False),
     (lambda xy: hill(xy) + 1.5, hill, True), (lambda xy: hill(xy) + 0.6, hill, False),
     (lambda xy: flat(xy) + 1.1, flat, True), (lambda xy: flat(xy) + 0.95, flat, False)],
)  # fmt: skip
def test_levels_are_two_grounds_in_one_place(
    tmp_path: Path, above: Height, below: Height, expected: bool
) -> None:
    """A road that crosses another above it: 8 m, 1.5 m, 0.6 m and not at all, the last three on a
    hill of 6 m; and on both sides of a metre.
    """
    low = car(along((0, 0), 0.0, 10, below), 0.0)
    roads = [road("lane", (-10, 0), (90, 0), below), road("lane", (20, 60), (20, -60), above)]
    assert flags_of(scene_of([low], roads), tmp_path / "set") == expected


def test_heights_that_nobody_knows_are_no_levels(tmp_path: Path) -> None:
    assert flags_of(crossing(bridge), tmp_path / "known")
    assert not flags_of(crossing(bridge, has_height=False), tmp_path / "unknown")


def test_an_object_on_a_bridge_without_a_road(tmp_path: Path) -> None:
    """A pedestrian on a footbridge of which the map has nothing."""
    low, high = (
        car(along((0, 0), 0.0, 30, flat), 0.0),
        car(along((10, -5), np.pi / 2, 10, bridge), np.pi / 2),
    )
    assert flags_of(
        scene_of([low, high], [road("lane", (-10, 0), (90, 0), flat)]), tmp_path / "set"
    )


def test_on_a_hill_cars_touch_wherever_they_come_from(tmp_path: Path) -> None:
    """A car that was beside no road keeps the height of its start; the kerb up the hill counts all
    the same.
    """
    scene = scene_of(
        [car(along((0, 0), 0.0, 60, hill), 0.0)], [road("road_edge", (55, -60), (55, 60), hill)]
    )
    states = drive(tmp_path / "set", scene, 58)
    assert states[-1]["ground"][0] == states[0]["ground"][0] and any(
        state["offroad"].any() for state in states
    )


def slow_has_levels(arrays: dict[str, np.ndarray]) -> tuple[bool, bool]:
    """Whether two points of segments that are half a place apart or less differ by more than a
    metre; and whether some differ that are up to two places apart, which may be found too.
    """
    pieces = []
    for s in range(len(arrays["x"])):
        along = np.arange(-arrays["half"][s], arrays["half"][s], 0.25)[:, None]
        middle = np.stack([arrays[name][s] for name in ("x", "y", "z")])
        step = np.stack([arrays[name][s] for name in ("ux", "uy", "slope")])
        pieces.append(middle + along * step)
    points = np.concatenate(pieces)
    apart = np.abs(points[:, None, :2] - points[None, :, :2]).max(axis=2)
    rises = np.abs(points[:, None, 2] - points[None, :, 2]) > levels.SAME_LEVEL_M
    return bool((rises & (apart <= levels.PLACE_M / 2)).any()), bool(
        (rises & (apart <= 2 * levels.PLACE_M)).any()
    )


def test_against_all_pairs(tmp_path: Path) -> None:
    """A road beside, across or far from another, up to 1.8 m higher."""
    rng = np.random.default_rng(0)
    found = []
    for index in range(40):
        rise, places = rng.uniform(0.5, 1.8), rng.uniform(-30, 30, (2, 2))
        high = road(
            "lane", tuple(places[0]), tuple(places[1]), lambda xy, rise=rise: np.full(len(xy), rise)
        )  # type: ignore
        scene = scene_of(
            [car(along((-30, 0), 0.0, 3, flat), 0.0)], [road("lane", (-30, 0), (30, 0), flat), high]
        )
        head, arrays = write_world(tmp_path / str(index), [scene]).scene(0)
        sure, possible = slow_has_levels(arrays)
        found.append(bool(head["flags"] & packed.LEVELS))
        assert sure <= found[-1] <= possible
    assert 0.1 < np.mean(found) < 0.9

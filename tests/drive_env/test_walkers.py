# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pedestrians of generated streets: where they walk, and when they cross."""

from __future__ import annotations

import numpy as np

from drive_env.generate.layouts import line
from drive_env.generate.network import Crossing, Streets
from drive_env.generate.traffic import FRAMES
from drive_env.generate.walkers import ACROSS, draw_walkers, walk_across
from drive_env.scenes.schema import PEDESTRIAN

ENDS = np.array([[0.0, -6.0], [0.0, 6.0]])
NONE = np.zeros((0, FRAMES), dtype=bool)


def test_they_cross_from_kerb_to_kerb_at_walking_speed() -> None:
    for seed in range(10):
        walker = walk_across(np.random.default_rng(seed), Crossing(ENDS), NONE, start_s=1.0)
        assert walker is not None and walker.kind == PEDESTRIAN and walker.turn == ACROSS
        assert (
            abs(walker.y_m[0]) == 6.0
            and np.ptp(walker.x_m) == 0
            and abs(walker.y_m[-1] - walker.y_m[0]) > 8
        )
        pace = np.abs(np.diff(walker.y_m)) / 0.1
        assert pace.max() < 1.8 and pace[:9].max() == 0
        moving = pace > 0.5
        facing = np.sin(walker.heading_rad[:-1][moving]) * np.sign(walker.y_m[-1] - walker.y_m[0])
        assert facing.min() > 0.99


def test_they_cross_at_lights_while_the_traffic_has_red() -> None:
    red = np.zeros((1, FRAMES), dtype=bool)
    red[0, 10:] = True
    for seed in range(20):
        walker = walk_across(np.random.default_rng(seed), Crossing(ENDS, group=0), red)
        assert walker is not None
        on_road = np.abs(walker.y_m) < 5.9
        assert not (on_road & ~red[0]).any()
    waits = walk_across(
        np.random.default_rng(0), Crossing(ENDS, group=0), ~np.ones((1, FRAMES), dtype=bool)
    )
    assert waits is not None and np.ptp(waits.y_m) == 0


def test_they_are_off_the_road_before_cars_have_green() -> None:
    """Where red lasts from frame 20 to frame 59, no one of a hundred is on the road later than six
    frames before its end.
    """
    red = np.zeros((1, FRAMES), dtype=bool)
    red[0, 20:60] = True
    slow = Crossing(np.array([[0.0, -1.5], [0.0, 1.5]]), group=0)
    begins, ends = [], []
    for seed in range(100):
        walker = walk_across(np.random.default_rng(seed), slow, red)
        assert walker is not None
        walking = np.flatnonzero(np.diff(walker.y_m))
        begins.append(walking[0])
        ends.append(walking[-1] + 1)
    assert min(begins) == 20 and max(ends) <= 60 - 6
    red[0, 59 - 20 :] = False  # The red lasts 19 frames: nobody of the slowest has time.
    for seed in range(100):
        walker = walk_across(np.random.default_rng(seed), Crossing(ENDS, group=0), red)
        assert walker is not None and np.ptp(walker.y_m) == 0


def test_pavements_have_walkers_groups_and_some_who_stand() -> None:
    streets = Streets(walks=[line(np.array([-60.0, 8.0]), np.array([60.0, 8.0]))])
    found = draw_walkers(np.random.default_rng(4), streets, 60, NONE, np.zeros(2), crossing=0.5)
    assert len(found) == 60 and all(item.turn != ACROSS for item in found), "there is no crosswalk"
    moved = np.array([item.displacement_m for item in found])
    assert (moved < 0.1).sum() > 3 and (moved > 6.0).sum() > 25 and moved.max() < 20.0
    beside = np.array([abs(item.y_m[0] - 8.0) for item in found])
    assert (beside < 0.01).sum() > 20 and ((beside > 0.8) & (beside < 1.4)).sum() > 8

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Generated roads: lanes lie between edges, trips are smooth and keep right, crossings offer the
turns they should.
"""

from __future__ import annotations

import numpy as np
import pytest

from drive_env.generate.generate import NARROW, WIDE
from drive_env.generate.layouts import (
    Layout,
    arc_length,
    bent_line,
    draw_layout,
    headings_of,
    offset,
)
from drive_env.scenes.geometry import box_crosses_segment
from tests.twins.drive_lines import segment_distance

FAMILIES = ("straight", "curve", "tee", "cross")


def layouts(family: str, count: int = 4) -> list[Layout]:
    return [
        draw_layout(np.random.default_rng([seed, 3]), family, WIDE if seed % 2 else NARROW)
        for seed in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_trips_follow_lanes_and_keep_off_the_edges(family: str) -> None:
    for layout in layouts(family):
        lanes = [piece.points_m for piece in layout.pieces if piece.type == "lane"]
        edges = [piece.points_m for piece in layout.pieces if piece.type == "road_edge"]
        start, end = np.concatenate([p[:-1] for p in edges]), np.concatenate([p[1:] for p in edges])
        assert layout.trips and edges
        for trip in layout.trips:
            points = trip.path_m[::4]
            gap = np.min([lane_distance(points, lane) for lane in lanes], axis=0)
            assert gap.max() < 0.3
            # A narrow box along the whole trip: the lane itself is free of edges.
            assert not box_crosses_segment(
                points, headings_of(trip.path_m)[::4], 0.5, 0.8, start, end
            ).any()


def lane_distance(points: np.ndarray, lane: np.ndarray) -> np.ndarray:
    near = lane[::2] if len(lane) > 4 else lane
    near = np.concatenate([near, lane[-1:]])
    return np.min(
        [segment_distance(points, near[i], near[i + 1]) for i in range(len(near) - 1)], axis=0
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_trips_have_even_spacing_and_no_kinks(family: str) -> None:
    for layout in layouts(family):
        for trip in layout.trips:
            steps = np.hypot(*np.diff(trip.path_m, axis=0).T)
            assert steps.min() > 0.05 and steps.max() < 1.0
            bend = np.abs(np.diff(np.unwrap(np.arctan2(*np.diff(trip.path_m, axis=0).T[::-1]))))
            assert bend.max() < 0.35
            length = arc_length(trip.path_m)[-1]
            assert 0 <= trip.start_m[0] < trip.start_m[1] < length
            assert trip.pass_m < length


def test_crossings_offer_every_turn() -> None:
    for layout in layouts("cross"):
        turns = [trip.turn for trip in layout.trips]
        assert turns.count("left") == turns.count("right") == 4 and turns.count("straight") >= 4
    for layout in layouts("tee"):
        turns = [trip.turn for trip in layout.trips]
        assert turns.count("left") == turns.count("right") == 2 and turns.count("straight") >= 2
        assert {trip.major for trip in layout.trips} == {True, False}


def test_turns_turn_the_way_they_say() -> None:
    for layout in layouts("cross"):
        for trip in layout.trips:
            heading = headings_of(trip.path_m)
            turned = heading[-1] - heading[0]
            assert {"left": turned > 0.6, "right": turned < -0.6, "straight": abs(turned) < 0.75}[
                trip.turn
            ]


@pytest.mark.parametrize("family", ["straight", "curve"])
def test_traffic_keeps_right(family: str) -> None:
    for layout in layouts(family):
        line = next(
            (piece.points_m for piece in layout.pieces if piece.map_element_id in (9, 12)), None
        )
        if line is None:
            continue  # a median instead
        for trip in layout.trips:
            at = len(trip.path_m) // 2
            nearest = int(np.hypot(*(line - trip.path_m[at]).T).argmin())
            heading = headings_of(trip.path_m)[at]
            to_line = line[nearest] - trip.path_m[at]
            assert (
                -np.sin(heading) * to_line[0] + np.cos(heading) * to_line[1] > 1.0
            )  # the middle is to the left


def test_bends_have_continuous_curvature_and_do_not_meet_themselves() -> None:
    for seed in range(10):
        points = bent_line(np.random.default_rng(seed), 180.0, 30.0, 80.0)
        curvature = np.gradient(headings_of(points), arc_length(points))
        assert np.abs(np.diff(curvature)).max() < 0.01
        assert np.abs(curvature).max() < 1 / 25
        for side in (-12.0, 12.0):
            ahead = np.diff(offset(points, side), axis=0)
            assert ((ahead * np.diff(points, axis=0)).sum(axis=1) > 0).all()


def test_long_roads_bend_less_sharply() -> None:
    """By curves as sharp as those of short roads, they would turn back and meet themselves."""
    for seed in range(8):
        points = bent_line(np.random.default_rng(seed), 600.0, 20.0, 25.0)
        assert 2.0 < np.ptp(np.unwrap(headings_of(points))) < 2.6

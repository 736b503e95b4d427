# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Simplified polylines stay within the stated bound, both ways, and splitting keeps the shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drive_env.scenes.geometry import (
    beyond,
    box_crosses_segment,
    boxes_overlap,
    fit,
    pieces_of,
    simplify,
    split,
)
from drive_env.scenes.reader import read_scene
from drive_env.scenes.schema import SEGMENT_TYPES
from tests.helpers import slow_but
from tests.twins import drive_simplify as twin
from tests.twins.drive_lines import segment_distance


def curves(seed: int) -> list[np.ndarray]:
    """Polylines of many kinds: smooth, jagged, closed, with repeated points, doubling back."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, 200)
    circle = 30 * np.stack([np.cos(2 * np.pi * t), np.sin(2 * np.pi * t)], axis=-1)
    return [
        circle,
        np.cumsum(rng.normal(0, 0.5, (300, 2)), axis=0),
        np.stack([100 * t, 3 * np.sin(12 * t)], axis=-1),
        np.repeat(circle[::10], 3, axis=0),
        np.concatenate([np.stack([50 * t, 0 * t], -1), np.stack([50 * t[::-1], 0 * t + 0.05], -1)]),
        rng.uniform(-5, 5, (3, 2)),
    ]


def cut(line: np.ndarray, longest_m: float) -> np.ndarray:
    """One polyline, in pieces."""
    return split(line, pieces_of(line, np.array([len(line)]), longest_m))


def distance_to_polyline(points: np.ndarray, line: np.ndarray) -> np.ndarray:
    return np.min(
        [segment_distance(points, line[i], line[i + 1]) for i in range(len(line) - 1)], axis=0
    )


@pytest.mark.parametrize("tolerance", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("seed", slow_but([0], range(3)))
def test_deviation_is_bounded_in_both_directions(tolerance: float, seed: int) -> None:
    for points in curves(seed):
        kept = simplify(points, tolerance)
        dense = cut(kept, 0.05)
        assert distance_to_polyline(points, kept).max() <= tolerance + 2e-3
        assert distance_to_polyline(dense, points).max() <= tolerance + 2e-3
        np.testing.assert_array_equal(kept[0], points[0])
        assert np.hypot(*(kept[-1] - points[-1])) <= 2e-3


def test_straight_lines_become_two_points_and_bends_stay() -> None:
    straight = np.stack([np.linspace(0, 500, 1001), np.zeros(1001)], axis=-1)
    np.testing.assert_array_equal(simplify(straight, 0.1), straight[[0, -1]])
    corner = np.array([[0.0, 0], [5, 0], [10, 0], [10, 5], [10, 10]])
    np.testing.assert_array_equal(simplify(corner, 0.1), corner[[0, 2, 4]])


@pytest.mark.slow
def test_real_roads_become_the_same_as_their_twins(real_scenes: Path) -> None:
    for path in sorted(real_scenes.glob("*.json")):
        for road in read_scene(path).roads:
            if road.type in SEGMENT_TYPES:
                np.testing.assert_array_equal(
                    simplify(road.points_m, 0.1), twin.simplify(road.points_m, 0.1)
                )
                np.testing.assert_allclose(
                    fit(road.points_m, 0.02), twin.fit(road.points_m, 0.02), rtol=0, atol=1e-8
                )


def test_it_pays() -> None:
    arc = np.linspace(0, np.pi / 2, 160)
    points = 50 * np.stack([np.cos(arc), np.sin(arc)], axis=-1)
    assert len(simplify(points, 0.1)) <= 17


def test_polylines_without_extent() -> None:
    assert simplify(np.zeros((0, 2)), 0.1).shape == (0, 2)
    assert simplify(np.zeros((1, 2)), 0.1).shape == (1, 2)
    assert simplify(np.zeros((5, 2)), 0.1).shape == (1, 2)
    assert cut(np.zeros((1, 2)), 15.0).shape == (1, 2)


def test_split_keeps_the_shape_and_bounds_the_length() -> None:
    points = np.array([[0.0, 0], [40, 0], [40, 7], [41, 7], [41, 22]])
    parts = cut(points, 15.0)
    lengths = np.hypot(*np.diff(parts, axis=0).T)
    assert lengths.max() <= 15.0 + 1e-9
    assert len(parts) == 1 + 3 + 1 + 1 + 1
    assert distance_to_polyline(parts, points).max() < 1e-12
    assert lengths.sum() == pytest.approx(np.hypot(*np.diff(points, axis=0).T).sum())


def test_lines_are_split_apart_from_each_other() -> None:
    lines = [
        np.array([[0.0, 0, 1], [40, 0, 3]]),
        np.array([[90.0, 0, 0]]),
        np.array([[0.0, 0, 0], [1, 0, 0], [31, 0, 0]]),
    ]
    sizes = np.array([len(line) for line in lines])
    pieces = pieces_of(np.concatenate(lines), sizes, 15.0)
    assert pieces.tolist() == [3, 1, 1, 1, 2, 1]
    np.testing.assert_array_equal(
        split(np.concatenate(lines), pieces), np.concatenate([cut(line, 15.0) for line in lines])
    )


def test_distance_from_a_segment() -> None:
    points = np.array([[-3.0, 4.0], [5.0, 2.0], [13.0, 4.0]])
    np.testing.assert_allclose(
        segment_distance(points, np.array([0.0, 0]), np.array([10.0, 0])), [5, 2, 5]
    )
    np.testing.assert_allclose(segment_distance(points[:1], np.zeros(2), np.zeros(2)), [5])


def inside(
    points: np.ndarray, centre: np.ndarray, heading: float, half_length: float, half_width: float
) -> np.ndarray:
    """By the definition: in the box's own frame."""
    d = points - centre
    along = d[:, 0] * np.cos(heading) + d[:, 1] * np.sin(heading)
    across = -d[:, 0] * np.sin(heading) + d[:, 1] * np.cos(heading)
    return (np.abs(along) <= half_length) & (np.abs(across) <= half_width)


def filled(centre: np.ndarray, heading: float, half_length: float, half_width: float) -> np.ndarray:
    """A dense grid of points of a box, its border included."""
    a, b = np.meshgrid(
        np.linspace(-half_length, half_length, 81), np.linspace(-half_width, half_width, 41)
    )
    turn = np.array([[np.cos(heading), np.sin(heading)], [-np.sin(heading), np.cos(heading)]])
    return np.stack([a.ravel(), b.ravel()], axis=-1) @ turn + centre


@pytest.mark.parametrize("seed", range(4))
def test_boxes_overlap_where_they_share_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    verdicts = []
    for _ in range(60):
        sizes, headings, gap = (
            rng.uniform(0.5, 3.0, 4),
            rng.uniform(-4, 4, 2),
            rng.uniform(-5, 5, 2),
        )
        shared = inside(
            filled(gap, headings[1], sizes[2], sizes[3]),
            np.zeros(2),
            headings[0],
            sizes[0],
            sizes[1],
        ).any()
        shared |= inside(
            filled(np.zeros(2), headings[0], sizes[0], sizes[1]),
            gap,
            headings[1],
            sizes[2],
            sizes[3],
        ).any()

        def verdict(
            grow: float, s: np.ndarray = sizes, h: np.ndarray = headings, g: np.ndarray = gap
        ) -> bool:
            return bool(
                boxes_overlap(g, h[0], h[1], (s[0] + grow, s[1] + grow), (s[2] + grow, s[3] + grow))
            )

        # The grid of points misses overlaps thinner than its spacing, so the boxes may differ by
        # that.
        assert verdict(0.0) or not shared
        assert not verdict(-0.08) or shared
        verdicts.append(verdict(0.0))
    assert 5 < sum(verdicts) < 55


@pytest.mark.parametrize("seed", range(4))
def test_segments_cross_boxes_where_they_share_points(seed: int) -> None:
    rng = np.random.default_rng(50 + seed)
    centres, headings = rng.uniform(-6, 6, (12, 2)), rng.uniform(-4, 4, 12)
    start, end = rng.uniform(-8, 8, (15, 2)), rng.uniform(-8, 8, (15, 2))
    start[0], end[0] = (0.0, -9.0), (0.0, 9.0)  # along an axis
    crossing = box_crosses_segment(centres, headings, 2.4, 1.0, start, end)
    assert crossing.shape == (12, 15) and 5 < crossing.sum() < 175
    share = np.linspace(0, 1, 4001)[:, None]
    for i in range(12):
        for j in range(15):
            points = start[j] + share * (end[j] - start[j])
            assert crossing[i, j] or not inside(points, centres[i], headings[i], 2.4, 1.0).any()
            assert not crossing[i, j] or inside(points, centres[i], headings[i], 2.41, 1.01).any()


def test_a_segment_inside_a_box_and_one_along_its_side() -> None:
    centre, heading = np.zeros((1, 2)), np.zeros(1)
    start = np.array([[-0.5, 0.0], [-5.0, 1.0], [-5.0, 1.01], [2.0, -5.0]])
    end = np.array([[0.5, 0.2], [5.0, 1.0], [5.0, 1.01], [2.0, 5.0]])
    assert box_crosses_segment(centre, heading, 2.0, 1.0, start, end).tolist() == [
        [True, True, False, True]
    ]


@pytest.mark.parametrize("tolerance_m", [0.02, 0.1])
def test_a_fitted_line_lies_on_both_sides_of_a_bend(tolerance_m: float) -> None:
    """And its points are within the tolerance; ends stay, heights follow, and corners are not
    rounded.
    """
    angle = np.linspace(0.0, np.pi / 2, 80)
    bend = np.stack([20 * np.cos(angle), 20 * np.sin(angle), 0.1 * angle], axis=-1)
    plain, fitted = simplify(bend, tolerance_m), fit(bend, tolerance_m)
    assert len(fitted) == len(plain)
    np.testing.assert_array_equal(fitted[[0, -1]], bend[[0, -1]])
    assert np.abs(fitted[:, 2] - 0.1 * np.arctan2(fitted[:, 1], fitted[:, 0])).max() < 0.01

    def off(line: np.ndarray) -> np.ndarray:
        pieces = zip(line[:-1, :2], line[1:, :2], strict=True)
        return np.min([segment_distance(bend[:, :2], *piece) for piece in pieces], axis=0)

    assert off(fitted).max() <= tolerance_m and off(fitted).mean() < 0.85 * off(plain).mean()
    corner = np.array([[0.0, 0], [5, 0], [10, 0], [10, 5], [10, 10]])
    np.testing.assert_allclose(fit(corner, tolerance_m), corner[[0, 2, 4]], atol=1e-3)


def test_lines_that_cannot_be_fitted_are_simplified() -> None:
    """A closed ring, two points, one point, none."""
    ring = np.array([[0.0, 0], [4, 0], [4, 4], [0, 4], [0, 0]])
    for points in (ring, ring[:2], ring[:1], ring[:0]):
        np.testing.assert_allclose(fit(points, 0.02), simplify(points, 0.02), atol=1e-9)


def test_goals_500_m_outside_of_all_places_are_beyond() -> None:
    places = np.array([[0.0, 50.0], [100.0, 0.0]])
    for off, far in ((499.0, False), (501.0, True)):
        goals = np.array([[-off, 20.0], [100 + off, 20.0], [30.0, -off], [30.0, 50 + off]])
        assert beyond(goals, places).tolist() == [far] * 4
        assert not beyond(goals, places[:0]).any()

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Oriented boxes against sampling: points of one box that lie in the other, points of a segment that lie in a box."""

from __future__ import annotations

import numpy as np
import pytest

from drive_env.scenes.boxes import box_crosses_segment, boxes_overlap


def inside(points: np.ndarray, centre: np.ndarray, heading: float, half_length: float, half_width: float) -> np.ndarray:
    """By the definition: in the box's own frame."""
    d = points - centre
    along = d[:, 0] * np.cos(heading) + d[:, 1] * np.sin(heading)
    across = -d[:, 0] * np.sin(heading) + d[:, 1] * np.cos(heading)
    return (np.abs(along) <= half_length) & (np.abs(across) <= half_width)


def filled(centre: np.ndarray, heading: float, half_length: float, half_width: float) -> np.ndarray:
    """A dense grid of points of a box, its border included."""
    a, b = np.meshgrid(np.linspace(-half_length, half_length, 81), np.linspace(-half_width, half_width, 41))
    turn = np.array([[np.cos(heading), np.sin(heading)], [-np.sin(heading), np.cos(heading)]])
    return np.stack([a.ravel(), b.ravel()], axis=-1) @ turn + centre


@pytest.mark.parametrize("seed", range(4))
def test_boxes_overlap_where_they_share_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    verdicts = []
    for _ in range(60):
        sizes, headings, gap = rng.uniform(0.5, 3.0, 4), rng.uniform(-4, 4, 2), rng.uniform(-5, 5, 2)
        shared = inside(filled(gap, headings[1], sizes[2], sizes[3]), np.zeros(2), headings[0], sizes[0], sizes[1]).any()
        shared |= inside(filled(np.zeros(2), headings[0], sizes[0], sizes[1]), gap, headings[1], sizes[2], sizes[3]).any()

        def verdict(grow: float, s: np.ndarray = sizes, h: np.ndarray = headings, g: np.ndarray = gap) -> bool:
            return bool(boxes_overlap(g, h[0], h[1], (s[0] + grow, s[1] + grow), (s[2] + grow, s[3] + grow)))

        # The grid of points misses overlaps thinner than its spacing, so the boxes may differ by that.
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
    assert box_crosses_segment(centre, heading, 2.0, 1.0, start, end).tolist() == [[True, True, False, True]]

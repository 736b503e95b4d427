# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Edges of maps that have none (drive_env/scenes/outline.py)."""

from __future__ import annotations

import numpy as np
import pytest

from drive_env.scenes import outline
from drive_env.scenes.outline import Strip, edges_of
from drive_env.scenes.schema import Floats
from puffervec.errors import SceneError


def line(y: float, x0: float, x1: float, z: float = 0.0) -> Floats:
    return np.array([[x0, y, z], [(x0 + x1) / 2, y, z], [x1, y, z]])


def strip(
    y0: float, y1: float, x0: float, x1: float, z: float = 0.0, junction: bool = False
) -> Strip:
    """A strip along +x between y0 and y1 > y0."""
    return Strip(line(y1, x0, x1, z), line(y0, x0, x1, z), junction)


def spans(edges: list[Floats]) -> list[tuple[float, float, float]]:
    """Return y, lowest and highest x of edges along x, in order."""
    assert all(np.ptp(edge[:, 1]) < 1e-9 for edge in edges)
    rows = [(edge[0, 1], edge[:, 0].min(), edge[:, 0].max()) for edge in edges]
    return sorted((float(y), float(low), float(high)) for y, low, high in rows)


def test_bounds_between_two_surfaces_are_not_edges() -> None:
    lanes = [strip(0, 3, 0, 40), strip(3, 6, 0, 40), strip(3, 6, 40, 60)]
    assert spans(edges_of(lanes, "here")) == [(0, 0, 40), (3, 40, 60), (6, 0, 40), (6, 40, 60)]
    # The direction of a strip does not matter: this one runs along -x, and lies above.
    back = Strip(line(6, 40, 0), line(9, 40, 0))
    assert spans(edges_of([*lanes[:2], back], "here")) == [(0, 0, 40), (9, 0, 40)]


def test_an_edge_has_no_points_that_its_bound_does_not_have() -> None:
    (low, high) = edges_of([strip(0, 3, 0, 40)], "here")
    assert len(low) == len(high) == 3


def test_equal_bounds_make_one_edge() -> None:
    twins = [strip(0, 3, 0, 40), strip(0, 3, 0, 40)]
    assert spans(edges_of(twins, "here")) == [(0, 0, 40), (3, 0, 40)]


def test_a_bridge_keeps_its_edges() -> None:
    crossing = Strip(np.array([[10.0, -9, 6], [10, 9, 6]]), np.array([[14.0, -9, 6], [14, 9, 6]]))
    road = strip(-2, 2, 0, 40)
    edges = edges_of([road, crossing], "here")
    assert spans([edge for edge in edges if edge[0, 2] == 0]) == [(-2, 0, 40), (2, 0, 40)]
    assert sum(np.hypot(*np.diff(e[:, :2], axis=0).T).sum() for e in edges) == pytest.approx(116)
    flat = Strip(crossing.left_m * [1, 1, 0], crossing.right_m * [1, 1, 0])
    low = spans([edge for edge in edges_of([road, flat], "here") if np.ptp(edge[:, 1]) < 1e-9])
    assert low == [(-2, 0, 10), (-2, 14, 40), (2, 0, 10), (2, 14, 40)]


def test_gaps_inside_a_junction_are_road() -> None:
    apart = [(0, 3), (5, 8)]
    outside = edges_of([strip(*pair, 0, 20) for pair in apart], "here")
    assert len(outside) == 4
    inside = edges_of([strip(*pair, 0, 20, junction=True) for pair in apart], "here")
    assert spans(inside) == [(0, 0, 20), (8, 0, 20)]


@pytest.mark.parametrize(
    ("gap_m", "rise_m", "junction", "count"),
    [
        (0.2, 0.0, False, 2), (0.3, 0.0, False, 4),
        (3.9, 0.0, True, 2), (4.1, 0.0, True, 4),
        (0.0, 2.9, False, 2), (0.0, 3.1, False, 4), (0.0, -2.9, False, 2), (0.0, -3.1, False, 4),
    ],
)  # fmt: skip
def test_what_lies_close_by_hides_a_bound(
    gap_m: float, rise_m: float, junction: bool, count: int
) -> None:
    """Up to 0.25 m away, 4 m in a junction, and 3 m above or below."""
    first = strip(0, 3, 0, 20, junction=junction)
    second = strip(3 + gap_m, 6 + gap_m, 0, 20, z=rise_m, junction=junction)
    assert len(edges_of([first, second], "here")) == count


def test_long_strips_have_no_gaps() -> None:
    """Strips of many points are compared in pieces, which meet."""
    strips = []
    for low in (0.0, 3.0):
        x = np.linspace(0, 39, 40)
        sides = [np.column_stack([x, np.full(40, y), np.zeros(40)]) for y in (low + 3, low)]
        strips.append(Strip(sides[0], sides[1]))
    assert spans(edges_of(strips, "here")) == [(0, 0, 39), (6, 0, 39)]


def test_odd_strips_are_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    point = np.zeros((3, 3))
    assert edges_of([], "here") == []
    assert edges_of([Strip(point, point)], "here") == []
    assert spans(edges_of([Strip(line(3, 0, 9), point)], "here")) == [(3, 0, 9)]
    with pytest.raises(SceneError, match="^here: expected at most 1,000 km .* got 1,200 km: cut"):
        edges_of([strip(k, k + 3, 0, 100_000) for k in range(6)], "here")
    monkeypatch.setattr(outline, "MAX_COMPARED", 100)
    with pytest.raises(SceneError, match="^here: more surfaces lie close together"):
        edges_of([strip(k / 2, k / 2 + 3, 0, 40) for k in range(9)], "here")


def test_edges_lie_outside_of_all_other_surfaces() -> None:
    """Random strips against a slow rule: a place beyond an edge lies in no quadrangle."""
    rng = np.random.default_rng(3)
    strips = []
    for _ in range(12):
        start, turn = rng.uniform(-30, 30, 2), rng.uniform(-np.pi, np.pi)
        along, across = (
            np.array([np.cos(turn), np.sin(turn)]),
            np.array([-np.sin(turn), np.cos(turn)]),
        )
        middle = start + np.arange(0, 41, 10)[:, None] * along
        sides = [np.column_stack([middle + s * 2 * across, np.zeros(5)]) for s in (1, -1)]
        strips.append(Strip(sides[0], sides[1]))
    edges = edges_of(strips, "here")
    assert len(edges) > 24
    kept = sum(np.hypot(*np.diff(edge[:, :2], axis=0).T).sum() for edge in edges)
    assert 100 < kept < 12 * 80
    for edge in edges:
        middle = (edge[0, :2] + edge[1, :2]) / 2
        assert sum(_in_box(middle, each, -0.3) for each in strips) == 0


def _in_box(place: Floats, each: Strip, margin_m: float) -> bool:
    """Return whether a place lies in a straight strip, away from its bounds by a margin."""
    along = (each.left_m[-1] - each.left_m[0])[:2]
    across = (each.left_m[0] - each.right_m[0])[:2]
    offset = place - each.right_m[0, :2]
    u, v = (float(offset @ axis / np.hypot(*axis)) for axis in (along, across))
    return (
        -margin_m < u < np.hypot(*along) + margin_m and -margin_m < v < np.hypot(*across) + margin_m
    )

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Simplified polylines (csrc/drive/compile/simplify.c) equal their twin's: the same points, and
fitted ones within its rounding.
"""

from __future__ import annotations

import numpy as np
import pytest

from drive_env.scenes.geometry import fit, simplify, simplify_all
from drive_env.scenes.schema import Road, Scene
from drive_env.scenes.segments import polylines_of
from puffervec.errors import SceneError
from tests.helpers import slow_but
from tests.twins import drive_simplify as twin

SAME_M = 1e-10  # of fitted points: the twin's solver adds in another order


def polylines(seed: int) -> list[np.ndarray]:
    """Polylines of many kinds: smooth, jagged, closed, with repeated points, doubling back, far
    away, tiny, of few points.
    """
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, 200)
    circle = 30 * np.stack(
        [np.cos(2 * np.pi * t), np.sin(2 * np.pi * t), 0.3 * np.sin(40 * t)], axis=-1
    )
    walk = np.cumsum(rng.normal(0, 0.5, (300, 3)), axis=0)
    back = np.concatenate(
        [np.stack([50 * t, 0 * t, t], -1), np.stack([50 * t[::-1], 0 * t + 0.05, 1 - t], -1)]
    )
    grid = rng.integers(-3, 4, (60, 3)).astype(float)  # many equal distances, and equal points
    few = [rng.uniform(-5, 5, (n, 3)) for n in range(6)]
    odd = [np.zeros((9, 3)), np.repeat(circle[::10], 3, axis=0), walk * 1e-5, walk + 99_000.0]
    odd += [circle * [1, 0, 0], circle * [0, 0, 1]]
    return [circle, walk, back, grid, *few, *odd]


@pytest.mark.parametrize("tolerance_m", [0.0, 0.02, 0.1, 2.0])
@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("seed", slow_but([0], range(3)))
def test_the_same_points_as_the_twin(seed: int, axes: int, tolerance_m: float) -> None:
    for points in polylines(seed):
        line = np.ascontiguousarray(points[:, :axes])
        np.testing.assert_array_equal(simplify(line, tolerance_m), twin.simplify(line, tolerance_m))
        np.testing.assert_allclose(
            fit(line, tolerance_m), twin.fit(line, tolerance_m), rtol=0, atol=SAME_M
        )


def test_many_at_once_are_as_one_by_one() -> None:
    lines = polylines(7)
    fitted = [index % 2 == 0 for index in range(len(lines))]
    tolerances_m = [0.02 * (1 + index % 3) for index in range(len(lines))]
    points, sizes = simplify_all(
        np.concatenate(lines), [len(line) for line in lines], tolerances_m, fitted
    )
    each = [
        (fit if is_fitted else simplify)(*item)
        for *item, is_fitted in zip(lines, tolerances_m, fitted, strict=True)
    ]
    assert sizes.tolist() == [len(line) for line in each]
    np.testing.assert_array_equal(points, np.concatenate(each))
    none, no_sizes = simplify_all(np.zeros((0, 3)), [], [], [])
    assert none.shape == (0, 3) and no_sizes.shape == (0,)


@pytest.mark.slow
def test_a_line_that_would_take_the_square_of_its_points_is_refused() -> None:
    n = 9_000  # a fan: each point is farthest from the line between its predecessor and the last
    angle = np.arange(n)
    fan = np.stack([np.where(angle % 2, 1.0, -1.0) * (n - angle), np.zeros(n)], axis=-1)
    with pytest.raises(twin.TooCrooked):
        twin.simplify(fan, 0.1)
    with pytest.raises(SceneError, match="a polyline of 9000 points is too crooked"):
        simplify_all(np.concatenate([fan[:3], fan]), [3, n], [0.1, 0.1], [False, True])
    kerb = Road("road_edge", 15, 17, np.column_stack([fan, np.zeros(n)]))
    scene = Scene("town.json", "", 1, (), (kerb,), {}, {}, False)
    with pytest.raises(
        SceneError, match="^town.json: road_edge with id 17 of 9000 points is too crooked"
    ):
        polylines_of(scene, np.zeros(3), (0.1, 0.1, 0.02), 100.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 1e300, 1e-320])
def test_numbers_that_scenes_may_not_have_do_no_harm(value: float) -> None:
    line = np.random.default_rng(3).uniform(-9, 9, (50, 3))
    for axis in range(3):
        broken = line.copy()
        broken[[7, 20, 49], axis] = value
        for found in (simplify(broken, 0.1), fit(broken, 0.1)):
            assert found.shape[1] == 3 and len(found) <= 50

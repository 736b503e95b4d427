# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Features of rollouts equal those of the plain twin, and what can be said without it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from drive_env.evaluate import features
from drive_env.evaluate.features import Boxes
from tests.twins import wosac

DT_S = 0.1


def crowd(seed: int, objects: int = 12, times: int = 12) -> Boxes:
    """Boxes that drive about, many of them one behind the other."""
    rng = np.random.default_rng(seed)
    heading = rng.uniform(-np.pi, np.pi, (objects, 1)) * (
        rng.random((objects, 1)) < 0.5
    ) + 0.02 * np.arange(times)
    heading = (heading + np.pi) % (2 * np.pi) - np.pi
    speed = rng.uniform(0, 14, (objects, 1))
    x = rng.uniform(-30, 30, (objects, 1)) + np.cumsum(speed * np.cos(heading), 1) * DT_S
    y = rng.uniform(-6, 6, (objects, 1)) + np.cumsum(speed * np.sin(heading), 1) * DT_S
    valid = rng.random((objects, times)) < 0.9
    return Boxes(x, y, heading, rng.uniform(1, 9, objects), rng.uniform(0.5, 2.6, objects), valid)


def at(boxes: Boxes, t: int) -> list[wosac.Box | None]:
    parts = (boxes.x[:, t], boxes.y[:, t], boxes.heading[:, t], boxes.length, boxes.width)
    return [
        tuple(map(float, box)) if ok else None
        for *box, ok in zip(*parts, boxes.valid[:, t], strict=True)
    ]  # type: ignore[misc]


def test_motion_equals_the_twin() -> None:
    boxes = crowd(1, 5, 20)
    heading = (boxes.heading * 7 + np.pi) % (2 * np.pi) - np.pi
    found = features.motion(boxes.x, boxes.y, heading, DT_S)
    for n in range(5):
        expected = wosac.motion(boxes.x[n], boxes.y[n], heading[n], DT_S)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name][n], values, atol=1e-9, err_msg=name)


def test_validity_of_differences() -> None:
    valid = np.array([[1, 1, 1, 0, 1, 1, 1]], bool)
    assert features.central_valid(valid).tolist() == [
        [False, True, False, True, False, True, False]
    ]


@pytest.mark.parametrize("seed", range(2))
def test_distances_to_objects_equal_the_twin(seed: int) -> None:
    boxes, evaluated = crowd(seed), np.array([0, 3, 7])
    found = features.distance_to_nearest(boxes, evaluated)
    overlaps = 0
    for row, i in enumerate(evaluated):
        for t in range(boxes.x.shape[1]):
            expected = wosac.nearest_box(at(boxes, t), int(i))
            assert found[row, t] == pytest.approx(expected, abs=1e-9), (seed, i, t)
            overlaps += expected < 0
    assert overlaps


def test_alone_there_is_nothing_near() -> None:
    boxes = dataclasses.replace(crowd(0, 1, 5), valid=np.ones((1, 5), bool))
    assert (features.distance_to_nearest(boxes, np.array([0])) == features.NO_OBJECT_M).all()


@pytest.mark.parametrize("seed", range(2))
def test_times_to_collision_equal_the_twin(seed: int) -> None:
    boxes = crowd(10 + seed, 16, 8)
    speeds = features.motion(boxes.x, boxes.y, boxes.heading, DT_S)["linear_speed"]
    evaluated = np.arange(16)
    found, short = features.time_to_collision(boxes, evaluated, DT_S), 0
    for i in evaluated:
        for t in range(1, 7):
            now = at(
                dataclasses.replace(boxes, valid=boxes.valid | (np.arange(16) == i)[:, None]), t
            )
            expected = wosac.time_to_collision(now, speeds[:, t], int(i))
            assert found[i, t] == pytest.approx(expected, abs=1e-9)
            short += expected < 5
    assert short > 1


def polylines() -> list[np.ndarray]:
    """Crooked lines, a ring, and a right angle."""
    rng = np.random.default_rng(4)
    lines = [rng.uniform(-20, 20, 2) + np.cumsum(rng.normal(0, 4, (7, 2)), 0) for _ in range(3)]
    angle = np.linspace(0, 2 * np.pi, 9)
    lines.append(np.c_[30 + 8 * np.cos(angle), 8 * np.sin(angle)])
    return [*lines, np.array([[-40.0, 0.0], [-30.0, 0.0], [-30.0, 10.0]])]


def test_distances_to_road_edges_equal_the_twin() -> None:
    lines = polylines()
    start, end = (
        np.concatenate([line[:-1] for line in lines]),
        np.concatenate([line[1:] for line in lines]),
    )
    numbers = np.repeat(np.arange(len(lines)), [len(line) - 1 for line in lines])
    points = np.random.default_rng(5).uniform((-45, -25), (45, 25), (40, 10, 2))
    found = features.distance_to_road_edge(points, features.edges_of(start, end, numbers))
    expected = np.array([[wosac.to_road_edge(point, lines) for point in row] for row in points])
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (found > 0).any() and (found < 0).any()


def test_inside_and_outside_of_a_corner() -> None:
    """The road lies to the left: within the right angle of the last line, and in the ring that runs
    counter-clockwise.
    """
    lines = polylines()[3:]
    start, end = (
        np.concatenate([line[:-1] for line in lines]),
        np.concatenate([line[1:] for line in lines]),
    )
    edges = features.edges_of(start, end, np.repeat([0, 1], [8, 2]))
    points = np.array([[30.0, 0.0], [39.0, 0.1], [-31.0, 1.0], [-29.0, -1.0], [-29.0, 5.0]])
    assert np.sign(features.distance_to_road_edge(points, edges)).tolist() == [-1, 1, -1, 1, 1]

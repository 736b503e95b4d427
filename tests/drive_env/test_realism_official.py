# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Features and likelihoods equal those of the challenge's code, and differ where the docs say so.

That code (waymo_open_dataset 1.6.7) needs TensorFlow with NumPy 1, so wosac_official.py runs it in
another interpreter, whose path PUFFERVEC_WOSAC_PYTHON gives. It computes in float32, from the same
poses: see EQUAL for the tolerance.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate import realism
from drive_env.evaluate.features import Boxes, Edges, edges_of
from drive_env.evaluate.lights import Lights, lights_of
from drive_env.evaluate.likelihood import ESTIMATORS, WEIGHTS, combine, log_probability
from drive_env.evaluate.realism import (
    HISTORY,
    STEPS,
    SceneRollouts,
    likelihoods,
    log_of,
    road_edges,
)
from drive_env.prepare import prepare_scenes
from drive_env.scenes.schema import VEHICLE
from tests.needs import OFFICIAL_PYTHON

pytestmark = [pytest.mark.slow, pytest.mark.needs("waymo_open_dataset")]

SCRIPT = Path(__file__).with_name("wosac_official.py")
FRAMES = HISTORY + 1 + STEPS
PER_STEP = {
    "collision": "collision_per_step",
    "offroad": "offroad_per_step",
    "traffic_light_violation": "traffic_light_violation_per_step",
}
INDICATION = {"collision": "collision_indication", "offroad": "offroad_indication"}
GROUPS = {
    "kinematic": "kinematic_metrics",
    "interaction": "interactive_metrics",
    "map": "map_based_metrics",
}
EQUAL = 1e-4  # of features, in SI units; float32 keeps 1e-5 m of a place that is 100 m off
EQUAL_LIKELIHOOD = 1e-6
LANE_M = 0.5  # as in the data set; see test_a_slip_in_distances_to_lanes


def official(folder: Path, given: dict[str, Any]) -> dict[str, Any]:
    """Ask the challenge's code; see wosac_official.py."""
    np.savez(folder / "in.npz", **given)
    command = [
        os.environ.get(OFFICIAL_PYTHON) or sys.executable,
        str(SCRIPT),
        str(folder / "in.npz"),
        str(folder / "out.npz"),
    ]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(folder / "out.npz") as file:
        return dict(file)


def of_scene(folder: Path, found: SceneRollouts, kind: np.ndarray) -> dict[str, Any]:
    """What the challenge's code makes of a scene."""
    assert found.edges is not None
    log, sim = found.log, found.rollouts
    after = slice(HISTORY + 1, None)
    points, polyline = points_of(found.edges)
    given = {
        "x": log.x,
        "y": log.y,
        "heading": log.heading,
        "valid": log.valid,
        "length": log.length,
        "width": log.width,
    }
    given |= {
        "sim_x": sim.x[..., after],
        "sim_y": sim.y[..., after],
        "sim_heading": sim.heading[..., after],
        "kind": kind,
    }
    given |= {"evaluated": found.evaluated, "points": points, "polyline": polyline}
    given |= lights_in(found.lights)
    return official(folder, given)


def lights_in(lights: Lights | None) -> dict[str, np.ndarray]:
    """Lanes as points at most LANE_M apart, and the lights."""
    if lights is None:
        places, lane = np.zeros((0, 2)), np.zeros(0, np.int64)
        return {
            "lane_points": places,
            "lane_of": lane,
            "light_lane": lane,
            "light_stop": places,
            "light_red": np.zeros((0, FRAMES), np.bool_),
        }
    places, lanes = [], []
    for number in np.unique(lights.segment_lane):
        own = np.flatnonzero(lights.segment_lane == number)
        for start, step in zip(lights.start[own], lights.step[own], strict=True):
            pieces = max(1, int(np.ceil(np.hypot(*step) / LANE_M)))
            places.append(start + np.arange(pieces)[:, None] / pieces * step)
            lanes += [number] * pieces
        places.append((lights.start[own[-1]] + lights.step[own[-1]])[None])
        lanes.append(number)
    return {
        "lane_points": np.concatenate(places),
        "lane_of": np.array(lanes),
        "light_lane": lights.lane,
        "light_stop": lights.stop,
        "light_red": lights.red,
    }


def points_of(edges: Edges) -> tuple[np.ndarray, np.ndarray]:
    """Points (P, 2) of edges, and the polyline of each."""
    first = np.flatnonzero(np.append(True, edges.after[:-1] != np.arange(1, len(edges.x0))))
    start, step = np.stack([edges.x0, edges.y0], -1), np.stack([edges.dx, edges.dy], -1)
    lines = [
        np.r_[line, line[-1:] + steps[-1:]]
        for line, steps in zip(*(np.split(of, first[1:]) for of in (start, step)), strict=True)
    ]
    return np.concatenate(lines), np.repeat(np.arange(len(lines)), [len(line) for line in lines])


def rounded(values: np.ndarray) -> np.ndarray:
    """Values that float32 can hold, as float64."""
    return values.astype(np.float32).astype(np.float64)


def strayed(log: Boxes, evaluated: np.ndarray, rng: np.random.Generator, rollouts: int) -> Boxes:
    """Rollouts in which the evaluated objects stray from their log.

    Where the log has gaps, objects stand still.
    """
    after, size = np.arange(FRAMES) > HISTORY, (rollouts, len(log.x), FRAMES)
    speeds = [np.cumsum(rng.normal(0, 0.03, size), -1) * after for _ in range(2)]
    place = [np.cumsum(speed, -1) * 0.1 * after for speed in speeds]
    turn = np.cumsum(rng.normal(0, 0.005, size), -1) * after
    moves = np.isin(np.arange(len(log.x)), evaluated)[:, None]
    poses = []
    for values, stray in zip((log.x, log.y, log.heading), (*place, turn), strict=True):
        known = np.where(log.valid, np.arange(FRAMES), HISTORY)
        last = np.maximum.accumulate(np.where(after, known, 0), axis=1)
        taken = np.where(after, np.maximum(last, HISTORY), np.arange(FRAMES))
        held = np.take_along_axis(values, taken, axis=1)
        poses.append(rounded(held + stray * moves))
    valid = np.repeat((log.valid | after)[None], rollouts, 0)
    return Boxes(*poses, log.length, log.width, valid)


def made(seed: int, objects: int = 10, rollouts: int = 32) -> tuple[SceneRollouts, np.ndarray]:
    """Columns of objects on a bend; two of the four evaluated ones are no cars.

    All but the evaluated cars have gaps in their logs.
    """
    rng = np.random.default_rng(seed)
    kind = np.array([0, 1, 0, 2, 0, 0, 0, 1, 3, 0])[:objects]
    speed, time = (
        rng.uniform(0, 30, (objects, 1)) + rng.normal(0, 1, (objects, FRAMES)),
        0.1 * np.arange(FRAMES),
    )
    heading = rng.uniform(-0.3, 0.3, (objects, 1)) + 0.1 * np.sin(time)
    x = 8.0 * rng.permutation(objects)[:, None] + np.cumsum(speed * np.cos(heading), 1) * 0.1
    y = rng.uniform(-3, 3, (objects, 1)) + np.cumsum(speed * np.sin(heading), 1) * 0.1
    x[9], y[9], heading[9] = (
        x[2],
        y[2] + 1.5,
        heading[2],
    )  # close enough for some rollouts to collide
    evaluated = np.arange(4)
    valid = rng.random((objects, FRAMES)) < 0.93
    valid[:, HISTORY] = True
    valid[[0, 2]] = True
    length, width = rounded(rng.uniform(0.6, 6, objects)), rounded(rng.uniform(0.5, 2.2, objects))
    log = Boxes(
        *(np.where(valid, rounded(values), np.nan) for values in (x, y, heading)),
        length,
        width,
        valid,
    )
    right = np.c_[np.linspace(-100, 500, 40), -9 + 3 * np.sin(np.arange(40))]
    left = np.c_[np.linspace(500, -100, 30), 12 + 5 * rng.random(30)]
    # A light for each of two lanes along +x: there, a lane has one at most.
    stops = np.array([[40.3, -2.0], [60.3, 2.0]])
    red = np.ones((2, FRAMES), np.bool_)
    red[1] = np.random.default_rng(seed).random(FRAMES) < 0.6
    lights = Lights(
        start=np.array([[-100.0, -2.0], [-100.0, 2.0]]),
        step=np.array([[600.0, 0.0], [600.0, 0.0]]),
        segment_lane=np.arange(2),
        lane=np.arange(2),
        stop=stops,
        ahead=np.array([[600.0, 0.0]] * 2),
        red=red,
    )
    # An island, as the longest polyline: see test_differences.
    around = np.linspace(0, -2 * np.pi, 50)
    lines = [right, left, np.c_[60 + 9 * np.cos(around), 3 + 2 * np.sin(around)]]
    start = rounded(np.concatenate([line[:-1] for line in lines]))
    end = rounded(np.concatenate([line[1:] for line in lines]))
    edges = edges_of(start, end, np.repeat([0, 1, 2], [39, 29, 49]))
    return SceneRollouts(
        log,
        strayed(log, evaluated, rng, rollouts),
        evaluated,
        kind[evaluated] == VEHICLE,
        edges,
        0.1,
        lights,
    ), kind


def from_file(path: Path, count: int, rollouts: int) -> tuple[SceneRollouts, np.ndarray]:
    """The objects of a real scene at the current time.

    Evaluated are some that move, of the cars only those whose log lasts to the end.
    """
    head, arrays = prepare_scenes(DriveConfig(scenes=str(path))).scenes.scene(0)
    log = log_of(head, arrays)
    there = np.flatnonzero(log.valid[:, HISTORY])
    kind = arrays["objects"]["type"][there].astype(np.int64)
    names = ("x", "y", "heading", "length", "width")
    log = Boxes(*(rounded(getattr(log, name)[there]) for name in names), log.valid[there])
    far = np.hypot(log.x - log.x[:, [HISTORY]], log.y - log.y[:, [HISTORY]])
    lasts = log.valid[:, HISTORY:].all(axis=1) | (kind != VEHICLE)
    evaluated = np.flatnonzero((np.nanmax(far, axis=1) > 3) & lasts)[:count]
    sim = strayed(log, evaluated, np.random.default_rng(0), rollouts)
    edges, vehicles = road_edges(head, arrays), kind[evaluated] == VEHICLE
    lights = lights_of(head, arrays, log.x.shape[1])
    return SceneRollouts(log, sim, evaluated, vehicles, edges, 0.1, lights), kind


def assert_equal(found: SceneRollouts, theirs: dict[str, Any]) -> None:
    """Compare features, likelihoods and weighted sums."""
    log = realism.series_of(found, found.log)
    rollouts = [realism.pick(found.rollouts, number) for number in range(len(found.rollouts.x))]
    each = [realism.series_of(found, rollout) for rollout in rollouts]
    there = found.log.valid[found.evaluated][:, HISTORY + 1 :]
    likely = likelihoods(found)
    for name in ESTIMATORS:
        of = PER_STEP.get(name, name)
        sim = np.stack([series[name] for series in each])
        other = theirs[f"sim_{of}"].astype(float)
        np.testing.assert_allclose(other, sim, rtol=1e-6, atol=EQUAL, err_msg=name)
        known = there & np.isfinite(log[name])  # speeds beside gaps are not
        of_vehicles = name in ("time_to_collision", "traffic_light_violation")
        known &= found.vehicles[:, None] | (not of_vehicles)
        np.testing.assert_allclose(
            theirs[f"log_{of}"].astype(float)[known],
            log[name][known],
            rtol=1e-6,
            atol=EQUAL,
            err_msg=name,
        )
        for year in ("2024", "2025"):
            of = f"{year}_{INDICATION.get(name, name)}_likelihood"
            assert likely[name] == pytest.approx(float(theirs[of]), abs=EQUAL_LIKELIHOOD), of
    for year in WEIGHTS:
        score = combine(likely, year)
        for own, name in {"realism": "metametric", **GROUPS}.items():
            other = float(theirs[f"{year}_{name}"])
            assert score[own] == pytest.approx(other, abs=EQUAL_LIKELIHOOD), (year, own)


@pytest.mark.parametrize("seed", range(2))
def test_made_scenes(seed: int, tmp_path: Path) -> None:
    found, kind = made(seed)
    theirs = of_scene(tmp_path, found, kind)
    assert_equal(found, theirs)
    assert theirs["sim_time_to_collision"].min() < 4 and theirs["sim_collision_per_step"].any()
    assert theirs["sim_offroad_per_step"].any() and not theirs["log_valid"].all()
    assert theirs["sim_traffic_light_violation_per_step"][:, found.vehicles].any()


@pytest.mark.parametrize(
    "name",
    [
        "tfrecord-00001-of-01000_307",
        "tfrecord-00002-of-01000_407",
        "tfrecord-00000-of-00150_2a173b334be3d32c",
    ],
)
def test_real_scenes(name: str, real_scenes: Path, tmp_path: Path, cache: Path) -> None:
    found, kind = from_file(real_scenes / f"{name}.json", 3, 32)
    assert len(found.evaluated) == 3
    assert_equal(found, of_scene(tmp_path, found, kind))


def test_weights(tmp_path: Path) -> None:
    found, kind = made(0, rollouts=2)
    theirs = of_scene(tmp_path, found, kind)
    for year, weights in WEIGHTS.items():
        prefix = f"{year}_weight_"
        names = [name for name in theirs if name.startswith(prefix)]
        given = {name.removeprefix(prefix): float(theirs[name]) for name in names}
        assert given == pytest.approx({INDICATION.get(n, n): w for n, w in weights.items()})


def test_samples(tmp_path: Path) -> None:
    """Log-probabilities of values on the edges of bins, outside of all of them, and NaN."""
    rng, given = np.random.default_rng(1), {}
    for name, estimator in ESTIMATORS.items():
        of = INDICATION.get(name, name)
        if estimator.bins == 2:
            given |= {
                f"log_{of}": rng.integers(0, 2, (6, 1)),
                f"sim_{of}": rng.integers(0, 2, (32, 6, 1)),
            }
            continue
        width, edges = (
            estimator.high - estimator.low,
            np.linspace(estimator.low, estimator.high, estimator.bins + 1),
        )
        if name in ("linear_acceleration", "angular_speed", "angular_acceleration"):
            # float32 cannot hold these edges: just beyond them
            edges = edges * np.where(edges < 0, 1 - 1e-6, 1 + 1e-6)
        for key, size in (("log", (6, 80)), ("sim", (32, 6, 80))):
            values = rng.uniform(estimator.low - 0.3 * width, estimator.high + 0.3 * width, size)
            values[rng.random(size) < 0.2] = rng.choice(edges)
            on = rng.random(size) < 0.3
            values[on] = rng.choice(edges, on.sum())
            given[f"{key}_{of}"] = rounded(values)
        given[f"sim_{of}"][rng.random((32, 6, 80)) < 0.1] = np.nan
    theirs = official(tmp_path, given)
    for name, estimator in ESTIMATORS.items():
        of = INDICATION.get(name, name)
        log, sim = (given[f"{key}_{of}"].astype(float) for key in ("log", "sim"))
        ours = log_probability(estimator, log, sim)
        np.testing.assert_allclose(ours, theirs[of], rtol=1e-5, atol=1e-6, err_msg=name)


def test_differences(tmp_path: Path) -> None:
    """Time to collision across 180 degrees and beside gaps; the corner at which a ring closes."""
    time = 0.1 * np.arange(FRAMES)
    turn = np.radians(179.0)
    # 0 follows 1 to -x, on either side of 180 degrees; 2 follows 3; 4 stands outside of a ring.
    x = np.stack([140 - 8 * time, 100 + 0 * time, 8 * time, 45 + 0 * time, -19 + 0 * time])
    y = np.array([0.0, 0, 50, 50, -99.2])[:, None] + 0 * time
    heading = np.array([turn, -turn, 0, 0, 0])[:, None] + 0 * time
    valid = np.ones((5, FRAMES), np.bool_)
    valid[2, 40] = False
    length, width = np.array([4.0, 4, 4, 4, 0.1]), np.array([2.0, 2, 2, 2, 0.1])
    log = Boxes(
        *(np.where(valid, rounded(values), np.nan) for values in (x, y, heading)),
        length,
        width,
        valid,
    )
    ring = np.array([[-20.0, -100], [-22, -103], [-18, -103], [-20, -100]])
    line = np.c_[np.linspace(500, -100, 9), np.full(9, -300.0)]
    start, end = np.r_[ring[:-1], line[:-1]], np.r_[ring[1:], line[1:]]
    edges = edges_of(start, end, np.repeat([0, 1], [3, 8]))
    evaluated = np.array([0, 2, 4])
    sim = strayed(log, np.array([], np.int64), np.random.default_rng(0), 2)
    found = SceneRollouts(log, sim, evaluated, np.ones(3, np.bool_), edges, 0.1)
    theirs, ours = of_scene(tmp_path, found, np.zeros(5, np.int64)), realism.series_of(found, log)
    mine, other = ours["time_to_collision"], theirs["log_time_to_collision"]
    assert (mine[0, :20] < 5).all() and (other[0, :20] == 5).all()
    beside = [39 - HISTORY - 1, 41 - HISTORY - 1]
    assert (mine[1, beside] == 5).all() and (other[1, beside] < 0.3).all()
    mine, other = ours["distance_to_road_edge"][2], theirs["log_distance_to_road_edge"][2]
    assert (mine > 1).all() and (other < -1).all()


def test_a_slip_in_distances_to_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The challenge measures a distance from a segment's start in the wrong direction along it. On
    the data set's segments of half a metre that hardly matters; on a long one, cars are nearer to
    the lane beside.
    """
    monkeypatch.setitem(globals(), "LANE_M", 1e9)  # segments as they are
    found, kind = made(0, rollouts=8)
    assert found.lights is not None
    x = np.arange(-100, 500, 0.5)
    beside = np.stack([x, np.full(len(x), 2.0)], -1)
    lights = dataclasses.replace(
        found.lights,
        start=np.concatenate([[[-100.0, -2.0]], beside]),
        step=np.concatenate([[[600.0, 0.0]], np.tile([0.5, 0.0], (len(x), 1))]),
        segment_lane=np.append(0, np.ones(len(x), np.int64)),
    )
    found = dataclasses.replace(found, lights=lights)
    theirs = of_scene(tmp_path, found, kind)["sim_traffic_light_violation_per_step"]
    each = [realism.series_of(found, realism.pick(found.rollouts, number)) for number in range(8)]
    ours = np.stack([series["traffic_light_violation"] for series in each]) > 0
    assert (ours & ~theirs).any()

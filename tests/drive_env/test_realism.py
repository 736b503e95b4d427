# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Realism of rollouts: equal to the plain twin from the poses to the score; the log drives as
itself; bad input.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.config import DriveConfig
from drive_env.evaluate import realism
from drive_env.evaluate.baselines import baseline
from drive_env.evaluate.evaluate import EVALUATION
from drive_env.evaluate.features import Boxes, edges_of
from drive_env.evaluate.lights import Lights
from drive_env.evaluate.likelihood import ESTIMATORS, WEIGHTS, combine
from drive_env.evaluate.realism import HISTORY, SceneRollouts, evaluate_realism, likelihoods
from puffervec.contract.evaluation import Interval, Row
from puffervec.errors import ConfigError
from tests.twins import wosac

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> Path:
    """Two scenes, in which cars drive straight on, and one that is too short."""
    path = tmp_path / "scenes"
    path.mkdir()
    for name, frames, cars in (("a", 40, 2), ("b", 35, 1), ("short", 12, 1)):
        (path / f"{name}.json").write_text(json.dumps(tiny_tree(frames=frames, cars=cars)))
    return path


def test_the_log_drives_as_itself(folder: Path) -> None:
    report = evaluate_realism(baseline("log"), DriveConfig(scenes=str(folder)), episodes=3)
    assert report.names() == ["a.json", "b.json"]
    for row, steps in zip(
        report.rows, (29, 24), strict=True
    ):  # after the history; the last one has no speed
        assert row["ade_m"] == pytest.approx(0, abs=1e-3) and row["rollouts"] == 3
        assert row["linear_speed"] == pytest.approx((3 * (steps - 1) + 0.1) / (3 * steps + 1))
        assert row["collision"] == pytest.approx(3.001 / 3.002)
        assert row["realism"] > 0.95  # type: ignore[operator]
    assert report.total is not None and report.total["realism"].value > 0.95  # type: ignore[union-attr]
    assert any("equal" in remark for remark in report.remarks)


@pytest.mark.slow
def test_chance_is_less_like_the_log(folder: Path) -> None:
    config = DriveConfig(scenes=str(folder))
    found = [
        evaluate_realism(baseline(name), config, episodes=4).total["realism"].value
        for name in ("log", "random")
    ]  # type: ignore[index,union-attr]
    assert found[0] > found[1] + 0.1
    report = evaluate_realism(baseline("random"), config, episodes=4, seed=1)
    assert not any("equal" in remark for remark in report.remarks)
    assert report.rows[0]["min_ade_m"] < report.rows[0]["ade_m"]  # type: ignore[operator]
    again = evaluate_realism(baseline("random"), config, episodes=4, seed=1)
    assert report.to_json() == again.to_json()


# The lanes of `driven`.
LANES = [np.array([[-90.0, y], [90.0, y]]) for y in (-3.5, 3.5)]


def many_lights() -> Lights:
    """Lights for both lanes, red now and then."""
    places = np.arange(-30.0, 40.0, 1.7)
    stops = [(lane, (x, line[0, 1])) for x in places for lane, line in enumerate(LANES)]
    return Lights(
        start=np.array([line[0] for line in LANES]),
        step=np.array([line[1] - line[0] for line in LANES]),
        segment_lane=np.arange(2),
        lane=np.array([lane for lane, _ in stops]),
        stop=np.array([stop for _, stop in stops]),
        ahead=np.array([LANES[lane][1] - LANES[lane][0] for lane, _ in stops]),
        red=np.random.default_rng(4).random((len(stops), 26)) < 0.15,
    )


def driven(seed: int, objects: int = 6, times: int = 26, rollouts: int = 4) -> SceneRollouts:
    """Cars that drive about between two edges, and rollouts that stray from their log."""
    rng = np.random.default_rng(seed)
    speed, heading = (
        rng.uniform(1, 9, (objects, 1)),
        0.01 * np.arange(times) + np.zeros((objects, 1)),
    )
    x = rng.uniform(-20, 20, (objects, 1)) + 0.1 * speed * np.arange(times)
    y = rng.uniform(-6, 6, (objects, 1)) + np.zeros((1, times))
    valid = rng.random((objects, times)) < 0.9
    valid[:, HISTORY] = True
    length, width = rng.uniform(3, 6, objects), rng.uniform(1.5, 2.2, objects)
    log = Boxes(
        *(np.where(valid, values, np.nan) for values in (x, y, heading)), length, width, valid
    )
    stray = np.cumsum(rng.normal(0, 0.1, (2, rollouts, objects, times)), -1) * (
        np.arange(times) > HISTORY
    )
    there = np.repeat(valid[None], rollouts, 0)
    there[:, :3, HISTORY:] = True
    poses = [
        np.where(there, values, np.nan)
        for values in (x + stray[0], y + stray[1], heading + 0 * stray[0])
    ]
    edges = edges_of(
        np.array([[-90.0, -7], [90, 7]]), np.array([[90.0, -7], [-90, 7]]), np.array([0, 1])
    )
    sim, vehicles = Boxes(*poses, length, width, there), np.array([True, False, True])
    return SceneRollouts(log, sim, np.arange(3), vehicles, edges, 0.1, many_lights())


def plain(found: SceneRollouts, boxes: Boxes) -> dict[str, np.ndarray]:
    """Features of the evaluated objects by the twin, (N, T)."""
    count, times = len(found.evaluated), boxes.x.shape[1]
    out = {name: np.full((count, times), np.nan) for name in ESTIMATORS}
    speeds = np.stack(
        [
            wosac.motion(boxes.x[m], boxes.y[m], boxes.heading[m], found.dt_s)["linear_speed"]
            for m in range(len(boxes.x))
        ]
    )
    for n in found.evaluated:
        for name, values in wosac.motion(
            boxes.x[n], boxes.y[n], boxes.heading[n], found.dt_s
        ).items():
            out[name][n] = values
        for t in range(times):
            now: list[Any] = [
                (boxes.x[m, t], boxes.y[m, t], boxes.heading[m, t], boxes.length[m], boxes.width[m])
                if boxes.valid[m, t]
                else None
                for m in range(len(boxes.x))
            ]
            if now[n] is None:
                continue
            nearest = wosac.nearest_box(now, int(n))
            corners = wosac.corners(*now[n])
            lines = [np.array([[-90.0, -7], [90, -7]]), np.array([[90.0, 7], [-90, 7]])]
            edge = max(wosac.to_road_edge(point, lines) for point in corners)
            out["distance_to_nearest_object"][n, t], out["collision"][n, t] = nearest, nearest < 0
            out["time_to_collision"][n, t] = wosac.time_to_collision(now, speeds[:, t], int(n))
            out["distance_to_road_edge"][n, t], out["offroad"][n, t] = edge, edge > 0
        assert found.lights is not None
        lights = list(zip(found.lights.lane, found.lights.stop, found.lights.red, strict=True))
        track = np.stack([boxes.x[n], boxes.y[n]], -1)
        out["traffic_light_violation"][n] = wosac.runs_red_light(track, LANES, lights)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_scores_equal_the_twin(seed: int) -> None:
    found = driven(seed)
    log = plain(found, found.log)
    each = [plain(found, realism.pick(found.rollouts, number)) for number in range(4)]
    there = found.log.valid[:3].copy()
    there[:, : HISTORY + 1] = False
    speed = np.zeros_like(there)
    speed[:, 1:-1] = there[:, 2:] & there[:, :-2]
    acceleration = np.zeros_like(there)
    acceleration[:, 1:-1] = speed[:, 2:] & speed[:, :-2]
    expected = {}
    for name, estimator in ESTIMATORS.items():
        valid = {"speed": speed, "acceleration": acceleration}.get(name.split("_")[-1], there)
        if name in ("time_to_collision", "traffic_light_violation"):
            valid = valid & found.vehicles[:, None]
        ours, theirs = log[name], np.stack([series[name] for series in each])
        if estimator.bins == 2:
            ours = np.array([[float(np.nansum(ours[n][valid[n]]) > 0)] for n in range(3)])
            theirs = np.array(
                [
                    [[float(np.nansum(series[n][valid[n]]) > 0)] for n in range(3)]
                    for series in theirs
                ]
            )
            valid = np.ones((3, 1), bool)
        else:
            theirs = theirs[:, :, HISTORY + 1 :]
            ours, valid = ours[:, HISTORY + 1 :], valid[:, HISTORY + 1 :]
        expected[name] = wosac.likelihood(ours, theirs, valid, estimator)
    actual = likelihoods(found)
    assert actual == pytest.approx(expected, rel=1e-9)
    assert actual["traffic_light_violation"] < 0.95
    assert 0.05 < combine(actual)["realism"] < 0.99 and actual["linear_speed"] < 0.9


def test_a_scene_without_edges_has_no_likelihoods_of_them() -> None:
    found = driven(3)
    row, _ = realism.row_of("x", dataclasses.replace(found, edges=None))
    assert np.isnan(row["distance_to_road_edge"]) and np.isnan(row["offroad"])  # type: ignore[arg-type]
    assert row["map"] == pytest.approx(row["traffic_light_violation"]) and 0 < row["realism"] < 1  # type: ignore[operator]


@pytest.mark.parametrize("episodes", [1, 0, 2.5, True])
def test_bad_numbers_of_rollouts(folder: Path, episodes: Any) -> None:
    with pytest.raises(ConfigError, match="realism needs at least 2 rollouts of a scene"):
        evaluate_realism(baseline("log"), DriveConfig(scenes=str(folder)), episodes=episodes)


def test_it_is_a_suite_of_drive() -> None:
    suite = EVALUATION.suites["realism"]
    assert suite.evaluate is evaluate_realism and suite.episodes == 32
    assert suite.options == ("wosac", "submission")


def test_weights_of_a_year(folder: Path) -> None:
    config = DriveConfig(scenes=str(folder))
    rows = {
        year: evaluate_realism(baseline("random"), config, episodes=3, wosac=year).rows[0]
        for year in ("2024", "2025")
    }
    default = evaluate_realism(baseline("random"), config, episodes=3).rows[0]
    assert default == rows["2025"] != rows["2024"]
    for year, row in rows.items():
        terms = [weight * float(str(row[name])) for name, weight in WEIGHTS[year].items()]
        assert row["realism"] == pytest.approx(sum(terms))


def test_seeds_are_averaged_by_scene_and_all_together() -> None:
    def rows(*values: float) -> list[Row]:
        return [
            {"scene": name, "rollouts": 3, "agents": 2, **dict.fromkeys(realism.COLUMNS, value)}
            for name, value in zip("ab", values, strict=True)
        ]

    seeds = [rows(0.2, 0.6), rows(0.4, 1.0), rows(0.3, float("nan"))]
    assert realism.means_of(seeds[:1]) == seeds[0]
    first, second = realism.means_of(seeds[:2])
    assert (first["scene"], first["rollouts"], second["agents"]) == ("a", 6, 4)
    for column in realism.COLUMNS:
        assert (first[column], second[column]) == (pytest.approx(0.3), pytest.approx(0.8))
    total = realism.total_of(seeds)
    assert (total["scene"], total["rollouts"], total["agents"]) == ("mean of 2 scenes", 18, 12)
    for column in realism.COLUMNS:
        found = total[column]
        assert isinstance(found, Interval) and found.value == pytest.approx(0.5)
        assert found.low < 0.5 < found.high and (found.high <= 1.0 or column.endswith("_m"))
    empty = realism.total_of([rows(float("nan"), float("nan"))])
    assert all(empty[column] is None for column in realism.COLUMNS)


def test_a_map_whose_cars_are_off_the_road_is_remarked_on() -> None:
    """Its edges have the road on the other side."""
    found = driven(3)
    assert found.edges is not None and realism.row_of("x", found)[1] == []
    edges = dataclasses.replace(
        found.edges, x0=found.edges.x0 + found.edges.dx, y0=found.edges.y0 + found.edges.dy,
        dx=-found.edges.dx, dy=-found.edges.dy,
    )  # fmt: skip
    (remark,) = realism.row_of("x", dataclasses.replace(found, edges=edges))[1]
    assert remark.startswith("x: ")

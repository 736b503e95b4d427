# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Test generated parking lots: logs without contacts, trips off the lanes, kerbs, and names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drive_env.cli import main
from drive_env.config import DriveConfig
from drive_env.evaluate.baselines import baseline
from drive_env.evaluate.evaluate import evaluate, held_out
from drive_env.generate import lots
from drive_env.generate.lots import draw_lot, lot_scene
from drive_env.scenes.geometry import box_crosses_segment, simplify
from drive_env.scenes.json_scene import json_bytes
from drive_env.scenes.schema import Scene
from drive_env.sources import sources_of
from puffervec.errors import SceneError


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    """Make eight scenes, half of them wide."""
    return [lot_scene(5, index, wide=index % 2 == 1) for index in range(8)]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_scene_and_others_differ() -> None:
    """Compare the bytes of scenes with equal and with other seeds, numbers and ranges."""
    first = json_bytes(lot_scene(5, 3))
    assert json_bytes(lot_scene(5, 3)) == first
    others = [json_bytes(lot_scene(*key)) for key in ((5, 4), (6, 3), (5, 3, True))]
    assert len({first, *others}) == 4


def test_negative_seeds_are_refused() -> None:
    """Name the values in the error."""
    with pytest.raises(SceneError, match="seed 1 and index -1 must be 0 or more"):
        lot_scene(1, -1)


def test_sets_are_found_by_name() -> None:
    """Find training and held-out lots, which evaluate runs that have trained on lots."""
    for name, count, seed, wide in (
        ("lots", 200, 1, False),
        ("lots:3", 3, 1, False),
        ("held-out-lots", 100, 1_000_003, True),
    ):
        (source,) = sources_of(name)
        assert len(source.items) == count
        assert source.items[0].identity == ["lots", lots.LOTS_VERSION, seed, 0, wide]
    with pytest.raises(SceneError, match="lots:0: no such folder or file"):
        sources_of("lots:0")
    assert held_out(DriveConfig(scenes="generated,lots:9=2")).scenes == "held-out,held-out-lots"


def test_the_command_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Write two lots, as `puffer-scenes generate --family lots` does."""
    assert main(["generate", "--out", str(tmp_path), "--count", "2", "--family", "lots"]) == 0
    assert capsys.readouterr().out == f"2 scenes written to {tmp_path}\n"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["gen-lot-1-0000.json", "gen-lot-1-0001.json"]


@pytest.mark.slow
def test_the_log_scores_one(cache: object) -> None:
    """Judge logs by the env's own rules."""
    total = evaluate(baseline("log"), DriveConfig(scenes="lots:12")).total
    assert total.agents > 50 and total.counts["score"] == total.counts["goal"] == total.agents


def test_no_log_of_a_moving_car_comes_close_to_a_kerb(scenes: list[Scene]) -> None:
    """Grow cars by 0.2 m, and look for kerbs in them."""
    for scene in scenes:
        edges = [simplify(road.points_m, 0.02) for road in scene.roads if road.type == "road_edge"]
        start, end = np.concatenate([p[:-1] for p in edges]), np.concatenate([p[1:] for p in edges])
        for agent in (item for item in scene.objects if item.controllable):
            place, heading = agent.position_m[agent.valid, :2], agent.heading_rad[agent.valid]
            half = (agent.length_m / 2 + 0.2, agent.width_m / 2 + 0.2)
            assert not box_crosses_segment(place, heading, *half, start[:, :2], end[:, :2]).any()


def test_many_cars_turn_and_leave_the_lanes(scenes: list[Scene]) -> None:
    """Measure how far logs turn, and how far they are from the nearest lane."""
    turned, away = [], []
    for scene in scenes:
        lanes = np.concatenate([road.points_m for road in scene.roads if road.type == "lane"])
        for agent in (item for item in scene.objects if item.controllable):
            heading = np.unwrap(agent.heading_rad[agent.valid])
            turned.append(np.ptp(heading))
            places = agent.position_m[agent.valid][::5]
            away.append(max(np.hypot(*(lanes - place)[:, :2].T).min() for place in places))
    assert len(turned) >= 4 * len(scenes)
    assert np.mean(np.array(turned) > 1.0) > 0.3 and np.mean(np.array(away) > 2.0) > 0.3


@pytest.mark.parametrize("ranges", [lots.NARROW, lots.WIDE], ids=["narrow", "wide"])
def test_the_road_is_on_the_left_of_every_kerb(ranges: lots.Ranges) -> None:
    """Step to the left of kerbs: trips and parked cars are closer there than on the right."""
    for seed in range(4):
        layout = draw_lot(np.random.default_rng(seed), ranges)
        driven = [trip.path_m for trip in layout.trips]
        used = np.concatenate([*driven, [place[:2] for place in layout.parking]])
        for piece in (piece for piece in layout.pieces if piece.type == "road_edge"):
            points = piece.points_m
            if (points[0] == points[-1]).all():
                x, y = points.T
                assert (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() < 0, "clockwise, around no road"
                continue
            step = np.diff(points, axis=0)
            middle = ((points[1:] + points[:-1]) / 2)[::7]
            left = (np.stack([-step[:, 1], step[:, 0]], axis=-1) / np.hypot(*step.T)[:, None])[::7]
            near = [
                np.array([np.hypot(*(used - place).T).min() for place in middle + side * left])
                for side in (1.0, -1.0)
            ]
            assert (near[0] < near[1]).mean() > 0.9

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Observation rows read by name agree with the scene, worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from drive_env.config import DriveConfig
from drive_env.env import ENV
from drive_env.evaluate.observation import ObservationReader, columns
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.registry import build_policy

MakeTree = Callable[..., dict[str, Any]]


def first_rows(
    tree: dict[str, Any], folder: Path, **settings: Any
) -> tuple[dict[str, tuple[int, ...]], dict[str, Any], int]:
    """Blocks, values by name and floats per row of the first observation of one scene."""
    (folder / "one.json").write_text(json.dumps(tree))
    config = DriveConfig(scenes=str(folder / "one.json"), num_agents=2, **settings)
    with puffervec.make(ENV, env_kwargs=config, backend="serial", num_envs=1, seed=0) as vec:
        obs, _ = vec.reset(0)
        reader = ObservationReader(vec)
        return reader.blocks, reader.read(obs), obs.shape[1]


@pytest.fixture
def values(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> dict[str, Any]:
    """Values of the tiny scene: cars at (0, -1.75) and (12, 1.75), both driving along +x at 5 m/s,
    goals 14.5 m ahead.
    """
    return first_rows(tiny_tree(), tmp_path)[1]


def test_ego(values: dict[str, Any]) -> None:
    ego = values["ego"]
    np.testing.assert_allclose(ego["speed"], [5.0, 5.0], atol=1e-3)
    np.testing.assert_allclose(ego["length"], [4.5, 4.5], atol=1e-5)
    np.testing.assert_allclose(ego["width"], [2.0, 2.0], atol=1e-5)
    np.testing.assert_allclose(ego["goal_x"], [14.5, 14.5], atol=1e-3)
    np.testing.assert_allclose(ego["goal_y"], [0.0, 0.0], atol=1e-3)


def test_partners(values: dict[str, Any]) -> None:
    partners = values["partners"]
    np.testing.assert_array_equal(partners["there"].sum(axis=1), [1, 1])
    np.testing.assert_allclose(partners["x"][:, 0], [12.0, -12.0], atol=1e-3)
    np.testing.assert_allclose(partners["y"][:, 0], [3.5, -3.5], atol=1e-3)
    np.testing.assert_allclose(partners["velocity_x"][:, 0], [0.0, 0.0], atol=1e-3)


def test_segments(values: dict[str, Any]) -> None:
    lanes, edges = values["lanes"], values["edges"]
    np.testing.assert_allclose(lanes["distance"][:, 0], [0.0, 0.0], atol=1e-3)
    np.testing.assert_allclose(
        np.sort(np.unique(np.round(edges["distance"][0, :2], 3))), [2.75, 6.25]
    )
    assert (
        lanes["there"].any()
        and (np.diff(lanes["distance"][0][lanes["there"][0].astype(bool)]) >= 0).all()
    )
    np.testing.assert_allclose(lanes["cos"][0][lanes["there"][0].astype(bool)], 1.0, atol=1e-5)


def test_blocks_of_size_zero_are_left_out(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> None:
    blocks, values, floats = first_rows(
        tiny_tree(), tmp_path, lines=0, partners=0, lanes=3, edges=2
    )
    assert tuple(blocks) == ("ego", "lanes", "edges") == tuple(values)
    listed = columns()
    assert floats == len(listed["ego"]) + 3 * len(listed["lanes"]) + 2 * len(listed["edges"])
    assert values["lanes"]["x"].shape == (2, 3)


def test_columns_have_names_units_and_scales() -> None:
    listed = columns()
    assert {
        "ego",
        "partners",
        "lanes",
        "lines",
        "edges",
        "previous_action",
        "lidar",
        "raster",
    } < set(listed)
    for block in listed.values():
        names = [column.name for column in block]
        assert len(set(names)) == len(names) and all(column.scale > 0 for column in block)
    assert {column.unit for block in listed.values() for column in block} <= {
        "",
        "m",
        "1/m",
        "m/s",
        "m/s^2",
        "m/s^3",
        "rad",
        "s",
    }


def test_a_policy_reads_the_previous_action(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "one.json").write_text(json.dumps(tiny_tree()))
    settings = {"scenes": str(tmp_path / "one.json"), "num_agents": 2, "observe_previous_action": 1}
    with puffervec.make("drive", env_kwargs=settings, backend="serial", num_envs=1) as vec:
        vec.reset(seed=0)
        chosen = [0, 90]  # brake and steer right; accelerate and steer left
        rows = vec.step(chosen)[0].copy()
        policy = build_policy(vec.spec.groups[0], PolicySection(hidden=(8,)))
    np.testing.assert_array_equal(rows[:, -2:], [[-1, -1], [1, 1]])
    rows[1, :-2] = rows[0, :-2]
    values = policy(torch.from_numpy(rows), (), None, None)[1]
    assert values[0] != values[1]


@pytest.mark.parametrize("workers", [1, 2])
def test_partners_are_the_nearest_whatever_ran_before(
    tiny_tree: MakeTree, tmp_path: Path, cache: Path, workers: int
) -> None:
    folder = tmp_path / "scenes"
    folder.mkdir()
    sizes = (50, 17, 33, 18, 31, 5, 47, 16)  # around multiples of 16, large ones first
    for index, cars in enumerate(sizes):
        tree = tiny_tree(cars=cars)
        for number, item in enumerate(tree["objects"]):
            for point in (*item["position"], item["goalPosition"]):
                point["x"] += (
                    7.0 * (number % 3) - 9.0 * number
                )  # closer together than the tiny scene has them
        (folder / f"{index}.json").write_text(json.dumps(tree))
    config = {"scenes": str(folder), "num_agents": 64}
    settings = {"backend": "threading", "num_envs": len(sizes), "num_workers": workers, "seed": 0}
    with puffervec.make("drive", env_kwargs=config, **settings) as vec:
        vec.set_tasks(range(len(sizes)), range(len(sizes)))
        obs, _ = vec.reset(0)
        reader = ObservationReader(vec)
        for env, cars in enumerate(sizes):
            state = vec.peek(env)
            partners = reader.read(obs[env * 64 : env * 64 + cars])["partners"]
            gap = np.hypot(
                state["x"][:cars] - state["x"][:cars, None],
                state["y"][:cars] - state["y"][:cars, None],
            )
            np.fill_diagonal(gap, np.inf)
            nearest = np.sort(gap, axis=1)[:, :12]
            nearest = np.pad(nearest, ((0, 0), (0, 12 - nearest.shape[1])), constant_values=np.inf)
            seen = np.where(partners["there"], np.hypot(partners["x"], partners["y"]), np.inf)
            np.testing.assert_allclose(seen, np.where(nearest <= 50.0, nearest, np.inf), atol=0.01)

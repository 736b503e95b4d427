# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Every byte of the bird's-eye view (csrc/drive/observe/raster.c) equals the twin's, alone and
beside the vector.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.config import DriveConfig
from drive_env.evaluate.observation import ObservationReader, columns
from drive_env.prepare import prepare_scenes
from drive_env.scenes.sceneset import SceneSet
from drive_env.scenes.schema import RED, Control, Road
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import agents_of, lit, make_env, random_scene, write_world
from tests.helpers import thinned
from tests.twins.drive import SceneTwin
from tests.twins.drive_raster import CHANNELS, TRAFFIC, boxes, raster

AREAS = ("crosswalk", "crosswalk", "crosswalk", "speed_bump")
MakeTree = Callable[..., dict[str, Any]]


def pictures_of(obs: Any) -> np.ndarray:
    """(rows, channels, size, size)."""
    return obs["raster"] if isinstance(obs, dict) else obs


def compare_rows(vec: VectorEnv, scenes: SceneSet, obs: Any, every: int = 1) -> np.ndarray:
    """Compare the live rows, or one of `every`, with the twin. Returns how many pixels of each
    channel are set.
    """
    config, state, pictures = vec.config, vec.peek(0), pictures_of(obs)
    masks = vec.halves[0].groups["agents"].masks
    drawn = np.zeros(pictures.shape[1], int)
    for slot, scene in enumerate(state["slot_scene"]):
        if scene < 0:
            continue
        twin = SceneTwin(scenes, int(scene))
        rows = {o: row for o, row in agents_of(state, slot).items() if masks[row]}
        clock = int(state["slot_clock"][slot]) + config.init_step
        found = boxes(twin, clock, state, rows, twin.controlled(config))
        for o, row in list(rows.items())[::every]:
            expected = raster(
                twin, clock, found, o, (state["goal_x"][row], state["goal_y"][row]), config
            )
            np.testing.assert_array_equal(pictures[row], expected, f"row {row}")
            drawn += (expected > 0).sum(axis=(1, 2))
    assert not pictures[~masks].any()
    return drawn


@pytest.mark.parametrize(
    ("settings", "alone"),
    thinned(
        2,
        [
            (
                {"raster": 33, "raster_ahead": 1.0, "raster_pixel_m": 1.7},
                False,
            ),  # rows whose bytes are no multiple of 4
            ({"raster": 32}, True),
            (
                {
                    "raster": 80,
                    "raster_ahead": 0.0,
                    "raster_pixel_m": 0.1,
                    "goal_radius_m": 9.0,
                    "control": 1,
                },
                True,
            ),
            (
                {
                    "raster": 16,
                    "raster_pixel_m": 10.0,
                    "observe_previous_action": 1,
                    "max_steps": 12,
                },
                False,
            ),
        ],
    ),
    ids=str,
)
def test_pictures_equal_the_twin(tmp_path: Path, settings: dict[str, Any], alone: bool) -> None:
    scenes = write_world(
        tmp_path / "set",
        [random_scene(seed, objects=30, roads=18, spread_m=20.0) for seed in (1, 4)],
    )
    rng = np.random.default_rng(0)
    with make_env(tmp_path / "set", num_agents=24, **settings, raster_alone=int(alone)) as vec:
        obs, _ = vec.reset(0)
        assert isinstance(obs, np.ndarray) == alone
        drawn = compare_rows(vec, scenes, obs)
        for _ in range(2):
            for _ in range(5):
                obs, *_ = vec.step(rng.integers(0, 91, vec.num_agents))
            drawn += compare_rows(vec, scenes, obs, every=3)
    assert (drawn > 0).all() or vec.config.raster_pixel_m == 0.1, dict(
        zip(CHANNELS, drawn, strict=True)
    )


def test_states_that_were_set_are_drawn(tmp_path: Path) -> None:
    """Also far from everything, where only the line to the goal is left."""
    scenes = write_world(tmp_path / "set", [random_scene(3, objects=12, roads=12, spread_m=25.0)])
    rng = np.random.default_rng(3)
    with make_env(
        tmp_path / "set", num_agents=16, raster=24, raster_pixel_m=2.0, raster_alone=1
    ) as vec:
        observations, _ = vec.reset(seed=1)
        state = vec.peek(0)
        agents = state["slot"] >= 0
        for spread in (20.0, 20.0, 1e5):
            for name in ("x", "y"):
                state[name][agents] += rng.normal(0.0, spread, agents.sum()).astype(np.float32)
            state["heading"][agents] = rng.uniform(-3.1, 3.1, agents.sum())
            state["speed"][agents] = rng.uniform(-5.0, 60.0, agents.sum())
            vec.poke(0, state)
            drawn = compare_rows(vec, scenes, observations)
            assert drawn[CHANNELS.index("own")] > 0 and drawn[CHANNELS.index("goal")] > 0


@pytest.mark.slow
def test_crosswalks_lights_and_stop_lines_equal_the_twin(tmp_path: Path) -> None:
    """Beside them the basic channels stay as they are. Areas of any shape, lights that change in
    every frame, and signs.
    """
    rng = np.random.default_rng(5)
    scenes = []
    for seed in (1, 4):
        scene = lit(random_scene(seed, objects=20, roads=18, spread_m=20.0), seed)
        points = [
            np.c_[rng.uniform(-25, 25, 2) + rng.uniform(-9, 9, (n, 2)), np.zeros(n)]
            for n in (4, 7, 2, 4)
        ]
        areas = tuple(
            Road(kind, 0, 900 + i, p) for i, (kind, p) in enumerate(zip(AREAS, points, strict=True))
        )
        lines = [np.c_[rng.uniform(-20, 20, (2, 2)), np.zeros(2)] for _ in range(20)]
        red = np.array([RED], np.uint8)
        signs = tuple(
            Control(2 * (i % 2), line[0], -1, red, i, stop_line_m=line)
            for i, line in enumerate(lines)
        )
        controls = (*(scene.controls or ()), *signs)
        scenes.append(dataclasses.replace(scene, roads=(*scene.roads, *areas), controls=controls))
    written = write_world(tmp_path / "set", scenes)
    settings: dict[str, Any] = {
        "num_agents": 24,
        "raster": 29,
        "raster_pixel_m": 1.3,
        "raster_alone": 1,
        "init_step": 2,
    }
    traffic = {**settings, "raster_channels": "traffic"}
    with (
        make_env(tmp_path / "set", **traffic) as vec,
        make_env(tmp_path / "set", **settings) as basic,
    ):
        obs, drawn = vec.reset(0)[0], np.zeros(len(CHANNELS + TRAFFIC), int)
        basic.reset(0)
        for _ in range(6):
            drawn += compare_rows(vec, written, obs, every=2)
            actions = rng.integers(0, 91, vec.num_agents)
            obs = vec.step(actions)[0]
            np.testing.assert_array_equal(obs[:, : len(CHANNELS)], basic.step(actions)[0])
    assert (drawn > 0).all(), drawn


@pytest.mark.slow
def test_real_scenes(
    real_scenes: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(shared_cache))
    prepared = prepare_scenes(DriveConfig(scenes=str(real_scenes)))
    with make_env(prepared.path, num_agents=80, control=1, raster=40, raster_pixel_m=2.0,
                  raster_alone=1, raster_channels="traffic") as vec:  # fmt: skip
        vec.reset(1)
        obs = vec.step(np.full(vec.num_agents, 50))[0]
        drawn = dict(
            zip(CHANNELS + TRAFFIC, compare_rows(vec, prepared.scenes, obs, every=9), strict=True)
        )
        assert all(drawn[name] > 0 for name in (*CHANNELS[:6], "crosswalks", "stops")), drawn


def first_picture(tree: dict[str, Any], folder: Path, **settings: Any) -> dict[str, np.ndarray]:
    """Channels of the first row of one scene."""
    (folder / "one.json").write_text(json.dumps(tree))
    config = DriveConfig(scenes=str(folder / "one.json"), num_agents=2, **settings)
    with puffervec.make("drive", env_kwargs=config, backend="serial", num_envs=1, seed=0) as vec:
        obs, _ = vec.reset(0)
        reader = ObservationReader(vec)
        assert reader.blocks["raster"] == (9, config.raster, config.raster)
        return {name: picture[0] for name, picture in reader.read(obs)["raster"].items()}


def test_a_picture_worked_out_by_hand(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> None:
    """A car of 4.5 x 2 m at (0, -1.75), 5 m/s, one 12 m ahead at y = 1.75, edges at +-4.5, a line
    at 0; pixels of 1 m.
    """
    seen = first_picture(tiny_tree(), tmp_path, raster=32, raster_pixel_m=1.0, raster_ahead=0.75)
    assert tuple(seen) == CHANNELS
    assert tuple(column.name for column in columns()["raster"]) == CHANNELS + TRAFFIC
    # Left is y + 1.75 metres, in column 15 - floor of it: columns 15 and 16 meet at the car's
    # centre.
    assert set(np.flatnonzero(seen["edges"].all(axis=0))) == {
        9,
        18,
    }  # 6.25 m to the left, 2.75 m to the right
    assert (
        set(np.flatnonzero(seen["lines"].all(axis=0))) == {14} and (seen["lines"] > 0).sum() == 32
    )
    rows, columns_ = np.nonzero(seen["own"])
    assert (rows.min(), rows.max(), columns_.min(), columns_.max()) == (
        21,
        26,
        15,
        17,
    )  # 21.75 .. 26.25 and 15 .. 17
    rows, columns_ = np.nonzero(seen["vehicles"])
    assert (rows.min(), rows.max(), columns_.min(), columns_.max()) == (
        9,
        14,
        11,
        13,
    )  # 9.75 .. 14.25 and 11.5 .. 13.5
    assert (
        set(np.unique(seen["own"])) == set(np.unique(seen["vehicles"])) == {0, 148}
    )  # 128 + 4 * 5
    assert (
        seen["goal"][9, 16] == 255 and seen["goal"][18, 16] == 128
    )  # 14.5 m ahead; on the way there
    assert not seen["pedestrians"].any() and not seen["cyclists"].any() and not seen["others"].any()


def test_a_saved_env_goes_on_with_the_same_pictures(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [random_scene(seed, objects=8, roads=9) for seed in (1, 2)])
    settings = {"num_agents": 24, "raster": 17}
    with (
        make_env(tmp_path / "set", num_envs=2, **settings) as a,
        make_env(tmp_path / "set", num_envs=2, **settings) as b,
    ):
        first, _ = a.reset(4)
        b.reset(9)
        b.load(a.save())
        assert all(np.array_equal(b.recv()[0][name], first[name]) for name in ("raster",))
        rng = np.random.default_rng(0)
        for _ in range(12):
            actions = rng.integers(0, 91, a.num_agents)
            first, second = a.step(actions)[0], b.step(actions)[0]
            assert all(first[name].tobytes() == second[name].tobytes() for name in first)

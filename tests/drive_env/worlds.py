# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Random little worlds for the tests of the C env: scenes made of nothing but random numbers,
compiled, and put into an env.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import puffervec
from drive_env.config import DriveConfig
from drive_env.env import params_of
from drive_env.evaluate.baselines import action_of
from drive_env.scenes import packed
from drive_env.scenes.cells import Grid, build_index
from drive_env.scenes.compile import CompileSettings, compile_scene
from drive_env.scenes.sceneset import SceneSet, write_scene_set
from drive_env.scenes.schema import GREEN, RED, YELLOW, Control, LaneLinks, Road, Scene, SceneObject
from drive_env.scenes.segments import Segments
from puffervec.contract.native import EnvData, NativeEnv
from puffervec.vec.vector_env import VectorEnv

GONE, STAYS, CUT, RETURNS = 1, 2, 3, 4  # how rows end: DRIVE_END_... in csrc/drive/state.h
ROAD_KINDS = ("lane", "road_line", "road_edge")


def moving_object(
    rng: np.random.Generator, frames: int, spread_m: float, kind: int, parked: bool = False
) -> SceneObject:
    """An object with a smooth log. Frames at both ends and single ones between may be missing, for
    some cars and all others.
    """
    turn, speed = rng.normal(0, 0.02), 0.0 if parked else rng.uniform(-2, 12)
    heading = rng.uniform(-np.pi, np.pi) + turn * np.arange(frames)
    velocity = speed * np.stack([np.cos(heading), np.sin(heading)], -1)
    position = rng.uniform(-spread_m, spread_m, 2) + np.cumsum(velocity * 0.1, 0)
    valid = np.ones(frames, bool)
    if kind != 0 or rng.random() < 0.3:
        valid[: rng.integers(1, frames // 2)] = False
        valid[rng.integers(frames // 2, frames) :] = False
        valid[rng.integers(0, frames, 3)] = False
        valid[frames // 2] = True
    return SceneObject(
        kind, int(rng.integers(1000)), float(rng.uniform(0.5, 2.5)), float(rng.uniform(0.5, 9)),
        1.5, bool(rng.random() < 0.1), np.concatenate([position, np.zeros((frames, 1))], 1),
        velocity, (heading + np.pi) % (2 * np.pi) - np.pi, valid,
        np.array([*position[valid][-1], 0.0]),
    )  # fmt: skip


def random_scene(
    seed: int,
    objects: int = 30,
    roads: int = 40,
    spread_m: float = 60.0,
    frames: int = 20,
    copies: int = 1,
) -> Scene:
    """A scene of random objects and crooked roads. copies > 1: each road is there that many times,
    so that distances tie.
    """
    rng = np.random.default_rng(seed)
    kinds = [0, 0, 0, 1, 2, 3]
    items = [
        moving_object(rng, frames, spread_m, int(rng.choice(kinds)), rng.random() < 0.2)
        for _ in range(objects)
    ]
    items.append(moving_object(np.random.default_rng(seed + 1), frames, 0.1 * spread_m, 0))
    items[-1].valid[:] = True  # at least one agent
    items[-1].velocity_mps[:] = 3.0
    object.__setattr__(items[-1], "expert", False)
    items[-1].goal_m[:2] = items[-1].position_m[0, :2] + 9.0
    lines = []
    for number in range(roads):
        steps = rng.normal(0, 4, (int(rng.integers(2, 12)), 2))
        points = rng.uniform(-spread_m, spread_m, 2) + np.cumsum(steps, 0)
        lines += [
            Road(ROAD_KINDS[number % 3], number % 20, number, np.c_[points, np.zeros(len(points))])
        ] * copies
    last = len(items) - 1
    metadata = {
        "sdc_track_index": last,
        "tracks_to_predict": [{"track_index": o, "difficulty": 0} for o in (0, last)],
    }
    return Scene(f"random {seed}", "", frames, tuple(items), tuple(lines), {}, metadata)


def lit(scene: Scene, seed: int) -> Scene:
    """The scene with traffic lights that change in every frame, and speed limits on every other
    lane.
    """
    rng = np.random.default_rng(seed)
    lanes = [road for road in scene.roads if road.type == "lane"]
    shown = np.array(
        [RED, RED, GREEN, YELLOW, RED | packed.STATE_ARROW, RED | packed.STATE_FLASHING], np.uint8
    )
    controls = tuple(
        Control(1, point, road.id, rng.choice(shown, scene.frame_count), number)
        for number, road in enumerate(lanes)
        for point in road.points_m
    )
    limits = {road.id: LaneLinks(speed_limit_mps=float(rng.uniform(2, 9))) for road in lanes[::2]}
    roads = tuple(
        dataclasses.replace(road, links=limits.get(road.id, road.links)) for road in scene.roads
    )
    return dataclasses.replace(scene, controls=controls, roads=roads)


def no_index(
    segments: Segments, grid: Grid, k: tuple[int, int, int], range_m: float, most: int = 0
) -> Any:
    """An index builder that leaves every cell out, so that C scans all segments."""
    return build_index(
        segments, dataclasses.replace(grid, wanted=np.zeros_like(grid.wanted)), k, range_m
    )


def write_world(
    path: Path,
    scenes: Sequence[Scene],
    k: tuple[int, int, int] = (16, 8, 16),
    range_m: float = 50.0,
    build: Any = build_index,
) -> SceneSet:
    """Compile scenes into one set at `path`."""
    settings = CompileSettings(k, range_m)
    write_scene_set(path, [compile_scene(scene, settings, build) for scene in scenes], settings)
    return SceneSet(path)


def env_data(path: Path, config: DriveConfig) -> EnvData:
    """What the env reads besides its config, of a written set."""
    return EnvData(data=path, params=params_of(config))


def make_env(
    path: Path, num_envs: int = 1, autoreset: str = "next_step", **settings: Any
) -> VectorEnv:
    """A serial vector env over a written set."""
    env = NativeEnv("drive", DriveConfig, lambda config: env_data(path, config))
    return puffervec.make(
        env,
        env_kwargs={"num_agents": 64, **settings},
        backend="serial",
        num_envs=num_envs,
        autoreset_mode=autoreset,
    )


def agents_of(state: dict[str, np.ndarray], slot: int) -> dict[int, int]:
    """{object: row} of the active agents of a slot, from `vec.peek`."""
    rows = np.flatnonzero((state["slot"] == slot) & (state["active"] == 1))
    return {int(state["object"][row]): int(row) for row in rows}


def obstacles_of(state: dict[str, np.ndarray], slot: int) -> dict[int, int]:
    """{object: row} of a slot's agents that have stopped for good."""
    rows = np.flatnonzero(
        (state["slot"] == slot) & (state["active"] == 0) & (state["ended"] == STAYS)
    )
    return {int(state["object"][row]): int(row) for row in rows}


def pose_of(state: dict[str, np.ndarray], row: int) -> tuple[float, float, float, float]:
    """(x, y, heading, speed) of a row."""
    return tuple(float(state[name][row]) for name in ("x", "y", "heading", "speed"))  # type: ignore[return-value]


class Straight:
    """An actor of `evaluate` and `record` that drives straight on at the speed it has."""

    def reset(self, vec: Any) -> None:
        pass

    def act(self, obs: Any, vec: Any) -> np.ndarray:
        return np.full(
            len(obs), action_of(np.zeros(1, np.float32), np.zeros(1, np.float32))[0], np.int32
        )

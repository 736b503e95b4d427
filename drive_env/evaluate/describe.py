# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Sums up the scenes of a config for the command line: how many, what was left out, bytes, padding, and how far agents see.

Runs in the learner before training; it drives nobody anywhere, it looks at the first frame of every scene and at a few bundles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive_env.config import DriveConfig
from drive_env.evaluate.observation import SEGMENT_BLOCKS, Block, ObservationReader
from drive_env.prepare import prepare_scenes, remarks_on
from drive_env.scenes.reader import LeftOut
from drive_env.scenes.sceneset import SceneSet

MOST_SCENES = 400  # looked at for the reach of observations; more are sampled evenly
BUNDLES = 8


@dataclass(frozen=True)
class Reach:
    """How much of one kind of thing agents see."""

    size: int  # entries in an observation
    median_seen: float  # entries that are filled
    median_reach_m: float  # distance of the farthest one, over agents that see any
    full: float  # share of agents whose entries are all filled, so that something farther away may be cut off


@dataclass(frozen=True)
class SceneSummary:
    """What `describe_scenes` found."""

    source: str
    scenes: int
    left_out: tuple[LeftOut, ...]
    levels: tuple[tuple[str, str], ...]  # scenes in which height matters, and where
    agents: int  # controlled vehicles in all scenes
    most_agents: int  # in one scene
    without_agents: int  # scenes with none
    mean_kb: float  # of a compiled scene
    largest_kb: float
    padding: float  # share of agent rows to which no agent is assigned
    observation_floats: int
    reach: Mapping[str, Reach]  # by block of the observation

    def text(self) -> str:
        """A few lines for people."""
        lines = [
            f"scenes: {self.scenes} ({self.source}), {self.agents} agents, at most {self.most_agents} in one; "
            f"{self.mean_kb:.0f} kB each, the largest {self.largest_kb:.0f} kB; padding rows {self.padding:.1%}",
        ]
        if self.without_agents:
            lines.append(f"  {self.without_agents} of them have no vehicle to control and are never drawn")
        lines += (f"  {line}" for line in remarks_on(self.left_out, self.levels))
        seen = "; ".join(
            f"{name} {item.size} (median {item.median_seen:.0f}, reach {item.median_reach_m:.0f} m, full for {item.full:.0%})"
            for name, item in self.reach.items()
        )
        lines.append(f"observation: {self.observation_floats} floats: {seen}")
        return "\n".join(lines)


def describe_scenes(config: DriveConfig) -> SceneSummary:
    """Compile (or find) the scenes of a config and sum them up.

    Raises:
        SceneError, ConfigError: see `drive_env.prepare.prepare_scenes`.
    """
    prepared = prepare_scenes(config)
    scenes = prepared.scenes
    agents = scenes.agents(config.control, config.goal_radius_m)
    sizes = scenes.entries["bytes"].astype(np.float64) / 1000
    floats, reach = measure_reach(config, scenes)
    return SceneSummary(
        source=config.scenes,
        scenes=len(scenes),
        left_out=prepared.left_out,
        levels=prepared.levels,
        agents=int(agents.sum()),
        most_agents=int(agents.max()),
        without_agents=int((agents == 0).sum()),
        mean_kb=float(sizes.mean()),
        largest_kb=float(sizes.max()),
        padding=measure_padding(config),
        observation_floats=floats,
        reach=reach,
    )


def measure_padding(config: DriveConfig) -> float:
    """Share of rows without an agent in the first bundles of some envs."""
    import puffervec

    with puffervec.make("drive", env_kwargs=config, backend="serial", num_envs=BUNDLES, seed=0) as vec:
        vec.async_reset(0)
        masks = vec.recv()[6]
        return float(1.0 - masks.mean())


def measure_reach(config: DriveConfig, scenes: SceneSet) -> tuple[int, dict[str, Reach]]:
    """Floats per observation, and what all agents of all scenes see in the first frame."""
    import puffervec

    agents = scenes.agents(config.control, config.goal_radius_m)
    chosen = np.flatnonzero(agents)
    chosen = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), MOST_SCENES)).astype(int)]
    config = dataclasses.replace(config, num_agents=int(agents.max()))
    with puffervec.make("drive", env_kwargs=config, backend="serial", num_envs=len(chosen), seed=0) as vec:
        vec.set_tasks(np.arange(len(chosen)), chosen)
        vec.async_reset(0)
        received = vec.recv()
        rows = received[0][received[6]].copy()
        seen = ObservationReader(vec.spec.groups[0]).read(rows)
    return rows.shape[1], {name: reach_of(block, name) for name, block in seen.items() if name != "ego"}


def reach_of(block: Block, name: str) -> Reach:
    """Medians over agents of one block."""
    there: NDArray[np.bool_] = block["there"].astype(np.bool_)
    distance = block["distance"] if name in SEGMENT_BLOCKS else np.hypot(block["x"], block["y"])
    farthest = np.where(there, distance, 0.0).max(axis=1)
    sees = there.any(axis=1)
    return Reach(
        size=there.shape[1],
        median_seen=float(np.median(there.sum(axis=1))),
        median_reach_m=float(np.median(farthest[sees])) if sees.any() else 0.0,
        full=float(there.all(axis=1).mean()),
    )

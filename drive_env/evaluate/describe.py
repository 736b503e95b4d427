# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Summarizes the scenes of a config for the command line.

The summary has their number, what was left out, their bytes, padding, and how far agents see. Runs
in the learner before training. It reads the first frame of the scenes and a few bundles, and
steps no env.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drive_env.config import DriveConfig
from drive_env.evaluate.envs import make_envs
from drive_env.evaluate.observation import Block, ObservationReader
from drive_env.prepare import prepare_scenes, remarks_on
from drive_env.scenes.reader import LeftOut
from drive_env.scenes.sceneset import SceneSet

MOST_SCENES = 400  # scenes whose observations are read; more are sampled evenly
BUNDLES = 8


@dataclass(frozen=True)
class Reach:
    """The number of objects of one block that agents see, and their distance."""

    median_seen: float  # objects in the observation
    median_reach_m: float  # distance of the farthest one, over agents that see any
    # Share of agents whose block is full, so that objects farther away may be missing
    full: float


@dataclass(frozen=True)
class SceneSummary:
    """The results of `describe_scenes`."""

    source: str
    scenes: int
    left_out: tuple[LeftOut, ...]
    agents: int  # controlled vehicles in all scenes
    most_agents: int  # in one scene
    without_agents: int  # scenes with none
    mean_kb: float  # of a compiled scene
    largest_kb: float
    padding: float  # share of agent rows without an agent
    observation: Mapping[str, tuple[int, ...]]  # shape of each block of the observation
    reach: Mapping[str, Reach]  # by block of objects

    def text(self) -> str:
        """Return the summary as a few lines of text."""
        lines = [
            f"scenes: {self.scenes} ({self.source}), {self.agents} agents, at most "
            f"{self.most_agents} in one; {self.mean_kb:.0f} kB each, the largest "
            f"{self.largest_kb:.0f} kB; padding rows {self.padding:.1%}",
        ]
        if self.without_agents:
            lines.append(f"  {self.without_agents} of them have no agent and are never used")
        lines += (f"  {line}" for line in remarks_on(self.left_out))
        floats = sum(math.prod(shape) for shape in self.observation.values() if len(shape) < 3)
        total = f"{floats} floats: " if floats else ""
        lines.append(f"observation: {total}{'; '.join(map(self._block, self.observation))}")
        return "\n".join(lines)

    def _block(self, name: str) -> str:
        """Return the text on one block."""
        shape, item = " x ".join(map(str, self.observation[name])), self.reach.get(name)
        if item is None:
            return f"{name} {shape}{' bytes' if len(self.observation[name]) > 2 else ''}"
        reach = (
            f"median {item.median_seen:.0f}, reach {item.median_reach_m:.0f} m, full for "
            f"{item.full:.0%}"
        )
        return f"{name} {shape} ({reach})"


def describe_scenes(config: DriveConfig) -> SceneSummary:
    """Compile (or find) the scenes of a config and summarize them.

    Raises:
        SceneError, ConfigError: see `drive_env.prepare.prepare_scenes`.
    """
    prepared = prepare_scenes(config)
    scenes = prepared.scenes
    agents = scenes.agents(config)
    sizes = scenes.entries["bytes"].astype(np.float64) / 1000
    observation, reach = measure_reach(config, scenes)
    return SceneSummary(
        source=config.scenes,
        scenes=len(scenes),
        left_out=prepared.left_out,
        agents=int(agents.sum()),
        most_agents=int(agents.max()),
        without_agents=int((agents == 0).sum()),
        mean_kb=float(sizes.mean()),
        largest_kb=float(sizes.max()),
        padding=measure_padding(config),
        observation=observation,
        reach=reach,
    )


def measure_padding(config: DriveConfig) -> float:
    """Return the share of rows without an agent in the first bundles of some envs."""
    with make_envs(config, BUNDLES, 0, "serial") as vec:
        vec.async_reset(0)
        masks = vec.recv()[6]
        return float(1.0 - masks.mean())


def measure_reach(
    config: DriveConfig, scenes: SceneSet
) -> tuple[dict[str, tuple[int, ...]], dict[str, Reach]]:
    """Return the shapes of the observation's blocks, and what agents see in the first frame.

    All agents count, in up to MOST_SCENES scenes.
    """
    agents = scenes.agents(config)
    chosen = np.flatnonzero(agents)
    chosen = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), MOST_SCENES)).astype(int)]
    config = dataclasses.replace(config, num_agents=int(agents.max()))
    with make_envs(config, len(chosen), 0, "serial") as vec:
        vec.set_tasks(np.arange(len(chosen)), chosen)
        vec.async_reset(0)
        received = vec.recv()
        rows, live = received[0], received[6]
        reader = ObservationReader(vec)
        blocks = reader.read(
            {name: part[live] for name, part in rows.items()}
            if isinstance(rows, dict)
            else rows[live]
        )
    return reader.blocks, {
        name: reach_of(block) for name, block in blocks.items() if "there" in block
    }


def reach_of(block: Block) -> Reach:
    """Return medians over agents of a block of objects."""
    there: NDArray[np.bool_] = block["there"].astype(np.bool_)
    distance = block["distance"] if "distance" in block else np.hypot(block["x"], block["y"])
    farthest = np.where(there, distance, 0.0).max(axis=1)
    sees = there.any(axis=1)
    return Reach(
        median_seen=float(np.median(there.sum(axis=1))),
        median_reach_m=float(np.median(farthest[sees])) if sees.any() else 0.0,
        full=float(there.all(axis=1).mean()),
    )

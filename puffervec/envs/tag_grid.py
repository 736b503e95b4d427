# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`tag_grid`: discrete Tag on a grid (csrc/tag/grid.c), with WarpDrive's parameter names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from puffervec.contract.native import EnvData, NativeEnv
from puffervec.contract.training import Training
from puffervec.envs._tag_drawing import drawing_of_grid
from puffervec.errors import ConfigError

MOST_LAYOUTS = 10_000


@dataclass(frozen=True)
class TagGridConfig:
    """Settings of tag_grid, with the names and defaults of TagGridWorld's constructor."""

    num_taggers: int = 10
    """Number of agents that chase; one runner is added as the last agent."""
    grid_length: int = 10
    """Largest coordinate of a cell; coordinates start at 0."""
    episode_length: int = 100
    """Steps until the episode is truncated."""
    wall_hit_penalty: float = 0.1
    """Reward that an agent loses when it walks into a wall."""
    tag_reward_for_tagger: float = 10.0
    """Reward of every tagger when the runner is tagged."""
    tag_penalty_for_runner: float = 2.0
    """Reward that the runner loses when it is tagged."""
    step_cost_for_tagger: float = 0.01
    """Reward that each tagger loses, and the runner gains, in every step without a tag."""
    use_full_observation: bool = True
    """True: agents observe all positions (4 N + 1 floats); False: their own and the nearest
    opponent's (6 floats).
    """
    random_starts: bool = False
    """Draw every agent's start cell at each reset."""
    starting_location_x: Sequence[int] | None = field(default=None, metadata={"python": True})
    """X coordinates of the start cells, one per agent, or layouts x agents. None: taggers in the
    middle, the runner at 0.
    """
    starting_location_y: Sequence[int] | None = field(default=None, metadata={"python": True})
    """Y coordinates of the start cells, in the same form."""
    reset_pool: int = field(default=0, metadata={"python": True})
    """Number of start layouts, drawn once from `seed`: taggers inside the walls, the runner at
    (0, 0). Each episode uses one of them.
    """
    seed: int | None = field(default=None, metadata={"python": True})
    """Seed for drawing the layouts of reset_pool (None is 0). It has no other effect: the seeds of
    episodes are passed to reset.
    """


def _starts(config: TagGridConfig, cells: Sequence[int] | None, name: str) -> np.ndarray:
    """Return start cells as (agents,) or (layouts, agents) int32."""
    if cells is None:
        middle = int(0.5 * config.grid_length)
        return np.array([middle] * config.num_taggers + [0], np.int32)
    agents = config.num_taggers + 1
    wanted = f"use whole numbers, one per agent ({agents}), or layouts x agents"
    try:
        array = np.asarray(cells)
    except ValueError as error:
        raise ConfigError(
            f"tag_grid: {name} cannot be read as an array ({error}): {wanted}"
        ) from None
    if (
        array.dtype.kind not in "iu"
        or array.ndim not in (1, 2)
        or array.shape[-1] != agents
        or array.size == 0
    ):
        raise ConfigError(
            f"tag_grid: {name} has shape {array.shape} and type {array.dtype}: {wanted}"
        )
    outside = array[(array < 0) | (array > config.grid_length)]
    if outside.size:
        raise ConfigError(
            f"tag_grid: {name} contains {outside[0]}: cells are 0 to {config.grid_length}"
        )
    return np.ascontiguousarray(array, np.int32)


def _pool(config: TagGridConfig) -> EnvData:
    """Draw the start layouts of WarpDrive's variant that has a pool of them for resets."""
    if (
        config.random_starts
        or config.starting_location_x is not None
        or config.starting_location_y is not None
    ):
        raise ConfigError(
            "tag_grid: reset_pool draws the start layouts: leave random_starts and starting "
            "locations out"
        )
    if config.grid_length < 2:
        raise ConfigError(
            f"tag_grid: grid_length is {config.grid_length}: reset_pool needs cells inside walls, "
            "use 2 or more"
        )
    shape = (2, config.reset_pool, config.num_taggers)
    taggers = np.random.default_rng(config.seed or 0).integers(
        1, config.grid_length, shape, np.int32
    )
    x, y = np.concatenate([taggers, np.zeros((*shape[:2], 1), np.int32)], axis=2)
    return EnvData(params={"start_x": x, "start_y": y})


def _build(config: TagGridConfig) -> EnvData:
    if isinstance(config.reset_pool, bool) or not 0 <= config.reset_pool <= MOST_LAYOUTS:
        raise ConfigError(
            f"tag_grid: reset_pool is {config.reset_pool}: use 0 (no pool) to {MOST_LAYOUTS}"
        )
    # For unusable numbers no pool is drawn: csrc/tag/grid.c then raises the error.
    if config.reset_pool and config.num_taggers > 0 and config.grid_length > 0:
        return _pool(config)
    start_x = _starts(config, config.starting_location_x, "starting_location_x")
    start_y = _starts(config, config.starting_location_y, "starting_location_y")
    if start_x.shape != start_y.shape:
        shapes = f"{start_x.shape} and {start_y.shape}"
        raise ConfigError(
            f"tag_grid: starting_location_x and starting_location_y have shapes {shapes}: they "
            "must be equal"
        )
    return EnvData(params={"start_x": start_x, "start_y": start_y})


TRAINING = Training(
    preset={
        "vec": {"num_envs": 2048},
        "train": {
            "horizon": 25,
            "microbatch_size": 25_600,
            "update_epochs": 1,
            "lr": 3e-3,
            "entropy_coef": 0.02,
            "total_timesteps": 50_000_000,
        },
        "policy": {"hidden": (32, 32), "normalize": False},
    },
    search={"train.update_epochs": "1/2", "policy.hidden": "32,32/64,64"},
    warpdrive={"tag_gridworld": {}, "tag_gridworld_with_reset_pool": {"reset_pool": 5}},
)
ENV = NativeEnv(
    name="tag_grid",
    config=TagGridConfig,
    build=_build,
    agent_types=("tagger", "runner"),
    row_types=lambda config: (0,) * config.num_taggers + (1,),
    drawing=drawing_of_grid,
    training=TRAINING,
)

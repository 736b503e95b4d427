# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`tag_continuous`: Tag in the plane (csrc/tag/continuous.h), with WarpDrive's parameter names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from puffervec.contract.drawing import Drawing, State
from puffervec.contract.native import EnvData, NativeEnv
from puffervec.contract.training import Training
from puffervec.envs._tag_drawing import drawing_of_plane
from puffervec.errors import ConfigError

RUNNER, TAGGER = 0, 1
DEFAULT_SEED = 0
"""The default seed of the start, so that the same settings always make the same game."""
MOST_AGENTS = 16384
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class TagContinuousConfig:
    """Settings of tag_continuous, with the names and defaults of TagContinuous's constructor.

    Lengths are in the unit of grid_length, times in steps, angles in radians. Penalties are
    negative numbers.
    """

    num_taggers: int = 1
    """Number of agents that chase (type 1). The seed determines which ids they get."""
    num_runners: int = 10
    """Number of agents that flee (type 0)."""
    grid_length: float = 10.0
    """Side length of the square in which agents move."""
    episode_length: int = 100
    """Steps until the episode is truncated."""
    max_speed: float = 1.0
    """Top speed of an agent with skill level 1, per step."""
    skill_level_runner: float = 1.0
    """Factor of a runner's top speed."""
    skill_level_tagger: float = 1.0
    """Factor of a tagger's top speed."""
    max_acceleration: float = 1.0
    """Largest change of an agent's acceleration by one action."""
    min_acceleration: float = -1.0
    """Smallest change of an agent's acceleration by one action."""
    max_turn: float = math.pi / 2
    """Largest turn by one action, counterclockwise."""
    min_turn: float = -math.pi / 2
    """Smallest turn by one action, counterclockwise."""
    num_acceleration_levels: int = 10
    """Number of changes of the acceleration, evenly spaced from min_acceleration to
    max_acceleration; action 0 changes nothing, action 1 is the smallest change.
    """
    num_turn_levels: int = 10
    """Number of turns, evenly spaced from min_turn to max_turn."""
    acceleration_changes: Sequence[float] | None = field(default=None, metadata={"python": True})
    """Changes of the acceleration by actions 1, 2, ...: num_acceleration_levels numbers, in any
    order. None: evenly spaced from min_acceleration to max_acceleration, bit-identical to
    WarpDrive's table.
    """
    turn_changes: Sequence[float] | None = field(default=None, metadata={"python": True})
    """Turns by actions 1, 2, ...: num_turn_levels numbers, in any order. None: evenly spaced."""
    edge_hit_penalty: float = -0.0
    """Reward of an agent that runs into the edge; at most 0."""
    use_full_observation: bool = True
    """True: agents observe all others (7 (N - 1) + 1 floats); False: the nearest ones (7 K + 1)."""
    num_other_agents_observed: int = 2
    """Number of nearest agents still in the game that an agent observes (K, without
    use_full_observation); at most the number of agents.
    """
    tagging_distance: float = 0.01
    """A runner is tagged if its nearest tagger is nearer than this fraction of grid_length."""
    tag_reward_for_tagger: float = 1.0
    """Reward of a tagger for each runner that it tags."""
    step_penalty_for_tagger: float = -0.0
    """Reward of each tagger in each step; at most 0."""
    tag_penalty_for_runner: float = -1.0
    """Reward of a runner that is tagged; at most 0."""
    step_reward_for_runner: float = 0.0
    """Reward in each step of each runner that is still in the game."""
    end_of_game_reward_for_runner: float = 1.0
    """Reward of each runner that is still in the game at the time limit."""
    runner_exits_game_after_tagged: bool = True
    """A tagged runner leaves the game; False: it continues and can be tagged at every step."""
    random_starts: bool = False
    """Draw every agent's start anew at each reset (any place, one of four directions); False:
    always the same start.
    """
    starting_location_x: Sequence[float] | None = field(default=None, metadata={"python": True})
    """Agents' x coordinates at the start, one per agent; set starting_location_y too. None: drawn
    once, by seed.
    """
    starting_location_y: Sequence[float] | None = field(default=None, metadata={"python": True})
    """Agents' y coordinates at the start, one per agent; set starting_location_x too."""
    starting_directions: Sequence[float] | None = field(default=None, metadata={"python": True})
    """Agents' headings at the start, as angles. None: one of four directions, drawn by seed."""
    seed: int | None = field(default=None, metadata={"python": True})
    """Seed of NumPy's legacy generator, which draws the taggers' ids and the start as in WarpDrive;
    not the seed of reset. None: 0.
    """


@dataclass(frozen=True)
class Start:
    """The draws of the constructor: (N,) uint8 types, (N,) float32 x, y and directions."""

    types: np.ndarray
    x: np.ndarray
    y: np.ndarray
    directions: np.ndarray


def _refuse(name: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(f"tag_continuous: {name} is {value!r}: use {allowed}")


def _check_counts(config: TagContinuousConfig) -> None:
    """Raise ConfigError if a setting that the draws and tables below need cannot be used.

    All other bounds are checked in C.
    """
    for name, most in (
        ("num_taggers", MOST_AGENTS),
        ("num_runners", MOST_AGENTS),
        ("num_acceleration_levels", 10_000),
        ("num_turn_levels", 10_000),
    ):
        if not 1 <= getattr(config, name) <= most:
            raise _refuse(name, getattr(config, name), f"1 to {most}")
    for name in (
        "min_acceleration",
        "max_acceleration",
        "min_turn",
        "max_turn",
        "grid_length",
        "tagging_distance",
    ):
        if not math.isfinite(getattr(config, name)):
            raise _refuse(name, getattr(config, name), "a finite number")
    seed = config.seed
    if seed is not None and (
        isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32
    ):
        raise _refuse("seed", seed, f"None or a whole number from 0 to {2**32 - 1}")


def _start_array(config: TagContinuousConfig, name: str, agents: int) -> np.ndarray | None:
    """Return a start array of the settings as (N,) float64, or None. Directions have no bounds."""
    if name == "starting_directions":
        return _numbers(
            config, name, agents, -LARGEST, LARGEST, f"one finite angle per agent ({agents})"
        )
    high = config.grid_length
    return _numbers(
        config, name, agents, 0.0, high, f"one number from 0 to {high:g} per agent ({agents})"
    )


def _numbers(
    config: TagContinuousConfig, name: str, count: int, low: float, high: float, wanted: str
) -> np.ndarray | None:
    """Return a setting as (count,) float64, or None.

    Raises:
        ConfigError: the setting is not what `wanted` describes.
    """
    value = getattr(config, name)
    if value is None:
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        raise _refuse(name, value, wanted) from None
    if array.dtype.kind not in "iuf" or array.shape != (count,):
        raise ConfigError(
            f"tag_continuous: {name} has shape {array.shape} and type {array.dtype}: use {wanted}"
        )
    outside = array[~((array >= low) & (array <= high))]  # NaN counts as outside.
    if outside.size:
        raise ConfigError(f"tag_continuous: {name} contains {outside[0]}: use {wanted}")
    return array.astype(np.float64)


def start_of(config: TagContinuousConfig) -> Start:
    """Draw types and start as the constructor of WarpDrive's TagContinuous does.

    The generator and the order of the draws are WarpDrive's; values that the settings contain are
    not drawn.

    Raises:
        ConfigError: a setting cannot be used; the message names it.
    """
    _check_counts(config)
    agents = config.num_taggers + config.num_runners
    x = _start_array(config, "starting_location_x", agents)
    y = _start_array(config, "starting_location_y", agents)
    directions = _start_array(config, "starting_directions", agents)
    if (x is None) != (y is None):
        missing = "starting_location_x" if x is None else "starting_location_y"
        raise _refuse(missing, None, "as many numbers as for the other axis, or leave both out")
    if config.random_starts and not (x is None and directions is None):
        raise _refuse(
            "random_starts",
            True,
            "False with starting locations or directions: it draws them at each reset",
        )
    generator = np.random.RandomState(DEFAULT_SEED if config.seed is None else int(config.seed))
    taggers = generator.choice(np.arange(agents), config.num_taggers, replace=False)
    if x is None or y is None:
        x = config.grid_length * generator.rand(agents)
        y = config.grid_length * generator.rand(agents)
    if directions is None:
        directions = generator.choice([0, np.pi / 2, np.pi, np.pi * 3 / 2], agents)
    types = np.full(agents, RUNNER, np.uint8)
    types[taggers] = TAGGER
    directions = directions % (2 * math.pi)
    return Start(types, x.astype(np.float32), y.astype(np.float32), directions.astype(np.float32))


def action_table(config: TagContinuousConfig, kind: str) -> np.ndarray:
    """Return the change that each choice of an action makes: (levels + 1,) float32, the first 0.

    WarpDrive rounds the ends of the range to float32 and, under NumPy 1, spaces the values in
    float64. With ends that are not rounded, or with spacing in float32 as in NumPy 2, some values
    would differ by one unit in the last place.

    Args:
        config: config of the env.
        kind: "acceleration" or "turn".

    Raises:
        ConfigError: the settings do not have one finite number for each level.
    """
    levels = getattr(config, f"num_{kind}_levels")
    values = _numbers(
        config,
        f"{kind}_changes",
        levels,
        -LARGEST,
        LARGEST,
        f"num_{kind}_levels ({levels}) finite numbers, or None",
    )
    if values is None:
        low, high = (float(np.float32(getattr(config, f"{end}_{kind}"))) for end in ("min", "max"))
        values = np.linspace(low, high, levels)
    return np.concatenate([[0.0], values]).astype(np.float32)


def changes_of(config: TagContinuousConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return the changes of acceleration and of direction (rad), (levels + 1,) float32 each."""
    return action_table(config, "acceleration"), action_table(config, "turn")


def _drawing(config: TagContinuousConfig, state: State) -> Drawing:
    changes = dict(zip(("acceleration", "turn rad"), changes_of(config), strict=True))
    return drawing_of_plane(config, start_of(config).types, changes)


def _build(config: TagContinuousConfig) -> EnvData:
    start = start_of(config)
    faster, turn = changes_of(config)
    rewards = (
        config.edge_hit_penalty,
        config.step_penalty_for_tagger,
        config.step_reward_for_runner,
        config.tag_reward_for_tagger,
        config.tag_penalty_for_runner,
        config.end_of_game_reward_for_runner,
    )
    return EnvData(
        params={
            "types": start.types,
            "start_x": start.x,
            "start_y": start.y,
            "start_direction": start.directions,
            "acceleration_changes": faster,
            "turn_changes": turn,
            "margin": np.array([config.tagging_distance * config.grid_length], np.float32),
            "rewards": np.array(rewards, np.float64),
        }
    )


TRAINING = Training(
    preset={
        "vec": {"num_envs": 64},
        "train": {
            "horizon": 32,
            "update_epochs": 1,
            "lr": 4e-3,
            "gamma": 0.98,
            "entropy_coef": 0.002,
            "total_timesteps": 50_000_000,
        },
        "policy": {
            "map": ("tagger=tagger", "runner=runner"),
            "hidden": (64, 64),
            "normalize": False,
        },
        # There are few taggers, so an epoch over their steps costs little.
        "policies": {"tagger": {"update_epochs": 4}},
    },
    metric="env/tags",
    warpdrive={"tag_continuous": {}},
)
ENV = NativeEnv(
    name="tag_continuous",
    config=TagContinuousConfig,
    build=_build,
    agent_types=("runner", "tagger"),
    row_types=lambda config: start_of(config).types.tolist(),
    drawing=_drawing,
    training=TRAINING,
)

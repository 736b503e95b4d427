# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Baselines to compare a policy with, such as `random`, `lane-follow`, `idm` and `log`.

Runs in the learner; baselines are evaluated as policies are. An actor may have `overrides`, a dict
of config values that it needs. `constant-velocity` sees nothing. `lane-follow` sees what a policy
sees: it keeps to its lane, holds a speed and brakes for the car ahead, but does not know its route.
`log` lets the env move the cars by their logs, which evaluates the data itself; `idm` lets it drive
them along the paths of their logs, respecting gaps and lights; `expert` plays actions that follow
the logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drive_env.config import LIMITS, PLAYERS
from drive_env.evaluate.observation import ObservationReader, Rows, Single, row_count
from drive_env.scenes.schema import FRAME_S
from puffervec.contract.evaluation import Actor
from puffervec.errors import ConfigError

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv

# The joint action is acceleration index * 13 + steering index, as in csrc/drive/motion/actions.c.
ACCELERATIONS_MPS2 = np.array([-4.0, -2.667, -1.333, 0.0, 1.333, 2.667, 4.0], dtype=np.float32)
STEERINGS_RAD = np.array(
    [-1.0, -0.833, -0.667, -0.5, -0.333, -0.167, 0.0, 0.167, 0.333, 0.5, 0.667, 0.833, 1.0],
    dtype=np.float32,
)

# The action space of baselines that choose actions, and the rows that they read, whatever the run's
# policy observes. Numbers of segments are kept where a baseline needs no segments: the index
# of scenes depends on these numbers, so other ones would compile the scenes again.
DEFAULT_ACTIONS: dict[str, Any] = {
    "dynamics": "bicycle", "actions": "discrete", "action_values": (), **dict.fromkeys(PLAYERS, 0),
    **dict.fromkeys(LIMITS, 0.0),
}  # fmt: skip
COMPACT_ROWS: dict[str, Any] = {
    "observation": "compact", "row_dtype": "float32", "segments": "nearest",
    "partner_types": 0, "raster": 0, "raster_alone": 0,
}  # fmt: skip

# The best of 7, 9, 11 and 13 m/s by the score on the generated scenes, within noise.
TARGET_MPS = 11.0
LATERAL_MPS2 = 3.0
WHEELBASE_FACTOR = 0.6


def action_of(acceleration_mps2: Single, steering_rad: Single) -> NDArray[np.int32]:
    """Return the indices of the joint actions nearest to (N,) accelerations and steering angles."""
    a = np.abs(acceleration_mps2[:, None] - ACCELERATIONS_MPS2).argmin(axis=1)
    s = np.abs(steering_rad[:, None] - STEERINGS_RAD).argmin(axis=1)
    return np.asarray(a * len(STEERINGS_RAD) + s, dtype=np.int32)


class RandomActor:
    """Actor that takes every action with equal probability, from a seed."""

    # Otherwise the agents would not obey its actions.
    overrides: Mapping[str, Any] = dict.fromkeys(PLAYERS, 0)

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._rng = np.random.default_rng(seed)

    def reset(self, vec: VectorEnv) -> None:
        """Do nothing: the random numbers continue from batch to batch."""

    def act(self, obs: Rows, vec: VectorEnv) -> NDArray[Any]:
        """Return random actions of the env's action space, (rows,) or (rows, D)."""
        group, rows = vec.spec.groups[0], row_count(obs)
        if group.action_kind == "discrete":
            return self._rng.integers(0, group.action_sizes[0], rows, dtype=np.int32)
        if group.action_kind == "multi_discrete":
            return self._rng.integers(
                0, group.action_sizes, (rows, group.action_dims), dtype=np.int32
            )
        return self._rng.uniform(
            group.action_low, group.action_high, (rows, group.action_dims)
        ).astype(np.float32)


class StopActor:
    """Actor that brakes to a stop and stays."""

    overrides: Mapping[str, Any] = {**COMPACT_ROWS, **DEFAULT_ACTIONS}

    def reset(self, vec: VectorEnv) -> None:
        """Read the columns of this env's observations."""
        self._reader = ObservationReader(vec)

    def act(self, obs: Rows, vec: VectorEnv) -> NDArray[np.int32]:
        """Return (rows,) actions: the acceleration nearest to one that stops the car in a step."""
        speed = self._reader.read(obs)["ego"]["speed"]
        return action_of((-speed / FRAME_S).astype(np.float32), np.zeros_like(speed))


class ConstantVelocityActor:
    """Actor that keeps its speed and its direction."""

    overrides: Mapping[str, Any] = DEFAULT_ACTIONS

    def reset(self, vec: VectorEnv) -> None:
        """Do nothing."""

    def act(self, obs: Rows, vec: VectorEnv) -> NDArray[np.int32]:
        """Return (rows,) actions that neither accelerate nor steer."""
        zeros = np.zeros(row_count(obs), np.float32)
        return action_of(zeros, zeros)


class LaneFollowActor:
    """Actor that follows its lane by pure pursuit (Coulter 1992).

    It drives at a fixed speed and keeps a gap to the car ahead.
    """

    overrides: Mapping[str, Any] = {**COMPACT_ROWS, "partners": 12, "lanes": 16, **DEFAULT_ACTIONS}

    def reset(self, vec: VectorEnv) -> None:
        """Read the columns of this env's observations."""
        self._reader = ObservationReader(vec)

    def act(self, obs: Rows, vec: VectorEnv) -> NDArray[np.int32]:
        """Return (rows,) actions for (rows, F) observations."""
        blocks = self._reader.read(obs)
        ego = blocks["ego"]
        reach = np.maximum(5.0, 0.9 * np.abs(ego["speed"])).astype(np.float32)
        x, y = lookahead(blocks["lanes"], reach)
        curvature = 2 * y / np.maximum(x * x + y * y, 1.0)
        wheelbase = WHEELBASE_FACTOR * ego["length"]
        target = np.minimum(TARGET_MPS, np.sqrt(LATERAL_MPS2 / np.maximum(np.abs(curvature), 1e-3)))
        acceleration = (target - ego["speed"]) / 0.5
        acceleration = np.minimum(
            acceleration,
            following_acceleration(ego, blocks["partners"], curvature.astype(np.float32)),
        )
        return action_of(
            acceleration.astype(np.float32), np.arctan(curvature * wheelbase).astype(np.float32)
        )


def lookahead(lanes: Mapping[str, Single], reach_m: Single) -> tuple[Single, Single]:
    """Return the point of the lanes ahead to steer for, in the car's frame: (N,) x and y.

    Of the points along observed segments that run roughly in the car's direction, it is the one
    about `reach_m` away with the least bearing and turn. If there is no lane, it is a point
    straight ahead.
    """
    along = np.linspace(-1.0, 1.0, 9, dtype=np.float32)
    px = lanes["x"][..., None] + along * (lanes["half_length"] * lanes["cos"])[..., None]
    py = lanes["y"][..., None] + along * (lanes["half_length"] * lanes["sin"])[..., None]
    distance = np.hypot(px, py)
    bearing = np.arctan2(py, px)
    heading = np.arctan2(lanes["sin"], lanes["cos"])[..., None]
    cost = (
        np.abs(distance - reach_m[:, None, None]) / reach_m[:, None, None]
        + 1.5 * np.abs(bearing)
        + 0.5 * np.abs(heading)
    )
    usable = lanes["there"][..., None].astype(bool) & (px > 1.0) & (np.abs(heading) < 1.0)
    cost = np.where(usable, cost, np.inf).reshape(len(px), -1)
    best = cost.argmin(axis=1)
    rows = np.arange(len(px))
    exists = np.isfinite(cost[rows, best])
    x = np.where(exists, px.reshape(len(px), -1)[rows, best], reach_m)
    y = np.where(exists, py.reshape(len(px), -1)[rows, best], 0.0)
    return x.astype(np.float32), y.astype(np.float32)


def following_acceleration(
    ego: Mapping[str, Single], partners: Mapping[str, Single], curvature: Single
) -> Single:
    """Return the acceleration that keeps a gap to the nearest car in front, (N,) m/s^2.

    It is large if there is no such car. This is the interaction of the intelligent driver model
    (Treiber, Hennecke and Helbing 2000, see csrc/drive/motion/follow.c), for partners whose box
    reaches into the corridor along the arc that the car steers. The gap of 2 m is that of its
    authors; the headway of 1 s, the acceleration of 1.5 m/s^2 and the braking of 3 m/s^2 are our
    choice.
    """
    reach = (
        partners["length"] * np.abs(partners["cos"]) + partners["width"] * np.abs(partners["sin"])
    ) / 2
    side = (
        partners["length"] * np.abs(partners["sin"]) + partners["width"] * np.abs(partners["cos"])
    ) / 2
    aside = partners["y"] - curvature[:, None] * partners["x"] ** 2 / 2
    in_way = (np.abs(aside) < side + ego["width"][:, None] / 2 + 0.2) & (partners["x"] > 0)
    gap = partners["x"] - reach - ego["length"][:, None] / 2
    gap = np.where(in_way & partners["there"].astype(bool), np.maximum(gap, 0.1), np.inf)
    rows = np.arange(len(gap))
    nearest = gap.argmin(axis=1)
    speed = np.maximum(ego["speed"], 0.0)
    closing = -partners["velocity_x"][rows, nearest]
    desired = 2.0 + np.maximum(0.0, speed + speed * closing / (2 * np.sqrt(1.5 * 3.0)))
    result = 1.5 * (1 - (desired / gap[rows, nearest]) ** 2)
    # Standing still is enough; braking further would drive backward.
    return np.asarray(np.maximum(result, -speed / np.float32(FRAME_S)), dtype=np.float32)


class LogActor:
    """Actor that lets the env move the agents by their logs; its actions do not matter."""

    overrides: Mapping[str, Any] = {**DEFAULT_ACTIONS, "replay_log": 1}

    def reset(self, vec: VectorEnv) -> None:
        """Do nothing."""

    def act(self, obs: Rows, vec: VectorEnv) -> NDArray[np.int32]:
        """Return actions of 0, (rows,)."""
        return np.zeros(row_count(obs), dtype=np.int32)


class IdmActor:
    """Actor that lets the env drive the agents by IDM (csrc/drive/motion/follow.c).

    They drive along the path of their log, and on along its lane.
    """

    overrides: Mapping[str, Any] = {**DEFAULT_ACTIONS, "idm_agents": 1}

    def reset(self, vec: VectorEnv) -> None:
        """Do nothing."""

    def act(self, obs: Rows, vec: VectorEnv) -> NDArray[np.int32]:
        """Return actions of 0, (rows,)."""
        return np.zeros(row_count(obs), dtype=np.int32)


class ExpertActor:
    """Actor that lets the env play the model's actions that follow the log (drive_env.motion)."""

    overrides: Mapping[str, Any] = {**dict.fromkeys(PLAYERS, 0), "expert_actions": 1}

    def reset(self, vec: VectorEnv) -> None:
        """Do nothing."""

    def act(self, obs: Rows, vec: VectorEnv) -> NDArray[Any]:
        """Return actions of 0, (rows,) or (rows, D); the env plays its own actions."""
        group = vec.spec.groups[0]
        shape = (
            (row_count(obs),)
            if group.action_kind == "discrete"
            else (row_count(obs), group.action_dims)
        )
        return np.zeros(shape, np.float32 if group.action_kind == "continuous" else np.int32)


# Functions from a seed to an actor, by the baseline's name on the command line.
BASELINES: dict[str, Callable[[int], Actor]] = {
    "random": RandomActor,
    "stop": lambda seed: StopActor(),
    "lane-follow": lambda seed: LaneFollowActor(),
    "idm": lambda seed: IdmActor(),
    "log": lambda seed: LogActor(),
    "expert": lambda seed: ExpertActor(),
    "constant-velocity": lambda seed: ConstantVelocityActor(),
}


def baseline(name: str, seed: int = 0) -> Actor:
    """Return a baseline by its name on the command line.

    Raises:
        ConfigError: there is no such baseline.
    """
    if name not in BASELINES:
        raise ConfigError(f"there is no baseline {name!r}: use one of {', '.join(BASELINES)}")
    return BASELINES[name](seed)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What the golden hashes cover: every C env with settings, seeds and an autoreset mode. For the
tests and scripts/golden.py.

Three envs come from outside the core (two examples, and drift.c beside this file): they are
compiled with the compiler and flags of the build under test. The driving env runs on committed
sets, since compiling scenes is NumPy's arithmetic, which may round differently from CPU to CPU; the
env's own does not. One has two generated scenes ("drive"), one has two scenes of random numbers
with objects of all types, traffic lights and speed limits ("drive_lit"), and one has vehicles that
are placed at random on the maps of two generated scenes ("drive_placed").
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import puffervec
from drive_env.rules import RULES
from puffervec.contract.native import EnvData, NativeEnv
from puffervec.vec.vector_env import VectorEnv
from tests.cases import missing_from
from tests.libraries import compile_library

HERE = Path(__file__).resolve().parent
SCENES = {name: HERE / f"{name}.scenes" for name in ("drive", "drive_lit", "drive_placed")}
ENVS = 8  # two halves with up to four workers each
DRIVE_K, DRIVE_RANGE_M = (8, 4, 8), 30.0


@dataclass(frozen=True)
class Case:
    """An env with everything that fixes its bytes.

    Attributes:
        seeds: the first is checked in each run of the tests.
        weights: of the scenes of drive, as if each were a set with that weight.
    """

    name: str
    env: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    autoreset: str = "next_step"
    seeds: tuple[int, ...] = (1,)
    weights: tuple[float, ...] = ()

    def make(self, **settings: Any) -> VectorEnv:
        """Make it; settings as for `puffervec.make`, in this process unless they say otherwise."""
        given = {
            "backend": "serial",
            "num_envs": ENVS,
            "autoreset_mode": self.autoreset,
            **settings,
        }
        return puffervec.make(_env(self.env, self.weights), env_kwargs=self.kwargs, **given)


FIVE = (1, 2, 3, 4, 5)
PROBE = {"num_agents": 4, "leave": 1, "end_kind": 2, "episode_length": 5}
TAG = {"num_taggers": 3, "grid_length": 6, "episode_length": 25}
TAG_CONTINUOUS = {
    "num_taggers": 2,
    "num_runners": 3,
    "grid_length": 3.0,
    "episode_length": 30,
    "tagging_distance": 0.06,
}
CROWD = {
    "num_taggers": 8, "num_runners": 52, "grid_length": 8.0, "episode_length": 25,
    "tagging_distance": 0.03, "use_full_observation": False, "num_other_agents_observed": 10,
    "edge_hit_penalty": -0.125,
}  # fmt: skip
COVID = {
    "episode_length": 60, "action_cooldown_period": 5, "subsidy_interval": 9,
    "num_subsidy_levels": 7, "vaccine_delivery_start": 20, "delivery_interval": 6, "beta_delay": 11,
}  # fmt: skip
DRIVE = {
    "num_agents": 12, "max_steps": 60, "resample_steps": 200, "range_m": 30.0,
    "partners": 4, "lanes": 8, "lines": 4, "edges": 8,
}  # fmt: skip
PRESET = {"partners": 63, "lanes": 0, "lines": 0, "edges": 0}
LIT = {"num_agents": 20, "resample_steps": 60, "init_step": 3, "range_m": 30.0, "metrics": 1}
BLOCKS = {
    "route": 5,
    "route_step_m": 4.0,
    "controls": 4,
    "lidar_rays": 9,
    "partner_types": 1,
    "observe_previous_action": 1,
}
BEHAVIOURS = {"collision_behavior": "stop", "offroad_behavior": "remove", "goal_radius_m": 4.0}
IDM = {"others": "idm", "control": "predict", "idm_acceleration_mps2": 3.0}
# Followers that drive on along the lanes after their logs.
DRIVERS = {"others": "idm", "control": "predict", "max_steps": 50, "resample_steps": 160}
ALL_KINDS = "plain=2 varied=2 hasty timid inattentive late"
LIMITED = {
    "max_acceleration_mps2": 3.0,
    "max_steering_rate_radps": 0.7,
    "max_lateral_mps2": 4.0,
    "max_jerk_mps3": 9.0,
}
PAID = {
    "reward_ranges": "collision=-3:0 jerk=-0.1:0 lane_align=0:1 lane_center=-0.1:0 "
        "speed_limit=-0.1:0 red_light=-2:0 log=-0.1:0 haste=-0.1:0",
    "unknown_speed_limit_mps": 5.0, "observe_weights": 1, "reward_acceleration": -0.01,
    "reward_lateral": -0.02, "reward_step": -0.01,
}  # fmt: skip
# What is seen with "drive_lit": each preset of observations, each model of dynamics, who else moves
# how, and the rules of other benchmarks.
LIT_CASES: dict[str, dict[str, Any]] = {
    "compact, all blocks": {**BLOCKS, "control": "all"},
    "far, all blocks": {**BLOCKS, "control": "all", "observation": "far", "row_dtype": "uint8"},
    "pufferdrive, all blocks": {**BLOCKS, "control": "all", "observation": "pufferdrive"},
    "gpudrive, all blocks": {**BLOCKS, "control": "all", "observation": "gpudrive",
                             "row_dtype": "float16"},
    "raster of traffic": {"raster": 25, "raster_channels": "traffic", "raster_alone": 1,
                          "control": "all"},
    "bicycle with limits": {**LIMITED, "actions": "continuous", "control": "all",
                            "observe_motion": 1},
    "classic_gpudrive": {"dynamics": "classic_gpudrive", "actions": "multi_discrete",
                         "observe_previous_action": 1},
    "classic_pufferdrive": {"dynamics": "classic_pufferdrive",
                            "action_values": ("steering=-0.3,0,0.6",)},
    "invertible_bicycle, experts": {
        "dynamics": "invertible_bicycle", "actions": "continuous", "expert_actions": 1,
        "observe_previous_action": 1, "control": "all",
    },
    "delta_local": {"dynamics": "delta_local", "actions": "multi_discrete",
                    "observe_previous_action": 1, "control": "all"},
    "state": {"dynamics": "state", "actions": "continuous", "control": "valid"},
    "jerk": {"dynamics": "jerk", "observe_previous_action": 1, "observe_motion": 1,
             "control": "all"},
    "driver in a car": {"observation": "driver", "dynamics": "car", "max_jerk_mps3": 0.0,
                        "control": "all"},
    "rewards": {**PAID, "control": "all"},
    "idm, stop": {**IDM, **BEHAVIOURS, "goal_behavior": "stop"},
    "idm, drive on": {
        "others": "idm", "control": "sdc", "goal_behavior": "drive_on",
        "collision_behavior": "remove", "offroad_behavior": "stop",
    },
    "agents by idm": {"idm_agents": 1, "others": "idm", "control": "valid",
                      "goal_behavior": "respawn"},
    "traffic": {"traffic_idm": 0.4, "traffic_log": 0.3, "control": "valid", "max_steps": 20},
    "static, respawn": {
        **BEHAVIOURS, "others": "static", "goal_behavior": "respawn", "control": "ids",
        "control_ids": tuple(range(0, 1000, 2)),
    },
    "next goals": {"goal_behavior": "next", "next_goal_m": 12.0, "goal_radius_m": 5.0,
                   "control": "all"},
    "boxes of 0.7": {**BEHAVIOURS, "box_scale": 0.7, "goal_behavior": "respawn", "control": "all"},
    "conflicts": {"conflicts": 6, "reward_yield": -1.0, "control": "all"},
    "log": {"replay_log": 1, "control": "all"},
    "passes": {"scene_draws": "passes", "resample_steps": 20},
    "failed scenes again": {"replay_failed": 0.6, "resample_steps": 20, "max_steps": 15,
                            "goal_radius_m": 8.0},
    **{
        f"{kind} drivers": {**DRIVERS, "traffic_kinds": kind}
        for kind in ("plain", "varied", "hasty", "timid", "inattentive", "late")
    },
    "drivers of all kinds": {**DRIVERS, "traffic_kinds": ALL_KINDS},
    "traffic of all kinds": {
        "traffic_idm": 0.6, "traffic_log": 0.1, "traffic_kinds": ALL_KINDS, "control": "valid",
        "max_steps": 20,
    },
    **{
        f"rules of {name}": {**rules, "resample_steps": 200}
        for name, rules in RULES.items() if rules
    },
}  # fmt: skip
# Draws of the two scenes of "drive_lit" as of two sets with weights.
WEIGHTED = {**LIT, "num_agents": 24, "control": "all", "resample_steps": 12, "max_steps": 6}

CASES = [
    Case("probe", "probe", PROBE),
    Case("probe, two groups", "probe", {**PROBE, "mode": 1, "num_agents": 3}),
    Case("probe, same step", "probe", PROBE, "same_step"),
    Case("probe, no autoreset", "probe", {**PROBE, "leave": 0}, "disabled"),
    Case("cartpole", "cartpole", {"max_episode_steps": 200}, seeds=FIVE),
    Case("cartpole, same step", "cartpole", {"max_episode_steps": 40}, "same_step"),
    Case("cartpole, no autoreset", "cartpole", {"max_episode_steps": 40}, "disabled"),
    Case(
        "tag_grid",
        "tag_grid",
        {**TAG, "random_starts": True, "use_full_observation": False},
        seeds=FIVE,
    ),
    Case("tag_grid, full observation", "tag_grid", TAG),
    Case("tag_grid, five agents", "tag_grid", {**TAG, "num_taggers": 4, "random_starts": True}),
    Case("tag_grid, twelve agents", "tag_grid", {**TAG, "num_taggers": 11, "random_starts": True}),
    Case("tag_continuous", "tag_continuous", {**TAG_CONTINUOUS, "random_starts": True}, seeds=FIVE),
    Case(
        "tag_continuous, nearest",
        "tag_continuous",
        {**TAG_CONTINUOUS, "use_full_observation": False},
        "same_step",
    ),
    Case("tag_continuous, crowd", "tag_continuous", {**CROWD, "random_starts": True}),
    Case(
        "tag_continuous, crowd, full observation",
        "tag_continuous",
        {**CROWD, "use_full_observation": True},
    ),
    Case("covid", "covid"),
    Case("covid, short cycles", "covid", COVID, "same_step"),
    Case("drive", "drive", DRIVE, seeds=FIVE),
    Case("drive, same step", "drive", DRIVE, "same_step"),
    Case("drive, raster", "drive", {**DRIVE, "raster": 21, "raster_pixel_m": 1.3}),
    Case("drive, pufferdrive", "drive", {**DRIVE, **PRESET, "observation": "pufferdrive"}),
    Case(
        "drive, gpudrive",
        "drive",
        {**DRIVE, **PRESET, "observation": "gpudrive", "row_dtype": "float16"},
    ),
    Case(
        "drive, far",
        "drive",
        {**DRIVE, "observation": "far", "lidar_rays": 24, "row_dtype": "uint8"},
    ),
    *(
        Case(f"drive, lit, {name}", "drive_lit", {**LIT, **kwargs})
        for name, kwargs in LIT_CASES.items()
    ),
    *(
        Case(
            f"drive, lit, weighted sets, {draws}",
            "drive_lit",
            {**WEIGHTED, "scene_draws": draws},
            weights=(3.0, 1.0),
        )
        for draws in ("independent", "passes")
    ),
    Case(
        "drive, placed",
        "drive_placed",
        {**DRIVE, "num_agents": 24, "goal_behavior": "next", "next_goal_m": 25.0, "metrics": 1},
    ),
    Case("coin_grid", "coin_grid", {"size": 4, "episode_length": 30}),
    Case("lantern", "lantern", {"size": 7}),
    Case("drift", "drift", {"episode_length": 40}),
]
CASES += [Case(env, env) for env in missing_from(CASES)]
BY_NAME = {case.name: case for case in CASES}
# One case of each env, of drive the first one.
FIRST = {
    case.env: case.name for case in reversed(CASES) if case.env == "drive" or case.env not in SCENES
}


@dataclass(frozen=True)
class DriftConfig:
    """Settings of drift (drift.c)."""

    episode_length: int = 40
    """Steps until the episode is truncated."""


@dataclass(frozen=True)
class CoinGridConfig:
    """Settings of examples/out_of_tree."""

    size: int = 6
    episode_length: int = 64
    coin_reward: float = 1.0
    pit_penalty: float = 1.0


@dataclass(frozen=True)
class LanternConfig:
    """Settings of examples/ocean."""

    size: int = 9
    max_ticks: int = 32
    step_cost: float = 0.01


_EXAMPLES = HERE.parents[1] / "examples"
_OUTSIDE: dict[str, tuple[Path, type[Any]]] = {
    "drift": (HERE / "drift.c", DriftConfig),
    "coin_grid": (_EXAMPLES / "out_of_tree/coin_grid/coin_grid.c", CoinGridConfig),
    "lantern": (_EXAMPLES / "ocean/lantern/glue.c", LanternConfig),
}


@cache
def _env(name: str, weights: tuple[float, ...] = ()) -> Any:
    """Return what `puffervec.make` takes for an env. weights: as in Case."""
    if name in SCENES:
        from drive_env.config import DriveConfig
        from drive_env.env import params_of

        return NativeEnv(
            "drive",
            DriveConfig,
            lambda config: EnvData(
                data=SCENES[name], params={**params_of(config), **_draws_of(config, weights)}
            ),
        )
    if name not in _OUTSIDE:
        return name
    source, config = _OUTSIDE[name]
    return NativeEnv(
        name, config, lambda config: EnvData(), shared_library=str(_compiled(source, name))
    )


def _draws_of(config: Any, weights: tuple[float, ...]) -> dict[str, Any]:
    """Return the params by which scenes with weights are drawn, as those of drive_env/env.py."""
    from drive_env.prepare import Prepared

    nothing: Any = None
    sets = Prepared(HERE, nothing, (), counts=(1,) * len(weights), weights=weights)
    if sets.scene_weights is None:
        return {}
    independent = {"scene_weights": sets.scene_weights}
    return sets.set_params if config.scene_draws == "passes" else independent


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="puffervec-golden-")


def _compiled(source: Path, name: str) -> Path:
    flags = [f"-I{source.parent}", *os.environ.get("PV_GOLDEN_CFLAGS", "").split()]
    return compile_library(source, Path(_folder().name) / f"{name}.so", *flags)

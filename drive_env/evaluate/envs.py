# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Vector envs for evaluations, without shaping and with as many workers as are useful.

Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drive_env.config import DriveConfig
from puffervec.errors import SceneWarning

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv

SEED_STEP = 1_000_000  # between the seeds of one evaluation: more than a set has scenes
FOREVER = 1_000_000  # a value of resample_steps that no evaluation reaches


def evaluation_config(config: DriveConfig, overrides: Mapping[str, Any]) -> DriveConfig:
    """Return the config without shaping and traffic, with metrics, and without resampling."""
    largest = 4096  # the upper bound; the caller lowers it to what the scenes need
    return dataclasses.replace(
        config,
        **{
            "reward_progress": 0.0,
            "reward_step": 0.0,
            "traffic_idm": 0.0,
            "traffic_log": 0.0,
            "traffic_kinds": config.traffic_kinds if config.others == "idm" else "",
            "metrics": 1,
            "resample_steps": FOREVER,
            "num_agents": largest,
            **overrides,
        },
    )


def make_envs(config: DriveConfig, num_envs: int, seed: int, backend: str) -> VectorEnv:
    """Return a vector env for evaluation, with as many workers as are useful.

    It does not warn about scenes that were left out; the evaluation itself reports them.
    """
    import puffervec

    workers: dict[str, Any] = {"num_workers": 1} if backend == "serial" or num_envs < 4 else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SceneWarning)
        return puffervec.make(
            "drive", env_kwargs=config, backend=backend, num_envs=num_envs, seed=seed, **workers
        )


def longest(scenes: Any) -> int:
    """Return the largest number of frames of any scene."""
    return max(int(scenes.scene(index)[0]["frame_count"]) for index in range(len(scenes)))


def remarks_on_empty(names: Sequence[str], agents: Any, config: DriveConfig) -> list[str]:
    """Return a remark if scenes have no agent to evaluate.

    Args:
        names, agents: (scenes,) of all scenes.
    """
    empty = [name for name, count in zip(names, agents, strict=True) if not count]
    if not empty:
        return []
    why = (
        "no self-driving car is marked in them"
        if config.control == "sdc"
        else f"with control={config.control}"
    )
    examples = f"{', '.join(empty[:3])}{', ...' if len(empty) > 3 else ''}"
    return [
        f"NOT DRIVEN: {len(empty)} of the {len(names)} scenes have no agent to evaluate ({why}): "
        f"{examples}"
    ]


def remarks_on_split(config: DriveConfig) -> list[str]:
    """Return a remark if only a part of the scenes is driven."""
    if config.split == "all":
        return []
    return [
        f"only the scenes of the split {config.split} are driven; --env.split all drives all scenes"
    ]

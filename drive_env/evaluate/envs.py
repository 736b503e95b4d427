# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Vector envs for evaluations: settings without shaping, and as many workers as there is work for.
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
FOREVER = 1_000_000  # resample_steps that no evaluation reaches


def evaluation_config(config: DriveConfig, overrides: Mapping[str, Any]) -> DriveConfig:
    """The config with shaping and traffic off, metrics on, and bundles that are never drawn anew."""
    largest = 4096  # the most; the caller lowers it to what the scenes need
    return dataclasses.replace(
        config,
        **{
            "reward_progress": 0.0,
            "reward_step": 0.0,
            "traffic_idm": 0.0,
            "traffic_log": 0.0,
            "metrics": 1,
            "resample_steps": FOREVER,
            "num_agents": largest,
            **overrides,
        },
    )


def make_envs(config: DriveConfig, num_envs: int, seed: int, backend: str) -> VectorEnv:
    """A vector env for evaluation, with as many workers as there is work for. The evaluation itself
    says what was left out.
    """
    import puffervec

    workers: dict[str, Any] = {"num_workers": 1} if backend == "serial" or num_envs < 4 else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SceneWarning)
        return puffervec.make(
            "drive", env_kwargs=config, backend=backend, num_envs=num_envs, seed=seed, **workers
        )


def longest(scenes: Any) -> int:
    """Most frames of any scene."""
    return max(int(scenes.scene(index)[0]["frame_count"]) for index in range(len(scenes)))


def remarks_on_empty(names: Sequence[str], agents: Any, config: DriveConfig) -> list[str]:
    """Return a remark where scenes have nobody to evaluate. Args: names, agents: (scenes,) of all
    scenes.
    """
    empty = [name for name, count in zip(names, agents, strict=True) if not count]
    if not empty:
        return []
    why = (
        "no self-driving car is marked in them"
        if config.control == "sdc"
        else f"with control={config.control}"
    )
    some = f"{', '.join(empty[:3])}{', ...' if len(empty) > 3 else ''}"
    return [
        f"NOT DRIVEN: {len(empty)} of the {len(names)} scenes have no agent to evaluate ({why}): "
        f"{some}"
    ]


def remarks_on_split(config: DriveConfig) -> list[str]:
    """Return a remark where only a part of the scenes is driven."""
    if config.split == "all":
        return []
    return [
        f"only the scenes of the split {config.split} are driven; --env.split all takes every scene"
    ]

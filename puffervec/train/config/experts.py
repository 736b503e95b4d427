# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The expert of a run's env, for algorithms that learn from one. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from puffervec.contract.experts import Experts
from puffervec.errors import ConfigError
from puffervec.train.config import algorithms
from puffervec.train.config.sections import PolicySettings, TrainConfig
from puffervec.train.config.target import native_env


def experts_of(config: TrainConfig) -> Experts | None:
    """Return how the env plays the expert that the run's algorithm learns from.

    None if the algorithm learns from the policy's own actions.

    Raises: ConfigError: the env has no expert, or none with these settings.
    """
    name = config.train.algorithm
    if not algorithms.get(name).experts:
        return None
    native = native_env(config.target) if config.creator is None else None
    if native is None or native.experts is None:
        raise ConfigError(
            f"train.algorithm {name} learns from an expert's actions, but {config.target} has no "
            "expert (NativeEnv.experts): use another algorithm"
        )
    return native.experts(config.env)


def played_env(config: TrainConfig) -> Any:
    """Return the settings with which a run's env is made: those of its expert, if it plays one.

    Raises: ConfigError: see `experts_of`.
    """
    experts = experts_of(config)
    return config.env if experts is None else experts.settings


def check_experts(config: TrainConfig, policies: Collection[PolicySettings], groups: int) -> None:
    """Raise ConfigError unless the env has the expert that all policies learn from.

    An expert acts for all agents, so either all policies learn from it or none.

    Args: groups: number of row groups of the env.
    """
    experts = experts_of(config)
    if experts is not None and groups > 1:
        raise ConfigError(
            f"train.algorithm {config.train.algorithm}: {config.target} has {groups} row groups, "
            "but an expert acts for a single one: use another algorithm"
        )
    kinds = {own.role.learns and own.algorithm.experts for own in policies} | {experts is not None}
    if len(kinds) > 1:
        raise ConfigError(
            f"train.algorithm {config.train.algorithm}: an env's expert acts for all agents, so "
            "either all policies learn from it or none"
        )

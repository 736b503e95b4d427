# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Bundle what defines a run: its config, its env's spec, its device and its policies' rows.

It is created once, when a config is opened, and passed on, so that the env is not opened again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import torch

from puffervec.core.spec import EnvSpec
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec
from puffervec.train.policies.mapping import AgentMap, PolicyRows, explicit_map, policy_rows

CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """The definition of a run.

    Attributes:
        config: The settings.
        spec: The spec of the env that they describe.
        device: The device of the policies.
    """

    config: TrainConfig
    spec: EnvSpec
    device: torch.device = CPU

    @classmethod
    def of(
        cls, config: TrainConfig, device: torch.device = CPU, policy_map: AgentMap | None = None
    ) -> RunSpec:
        """Open the env of a config for its spec, and list the agents of each policy.

        Args:
            config: The settings.
            device: The device of the policies.
            policy_map: A function in place of `policy.map`; see `explicit_map`.

        Raises:
            ConfigError, SceneError: The env cannot be created, or the map does not fit it.
        """
        spec = env_spec(config)
        entries = explicit_map(spec, policy_map or config.policy.map)
        return cls(config.with_values("policy", map=entries), spec, device)

    @functools.cached_property
    def rows(self) -> Mapping[str, PolicyRows]:
        """Return the rows that each policy acts for, by policy name; see `policy_rows`."""
        return policy_rows(self.spec, self.config)

    def with_config(self, config: TrainConfig) -> RunSpec:
        """Return the run with another config of the same env."""
        return dataclasses.replace(self, config=config)

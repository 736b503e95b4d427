# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Bundle what defines a run: its config, its env's spec, its device and its policies' rows.

It is created once, when a config is opened, and passed on, so that the env is not opened again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import torch

from puffervec.core.spec import EnvSpec
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec
from puffervec.train.policies.mapping import PolicyRows, policy_rows

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
    def of(cls, config: TrainConfig, device: torch.device = CPU) -> RunSpec:
        """Open the env of a config for its spec.

        Raises:
            ConfigError, SceneError: The env cannot be created.
        """
        return cls(config, env_spec(config), device)

    @functools.cached_property
    def rows(self) -> Mapping[str, PolicyRows]:
        """Return the rows that each policy acts for, by policy name; see `policy_rows`."""
        return policy_rows(self.spec, self.config)

    def with_config(self, config: TrainConfig) -> RunSpec:
        """Return the run with another config of the same env."""
        return dataclasses.replace(self, config=config)

    def merged(self, tables: Mapping[str, Mapping[str, Any]]) -> RunSpec:
        """Return the run with other settings of the same env; see `TrainConfig.merged`."""
        return self.with_config(self.config.merged(tables))

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The policies of this package, small, with observations for them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from puffervec.train.config.sections import TrainConfig
from puffervec.train.policies.leaves import TORCH_DTYPES, arrays, policy_input
from puffervec.train.policies.run_spec import RunSpec

SMALL = {"hidden": (16, 16)}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("tag_grid", {}),
    "mingru": ("tag_grid", {"memory": "mingru"}),
    "lstm": ("tag_grid", {"memory": "lstm"}),
    "set encoder": ("drive", {}),
    "cnn": ("tests.wings.plan.policies:pictures", {}),
    "cnn with mingru": ("tests.wings.plan.policies:pictures", {"memory": "mingru"}),
    "normalized": ("CartPole-v1", {}),
    "continuous": ("Pendulum-v1", {}),
}


def make(kind: str, rows: int, seed: int = 0) -> tuple[nn.Module, tuple[Any, ...]]:
    """A policy, and arguments for so many rows: some of them begin, and some choices are forbidden
    where the env says which.
    """
    target, settings = KINDS[kind]
    config = TrainConfig.of(target, policy=SMALL | settings)
    if target == "drive":  # the preset's scenes take long to make
        config = config.merged({"env": {"scenes": "generated:2"}})
    (own,) = list(RunSpec.of(config).rows.values())[:1]
    torch.manual_seed(seed)
    policy = own.build().eval()
    obs = {
        key: _numbers(rows, shape, TORCH_DTYPES[dtype])
        for key, (_, dtype, shape) in arrays(own.group).items()
    }
    state = tuple(torch.rand_like(part) for part in policy.initial_state(rows))  # type: ignore[operator]
    size = own.group.action_mask_size
    mask = torch.randint(0, 2, (rows, size), dtype=torch.uint8) if size else None
    return policy, (policy_input(obs), state, torch.rand(rows) < 0.3, mask)


def _numbers(rows: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    if dtype.is_floating_point:
        return torch.randn(rows, *shape).to(dtype)
    return torch.randint(0, 200, (rows, *shape)).to(dtype)


def pictures() -> Any:
    """An env whose observations are pictures."""
    import gymnasium
    import numpy as np

    class Env(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(0, 255, (3, 24, 20), np.uint8)
        action_space = gymnasium.spaces.Discrete(4)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            return np.zeros((3, 24, 20), np.uint8), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return np.zeros((3, 24, 20), np.uint8), 0.0, True, False, {}

    return Env()

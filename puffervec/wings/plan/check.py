# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A check, before a run starts, that its policies can be planned in their mode `train.plan`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from puffervec.errors import ConfigError
from puffervec.train.collect.storage import Storage
from puffervec.train.learn.compiled import missing_compiler
from puffervec.train.policies.leaves import policy_input
from puffervec.train.policies.mapping import PolicyRows
from puffervec.wings.plan.build import PlanError, refuse_unplanned
from puffervec.wings.plan.tracing import trace

ROWS = 2


def check_plans(
    rows: Mapping[str, PolicyRows], policies: Mapping[str, nn.Module], device: torch.device
) -> None:
    """Plan the policies with `train.plan` = arena for a few rows, without running them.

    Args:
        rows: rows by the names of their policies.
        policies: the policies that do not come from the settings.
        device: device of the run's policies.

    Raises:
        ConfigError: an operation has no rule (the message names it and its place), or a mode cannot
            run on `device`.
    """
    for name, own in rows.items():
        mode = own.settings.train.plan
        if "cudagraph" in mode and device.type != "cuda":
            raise ConfigError(
                f"train.plan is {mode}: it needs a GPU, train.device is {device}: use eager, "
                "arena or compile"
            )
        if "compile" in mode and (missing := missing_compiler(device)):
            raise ConfigError(
                f"train.plan is {mode}, but {missing}; install it, or use eager or arena"
            )
        if mode == "arena":
            _check_arena(own, policies.get(name))


def _check_arena(own: PolicyRows, module: nn.Module | None) -> None:
    with torch.random.fork_rng(devices=[]):
        policy: Any = own.build() if module is None else copy.deepcopy(module).cpu()
    try:
        refuse_unplanned(trace(policy, example_arguments(own, policy, ROWS)).graph)
    except PlanError as error:
        raise ConfigError(f"train.plan is arena: {error}") from error


def example_arguments(own: PolicyRows, policy: Any, rows: int) -> tuple[Any, ...]:
    """Return arguments for rows that begin an episode: zeros, and all actions allowed."""
    storage = Storage(own.group, 0, rows, torch.device("cpu"), None, own.section.joint)
    obs = policy_input({key: part[0] for key, part in storage.obs.items()})
    mask = None if storage.action_masks is None else storage.action_masks[0].fill_(True)
    return obs, policy.initial_state(rows), torch.ones(rows, dtype=torch.bool), mask

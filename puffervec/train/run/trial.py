# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A trial call of each custom policy before workers start, to check what it returns."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.train.collect.storage import Storage
from puffervec.train.config.tables import suggest
from puffervec.train.device.device import refuse_more_on
from puffervec.train.policies.mapping import PolicyRows
from puffervec.train.policies.protocol import Policy, forward

ROWS = 2
_COPIES = 4  # weights, gradients and two moments


def refuse_large_policies(
    rows: Mapping[str, PolicyRows], given: Mapping[str, nn.Module], device: torch.device
) -> None:
    """Raise ConfigError if the policies from the settings do not fit into the device's memory.

    Allocates nothing.

    Args:
        rows: as for `try_policies`.
        given: as for `try_policies`.
        device: the device of the run.
    """
    count = 0
    for name, own in rows.items():
        if name not in given and ":" not in own.section.kind:
            with torch.device("meta"):
                count += sum(part.numel() for part in own.build().parameters())
    wanted, what = _COPIES * 4 * count, f"for {count:,} weights and their optimizer's state"
    refuse_more_on(device, wanted, "policy.hidden needs", what, "use narrower layers")


def try_policies(rows: Mapping[str, PolicyRows], given: Mapping[str, nn.Module]) -> None:
    """Call each custom policy with a few rows of zeros, on the CPU.

    Args:
        rows: rows by policy name.
        given: policies by name that do not come from the settings; only copies of them run.

    Raises:
        ConfigError: a policy fails or returns something unexpected, or there are no rows for it.
    """
    _check_given(rows, given)
    for name, own in rows.items():
        if name not in given and ":" not in own.section.kind:
            continue
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            policy = copy.deepcopy(given[name]).cpu() if name in given else own.build()
            storage = Storage(own.group, 1, ROWS, torch.device("cpu"), None, own.section.joint)
            _try(f"the policy {type(policy).__name__}", policy.eval(), storage)


def _check_given(rows: Mapping[str, PolicyRows], given: Mapping[str, Any]) -> None:
    for name, policy in given.items():
        if name not in rows:
            raise ConfigError(
                "policies: this env has no rows for a policy "
                f"{name!r}{suggest(str(name), list(rows))}"
            )
        if not isinstance(policy, nn.Module) or not isinstance(policy, Policy):
            raise ConfigError(
                f"policies: {name!r} is a {type(policy).__name__}: use an nn.Module with "
                "initial_state(rows) and forward(obs, state, reset, action_mask), see "
                "puffervec.train.policies.protocol"
            )


def _try(who: str, policy: Any, storage: Storage) -> None:
    obs = {key: part[0] for key, part in storage.obs.items()}
    mask = None if storage.action_masks is None else storage.action_masks[0].fill_(1)
    try:
        before = policy.initial_state(ROWS)
        heads, value, after = forward(policy, obs, before, torch.ones(ROWS, dtype=torch.bool), mask)
    except Exception as error:
        raise ConfigError(
            f"{who} fails on {ROWS} rows of zeros: {type(error).__name__}: {error}"
        ) from error
    _expect(
        who,
        "heads",
        heads,
        [(ROWS, size) for size in storage.spec.head_sizes],
        f"for {_action(storage)}",
    )
    _expect(who, "value", [value], [(ROWS,)], "one number per row")
    _expect(who, "state", after, [tuple(part.shape) for part in before], "as from initial_state")


def _expect(who: str, what: str, found: Any, shapes: Sequence[tuple[int, ...]], why: str) -> None:
    parts = found if isinstance(found, (tuple, list)) else [found]
    given = [
        tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts
    ]
    if given != list(shapes):
        raise ConfigError(
            f"{who} returned {what} of {_words(given)} for {ROWS} rows: must be {_words(shapes)}, "
            f"{why}; see puffervec.train.policies.protocol"
        )


def _words(shapes: Sequence[Any]) -> str:
    return ", ".join(map(str, shapes)) or "nothing"


def _action(storage: Storage) -> str:
    spec = storage.spec
    if spec.kind == "joint":
        return (
            f"a joint action of {' x '.join(map(str, spec.parts))} choices (ActionSpec.of(group, "
            "section.joint))"
        )
    return f"a {spec.kind.replace('_', '-')} action"

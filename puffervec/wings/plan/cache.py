# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Plans for batches of changing size, used in place of a policy in rollouts and evaluations.

A plan is for one shape. A batch that fills at least half the rows of an existing plan uses that
plan: the rows of a policy are independent, so the contents of the other rows do not matter. Any
other batch gets a new plan: for its own size if it is the largest so far (the size of a rollout's
batch never changes), otherwise for the next power of two. So an evaluation whose rows end one after
another needs only a few plans. Threads that run simultaneously get twins of a plan, because a
plan's memory serves only one run at a time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from puffervec.train.policies.distributions import Heads
from puffervec.train.policies.leaves import Observation, by_key
from puffervec.train.policies.memory import State
from puffervec.train.policies.pool import Pool
from puffervec.train.policies.protocol import Policy
from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.policy import POLICY_CARRY, TOLERANCES, PolicyPlan, check_mode

MOST_SIZES = 8  # Largest number of sizes with plans; the least recently used is removed first.
ROUNDED = TOLERANCES[torch.bfloat16]


class PlanCache:
    """A policy (see policies/protocol.py) that acts through plans.

    Several threads may call it simultaneously; on a GPU, from one stream. It returns new tensors.
    """

    def __init__(self, policy: nn.Module, mode: str) -> None:
        """Make a cache without plans.

        Args:
            policy: the policy to plan.
            mode: see `compile_policy`.

        Raises:
            PlanError: the module is not a policy, or the mode is unknown.
        """
        check_mode(mode)
        if not isinstance(policy, Policy):
            raise PlanError(
                f"PlanCache takes policies, and {type(policy).__name__} has no initial_state (see "
                "policies/protocol.py): use compile_policy, once per batch size"
            )
        self.policy, self.mode = policy, mode
        self._plans: OrderedDict[tuple[Any, ...], list[PolicyPlan]] = OrderedDict()  # by size
        self._free: dict[tuple[Any, ...], list[PolicyPlan]] = {}  # the plans that are not in use
        self._lock = threading.Lock()

    @property
    def plans(self) -> list[PolicyPlan]:
        """All plans: per size, as many as threads have used simultaneously."""
        return [plan for plans in self._plans.values() for plan in plans]

    @property
    def nbytes(self) -> int:
        """Bytes of all plans."""
        return sum(plan.nbytes for plan in self.plans)

    def describe(self) -> str:
        """Return a line per size: rows, plans, bytes."""
        lines = [
            f"{key[0]:>8,} rows  {len(plans)} x {plans[0].nbytes:,} bytes"
            for key, plans in self._plans.items()
            if plans
        ]
        return "\n".join([*lines, f"{self.nbytes:,} bytes in total"])

    def initial_state(self, rows: int) -> State:
        """Return the policy's initial state."""
        return self.policy.initial_state(rows)

    @torch.no_grad()
    def __call__(
        self,
        obs: Observation,
        state: State = (),
        reset: Tensor | None = None,
        action_mask: Tensor | None = None,
    ) -> tuple[Heads, Tensor, State]:
        """See policies/protocol.py. Returns new tensors."""
        rows = len(next(iter(by_key(obs).values())))
        key, plan = self._acquire((obs, state, reset, action_mask), rows)
        first, *others = plan.inputs
        fields = by_key(obs)
        for name, room in by_key(first).items():
            room[:rows].copy_(fields[name])
        for room, part in zip(tree_leaves(others), (*state, reset, action_mask), strict=True):
            if room is not None:
                room[:rows].copy_(part)
        plan.run()
        heads, value, after = plan.outputs
        results = (
            tuple(x[:rows].clone() for x in heads),
            value[:rows].clone(),
            tuple(x[:rows].clone() for x in after),
        )
        with self._lock:
            self._free.get(key, []).append(plan)
        return results

    def _acquire(self, args: tuple[Any, ...], rows: int) -> tuple[tuple[Any, ...], PolicyPlan]:
        """Return an unused plan with room for `rows` rows, and the key with which to return it."""
        with self._lock:
            kind = _kind(args, rows, self.policy.training)
            size = self._size(rows, kind)
            key = (size, *kind)
            if key not in self._plans:
                self._plans[key], self._free[key] = [self._make_plan(args, size, kind)], []
                self._free[key].append(self._plans[key][0])
                if len(self._plans) > MOST_SIZES:
                    self._free.pop(self._plans.popitem(last=False)[0])
            self._plans.move_to_end(key)
            if not self._free[key]:
                self._free[key].append(self._plans[key][0].twin())
                self._plans[key].append(self._free[key][0])
            return key, self._free[key].pop()

    def _size(self, rows: int, kind: tuple[Any, ...]) -> int:
        """Return the number of rows of the plan for a batch; see the module docstring."""
        sizes: list[int] = [key[0] for key in self._plans if key[1:] == kind]
        fitting = [size for size in sizes if rows <= size <= 2 * rows]
        if fitting:
            return min(fitting)
        return rows if all(size < rows for size in sizes) else 1 << (rows - 1).bit_length()

    def _make_plan(self, args: tuple[Any, ...], rows: int, kind: tuple[Any, ...]) -> PolicyPlan:
        padded = tree_map(lambda part: _pad_rows(part, rows), args)
        rounded = torch.is_autocast_enabled(kind[0])
        return PolicyPlan(
            self.policy, padded, self.mode, POLICY_CARRY, ROUNDED if rounded else None
        )


def acting(policy: Any, mode: str) -> Any:
    """Return the callable that acts for a policy in this mode.

    That is the policy itself in mode `eager`, or if it is a pool of policies.
    """
    return policy if mode == "eager" or isinstance(policy, Pool) else PlanCache(policy, mode)


def without_graphs(mode: str) -> str:
    """Return the mode without CUDA graphs if CUDA is missing or the caller makes the graphs."""
    return mode.removesuffix("+cudagraph") if mode != "cudagraph" else "eager"


def _kind(args: tuple[Any, ...], rows: int, training: bool) -> tuple[Any, ...]:
    """Return the properties, besides the number of rows, that require separate plans; device first.

    Raises:
        PlanError: the arguments have different numbers of rows.
    """
    obs, state, reset, mask = args
    named = {
        f"obs[{name!r}]" if name else "obs": part for name, part in sorted(by_key(obs).items())
    }
    named |= {f"state[{index}]": part for index, part in enumerate(state)} | {
        "reset": reset,
        "action_mask": mask,
    }
    for name, part in named.items():
        if part is not None and len(part) != rows:
            raise PlanError(
                f"{name} has {len(part)} rows, the observations have {rows}: the numbers must be "
                "equal"
            )
    device = next(iter(named.values())).device.type
    shapes = tuple(
        (name, part.dtype, part.shape[1:]) for name, part in named.items() if part is not None
    )
    return device, shapes, training, torch.is_autocast_enabled(device)


def _pad_rows(part: Any, rows: int) -> Any:
    """Return a tensor padded with zeros to a number of rows."""
    if not isinstance(part, Tensor):
        return part
    out = part.new_zeros(rows, *part.shape[1:])
    out[: len(part)].copy_(part)
    return out

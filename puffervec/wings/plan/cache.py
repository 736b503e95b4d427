# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Plans for batches of changing size: what roll-outs and evaluations call in the place of a policy.

A plan is for one shape. A batch that fits into the rows of a plan it has, and fills at least half
of them, goes through that
one: the rows of a policy do not know of each other, so what stands in the others does not matter.
Another batch gets a new
plan: for its own size where it is the largest so far (that of a roll-out never changes), else for
the next power of two. So an evaluation whose rows end one after another has a handful of plans.
Threads that come at the same time get twins of a plan: its memory serves one run at a time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from puffervec.train.policies.distributions import Heads
from puffervec.train.policies.leaves import Observation
from puffervec.train.policies.memory import State
from puffervec.train.policies.pool import Pool
from puffervec.train.policies.protocol import Policy
from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.policy import POLICY_CARRY, TOLERANCES, PolicyPlan, check_mode

MOST_SIZES = 8  # those not used for longest go first
ROUNDED = TOLERANCES[torch.bfloat16]


class PlanCache:
    """A policy (see policies/protocol.py) that acts through plans. May be called by several threads
    at once; on a GPU, from one stream. What it returns is the caller's.
    """

    def __init__(self, policy: nn.Module, mode: str, most: int = MOST_SIZES) -> None:
        """Args: mode: see `compile_policy`; most: sizes that have plans at the same time.

        Raises: PlanError: the module is not a policy, or an unknown mode.
        """
        check_mode(mode)
        if not isinstance(policy, Policy):
            raise PlanError(
                f"PlanCache takes policies, and {type(policy).__name__} has no initial_state (see "
                "policies/protocol.py): use compile_policy, once per batch size"
            )
        self.policy, self.mode, self.most = policy, mode, most
        self._plans: OrderedDict[tuple[Any, ...], list[PolicyPlan]] = OrderedDict()  # all of a size
        self._free: dict[tuple[Any, ...], list[PolicyPlan]] = {}  # those that nobody uses now
        self._lock = threading.Lock()

    @property
    def plans(self) -> list[PolicyPlan]:
        """All plans: of a size, as many as threads have used at the same time."""
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
        return "\n".join([*lines, f"{self.nbytes:,} bytes in all"])

    def initial_state(self, rows: int) -> State:
        """The policy's."""
        return self.policy.initial_state(rows)

    @torch.no_grad()
    def __call__(
        self,
        obs: Observation,
        state: State = (),
        reset: Tensor | None = None,
        action_mask: Tensor | None = None,
    ) -> tuple[Heads, Tensor, State]:
        """See policies/protocol.py. What it returns is the caller's."""
        rows = len(next(iter(_fields(obs).values())))
        key, plan = self._taken((obs, state, reset, action_mask), rows)
        first, *others = plan.inputs
        given = _fields(obs)
        for name, room in _fields(first).items():
            room[:rows].copy_(given[name])
        for room, part in zip(tree_leaves(others), (*state, reset, action_mask), strict=True):
            if room is not None:
                room[:rows].copy_(part)
        plan.run()
        heads, value, after = plan.outputs
        found = (
            tuple(x[:rows].clone() for x in heads),
            value[:rows].clone(),
            tuple(x[:rows].clone() for x in after),
        )
        with self._lock:
            self._free.get(key, []).append(plan)
        return found

    def _taken(self, args: tuple[Any, ...], rows: int) -> tuple[tuple[Any, ...], PolicyPlan]:
        """Return a plan with room for so many rows, which nobody else uses, and under what it is to
        be given back.
        """
        with self._lock:
            kind = _kind(args, rows, self.policy.training)
            size = rows if (rows, *kind) in self._plans else self._size(rows, kind)
            key = (size, *kind)
            if key not in self._plans:
                self._plans[key], self._free[key] = [self._made(args, size, kind)], []
                self._free[key].append(self._plans[key][0])
                if len(self._plans) > self.most:
                    self._free.pop(self._plans.popitem(last=False)[0])
            self._plans.move_to_end(key)
            if not self._free[key]:
                self._free[key].append(self._plans[key][0].twin())
                self._plans[key].append(self._free[key][0])
            return key, self._free[key].pop()

    def _size(self, rows: int, kind: tuple[Any, ...]) -> int:
        """Return the rows of the plan for so many; see the head of this file."""
        sizes = [key[0] for key in self._plans if key[1:] == kind]
        fitting = [size for size in sizes if rows <= size <= 2 * rows]
        return (
            min(fitting)
            if fitting
            else rows
            if rows > max(sizes, default=0)
            else 1 << (rows - 1).bit_length()
        )

    def _made(self, args: tuple[Any, ...], rows: int, kind: tuple[Any, ...]) -> PolicyPlan:
        padded = tree_map(lambda part: _padded(part, rows), args)
        rounded = torch.is_autocast_enabled(kind[0])
        return PolicyPlan(
            self.policy, padded, self.mode, POLICY_CARRY, ROUNDED if rounded else None
        )


def acting(policy: Any, mode: str) -> Any:
    """Return what acts for a policy in this mode: the policy itself in mode `eager`, and where it
    is a pool of policies.
    """
    return policy if mode == "eager" or isinstance(policy, Pool) else PlanCache(policy, mode)


def without_graphs(mode: str) -> str:
    """Return the mode for where there are no CUDA graphs, or where others make them."""
    return mode.removesuffix("+cudagraph") if mode != "cudagraph" else "eager"


def _fields(obs: Observation) -> dict[str, Tensor]:
    return obs if isinstance(obs, dict) else {"": obs}


def _kind(args: tuple[Any, ...], rows: int, training: bool) -> tuple[Any, ...]:
    """Return what plans differ in besides the number of rows, the device first. Raises: PlanError:
    other numbers of rows.
    """
    obs, state, reset, mask = args
    named = {
        f"obs[{name!r}]" if name else "obs": part for name, part in sorted(_fields(obs).items())
    }
    named |= {f"state[{index}]": part for index, part in enumerate(state)} | {
        "reset": reset,
        "action_mask": mask,
    }
    for name, part in named.items():
        if part is not None and len(part) != rows:
            raise PlanError(
                f"{name} has {len(part)} rows, the observations have {rows}: all must have the "
                "same number"
            )
    device = next(iter(named.values())).device.type
    shapes = tuple(
        (name, part.dtype, part.shape[1:]) for name, part in named.items() if part is not None
    )
    return device, shapes, training, torch.is_autocast_enabled(device)


def _padded(part: Any, rows: int) -> Any:
    """A tensor with so many rows, zeros behind its own."""
    if not isinstance(part, Tensor):
        return part
    out = part.new_zeros(rows, *part.shape[1:])
    out[: len(part)].copy_(part)
    return out

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The memory that a roll-out fills, and a half's rows as tensors on the bytes that the workers
write. Runs in the learner.

Storage is time-major with T + 1 steps; the last step of a roll-out is the first of the next, with
the action that was drawn for it. One storage per policy holds its rows of all halves side by side.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puffervec.core.spec import GroupSpec
from puffervec.doors import unwrapped
from puffervec.train.device.device import in_pieces, refuse_more_on
from puffervec.train.policies.distributions import ActionMap, ActionSpec
from puffervec.train.policies.leaves import ROW, TORCH_DTYPES, Observations, arrays, stored_dtype
from puffervec.train.policies.mapping import PolicyRows
from puffervec.train.policies.memory import State

# What a storage takes of a half's rows, besides the observations.
FLAGS = ("rewards", "terminals", "truncations", "masks", "action_masks")


class Storage:
    """What a roll-out leaves for the update: the rows of one policy.

    obs: (T+1, R, ...) by key: of each field, or under ROW rows as they stand, (T+1, R, width).
    actions (T+1, R, D) as drawn, before `action_map`; rewards, values, log_probs (T+1, R) float32;
    terminals, truncations, masks (T+1, R) uint8; action_masks (T+1, R, choices) uint8 or None. For
    policies with memory: resets (T+1, R) uint8; first_states and last_states, what they remembered
    before step 0 and before step T, per half.

    Where a policy does not learn (`kept` False, on a CPU), only rewards and flags have T+1 steps.
    Of the rest all steps are the latest one, in the same memory.
    """

    def __init__(
        self,
        group: GroupSpec,
        horizon: int,
        rows: int,
        device: torch.device,
        obs_dtype: torch.dtype | None,
        joint: bool = False,
        kept: bool = True,
    ) -> None:
        """Args: rows: R, over all halves; obs_dtype: for float observations of C envs, None keeps
        the env's; joint: see `ActionSpec.of`; kept: see above.
        """
        self.spec = ActionSpec.of(group, joint)
        self.action_map = ActionMap(self.spec, device, TORCH_DTYPES[group.action_dtype])
        self.horizon, self.rows, self.device = horizon, rows, device
        steps = (horizon + 1, rows)

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            """Of all steps, or of the latest one."""
            found = torch.zeros(
                horizon + 1 if kept else 1, rows, *shape, dtype=dtype, device=device
            )
            return found if kept else found.expand(*steps, *shape)

        self.obs: Observations = {
            key: zeros(*shape, dtype=_storage_dtype(group, dtype, obs_dtype))
            for key, (_, dtype, shape) in arrays(group).items()
        }
        self.actions = zeros(self.spec.dims, dtype=self.spec.dtype)
        self.rewards, self.values, self.log_probs = (
            torch.zeros(steps, device=device),
            zeros(),
            zeros(),
        )
        self.terminals, self.truncations, self.masks = (
            torch.zeros(steps, dtype=torch.uint8, device=device) for _ in range(3)
        )
        self.resets = zeros(dtype=torch.uint8)
        self.action_masks: Tensor | None = None
        if group.action_mask_size:
            self.action_masks = zeros(group.action_mask_size, dtype=torch.uint8)
        self.first_states: dict[int, State] = {}
        self.last_states: dict[int, State] = {}

    def tensors(self) -> dict[str, Tensor]:
        """All arrays by name, T + 1 steps each."""
        names = (
            "actions",
            "rewards",
            "values",
            "log_probs",
            "terminals",
            "truncations",
            "masks",
            "resets",
            "action_masks",
        )
        named = {name: getattr(self, name) for name in names}
        observations = {
            f"obs.{key}" if key != ROW else "obs": part for key, part in self.obs.items()
        }
        return {
            name: tensor for name, tensor in (observations | named).items() if tensor is not None
        }

    def valid(self) -> Tensor:
        """Return (T, R) bool: the transition from a step to the next is one of an agent's episode."""
        goes_on = (self.masks[:-1] != 0) & (self.terminals[:-1] == 0) & (self.truncations[:-1] == 0)
        return goes_on & (self.masks[1:] != 0)

    def first_state(self) -> State:
        """Return what the policy remembered before step 0, (R, ...) each; () of policies without
        memory.
        """
        halves = [self.first_states[half] for half in sorted(self.first_states)]
        return tuple(torch.cat(parts) for parts in zip(*halves, strict=True))

    def copy_from(self, other: Storage) -> None:
        """Take over the roll-out of a storage of the same shape."""
        for name, tensor in self.tensors().items():
            tensor.copy_(other.tensors()[name])
        self.first_states, self.last_states = dict(other.first_states), dict(other.last_states)

    def carry_over(self) -> None:
        """Copy the last step to the first: a roll-out begins where the one before ended."""
        for tensor in self.tensors().values():
            tensor[0].copy_(tensor[-1])
        self.first_states = dict(self.last_states)


def storage_of(
    rows: PolicyRows, num_envs: int, horizon: int, device: torch.device, bf16: bool
) -> Storage:
    """Return room for roll-outs of a policy."""
    obs_dtype = torch.bfloat16 if bf16 else None
    kept = rows.settings.role.learns or not in_pieces(device)
    return Storage(
        rows.group,
        horizon,
        rows.group.agents * num_envs,
        device,
        obs_dtype,
        rows.section.joint,
        kept,
    )


def step_bytes(
    group: GroupSpec, rows: int, obs_dtype: torch.dtype | None, joint: bool = False
) -> int:
    """Return the bytes that one step of a `Storage` takes; allocates nothing. Args: as of
    `Storage`.
    """
    one_row = Storage(group, 0, 1, torch.device("meta"), obs_dtype, joint)
    return rows * sum(tensor.nbytes for tensor in one_row.tensors().values())


def refuse_large(
    policies: Iterable[PolicyRows],
    num_envs: int,
    horizon: int,
    device: torch.device,
    obs_dtype: torch.dtype | None,
    *,
    copies: int = 1,
) -> None:
    """Raise ConfigError where the storages of a run would not fit into the memory of `device`;
    allocates nothing.
    """
    row_bytes = sum(
        step_bytes(own.group, own.group.agents * num_envs, obs_dtype, own.section.joint)
        for own in policies
    )
    wanted = copies * (horizon + 1) * row_bytes
    what = f"for roll-outs of {horizon:,} steps of {num_envs:,} envs"
    refuse_more_on(
        device,
        wanted,
        "train.horizon needs",
        what,
        "use a shorter train.horizon, or fewer vec.num_envs",
    )


def _storage_dtype(
    group: GroupSpec, dtype: np.dtype[Any], wanted: torch.dtype | None
) -> torch.dtype:
    if group.observation_plan is not None:
        return stored_dtype(group.observation_plan)
    kept: torch.dtype = TORCH_DTYPES[dtype]
    return wanted if wanted is not None and kept == torch.float32 else kept


@dataclasses.dataclass
class Slot:
    """Rows of one group that one policy acts for.

    Attributes:
        policy: what learns: an nn.Module with the protocol of policies/protocol.py.
        agents: those of an env that the policy acts for; None: all.
        wrap: makes of the policy what is called in roll-outs; see `puffervec.doors.policy_wrapper`.
    """

    name: str
    policy: Any
    group: GroupSpec
    storage: Storage
    agents: tuple[int, ...] | None = None
    wrap: Callable[[Any], Any] = unwrapped

    @functools.cached_property
    def acting(self) -> Any:
        """What is called in roll-outs in the place of the policy."""
        return self.wrap(self.policy)


@dataclasses.dataclass
class Rows:
    """A half's rows of one group, as tensors on the block (CPU: the slab itself; CUDA: the fixed
    buffer it is copied to).
    """

    obs: Observations
    rewards: Tensor
    terminals: Tensor
    truncations: Tensor
    masks: Tensor
    action_masks: Tensor | None
    actions: Tensor  # always the slab's
    actions_at: int  # where they begin in the block, in bytes


def pick(source: Tensor, rows: Tensor | None) -> Tensor:
    return source if rows is None else source[rows]


def rows_of(block: Tensor, half: Any, group: GroupSpec) -> Rows:
    """Return a half's rows of a group as tensors on `block`; the actions always on the slab itself."""
    slab = half.groups[group.name]
    count = len(slab.rewards)

    def view(field: str, dtype: torch.dtype, *shape: int) -> Tensor:
        begin = half.offsets[group.name, field]
        size = int(np.prod(shape)) * torch.empty((), dtype=dtype).element_size()
        return block.narrow(0, begin, size).view(dtype).view(shape)

    raw = view("observations", torch.uint8, count, group.observation_bytes)
    obs = {}
    for key, (offset, dtype, shape) in arrays(group).items():
        part = raw.narrow(1, offset, int(np.prod(shape)) * dtype.itemsize).view(TORCH_DTYPES[dtype])
        obs[key] = part.view(count, *shape)
    choices = group.action_mask_size
    return Rows(
        obs=obs,
        rewards=view("rewards", torch.float32, count),
        terminals=view("terminals", torch.uint8, count),
        truncations=view("truncations", torch.uint8, count),
        masks=view("masks", torch.uint8, count),
        action_masks=view("action_masks", torch.uint8, count, choices) if choices else None,
        actions=torch.from_numpy(slab.actions).view(count, -1),
        actions_at=half.offsets[group.name, "actions"],
    )

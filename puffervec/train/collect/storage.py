# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Hold a rollout in memory, and view a half's rows as tensors on the bytes that workers write.

Storage is time-major with T + 1 steps. The last step of a rollout is the first of the next,
together with the action drawn for it. There is one storage per policy, which holds its rows of all
halves next to each other. Runs in the learner.
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

# The arrays that a storage copies from a half's rows, apart from the observations.
FLAGS = ("rewards", "terminals", "truncations", "masks", "action_masks")


class Storage:
    """The rollout of one policy's rows, for the update.

    If the policy does not learn and runs on a CPU (`whole` False), only rewards and flags have T+1
    separate steps. Of the other arrays only the latest step exists, and all steps alias it.

    Attributes:
        obs: (T+1, R, ...) by key: each field, or whole rows (T+1, R, width) under ROW.
        actions: (T+1, R, D) as drawn, before `action_map`.
        rewards, values, log_probs: (T+1, R) float32.
        terminals, truncations, masks: (T+1, R) uint8.
        action_masks: (T+1, R, choices) uint8 or None.
        resets: (T+1, R) uint8, for policies with memory.
        first_states, last_states: The policy's states before step 0 and before step T, per half.
    """

    def __init__(
        self,
        group: GroupSpec,
        horizon: int,
        rows: int,
        device: torch.device,
        obs_dtype: torch.dtype | None,
        joint: bool = False,
        whole: bool = True,
    ) -> None:
        """Allocate the arrays.

        Args:
            rows: R, over all halves.
            obs_dtype: Dtype of float32 observations of C envs; None keeps float32.
            joint: See `ActionSpec.of`.
            whole: Whether all arrays have T+1 separate steps, see the class.
        """
        self.spec = ActionSpec.of(group, joint)
        self.action_map = ActionMap(self.spec, device, TORCH_DTYPES[group.action_dtype])
        self.horizon, self.rows, self.device = horizon, rows, device
        steps = (horizon + 1, rows)

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            """Return zeros for all steps, or for the latest one."""
            array = torch.zeros(
                horizon + 1 if whole else 1, rows, *shape, dtype=dtype, device=device
            )
            return array if whole else array.expand(*steps, *shape)

        self.obs: Observations = {
            key: zeros(*shape, dtype=_storage_dtype(group, dtype, obs_dtype))
            for key, (_, dtype, shape) in arrays(group).items()
        }
        self.actions = zeros(self.spec.dims, dtype=self.spec.dtype)
        self.rewards = torch.zeros(steps, device=device)
        self.values, self.log_probs = zeros(), zeros()
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
        """Return all arrays by name, T + 1 steps each."""
        names = ("actions", "rewards", "values", "log_probs", "terminals", "truncations", "masks")
        by_name = {name: getattr(self, name) for name in (*names, "resets", "action_masks")}
        observations = {
            f"obs.{key}" if key != ROW else "obs": part for key, part in self.obs.items()
        }
        return {
            name: tensor for name, tensor in (observations | by_name).items() if tensor is not None
        }

    def valid(self) -> Tensor:
        """Return (T, R) bool: whether the transition from a step to the next is valid."""
        live = (self.masks[:-1] != 0) & (self.terminals[:-1] == 0) & (self.truncations[:-1] == 0)
        return live & (self.masks[1:] != 0)

    def first_state(self) -> State:
        """Return the policy's state before step 0, (R, ...) each; () without memory."""
        halves = [self.first_states[half] for half in sorted(self.first_states)]
        return tuple(torch.cat(parts) for parts in zip(*halves, strict=True))

    def copy_from(self, other: Storage) -> None:
        """Copy the rollout of a storage of the same shape."""
        for name, tensor in self.tensors().items():
            tensor.copy_(other.tensors()[name])
        self.first_states, self.last_states = dict(other.first_states), dict(other.last_states)

    def carry_over(self) -> None:
        """Copy the last step to the first: a rollout begins where the previous one ended."""
        for tensor in self.tensors().values():
            tensor[0].copy_(tensor[-1])
        self.first_states = dict(self.last_states)


def storage_of(
    rows: PolicyRows, num_envs: int, horizon: int, device: torch.device, bf16: bool
) -> Storage:
    """Return a storage for rollouts of a policy."""
    obs_dtype = torch.bfloat16 if bf16 else None
    whole = rows.settings.role.learns or not in_pieces(device)
    return Storage(
        rows.group,
        horizon,
        rows.group.agents * num_envs,
        device,
        obs_dtype,
        rows.section.joint,
        whole,
    )


def step_bytes(
    group: GroupSpec, rows: int, obs_dtype: torch.dtype | None, joint: bool = False
) -> int:
    """Return the bytes of one step of a `Storage` with these arguments; allocate nothing."""
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
    """Raise ConfigError if a run's storages would not fit into `device`; allocate nothing."""
    row_bytes = sum(
        step_bytes(own.group, own.group.agents * num_envs, obs_dtype, own.section.joint)
        for own in policies
    )
    wanted = copies * (horizon + 1) * row_bytes
    what = f"for rollouts of {horizon:,} steps of {num_envs:,} envs"
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
    own: torch.dtype = TORCH_DTYPES[dtype]
    return wanted if wanted is not None and own == torch.float32 else own


@dataclasses.dataclass
class Slot:
    """The rows of one group that one policy acts for.

    Attributes:
        policy: The policy that learns: an nn.Module with the protocol of policies/protocol.py.
        agents: The agents of an env that the policy acts for; None for all.
        wrap: Turns the policy into what rollouts call; see `puffervec.doors.policy_wrapper`.
    """

    name: str
    policy: Any
    group: GroupSpec
    storage: Storage
    agents: tuple[int, ...] | None = None
    wrap: Callable[[Any], Any] = unwrapped

    @functools.cached_property
    def acting(self) -> Any:
        """Return what rollouts call in place of the policy."""
        return self.wrap(self.policy)


@dataclasses.dataclass
class Rows:
    """A half's rows of one group, as tensors on the block.

    On a CPU the block is the slab itself, on CUDA the fixed buffer that it is copied to.

    Attributes:
        actions: Always in the slab.
        actions_at: Byte in the block at which the actions start.
    """

    obs: Observations
    rewards: Tensor
    terminals: Tensor
    truncations: Tensor
    masks: Tensor
    action_masks: Tensor | None
    actions: Tensor
    actions_at: int


def pick(source: Tensor, rows: Tensor | None) -> Tensor:
    """Return some rows of `source`, all where `rows` is None."""
    return source if rows is None else source[rows]


def rows_of(block: Tensor, half: Any, group: GroupSpec) -> Rows:
    """Return a half's rows of a group as tensors on `block`; actions are always in the slab."""
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

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rows of a vector env as torch tensors that share its memory.

Nothing is copied. A tensor here is a view on bytes of the slab, so it is made once and then always
shows the newest rows:

    view = puffervec.TorchView(vec)
    vec.async_reset(seed=0)
    while True:
        vec.recv()
        view.actions.copy_(policy(view.observations))    # straight into the action rows
        vec.send(None)                                   # the slab already holds them

Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from puffervec.core.slab import GroupRows
from puffervec.errors import ConfigError
from puffervec.system import extras
from puffervec.vec.vector_env import VectorEnv

with extras.required("puffervec.TorchView"):
    import torch
    from torch import Tensor

# The tensors of a group, by the names that they have in the slab's rows.
_ARRAYS = ("rewards", "terminals", "truncations", "masks", "agent_types", "actions", "agent_ids")


@dataclass(frozen=True)
class TorchRows:
    """One group's rows of one half, as tensors on the CPU.

    Attributes:
        observations: (rows, F) tensor as `recv` shows it, or a dict of (rows, ...) tensors by field
        where data types are mixed.
        native_observations: the same bytes in the nesting of the env's own space (dicts and tuples
            of (rows, ...) tensors); for C envs and plain Box spaces the same object as
            `observations`.
        final_observations: like observations, valid in rows that are done in this batch; None
        unless autoreset is "same_step".
        rewards: (rows,) float32. terminals, truncations, masks: (rows,) bool. agent_types: (rows,)
        uint8.
        action_masks: (rows, choices) bool, or None.
        actions: (rows,) or (rows, D) in the slab's own dtype (uint8, int32 or float32 for C envs,
            see `GroupSpec.action_row_dtype`); the one to write into.
        agent_ids: (rows,) int64.
    """

    observations: Any
    native_observations: Any
    final_observations: Any
    rewards: Tensor
    terminals: Tensor
    truncations: Tensor
    masks: Tensor
    agent_types: Tensor
    action_masks: Tensor | None
    actions: Tensor
    agent_ids: Tensor


class TorchView:
    """The rows of one half of a vector env as torch tensors, without a copy.

    Args:
        vec: any vector env of this package, in any state; not changed and not kept from being
        closed.
        half: which half; 0 for a vector env with one buffer. `TorchView.halves(vec)` makes one per
            half.

    Attributes:
        half: as given. groups: TorchRows by group name. block: (bytes,) uint8, the whole contiguous
            block of the half, for one copy of everything to a device; `vec.halves[half].offsets`
            tells where each array begins in it.
        observations, native_observations, final_observations, rewards, terminals, truncations,
            masks, agent_types,
            action_masks, actions, agent_ids: those of the group; dicts by group name where there
                are several groups.

    Aliasing: workers write the rows from `send` until `recv` of the half, so read and write between
    `recv` and `send` only, and clone what must outlive that. With `copy=True` in `make` the arrays
    from `recv` are copies, these tensors never are. The tensors stay readable after `vec.close()`:
    the memory lives as long as something refers to it. Data types are the NumPy ones (bool, uint8,
    int32, float32, ...); cast to what the policy needs after the copy to the device.

    Raises:
        ConfigError: no such half, or a field whose rows torch cannot address.
    """

    def __init__(self, vec: VectorEnv, half: int = 0) -> None:
        if not 0 <= half < vec.num_buffers:
            raise ConfigError(
                f"half is {half}: use 0 to {vec.num_buffers - 1}, this vector env has "
                f"{vec.num_buffers} half(s)"
            )
        self.half = half
        self.groups = {name: _torch_rows(rows) for name, rows in vec.halves[half].groups.items()}
        self.block = torch.from_numpy(vec.halves[half].block)
        first = next(iter(self.groups.values()))
        single = len(self.groups) == 1

        def shown(array: str) -> Any:
            return (
                getattr(first, array)
                if single
                else {name: getattr(rows, array) for name, rows in self.groups.items()}
            )

        self.observations, self.native_observations = (
            shown("observations"),
            shown("native_observations"),
        )
        self.final_observations, self.action_masks = (
            shown("final_observations"),
            shown("action_masks"),
        )
        self.rewards, self.terminals, self.truncations = (
            shown("rewards"),
            shown("terminals"),
            shown("truncations"),
        )
        self.masks, self.agent_types = shown("masks"), shown("agent_types")
        self.actions, self.agent_ids = shown("actions"), shown("agent_ids")

    @classmethod
    def halves(cls, vec: VectorEnv) -> tuple[Self, ...]:
        """Return one view per half, in order."""
        return tuple(cls(vec, half) for half in range(vec.num_buffers))


def map_leaves(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return the same nesting of dicts, tuples and lists with `change(leaf)` in place of each leaf.

    >>> map_leaves({"a": (1, 2), "b": 3}, lambda leaf: 10 * leaf)
    {'a': (10, 20), 'b': 30}
    """
    if isinstance(tree, Mapping):
        return {key: map_leaves(value, change) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_leaves(value, change) for value in tree)
    return change(tree)


def _tensor(array: np.ndarray) -> Tensor:
    """Return a tensor on the array's memory, or raise ConfigError."""
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"torch cannot show rows of dtype {array.dtype} that lie {array.strides} bytes apart "
            f"({error}): pad the observation row to a multiple of its widest field"
        ) from None


def _torch_rows(rows: GroupRows) -> TorchRows:
    plan = rows.spec.observation_plan
    observations = map_leaves(rows.observations, _tensor)
    native = (
        observations
        if plan is None or plan.is_flat
        else map_leaves(plan.views(rows.observations), _tensor)
    )
    return TorchRows(
        observations=observations,
        native_observations=native,
        final_observations=None
        if rows.final_observations is None
        else map_leaves(rows.final_observations, _tensor),
        action_masks=None if rows.action_masks is None else _tensor(rows.action_masks),
        **{name: _tensor(getattr(rows, name)) for name in _ARRAYS},
    )

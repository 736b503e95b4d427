# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Turns a batch of actions, as Gymnasium's users give it, into the rows that a puffervec vector env sends.

Runs in the learner.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from puffervec.emulation import ActionPlan


class ActionWriter:
    """Checks and lays out batches of actions of one group of rows."""

    def __init__(self, plan: ActionPlan, batched: gymnasium.Space[Any], num_envs: int) -> None:
        """`plan` says how one row is laid out; `batched` is the vector env's action space."""
        self._plan, self._batched, self._num_envs = plan, batched, num_envs
        self._shape = (num_envs, *plan.row_shape)
        self._plain = plan.emulated_space is plan.space  # an action is one array of numbers, which stands in the row unchanged

    def rows(self, actions: Any) -> Any:
        """Return what `send` wants.

        Args:
            actions: an element of the batched action space, or a list or tuple with one action per env; whole numbers of any
                width for discrete spaces.
        Raises:
            ValueError: too few or too many. TypeError: not iterable.
        """
        if self._plain:
            return self._plain_rows(actions)
        rows = np.zeros(self._shape, self._plan.row_dtype)
        for row, action in zip(rows, self.one_by_one(actions), strict=True):
            self._plan.encode(action, row)
        return rows

    def one_by_one(self, actions: Any) -> list[Any]:
        """Return the actions of all envs as a list. Raises as `rows`."""
        given = list(iterate(self._batched, actions))
        self._check_count(len(given))
        return given

    def _plain_rows(self, actions: Any) -> NDArray[Any]:
        """The common case: numbers that stand in the rows as they are."""
        array = np.asarray(actions)
        if array.ndim == 0:
            raise TypeError(f"Unable to iterate over the actions {actions!r}: give one action per env ({self._num_envs})")
        self._check_count(len(array))
        if array.shape != self._shape and array.size == int(np.prod(self._shape)):
            return array.reshape(self._shape)
        return array

    def _check_count(self, count: int) -> None:
        if count != self._num_envs:
            raise ValueError(f"{count} actions for {self._num_envs} envs: give one per env")

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Conversion of action batches into what `send` takes, and of observation rows into batches.

Each env gets the action that Gymnasium's own vector envs would pass to it: numbers keep their type,
even if the space has another one, and values may be out of range. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from puffervec.core.actions import Native
from puffervec.core.infos import Infos
from puffervec.errors import ActionError
from puffervec.workers.python.emulation import ActionPlan, ObservationPlan
from puffervec.workers.python.emulation.layout import LEAF_SPACES


class ActionWriter:
    """Checks batches of actions of one group of rows and converts them for `send`."""

    def __init__(
        self,
        plan: ActionPlan | None,
        single: gymnasium.Space[Any],
        batched: gymnasium.Space[Any],
        num_envs: int,
    ) -> None:
        """Store the layout.

        Args:
            plan: the layout of a row; None if rows hold no actions.
            single, batched: spaces of one env and of all envs.
            num_envs: number of envs.
        """
        self._single, self._batched, self._num_envs = single, batched, num_envs
        self._row_dtype = plan.row_dtype if plan is not None and plan.is_plain else None
        self._shape = (num_envs, *(single.shape or ()))

    def rows(self, actions: Any) -> Any:
        """Return the argument of `send`: an array that fits the rows, or `Native`.

        Args:
            actions: an element of the batched action space, or an iterable with one action per env;
                numbers of any type. For a Tuple or Dict space: a tuple (or list) or dict of its
                parts, each with one entry per env.

        Raises:
            ActionError: (a ValueError) there are too few or too many actions, or a part is missing.
            TypeError: `actions` is not iterable.
        """
        if not isinstance(self._single, LEAF_SPACES):
            return Native(self.one_by_one(actions))
        array = np.asarray(actions)
        if array.dtype == object and array.ndim == 0 and isinstance(actions, Iterable):
            array = np.asarray(list(actions))  # NumPy reads a generator or dict view as one object.
        if array.ndim == 0:
            raise TypeError(
                f"Unable to iterate over the actions {actions!r}: they need one action per env "
                f"({self._num_envs})"
            )
        self._check_count(len(array), "actions")
        if array.shape != self._shape:
            array = self._reshape(array)
        if array.dtype == self._row_dtype:
            return array
        if array.dtype.kind not in "biuf":
            raise ActionError(
                f"actions have dtype {array.dtype}: must be numbers of shape {self._shape}"
            )
        return Native(array.copy())  # A copy, since an env may keep its action.

    def _reshape(self, array: NDArray[Any]) -> NDArray[Any]:
        if array.size != int(np.prod(self._shape)):
            raise ActionError(
                f"actions have shape {array.shape}: must be numbers of shape {self._shape}"
            )
        return array.reshape(self._shape)

    def one_by_one(self, actions: Any) -> list[Any]:
        """Return the actions of all envs as a list. Raises: as `rows`."""
        for where, count in _counts(self._single, actions, "actions"):
            self._check_count(count, where)
        return list(iterate(self._batched, actions))

    def _check_count(self, count: int, where: str) -> None:
        if count != self._num_envs:
            raise ActionError(f"{where}: {count} for {self._num_envs} envs: must have one per env")


def _counts(single: gymnasium.Space[Any], actions: Any, where: str) -> Iterator[tuple[str, int]]:
    """Yield (name, number of entries) for each part of a batch of actions.

    Raises:
        ActionError: a part of a Tuple or Dict is missing, or a Tuple has one too many.
        TypeError: a part has no entries.
    """
    if isinstance(single, spaces.Dict):
        missing = [
            key for key in single.spaces if not isinstance(actions, Mapping) or key not in actions
        ]
        if missing:
            raise ActionError(
                f"{where} have no {missing[0]!r}: must be a dict of {list(single.spaces)}, one "
                "entry per env each"
            )
        for key, space in single.spaces.items():
            yield from _counts(space, actions[key], f"{where}[{key!r}]")
    elif isinstance(single, spaces.Tuple):
        if (
            not isinstance(actions, Sized)
            or isinstance(actions, Mapping)
            or len(actions) != len(single.spaces)
        ):
            count = len(actions) if isinstance(actions, Sized) else repr(actions)
            raise ActionError(
                f"{where}: {count} for the {len(single.spaces)} parts of {single}: must be a "
                "tuple, one entry per env in each"
            )
        pairs = zip(single.spaces, actions, strict=True)  # type: ignore[call-overload]
        for part, (space, entries) in enumerate(pairs):
            yield from _counts(space, entries, f"{where}[{part}]")
    elif isinstance(actions, Sized) and getattr(actions, "shape", True) != ():
        yield where, len(actions)
    else:
        raise TypeError(f"Unable to iterate over {where}, {actions!r}: must have one entry per env")


class ObservationReader:
    """Reads the observations of one group of rows."""

    def __init__(self, plan: ObservationPlan, copy: bool) -> None:
        """Args: plan: the layout of a row; copy: return copies, not views on shared memory."""
        self._plan, self._copy = plan, copy
        self._rows: NDArray[Any] | None = None
        self._views: Any = None

    def read(self, rows: NDArray[Any]) -> Any:
        """Return the batched observation of `rows`, (N, *row_shape).

        Aliasing: with copy=False these are views on `rows`, valid until the next step; otherwise
        new arrays.
        """
        if rows is not self._rows:  # The same array every time, unless the backend copies.
            self._rows, self._views = rows, self._plan.views(rows)
        return copy_batch(self._views) if self._copy else self._views

    def take(self, infos: Infos) -> Infos:
        """Return the infos unchanged: observations are in the rows."""
        return infos

    def final(self, rows: NDArray[Any], index: int) -> Any:
        """Return a copy of the observation in row `index`, with Discrete values as int."""
        return _with_ints(self._plan.nativize(rows[index].copy()))


def _with_ints(value: Any) -> Any:
    """Convert NumPy integers in nested dicts and tuples to int, as envs return for Discrete."""
    if isinstance(value, dict):
        return {key: _with_ints(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_with_ints(part) for part in value)
    return int(value) if isinstance(value, np.integer) else value


def copy_batch(batch: Any) -> Any:
    """Return a deep copy of nested dicts and tuples of arrays."""
    return row_of(batch, ())


def row_of(batch: Any, row: int | tuple[()]) -> Any:
    """Return nested dicts and tuples of arrays with a copy of one row of each array."""
    if isinstance(batch, dict):
        return {key: row_of(value, row) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(row_of(value, row) for value in batch)
    return np.array(batch[row])

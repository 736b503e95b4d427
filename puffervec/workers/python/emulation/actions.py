# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Actions of a Python env as flat rows: the learner writes rows, workers read native actions.

A row always holds a member of `emulated_space`, so the values of discrete actions include the
space's `start`: row = index of the choice + `low`.

    the env's space                        a row                        kind
    Discrete                               one number                   discrete
    MultiDiscrete, MultiBinary             (D,)                         multi_discrete
    Dict/Tuple of these                    (D,) int64                   multi_discrete
    Box                                    unchanged                    continuous
    Dict/Tuple of Boxes of one dtype       (D,) of that dtype           continuous
    Dict/Tuple of Boxes and others         (bytes,) uint8               bytes

Rows of kind "bytes" carry any action (`encode`, `views`), but no policy of the trainer can produce
them: there is no distribution over the bytes of a float.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from puffervec.workers.python.emulation.layout import (
    Leaf,
    Node,
    leaf_dtype,
    leaves,
    plan,
    struct_dtype,
)
from puffervec.workers.python.emulation.rows import RowPlan, leaf_view

Kind = Literal["discrete", "multi_discrete", "continuous", "bytes"]
Reader = Callable[[], Any]
_INT64 = np.dtype(np.int64)


class ActionPlan(RowPlan):
    """The layout of actions of one space in rows.

    Attributes:
        kind: "discrete", "multi_discrete", "continuous" or "bytes" (see the table in the module
            docstring).
        is_plain: whether a row is an action of the space itself, not of a flattened form of it.
        sizes: number of choices per dimension; () for continuous and bytes.
        low: (*row_shape) smallest value of a row, row_dtype; -inf if unbounded.
        high: (*row_shape) largest value of a row (included), row_dtype; inf if unbounded.

    >>> gear, lights = spaces.Discrete(3, start=-1), spaces.MultiBinary(2)
    >>> plan = ActionPlan(spaces.Dict(gear=gear, lights=lights))
    >>> plan.emulated_space.nvec, plan.low
    (array([3, 2, 2]), array([-1,  0,  0]))
    >>> plan.decode(np.array([1, 0, 1]))
    {'gear': np.int64(1), 'lights': array([0, 1], dtype=int8)}
    """

    noun = "action"

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        emulated, dtype, kind = _emulate(space)
        super().__init__(space, emulated, dtype)
        self.kind: Kind = kind
        self.is_plain = emulated is space
        self.sizes, self.low, self.high = _limits(emulated, kind)

    def readers(self, rows: np.ndarray) -> list[Reader]:
        """Return one function per row that returns the row's current native action.

        Args:
            rows: (N, *row_shape) row_dtype. The readers keep views on it.

        Returns:
            N functions. Each call returns fresh arrays, which the env may keep; Discrete returns a
            NumPy integer.

        Raises:
            ConfigError: the rows have another shape or dtype.
        """
        raw = self.as_bytes(rows)
        if self.kind == "discrete":
            return [partial(rows.__getitem__, i) for i in range(len(rows))]
        return [_reader(self.tree, raw[i : i + 1]) for i in range(len(raw))]

    def decode(self, row: Any) -> Any:
        """Return the native action of one row, (*row_shape) row_dtype; arrays are copies."""
        return _reader(self.tree, self.as_bytes(np.asarray(row)[None]))()

    def encode(self, action: Any, row: np.ndarray) -> None:
        """Write a native action into one row.

        Args:
            action: the native action.
            row: (*row_shape) row_dtype; for Discrete a view such as `rows[i, ...]`.

        Raises:
            SpaceMismatchError: the action has other keys, shapes or kinds of numbers; nothing was
                written.
            ConfigError: the row has another shape or dtype.
        """
        self.check(action)
        self.writers(row[None])[0](action)


def _emulate(space: gymnasium.Space[Any]) -> tuple[gymnasium.Space[Any], np.dtype[Any], Kind]:
    """Return the flat space, the dtype of a native row, and the kind."""
    own = struct_dtype(space)
    if isinstance(space, spaces.Box):
        return space, own, "continuous"
    if isinstance(space, spaces.Discrete):
        return space, own, "discrete"
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return space, own, "multi_discrete"
    found = list(leaves(plan(space, own)))
    boxes = [leaf.space for leaf in found if isinstance(leaf.space, spaces.Box)]
    if not boxes:
        return (
            _flat_choices([leaf.space for leaf in found]),
            struct_dtype(space, _INT64),
            "multi_discrete",
        )
    dtypes = {leaf_dtype(box) for box in boxes}
    if len(boxes) < len(found) or len(dtypes) > 1:
        return spaces.Box(0, 255, (own.itemsize,), np.uint8), own, "bytes"
    low = np.concatenate([box.low.reshape(-1) for box in boxes])
    high = np.concatenate([box.high.reshape(-1) for box in boxes])
    return spaces.Box(low, high, low.shape, dtypes.pop()), own, "continuous"


def _choices(space: gymnasium.Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of choices and the smallest value of each element of a discrete leaf.

    Both are flat int64.
    """
    if isinstance(space, spaces.Discrete):
        return np.array([space.n], np.int64), np.array([space.start], np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.reshape(-1).astype(np.int64), space.start.reshape(-1).astype(np.int64)
    assert space.shape is not None
    count = int(np.prod(space.shape, dtype=np.int64))
    return np.full(count, 2, np.int64), np.zeros(count, np.int64)


def _flat_choices(found: list[gymnasium.Space[Any]]) -> spaces.MultiDiscrete:
    none = np.zeros(0, np.int64)
    parts = [_choices(space) for space in found]
    sizes = np.concatenate([none, *(size for size, _ in parts)])
    starts = np.concatenate([none, *(start for _, start in parts)])
    return spaces.MultiDiscrete(sizes, start=starts)


def _limits(
    emulated: gymnasium.Space[Any], kind: Kind
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    """Return sizes, low and high of a row."""
    if isinstance(emulated, spaces.Box):
        return (), emulated.low, emulated.high
    sizes, starts = _choices(emulated)
    low = starts.reshape(emulated.shape or ()).astype(emulated.dtype)
    high = (starts + sizes - 1).reshape(emulated.shape or ()).astype(emulated.dtype)
    return tuple(sizes.tolist()), low, high


def _reader(tree: Node | Leaf, raw: np.ndarray) -> Reader:
    """Return the reader of the one row in `raw`, (1, row_bytes) uint8."""
    if isinstance(tree, Node):
        parts = tuple(_reader(child, raw) for child in tree.children)
        return _dict_reader(tree.keys, parts) if tree.is_dict else _tuple_reader(parts)
    view = leaf_view(tree, raw)[0, ...]
    own = leaf_dtype(tree.space)
    if tree.is_number:
        return partial(view.__getitem__, ()) if own == view.dtype else lambda: own.type(view[()])
    return view.copy if own == view.dtype else partial(view.astype, own)


def _dict_reader(keys: tuple[Any, ...], parts: tuple[Reader, ...]) -> Reader:
    pairs = tuple(zip(keys, parts, strict=True))

    def read() -> dict[Any, Any]:
        return {key: part() for key, part in pairs}

    return read


def _tuple_reader(parts: tuple[Reader, ...]) -> Reader:
    def read() -> tuple[Any, ...]:
        return tuple([part() for part in parts])

    return read

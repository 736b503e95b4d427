# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Values of a space as flat rows: views, writers, and the plan of observations.

A writer copies a nested value into a row leaf by leaf. It is made once per row and holds the leaf
views of that row and the keys that lead to the values, so that a step costs one look-up and one
copy per leaf, and builds nothing. Writers trust their input: NumPy would silently broadcast a wrong
shape and cut off decimals, so an env's first observations are checked (`check_value`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from puffervec.errors import ConfigError, SpaceMismatchError
from puffervec.workers.python.emulation.layout import (
    NUMBER_KINDS,
    Leaf,
    Node,
    get_dtype_bounds,
    leaves,
    path_text,
    plan,
    struct_dtype,
)


def check_space(data: Any, space: gymnasium.Space[Any]) -> bool:
    """Return True if `space` contains `data`, bounds included.

    Raises:
        SpaceMismatchError: (an APIUsageError) it does not.
    """
    try:
        contained = space.contains(data)
    except Exception as error:  # a custom space may fail on unexpected data
        raise SpaceMismatchError(
            f"{data!r} cannot be compared with {space} ({type(error).__name__}: {error})"
        ) from error
    if not contained:
        raise SpaceMismatchError(f"{data!r} is not in {space}")
    return True


def check_value(tree: Node | Leaf, value: Any, noun: str, batch: tuple[int, ...] = ()) -> None:
    """Raise SpaceMismatchError unless `value` fits `tree`.

    Args:
        tree: the tree of the space.
        value: the value to check.
        noun: word for the value in messages.
        batch: axes that precede those of each leaf.
    """
    if isinstance(tree, Leaf):
        _check_leaf(tree, value, noun + path_text(tree.path), batch)
        return
    (_check_dict if tree.is_dict else _check_tuple)(tree, value, noun + path_text(tree.path))
    for key, child in zip(tree.keys, tree.children, strict=True):
        check_value(child, value[key], noun, batch)


def _check_dict(node: Node, value: Any, name: str) -> None:
    if not isinstance(value, Mapping):
        raise SpaceMismatchError(
            f"{name} is of type {type(value).__name__}: the space wants a dict with "
            f"{list(node.keys)}"
        )
    missing = [key for key in node.keys if key not in value]
    extra = [key for key in value if key not in node.keys]
    if missing or extra:
        found = " and ".join(
            f"{word} {keys}"
            for word, keys in (("lacks", missing), ("has the extra", extra))
            if keys
        )
        raise SpaceMismatchError(
            f"{name} {found}: the space wants exactly the keys {list(node.keys)}"
        )


def _check_tuple(node: Node, value: Any, name: str) -> None:
    if not isinstance(value, (tuple, list, np.ndarray)):
        raise SpaceMismatchError(
            f"{name} is of type {type(value).__name__}: the space wants a tuple of {len(node.keys)}"
        )
    if len(value) != len(node.keys):
        raise SpaceMismatchError(
            f"{name} has {len(value)} entries: the space wants {len(node.keys)}"
        )


def _check_leaf(leaf: Leaf, value: Any, name: str, batch: tuple[int, ...]) -> None:
    wanted = batch + leaf.shape
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise _mismatch(leaf, wanted, f"{name} is not an array ({error})") from None
    if array.shape != wanted:
        raise _mismatch(leaf, wanted, f"{name} has shape {array.shape}")
    if array.dtype.kind not in NUMBER_KINDS:
        raise _mismatch(leaf, wanted, f"{name} has dtype {array.dtype}")
    if array.size and not _fits(array, np.dtype(leaf.space.dtype)):
        raise _mismatch(
            leaf, wanted, f"{name} has dtype {array.dtype} and values such as {array.flat[0]}"
        )


def _mismatch(leaf: Leaf, wanted: tuple[int, ...], found: str) -> SpaceMismatchError:
    return SpaceMismatchError(
        f"{found}: the space wants shape {wanted} and values that fit {leaf.space.dtype} "
        f"({leaf.space})"
    )


def _fits(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Return whether the values keep their meaning in `dtype`.

    A float type can hold any number (rounded), other types only values that they represent exactly.
    """
    if dtype.kind == "f" or array.dtype == dtype:
        return True
    if array.dtype.kind == "f":
        return False
    return bool(np.array_equal(array.astype(dtype), array))


Writer = Callable[[Any], None]


class RowPlan:
    """The layout of the values of one space in rows of memory.

    Attributes:
        space: as the env declares it.
        emulated_space: the flat space of a row.
        dtype: dtype of one native row: an aligned structured dtype; a subarray dtype if the space
            is a single leaf.
        row_dtype: dtype of one row in memory.
        row_shape: shape of one row in memory, () for a single number.
        row_bytes: size of one row in bytes, 0 if empty.

    Raises:
        ConfigError: the space has no fixed size (Text, Graph, Sequence, OneOf, custom spaces).
    """

    noun = "value"

    def __init__(
        self, space: gymnasium.Space[Any], emulated: gymnasium.Space[Any], dtype: np.dtype[Any]
    ) -> None:
        assert emulated.dtype is not None and emulated.shape is not None
        self.space, self.emulated_space, self.dtype = space, emulated, dtype
        self.row_dtype: np.dtype[Any] = np.dtype(emulated.dtype)
        self.row_shape: tuple[int, ...] = emulated.shape
        self.row_bytes = int(np.prod(self.row_shape, dtype=np.int64)) * self.row_dtype.itemsize
        self.tree = plan(space, dtype)

    @property
    def leaves(self) -> list[Leaf]:
        """The leaves in their order in a row."""
        return list(leaves(self.tree))

    def check(self, value: Any) -> None:
        """Raise SpaceMismatchError (a ConfigError) unless `value` fits the space.

        It must have the structure, shapes and number kinds of the space. Bounds are not checked.
        Floats are refused if the space has integers, and so are integers that do not fit its dtype.
        """
        check_value(self.tree, value, self.noun)

    def writers(self, rows: np.ndarray) -> list[Writer]:
        """Return one function per row that copies a native value into that row.

        Args:
            rows: (N, *row_shape) row_dtype. The writers keep views on it. Padding bytes are set to
                zero here, once.

        Returns:
            N functions of one native value. They raise SpaceMismatchError for an array of another
                shape, which NumPy would broadcast over the row, and check nothing else: call
                `check` on the first values.

        Raises:
            ConfigError: rows of another shape or dtype.
        """
        raw = self.as_bytes(rows)
        if isinstance(self.tree, Node):
            raw[...] = 0
        return [_writer(self.tree, raw[i : i + 1]) for i in range(len(raw))]

    def views(self, rows: np.ndarray) -> Any:
        """Return views on the leaves of all rows.

        Args:
            rows: (N, *row_shape) row_dtype.

        Returns:
            dicts and tuples as in the space, each leaf (N, *leaf.shape), views on `rows`.
        """
        return _views(self.tree, self.as_bytes(rows))

    def write_batch(self, values: Any, rows: np.ndarray) -> None:
        """Copy a batch into all rows, one copy per leaf. Padding bytes stay unchanged.

        Args:
            values: nested as in the space, each leaf (N, *leaf.shape), as Gymnasium batches spaces.
            rows: (N, *row_shape) row_dtype.

        Raises:
            SpaceMismatchError: the structure differs, or a leaf has another shape or kind of
                numbers; nothing was written.
            ConfigError: the rows have another shape or dtype.
        """
        raw = self.as_bytes(rows)
        check_value(self.tree, values, self.noun, (len(raw),))
        _copy_leaves(self.tree, values, raw)

    def as_bytes(self, rows: np.ndarray) -> np.ndarray:
        """Return `rows`, (N, *row_shape) row_dtype, as a view (N, row_bytes) uint8.

        Raises:
            ConfigError: the rows have another shape or dtype, or their elements are not contiguous.
        """
        count = len(rows) if rows.ndim else 0
        if rows.dtype != self.row_dtype or rows.shape != (count, *self.row_shape):
            raise ConfigError(
                f"rows of shape {rows.shape} and dtype {rows.dtype} cannot hold {self.noun}s: "
                f"make them (N, {str(self.row_shape)[1:-1]}) {self.row_dtype}"
            )
        if self.row_bytes == 0 or count == 0:
            return np.empty((count, self.row_bytes), np.uint8)
        if rows.flags.c_contiguous:
            return rows.reshape(count, -1).view(np.uint8)
        if not rows[0, ...].flags.c_contiguous:
            raise ConfigError(
                f"the strides of a row of {self.noun}s are {rows.strides}: its elements must be "
                "contiguous"
            )
        flat = np.lib.stride_tricks.as_strided(
            rows,
            (count, self.row_bytes // self.row_dtype.itemsize),
            (rows.strides[0], self.row_dtype.itemsize),
        )
        return flat.view(np.uint8)


def leaf_view(leaf: Leaf, raw: np.ndarray) -> np.ndarray:
    """Return one leaf of all rows, (N, *leaf.shape) leaf.dtype.

    It is a view on `raw`, (N, row_bytes) uint8.
    """
    if leaf.size == 0:
        return np.empty((len(raw), *leaf.shape), leaf.dtype)
    end = leaf.offset + leaf.size * leaf.dtype.itemsize
    return raw[:, leaf.offset : end].view(leaf.dtype).reshape(len(raw), *leaf.shape)


def _copy_leaves(tree: Node | Leaf, values: Any, raw: np.ndarray) -> None:
    if isinstance(tree, Leaf):
        leaf_view(tree, raw)[...] = values
        return
    for key, child in zip(tree.keys, tree.children, strict=True):
        _copy_leaves(child, values[key], raw)


def _views(tree: Node | Leaf, raw: np.ndarray) -> Any:
    if isinstance(tree, Leaf):
        return leaf_view(tree, raw)
    parts = [_views(child, raw) for child in tree.children]
    return dict(zip(tree.keys, parts, strict=True)) if tree.is_dict else tuple(parts)


def _writer(tree: Node | Leaf, raw: np.ndarray) -> Writer:
    """Return the writer of the one row in `raw`, (1, row_bytes) uint8."""
    if isinstance(tree, Leaf):
        return _leaf_writer(leaf_view(tree, raw)[0, ...])
    branches = list(zip(tree.keys, tree.children, strict=True))
    own = [
        (key, leaf_view(leaf, raw)[0, ...])
        for key, leaf in branches
        if isinstance(leaf, Leaf) and leaf.size
    ]
    numbers = tuple((key, view) for key, view in own if view.ndim == 0)
    arrays = tuple((key, view) for key, view in own if view.ndim)
    nested = tuple((key, _writer(node, raw)) for key, node in branches if isinstance(node, Node))
    if not nested:
        return _flat_writer(numbers, arrays)

    def write(value: Any) -> None:
        for key, view in numbers:
            view[()] = value[key]
        for key, view in arrays:
            _assign(view, value[key], key)
        for key, write_part in nested:
            write_part(value[key])

    return write


def _leaf_writer(view: np.ndarray) -> Writer:
    def write(value: Any) -> None:
        _assign(view, value, None)

    return write


def _assign(view: np.ndarray, value: Any, key: Any) -> None:
    if getattr(value, "shape", None) != view.shape and np.shape(value) != view.shape:
        name = "a value" if key is None else f"the value of {key!r}"
        raise SpaceMismatchError(
            f"{name} has shape {np.shape(value)}: the space wants shape {view.shape}"
        )
    view[...] = value


def _flat_writer(
    numbers: tuple[tuple[Any, np.ndarray], ...], arrays: tuple[tuple[Any, np.ndarray], ...]
) -> Writer:
    def write(value: Any) -> None:
        for key, view in numbers:
            view[()] = value[key]
        for key, view in arrays:
            _assign(view, value[key], key)

    return write


class ObservationPlan(RowPlan):
    """The layout of observations of one space in rows.

    A plain Box is kept unchanged (`is_flat`). Any other space becomes a vector: of the leaves'
    dtype if all leaves have the same one, else of bytes.

    >>> plan = ObservationPlan(spaces.Dict(speed=spaces.Box(-1, 1, (2,)), gear=spaces.Discrete(5)))
    >>> plan.emulated_space
    Box(0, 255, (16,), uint8)
    >>> rows = np.zeros((3, *plan.row_shape), plan.row_dtype)
    >>> plan.writers(rows)[1]({"speed": np.ones(2, np.float32), "gear": 4})
    >>> plan.views(rows)["gear"]
    array([0, 4, 0])
    """

    noun = "observation"

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        dtype = struct_dtype(space)
        self.is_flat = isinstance(space, spaces.Box)
        super().__init__(space, space if self.is_flat else _flat_box(space, dtype), dtype)

    def nativize(self, row: np.ndarray) -> Any:
        """Return the observation in `row`, (*row_shape) row_dtype.

        Arrays are views on the row. Discrete returns a NumPy integer (a copy).
        """
        return native(self.tree, self.as_bytes(np.asarray(row)[None]))


def native(tree: Node | Leaf, raw: np.ndarray) -> Any:
    """Return the native value of the one row in `raw`, (1, row_bytes) uint8.

    Arrays are views if dtypes allow it.
    """
    if isinstance(tree, Leaf):
        view = leaf_view(tree, raw)[0, ...].astype(tree.space.dtype, copy=False)
        return view[()] if tree.is_number else view
    parts = [native(child, raw) for child in tree.children]
    return dict(zip(tree.keys, parts, strict=True)) if tree.is_dict else tuple(parts)


def _flat_box(space: gymnasium.Space[Any], dtype: np.dtype[Any]) -> spaces.Box:
    """Return the Box of one emulated row, as in PufferLib, with the bounds of the row's dtype."""
    dtypes = {leaf.dtype for leaf in leaves(plan(space, dtype))}
    common = dtypes.pop() if len(dtypes) == 1 else np.dtype(np.uint8)
    low, high = get_dtype_bounds(common)
    return spaces.Box(low, high, (dtype.itemsize // common.itemsize,), common)

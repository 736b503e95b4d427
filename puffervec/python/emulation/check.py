# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Whether a native value has the structure of its space: keys, lengths, shapes and kinds of numbers.

Run on an env's first observations, since the writers (rows.py beside this file) trust what they get: NumPy would broadcast a
wrong shape and cut off decimals without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from puffervec.errors import SpaceMismatchError
from puffervec.python.emulation.layout import NUMBER_KINDS, Leaf, Node, path_text


def check_space(data: Any, space: gymnasium.Space[Any]) -> bool:
    """Return True, or raise SpaceMismatchError (an APIUsageError) unless `space` contains `data`, bounds included."""
    try:
        contained = space.contains(data)
    except Exception as error:  # a custom space may fall over what it does not expect
        raise SpaceMismatchError(f"{data!r} cannot be compared with {space} ({type(error).__name__}: {error})") from error
    if not contained:
        raise SpaceMismatchError(f"{data!r} is not in {space}")
    return True


def check_value(tree: Node | Leaf, value: Any, noun: str, batch: tuple[int, ...] = ()) -> None:
    """Raise SpaceMismatchError unless `value` fits `tree`.

    Args:
        noun: what the message calls the value. batch: the axes that stand before those of each leaf.
    """
    if isinstance(tree, Leaf):
        _check_leaf(tree, value, noun + path_text(tree.path), batch)
        return
    (_check_dict if tree.is_dict else _check_tuple)(tree, value, noun + path_text(tree.path))
    for key, child in zip(tree.keys, tree.children, strict=True):
        check_value(child, value[key], noun, batch)


def _check_dict(node: Node, value: Any, name: str) -> None:
    if not isinstance(value, Mapping):
        raise SpaceMismatchError(f"{name} is of type {type(value).__name__}: the space wants a dict with {list(node.keys)}")
    missing = [key for key in node.keys if key not in value]
    extra = [key for key in value if key not in node.keys]
    if missing or extra:
        found = " and ".join(f"{word} {keys}" for word, keys in (("lacks", missing), ("has the extra", extra)) if keys)
        raise SpaceMismatchError(f"{name} {found}: the space wants exactly the keys {list(node.keys)}")


def _check_tuple(node: Node, value: Any, name: str) -> None:
    if not isinstance(value, (tuple, list, np.ndarray)):
        raise SpaceMismatchError(f"{name} is of type {type(value).__name__}: the space wants a tuple of {len(node.keys)}")
    if len(value) != len(node.keys):
        raise SpaceMismatchError(f"{name} has {len(value)} entries: the space wants {len(node.keys)}")


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
        raise _mismatch(leaf, wanted, f"{name} has dtype {array.dtype} and values such as {array.flat[0]}")


def _mismatch(leaf: Leaf, wanted: tuple[int, ...], found: str) -> SpaceMismatchError:
    return SpaceMismatchError(f"{found}: the space wants shape {wanted} and values that fit {leaf.space.dtype} ({leaf.space})")


def _fits(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Whether the values keep their meaning in `dtype`: any number in a float (rounded), only equal ones in the others."""
    if dtype.kind == "f" or array.dtype == dtype:
        return True
    if array.dtype.kind == "f":
        return False
    return bool(np.array_equal(array.astype(dtype), array))

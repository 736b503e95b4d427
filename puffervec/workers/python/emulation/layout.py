# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The position of each leaf of a nested space in a row of bytes.

The learner and each worker compute it once.

    Dict(a=Box(3,) uint8, b=Tuple(Discrete(5), Box(2,) float32))

    byte    0 . . 3 . . . . 8 . . . . . . . 16. . . . . . . 24
            a a a - - - - - b.f0 (int64)    b.f1 (float32)           "-": padding, always zero

A row is one item of an aligned structured dtype: Dict keys are its field names, Tuple entries are
called f0, f1, ...
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from puffervec.errors import ConfigError

LEAF_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
NUMBER_KINDS = "biuf"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A Box, Discrete, MultiDiscrete or MultiBinary at `offset` bytes from the start of the row.

    `dtype` is the type of the values in the row; `space.dtype` is the type that the env uses.
    """

    path: tuple[Any, ...]
    space: gymnasium.Space[Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Number of elements; 0 for an empty shape."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_number(self) -> bool:
        """Whether the native value is a NumPy scalar, not an array."""
        return isinstance(self.space, spaces.Discrete)


@dataclass(frozen=True, slots=True)
class Node:
    """A Dict (`is_dict`) or a Tuple; `keys[i]` leads to `children[i]` in the native value."""

    path: tuple[Any, ...]
    is_dict: bool
    keys: tuple[Any, ...]
    children: tuple[Node | Leaf, ...]


def path_text(path: tuple[Any, ...]) -> str:
    """Return the path as it would be written after a variable's name.

    >>> path_text(("camera", 0))
    "['camera'][0]"
    """
    return "".join(f"[{key!r}]" for key in path)


def field_names(space: gymnasium.Space[Any]) -> tuple[str, ...]:
    """Return the names of a Dict's or Tuple's fields.

    These are the keys unchanged; f<index> for Tuple entries and for keys that are not strings, or
    are empty (with underscores added if that name is taken).
    """
    if isinstance(space, spaces.Tuple):
        return tuple(f"f{i}" for i in range(len(space.spaces)))
    assert isinstance(space, spaces.Dict)
    taken = {key for key in space.spaces if isinstance(key, str)}
    names = []
    for i, key in enumerate(space.spaces):
        name = key
        if not isinstance(key, str) or not key:
            name = f"f{i}"
            while name in taken:
                name += "_"
            taken.add(name)
        names.append(name)
    return tuple(names)


def children_of(space: gymnasium.Space[Any]) -> list[tuple[Any, gymnasium.Space[Any]]]:
    """Return (key, space) of each part of a Dict or Tuple, in the order of the fields."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    assert isinstance(space, spaces.Tuple)
    return list(enumerate(space.spaces))


def _refuse(space: gymnasium.Space[Any], path: tuple[Any, ...]) -> ConfigError:
    return ConfigError(
        f"the space at {path_text(path) or 'the top'} is {space}: a row of fixed size holds Box, "
        "Discrete, MultiDiscrete and MultiBinary, nested in Dict and Tuple; convert it in a "
        "wrapper (for example to a padded Box and a count)"
    )


def leaf_dtype(space: gymnasium.Space[Any], path: tuple[Any, ...] = ()) -> np.dtype[Any]:
    """Return the dtype of a leaf space's elements.

    Raises:
        ConfigError: the space is of another kind, or its elements are not numbers.
    """
    if (
        not isinstance(space, LEAF_SPACES)
        or space.dtype is None
        or space.dtype.kind not in NUMBER_KINDS
    ):
        raise _refuse(space, path)
    return np.dtype(space.dtype)


def struct_dtype(
    space: gymnasium.Space[Any], number: np.dtype[Any] | None = None, path: tuple[Any, ...] = ()
) -> np.dtype[Any]:
    """Return the dtype of a row: an aligned structured dtype, or a subarray dtype for a leaf.

    Args:
        space: the space.
        number: the dtype of all leaves; None for each leaf's own.
        path: path of the space, for messages.

    Raises:
        ConfigError: a space has no fixed number of bytes; the message names it and its path.

    >>> struct_dtype(spaces.Tuple([spaces.MultiBinary(3), spaces.Discrete(4)])).fields["f1"]
    (dtype('int64'), 8)
    """
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        own = leaf_dtype(space, path)
        return np.dtype((own if number is None else number, space.shape))
    formats = [struct_dtype(child, number, (*path, key)) for key, child in children_of(space)]
    return np.dtype({"names": list(field_names(space)), "formats": formats}, align=True)


def plan(
    space: gymnasium.Space[Any], dtype: np.dtype[Any], offset: int = 0, path: tuple[Any, ...] = ()
) -> Node | Leaf:
    """Return the tree of leaves of `space` in a row of `dtype` (from `struct_dtype`).

    Leaves have their offsets in bytes.
    """
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        return Leaf(path, space, dtype.base, space.shape or (), offset)
    parts = children_of(space)
    fields = [dtype.fields[name] for name in field_names(space)] if dtype.fields else []
    nodes = [
        plan(child, field[0], offset + field[1], (*path, key))
        for (key, child), field in zip(parts, fields, strict=True)
    ]
    return Node(path, isinstance(space, spaces.Dict), tuple(key for key, _ in parts), tuple(nodes))


def leaves(tree: Node | Leaf) -> Iterator[Leaf]:
    """Yield all leaves in their order in the row."""
    if isinstance(tree, Leaf):
        yield tree
    else:
        for child in tree.children:
            yield from leaves(child)


def flatten_space(space: gymnasium.Space[Any]) -> list[gymnasium.Space[Any]]:
    """Return the leaf spaces of a nested Dict or Tuple, depth first.

    For a leaf space, the list contains only that space.
    """
    if not isinstance(space, (spaces.Dict, spaces.Tuple)):
        return [space]
    return [leaf for _, child in children_of(space) for leaf in flatten_space(child)]


def get_dtype_bounds(dtype: Any) -> tuple[Any, Any]:
    """Return the smallest and the largest finite value of a number type.

    >>> get_dtype_bounds("uint8")
    (0, 255)

    Raises:
        ConfigError: the dtype is not bool, integer or float.
    """
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return 0, 1
    if kind.kind in "iu":
        return int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    if kind.kind == "f":
        return np.finfo(kind).min, np.finfo(kind).max
    raise ConfigError(f"dtype {kind} has no bounds: use a bool, integer or float type")

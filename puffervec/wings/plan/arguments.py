# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checks that a plan's arguments match those that it was made for.

A plan has one shape and dtype per tensor, and every other value is compiled into it. Copying other
arguments into its inputs would broadcast, round or ignore the differences, and so silently give
wrong numbers.
"""

from __future__ import annotations

import reprlib
from typing import Any

from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path

from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.ir import short


class Arguments:
    """The structure of the arguments that a plan was made for."""

    def __init__(self, name: str, example: Any) -> None:
        """Record the structure of an example.

        Args:
            name: name of the tree in error messages.
            example: a tree of tensors and other values.
        """
        leaves, self._spec = tree_flatten(example)
        self._leaves = [_Like(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._name = name
        self._names = _names(name, example, len(leaves))

    def leaves(self, tree: Any) -> list[Any]:
        """Return the leaves of a tree in the order of the example; dict entries are matched by key.

        Raises:
            PlanError: a leaf is missing or unknown, or has another shape, dtype or value.
        """
        leaves, spec = tree_flatten(tree)
        if spec != self._spec:
            leaves = self._by_name(
                dict(zip(_names(self._name, tree, len(leaves)), leaves, strict=True))
            )
        for name, wanted, leaf in zip(self._names, self._leaves, leaves, strict=True):
            if isinstance(wanted, _Like):
                if (
                    not isinstance(leaf, Tensor)
                    or leaf.shape != wanted.shape
                    or leaf.dtype != wanted.dtype
                ):
                    raise PlanError(
                        f"{name} is {_format_leaf(leaf)}, this plan was made for {wanted}: make "
                        "another plan for it"
                    )
            elif not _equal(wanted, leaf):
                raise PlanError(
                    f"{name} is {_format_leaf(leaf)}, this plan was made for {wanted!r}: make "
                    "another plan for it"
                )
        return leaves

    def _by_name(self, leaves: dict[str, Any]) -> list[Any]:
        missing = [name for name in self._names if name not in leaves]
        unknown = [name for name in leaves if name not in self._names]
        if missing or unknown:
            problems = [
                f"{', '.join(part)} {verb}"
                for part, verb in ((missing, "missing"), (unknown, "unknown"))
                if part
            ]
            raise PlanError(
                f"{' and '.join(problems)}: this plan takes {', '.join(self._names) or 'nothing'}"
            )
        return [leaves[name] for name in self._names]


class _Like:
    """The shape and dtype that a tensor must have."""

    def __init__(self, tensor: Tensor) -> None:
        self.shape, self.dtype = tensor.shape, tensor.dtype

    def __str__(self) -> str:
        return f"{short(self.dtype)} {tuple(self.shape)}"


def _names(name: str, tree: Any, count: int) -> list[str]:
    """Return the name of each leaf as a Python expression."""
    try:
        return [name + keystr(path) for path, _ in tree_flatten_with_path(tree)[0]]
    except ValueError:  # A class was registered without names for its parts.
        return [f"leaf {index} of {name}" for index in range(count)]


def _format_leaf(leaf: Any) -> str:
    return str(_Like(leaf)) if isinstance(leaf, Tensor) else reprlib.repr(leaf)


def _equal(wanted: Any, leaf: Any) -> bool:
    return wanted is leaf or type(wanted) is type(leaf) and bool(wanted == leaf)

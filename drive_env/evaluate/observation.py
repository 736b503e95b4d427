# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads observation rows by name and in SI units, by the blocks and columns that csrc/drive/tables.h lists.

Runs in the learner, for baselines, summaries and tests; policies take the rows as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from puffervec._ffi import ffi, lib
from puffervec.core.spec import GroupSpec

Single = NDArray[np.float32]
Block = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Column:
    """One number of a block, or of each object of a block."""

    name: str
    unit: str
    scale: float  # stored value * scale = value in unit
    meaning: str


def columns() -> dict[str, tuple[Column, ...]]:
    """Columns of all blocks that a row can have, in the order of a row."""
    count = ffi.new("uint32_t*")
    blocks = lib.pv_drive_blocks(count)
    return {_text(block.name): tuple(_columns(block)) for block in blocks[0 : count[0]]}


def _columns(block: Any) -> Iterator[Column]:
    for item in block.columns[0 : block.column_count]:
        yield Column(_text(item.name), _text(item.unit), float(item.scale), _text(item.meaning))


def _text(chars: Any) -> str:
    return str(ffi.string(chars).decode())


class ObservationReader:
    """Splits observation rows of one spec.

    Args:
        group: the env's only row group (`vec.spec.groups[0]`).
    """

    def __init__(self, group: GroupSpec) -> None:
        listed = columns()
        self._blocks = [(field.name, field.offset // 4, field.shape, listed[field.name]) for field in group.fields]

    @property
    def blocks(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the blocks that are in a row: (columns,), or (objects, columns)."""
        return {name: shape for name, _, shape, _ in self._blocks}

    def read(self, rows: Single) -> dict[str, Block]:
        """Values in SI units by block and column.

        Args:
            rows: (N, F) float32 observations.

        Returns:
            {"ego": {"speed": (N,), ...}, "lanes": {"x": (N, k), ..., "there": (N, k) bool}, ...}. Copies. "there" is True for
            the objects that are there.
        """
        result: dict[str, Block] = {}
        for name, first, shape, listed in self._blocks:
            values = rows[:, first : first + int(np.prod(shape))].reshape(len(rows), *shape)
            block: dict[str, NDArray[Any]] = {
                column.name: values[..., at] * np.float32(column.scale) for at, column in enumerate(listed)
            }
            if len(shape) == 2:
                block["there"] = (values != 0).any(axis=-1)
            result[name] = block
        return result

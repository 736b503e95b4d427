# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads observation rows by name and in SI units, from the column list that C publishes (csrc/drive/observe.h).

Runs in the learner, for baselines, summaries and tests; policies take the rows as they are. There is no second list of
columns here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from puffervec._ffi import ffi, lib
from puffervec.core.spec import GroupSpec

Single = NDArray[np.float32]
Block = Mapping[str, NDArray[Any]]
SEGMENT_BLOCKS = ("lanes", "lines", "edges")


@dataclass(frozen=True)
class Column:
    """One number of an entry of a block."""

    name: str
    unit: str
    scale: float  # stored value * scale = value in unit


def columns() -> dict[str, tuple[Column, ...]]:
    """Columns of one entry of each block: ego, partners, and segments (lanes, lines and edges)."""
    count = ffi.new("uint32_t*")
    listed = lib.pv_drive_columns(count)
    found: dict[str, list[Column]] = {}
    for index in range(count[0]):
        item = listed[index]
        column = Column(ffi.string(item.name).decode(), ffi.string(item.unit).decode(), float(item.scale))
        found.setdefault(ffi.string(item.block).decode(), []).append(column)
    return {block: tuple(items) for block, items in found.items()}


class ObservationReader:
    """Splits observation rows of one spec.

    Args:
        group: the env's only row group (`vec.spec.groups[0]`).
    """

    def __init__(self, group: GroupSpec) -> None:
        names = columns()
        self._blocks = [
            (field.name, field.offset // 4, field.shape, names["segments" if field.name in SEGMENT_BLOCKS else field.name])
            for field in group.fields
        ]

    @property
    def blocks(self) -> tuple[str, ...]:
        """Blocks that are in a row; those of size 0 are not."""
        return tuple(name for name, *_ in self._blocks)

    def read(self, rows: Single) -> dict[str, Block]:
        """Values in SI units by block and column.

        Args:
            rows: (N, F) float32 observations.

        Returns:
            {"ego": {"speed": (N,), ...}, "lanes": {"x": (N, k), ..., "there": (N, k) bool}, ...}. Copies.
        """
        result: dict[str, Block] = {}
        for name, first, shape, listed in self._blocks:
            values = rows[:, first : first + int(np.prod(shape))].reshape(len(rows), *shape)
            block: dict[str, NDArray[Any]] = {
                column.name: values[..., at] * np.float32(column.scale) for at, column in enumerate(listed)
            }
            if name != "ego":
                block["there"] = block["cos"] ** 2 + block["sin"] ** 2 > 0.5
            result[name] = block
        return result

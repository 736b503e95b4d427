# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Reads observation rows by name and in SI units, by the columns in csrc/drive/tables.h.

Runs in the learner, for baselines, summaries and tests; policies take the rows as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from puffervec._ffi import ffi, lib
from puffervec.core.spec import Field

if TYPE_CHECKING:
    from puffervec.vec.vector_env import VectorEnv

BYTE_ZERO = 128.0  # DRIVE_BYTE_ZERO in csrc/drive/tables.h
Single = NDArray[np.float32]
Block = Mapping[str, NDArray[Any]]
# Rows as `recv` returns them: one array, or a dict by block if there is a raster
Rows = NDArray[Any] | Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Column:
    """One number of a block, or of each object of a block."""

    name: str
    unit: str
    scale: float  # stored value * scale = value in unit
    most: float  # largest magnitude in the unit that a byte can hold; 0: the range of observations
    meaning: str


def columns() -> dict[str, tuple[Column, ...]]:
    """Return the columns of all blocks that a row can have, in the order of a row."""
    count = ffi.new("uint32_t*")
    blocks = lib.pv_drive_blocks(count)
    return {_text(block.name): tuple(_columns(block)) for block in blocks[0 : count[0]]}


def row_count(rows: Rows) -> int:
    """Return the number of rows, N."""
    return len(next(iter(rows.values())) if isinstance(rows, Mapping) else rows)


def _columns(block: Any) -> Iterator[Column]:
    for item in block.columns[0 : block.column_count]:
        yield Column(
            _text(item.name),
            _text(item.unit),
            float(item.scale),
            float(item.most),
            _text(item.meaning),
        )


def _text(chars: Any) -> str:
    return str(ffi.string(chars).decode())


class ObservationReader:
    """Splits observation rows of `drive` into blocks and columns.

    Args:
        vec: the env whose rows are read; the meaning of bytes depends on its settings (`range_m`).
    """

    def __init__(self, vec: VectorEnv) -> None:
        listed = columns()
        self._range_m: float = vec.config.range_m
        self._blocks = [(field, listed[field.name]) for field in vec.spec.groups[0].fields]

    @property
    def blocks(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the blocks of a row.

        They are (columns,), (objects, columns), or (channels, pixels, pixels).
        """
        return {field.name: field.shape for field, _ in self._blocks}

    def read(self, rows: Rows) -> dict[str, Block]:
        """Return values in SI units by block and column.

        Args:
            rows: observations of N rows.

        Returns:
            {"ego": {"speed": (N,), ...}, "lanes": {"x": (N, k), ..., "there": (N, k) bool}, ...}.
                Copies. "there" is True for the objects that are present. The channels of a raster
                are (N, pixels, pixels) uint8, unchanged.
        """
        return {
            field.name: _read(_values(rows, field), field, listed, self._range_m)
            for field, listed in self._blocks
        }


def _values(rows: Rows, field: Field) -> NDArray[Any]:
    """Return a view of a block's part of the rows, (N, *shape)."""
    if isinstance(rows, Mapping):
        return rows[field.name]
    first = field.offset // field.dtype.itemsize
    return rows.reshape(len(rows), -1)[:, first : first + field.size].reshape(
        len(rows), *field.shape
    )


def _read(values: NDArray[Any], field: Field, listed: tuple[Column, ...], range_m: float) -> Block:
    if field.keeps_shape:
        return {
            column.name: values[:, at].copy() for at, column in enumerate(listed[: values.shape[1]])
        }
    return in_si(values, listed, range_m)


def in_si(values: NDArray[Any], listed: tuple[Column, ...], range_m: float) -> Block:
    """Return the values of a block of numbers by column, as `ObservationReader.read` does.

    Args:
        values: (N, columns) or (N, objects, columns), as stored.
        listed: the columns of the block.
        range_m: the setting `range_m`.
    """
    there = (values != 0).any(axis=-1)
    block: dict[str, NDArray[Any]] = {}
    for at, column in enumerate(listed):
        stored = values[..., at].astype(np.float32)
        if values.dtype == np.uint8:
            stored = np.where(there, stored - BYTE_ZERO, 0) * np.float32(
                (column.most or range_m) / (BYTE_ZERO - 2)
            )
        else:
            stored = stored * np.float32(column.scale)
        block[column.name] = stored
    if values.ndim == 3:
        block["there"] = there
    return block

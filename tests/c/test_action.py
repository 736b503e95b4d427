# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""pv_actions_write and pv_actions_check (csrc/core/action.c) on hand-made slabs, which may have any
spec: continuous too.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from puffervec._ffi import ffi, lib
from puffervec.core.spec import DTYPE_CODE

GUARD = 0x5A


class HandMade:
    """A slab with one group of `rows` rows, filled with a guard byte."""

    def __init__(
        self,
        kind: int,
        rows: int,
        sizes: tuple[int, ...] = (),
        bounds: tuple[tuple[float, float], ...] = (),
    ) -> None:
        spec = ffi.new("pv_spec*")
        spec.group_count = spec.records_per_turn = 1
        group = spec.groups[0]
        group.agents, group.observation_bytes = 1, 4
        group.action_kind, group.action_dims = kind, len(sizes) or len(bounds)
        for d, size in enumerate(sizes):
            group.action_sizes[d] = size
        for d, (low, high) in enumerate(bounds):
            group.action_low[d], group.action_high[d] = low, high
        head = ffi.new("pv_slab*")
        size = lib.pv_slab_layout(spec, ffi.new("pv_slab_request*", [rows, 1, 1, 0, 0, 0]), head)
        self.bytes = np.full(size + 64, GUARD, np.uint8)
        skip = -self.bytes.ctypes.data % 64
        self.bytes = self.bytes[skip : skip + size]
        self.bytes[: ffi.sizeof("pv_slab")] = np.frombuffer(ffi.buffer(head), np.uint8)
        self.slab = ffi.cast("pv_slab*", ffi.from_buffer(self.bytes))
        self.rows, self.dims = rows, group.action_dims
        indices = np.int32 if max(sizes, default=0) > 255 else np.uint8
        self.dtype = np.dtype(np.float32 if kind == lib.PV_CONTINUOUS else indices)
        self.size = rows * self.dims * self.dtype.itemsize
        self.offset = self.slab.halves[0].groups[0].actions

    @property
    def actions(self) -> np.ndarray:
        return (
            self.bytes[self.offset : self.offset + self.size]
            .view(self.dtype)
            .reshape(self.rows, self.dims)
        )

    def write(self, source: np.ndarray) -> int:
        """Write and check that nothing else was written."""
        before = self.bytes.copy()
        replaced = lib.pv_actions_write(
            self.slab, 0, 0, ffi.from_buffer(source), DTYPE_CODE[source.dtype]
        )
        changed = np.flatnonzero(self.bytes != before)
        assert changed.size == 0 or (
            changed[0] >= self.offset and changed[-1] < self.offset + self.size
        )
        return int(replaced)

    def check(self, source: np.ndarray) -> tuple[int, int]:
        before, first = self.bytes.copy(), ffi.new("uint64_t*", 999)
        bad = lib.pv_actions_check(
            self.slab, 0, 0, ffi.from_buffer(source), DTYPE_CODE[source.dtype], first
        )
        assert (self.bytes == before).all()
        return int(bad), int(first[0])


def edges(dtype: str) -> list[int]:
    limits = np.iinfo(dtype)
    near = [
        -2,
        -1,
        0,
        1,
        2,
        3,
        4,
        5,
        253,
        254,
        255,
        256,
        257,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**32,
        2**63 - 1,
        -(2**31),
        limits.min,
        limits.max,
    ]
    return sorted({value for value in near if limits.min <= value <= limits.max})


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
@pytest.mark.parametrize(
    "sizes", [(1,), (4,), (255,), (256,), (3, 1), (2, 5, 3), (2, 5, 1, 4), (3, 255), (3, 256)]
)
def test_indices(dtype: str, sizes: tuple[int, ...]) -> None:
    values = edges(dtype)
    rows = list(
        itertools.islice(itertools.cycle(itertools.product(values, repeat=min(len(sizes), 2))), 200)
    )
    mixed = np.array([(row * len(sizes))[: len(sizes)] for row in rows], dtype)
    source = np.concatenate(
        [np.zeros((900, len(sizes)), dtype), mixed, np.zeros((300, len(sizes)), dtype)]
    )  # and valid chunks
    kind = lib.PV_DISCRETE if len(sizes) == 1 else lib.PV_MULTI_DISCRETE
    made = HandMade(kind, len(source), sizes)
    valid = np.array(
        [[0 <= int(value) < size for value, size in zip(row, sizes, strict=True)] for row in source]
    )
    expected = np.array(
        [
            [int(value) if ok else 0 for value, ok in zip(*pair, strict=True)]
            for pair in zip(source, valid, strict=True)
        ]
    )
    bad, first = made.check(source)
    assert bad == (~valid).sum()
    assert first == next(iter(np.flatnonzero(~valid.reshape(-1))), 999)
    assert made.write(source) == (~valid).sum()
    np.testing.assert_array_equal(made.actions, expected)


BOUNDS = ((-1.0, 1.0), (0.0, 2.5), (-3.0, -0.5))
SPECIAL = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    -1.0,
    1.0000001,
    3.0,
    -100.0,
    1e-45,
    1e-310,
    3.4e38,
    np.nan,
    -np.nan,
    np.inf,
    -np.inf,
]


def reals(value: float, low: float, high: float) -> float:
    """The rule: not finite becomes the no-op 0; all is clipped."""
    return min(max(value if np.isfinite(value) else 0.0, low), high)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_reals(dtype: str) -> None:
    values = [*SPECIAL, 1e300, -1e300] if dtype == "f8" else SPECIAL
    source = np.array(list(itertools.product(values, repeat=3)), dtype)
    made = HandMade(lib.PV_CONTINUOUS, len(source), bounds=BOUNDS)
    bad = int((~np.isfinite(source)).sum())
    assert made.check(source) == (bad, int(np.flatnonzero(~np.isfinite(source.reshape(-1)))[0]))
    assert made.write(source) == bad
    expected = np.array(
        [[reals(float(x), *BOUNDS[d]) for d, x in enumerate(row)] for row in source], np.float32
    )
    np.testing.assert_array_equal(made.actions, expected)
    assert np.isfinite(made.actions).all()
    assert (
        (made.actions >= np.float32([low for low, _ in BOUNDS]))
        & (made.actions <= np.float32([high for _, high in BOUNDS]))
    ).all()


def test_clipping_is_not_counted_and_a_valid_batch_is_copied_as_it_is() -> None:
    made = HandMade(lib.PV_CONTINUOUS, 2, bounds=BOUNDS)
    assert made.write(np.array([[9, 9, 9], [-9, -9, -9]], np.float32)) == 0
    assert made.actions.tolist() == [[1, 2.5, -0.5], [-1, 0, -3]]
    assert made.check(np.zeros((2, 3), np.float32)) == (0, 999)


@pytest.mark.parametrize("kind", ["discrete", "multi_discrete", "continuous"])
def test_the_rows_themselves_may_be_the_source(kind: str) -> None:
    made: Any = {
        "discrete": lambda: HandMade(lib.PV_DISCRETE, 5, (3,)),
        "multi_discrete": lambda: HandMade(lib.PV_MULTI_DISCRETE, 5, (3, 2)),
        "continuous": lambda: HandMade(lib.PV_CONTINUOUS, 5, bounds=((-1.0, 1.0),)),
    }[kind]()
    rows = made.actions
    rows[:] = (
        [[2], [1], [0], [9], [252]]
        if kind != "continuous"
        else [[0.5], [np.nan], [7.0], [-7.0], [0.0]]
    )
    replaced = lib.pv_actions_write(made.slab, 0, 0, ffi.from_buffer(rows), DTYPE_CODE[rows.dtype])
    expected = {
        "discrete": (2, [[2], [1], [0], [0], [0]]),
        "multi_discrete": (5, [[2, 0], [1, 1], [0, 0], [0, 0], [0, 0]]),
        "continuous": (1, [[0.5], [0.0], [1.0], [-1.0], [0.0]]),
    }[kind]
    assert (replaced, rows.tolist()) == expected

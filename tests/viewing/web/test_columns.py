# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from puffervec.viewing.web.columns import Stream, exponent_of, fill_gaps, put_column, runs_of, whole


def read(data: bytes) -> tuple[Any, np.ndarray]:
    """Head and numbers of packed data, as the page reads them."""
    plain = zlib.decompress(data)
    (size,) = struct.unpack("<I", plain[:4])
    planes = np.frombuffer(plain[4 + size :], np.uint8).reshape(4, -1)
    return json.loads(plain[4 : 4 + size]), planes.T.copy().view("<i4").reshape(-1)


def test_numbers_come_back_as_they_went_in() -> None:
    stream = Stream()
    stream.add([5, -7, 2**31 - 1, -(2**31) + 1])
    stream.add_differences([10, 12, 11])
    stream.add_differences([1, 100, 2, 90, 4], stride=2)
    stream.add_differences([])
    head, numbers = read(stream.pack({"name": "<\u00e9>"}))
    assert head == {"name": "<\u00e9>"}
    assert numbers.tolist() == [5, -7, 2**31 - 1, -(2**31) + 1, 10, 2, -1, 1, 100, 1, -10, 2]


def test_a_column_holds_what_is_there_and_says_where() -> None:
    stream = Stream()
    told = put_column(stream, np.array([np.nan, 0.5, 0.25, np.nan, 1.0, np.nan]), -2)
    assert told == [[[1, 3], [4, 5]]]
    assert np.cumsum(read(stream.pack({}))[1]).tolist() == [50, 50, 25, 25, 100, 100]
    assert put_column(stream, np.array([3.0, np.nan, 3.0]), 0) == [[[0, 1], [2, 3]], 3]
    assert put_column(stream, np.full(4, np.nan), 0) == [[], 0]
    assert put_column(stream, np.array([3.0]), 0) == [[[0, 1]], 3]


@pytest.mark.parametrize("most", [1e-6, 0.03, 1.0, 30.0, 999.0, 1e7])
def test_the_largest_number_keeps_its_digits(most: float) -> None:
    exponent = exponent_of(most)
    assert 20_000 <= round(most / 10.0**exponent) <= 200_001
    assert abs(float(whole([most], exponent)[0]) * 10.0**exponent - most) <= 0.51 * 10.0**exponent


def test_zeros_are_stored_as_they_are() -> None:
    assert exponent_of(0.0) == 0


def test_what_no_32_bits_hold_is_cut() -> None:
    assert whole([1e300, -np.inf], -3).tolist() == [2**31 - 1, -(2**31) + 1]


def test_runs_and_held_numbers() -> None:
    there = np.array([False, True, True, False, True])
    assert runs_of(there) == [[1, 3], [4, 5]] and runs_of(np.zeros(3, np.bool_)) == []
    assert fill_gaps(np.array([9, 1, 2, 9, 4]), there).tolist() == [1, 1, 2, 2, 4]

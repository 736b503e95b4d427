# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The border of readable states (csrc/core/state.c): numbers of every dtype are compared with the
bounds of their fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puffervec._ffi import ffi, lib
from puffervec.core.spec import DTYPE_CODE


def check(values: np.ndarray, low: float, high: float, before: int = 0) -> str:
    """Return what the border says of a field of these values, "" if it passes. before: bytes in
    front of them.
    """
    spec, text, env = (
        ffi.new("pv_spec*"),
        ffi.new("char[]", lib.PV_ERROR_TEXT),
        ffi.new("uint32_t*"),
    )
    field = spec.state_fields[0]
    spec.state_count = 1
    field.name, field.dtype, field.ndim, field.offset = (
        b"speed",
        DTYPE_CODE[values.dtype],
        values.ndim,
        before,
    )
    field.shape[0 : values.ndim] = values.shape
    field.low, field.high = low, high
    block = ffi.new(
        "pv_block*", {"spec": spec, "error_text": text, "error_env": env, "first_env": 7}
    )
    state = ffi.from_buffer("uint8_t[]", b"\xff" * before + values.tobytes())
    code = lib.pv_state_check(block, 2, state)
    assert (code, env[0]) in ((lib.PV_OK, 0), (lib.PV_ERROR_ENV, 9))
    return ffi.string(text).decode()


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPE_CODE if dtype != np.float16], ids=str)
def test_numbers_of_every_dtype_have_bounds(dtype: np.dtype[Any]) -> None:
    low = 0 if dtype.kind == "u" else -3
    inside = np.array([[low, 1], [2, 100]], dtype)
    assert check(inside, low, 100.0, before=8) == ""
    for value in (101, low - 1) if low else (101,):
        wrong = inside.copy()
        wrong[1, 0] = value
        assert (
            check(wrong, low, 100.0, before=8)
            == f"speed[2] is {value}: it must be from {low} to 100"
        )
    assert check(np.array(101, dtype), low, 100.0) == f"speed is 101: it must be from {low} to 100"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_in_no_bounds(value: float) -> None:
    assert (
        check(np.float32([0.0, value]), -1e38, 1e38)
        == f"speed[1] is {value}: it must be from -1e+38 to 1e+38"
    )


def test_whole_64_bit_numbers_pass_where_all_may() -> None:
    assert check(np.array([0, 2**64 - 1], np.uint64), 0.0, 2.0**64) == ""


def test_half_precision_is_left_to_the_env() -> None:
    assert check(np.float16([9.0]), 0.0, 1.0) == ""

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""csrc/envs/transpose.h and nearest.h: vector forms against their plain ones."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tests.libraries import compile_library

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
#include "envs/nearest.h"
#include "envs/transpose.h"
#define PUBLIC __attribute__((visibility("default")))
void vector_form(float* v);
void plain_form(float* v);
uint64_t low_bits(uint64_t bytes);
PUBLIC void vector_form(float* v) {
    pv_eight rows[PV_EIGHT];
    memcpy(rows, v, sizeof rows);
    pv_transpose(rows);
    memcpy(v, rows, sizeof rows);
}
PUBLIC void plain_form(float* v) { pv_transpose_plain((float(*)[PV_EIGHT])v); }
PUBLIC uint64_t low_bits(uint64_t bytes) { return pv_low_bits(bytes); }
"""


@pytest.fixture(scope="module", params=["-O0", "-O3", "-O3 -mavx2", "-O3 -DPV_NO_CLONES"])
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("transpose")
    (folder / "forms.c").write_text(SOURCE)
    made = compile_library(
        folder / "forms.c",
        folder / "forms.so",
        "-Wno-psabi",
        *request.param.split(),
        include=str(ROOT / "csrc"),
    )
    library = ctypes.CDLL(str(made))
    library.low_bits.restype = ctypes.c_uint64
    library.low_bits.argtypes = [ctypes.c_uint64]
    return library


def test_both_forms_transpose_any_bits(library: ctypes.CDLL) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, (8, 8), np.uint32)
    for form in (library.vector_form, library.plain_form):
        found = bits.copy()
        form(found.ctypes.data_as(ctypes.c_void_p))
        assert (found == bits.T).all()


def test_the_low_bits_of_eight_bytes(library: ctypes.CDLL) -> None:
    words = np.random.default_rng(1).integers(0, 2**64, 2000, np.uint64)
    expected = np.packbits(words[:, None].view(np.uint8) & 1, axis=1, bitorder="little")[:, 0]
    assert [library.low_bits(int(word)) for word in words] == expected.tolist()

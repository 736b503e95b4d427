# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""csrc/covid/curves.h: its exponential and logarithm beside those of the C library."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tests.libraries import compile_library

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
#include "covid/curves.h"
void curve(int logarithm, const double* in, double* out, int count);
__attribute__((visibility("default")))
void curve(int logarithm, const double* in, double* out, int count) {
    for (int i = 0; i < count; i++) out[i] = logarithm ? covid_log(in[i]) : covid_exp(in[i]);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("curves")
    (folder / "curves.c").write_text(SOURCE)
    made = compile_library(
        folder / "curves.c", folder / "curves.so", "-Wno-psabi", include=str(ROOT / "csrc")
    )
    return ctypes.CDLL(str(made))


def curve(library: ctypes.CDLL, logarithm: bool, x: np.ndarray) -> np.ndarray:
    found = np.empty_like(x)
    library.curve(
        int(logarithm),
        x.ctypes.data_as(ctypes.c_void_p),
        found.ctypes.data_as(ctypes.c_void_p),
        len(x),
    )
    return found


def test_the_exponential(library: ctypes.CDLL) -> None:
    draw = np.random.default_rng(0)
    x = np.concatenate(
        [
            draw.uniform(-50, 50, 50_000),
            draw.uniform(-700, 700, 20_000),
            draw.normal(0, 1e-6, 1000),
            [0.0, 1.0],
        ]
    )
    relative = curve(library, False, x) / np.exp(x) - 1.0
    assert np.abs(relative).max() < 4e-16
    assert curve(library, False, np.array([0.0, -800.0, 800.0])).tolist() == [
        1.0,
        *curve(library, False, np.array([-700.0, 700.0])),
    ]


def test_the_logarithm(library: ctypes.CDLL) -> None:
    draw = np.random.default_rng(1)
    x = np.concatenate(
        [
            draw.uniform(0.01, 4, 50_000),
            np.exp(draw.uniform(-600, 600, 20_000)),
            1 + draw.normal(0, 1e-3, 1000),
        ]
    )
    found, expected = curve(library, True, x), np.log(x)
    assert (np.abs(found - expected) <= 4e-16 * np.maximum(np.abs(expected), 1e-3)).all()
    assert curve(library, True, np.array([1.0, 2.0]))[0] == 0.0

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""drive_env/generate/exact.py: close to the C library's functions, with equal bits on any CPU."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from drive_env.generate import exact

ANGLES = np.linspace(-30.0, 30.0, 6001)
SHARES = np.linspace(-1.0, 1.0, 2001)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sines(name: str) -> None:
    wanted = [getattr(math, name)(angle) for angle in ANGLES]
    np.testing.assert_allclose(getattr(exact, name)(ANGLES), wanted, rtol=0, atol=1e-15)


def test_tangents() -> None:
    angles = np.linspace(-1.5, 1.5, 3001)
    np.testing.assert_allclose(exact.tan(angles), [math.tan(a) for a in angles], rtol=1e-15)


def test_angles_of_vectors() -> None:
    for y, x in [(0.0, 0.0), (0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0), (-1e-9, -1.0)]:
        assert exact.arctan2(y, x) == math.atan2(y, x)
    lengths = 1e-6 * 1.5 ** (np.arange(len(ANGLES)) % 80)
    y, x = lengths * np.sin(ANGLES), lengths * np.cos(ANGLES)
    wanted = [math.atan2(*pair) for pair in zip(y, x, strict=True)]
    np.testing.assert_allclose(exact.arctan2(y, x), wanted, rtol=1e-15, atol=1e-15)


def test_arcs() -> None:
    np.testing.assert_allclose(exact.arccos(SHARES), [math.acos(s) for s in SHARES], atol=1e-15)
    np.testing.assert_allclose(exact.arcsin(SHARES), [math.asin(s) for s in SHARES], atol=1e-15)


def test_exponentials() -> None:
    powers = np.linspace(-50.0, 50.0, 5001)
    np.testing.assert_allclose(exact.exp(powers), [math.exp(p) for p in powers], rtol=4e-16)


def test_lengths_and_products() -> None:
    assert exact.hypot(3.0, -4.0) == 5.0
    assert exact.dot([[1.0, 2.0], [3.0, 4.0]], [5.0, 6.0]).tolist() == [17.0, 39.0]


def test_bits_are_those_of_every_machine() -> None:
    """`make cpus` runs this with the kernels of other CPUs."""
    parts = (
        *(f(ANGLES) for f in (exact.sin, exact.cos, exact.tan, exact.exp)),
        exact.arctan2(ANGLES, ANGLES[::-1]),
        *(f(SHARES) for f in (exact.arccos, exact.arcsin)),
        exact.hypot(ANGLES, ANGLES[::-1]),
    )
    digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
    assert digest[:16] == "e34dafe642787bd1"

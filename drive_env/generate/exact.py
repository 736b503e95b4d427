# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Functions of float64 numbers that give the same bits on every CPU.

NumPy and the C library have several kernels of sines, arc tangents and exponentials, and choose
one by the features of the CPU; BLAS does the same with products. Their results differ in the last
bit, and a comparison turns that into another scene. This module uses only additions,
multiplications, divisions, square roots and roundings, which IEEE 754 defines to the bit, in a
fixed order.

The polynomials are those of Cephes (S. Moshier); errors are below 1e-15, relative to the largest
value for sines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
# pi / 2 and log(2) as sums; the first terms have few digits, so that products with them are exact
_HALF_PI = (1.57079625129699707031, 7.54978941586159635336e-8, 5.39030285815811905290e-15)
_LOG_2 = (6.93145751953125e-1, 1.42860682030941723212e-6)
_SIN = (
    1.58962301576546568060e-10,
    -2.50507477628578072866e-8,
    2.75573136213857245213e-6,
    -1.98412698295895385996e-4,
    8.33333333332211858878e-3,
    -1.66666666666666307295e-1,
)
_COS = (
    -1.13585365213876817300e-11,
    2.08757008419747316778e-9,
    -2.75573141792967388112e-7,
    2.48015872888517045348e-5,
    -1.38888888888730564116e-3,
    4.16666666666665929218e-2,
)
_ATAN_ABOVE = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
_ATAN_BELOW = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)
_EXP_ABOVE = (1.26177193074810590878e-4, 3.02994407707441961300e-2, 9.99999999999999999910e-1)
_EXP_BELOW = (
    3.00198505138664455042e-6,
    2.52448340349684104192e-3,
    2.27265548208155028766e-1,
    2.00000000000000000005,
)


def sin(angle: ArrayLike) -> Floats:
    """Return the sine of angles in radians, of magnitude below 1e5."""
    return _sines(angle)[0]


def cos(angle: ArrayLike) -> Floats:
    """Return the cosine of angles in radians, of magnitude below 1e5."""
    return _sines(angle)[1]


def tan(angle: ArrayLike) -> Floats:
    """Return the tangent of angles in radians, of magnitude below 1e5."""
    sine, cosine = _sines(angle)
    return np.asarray(sine / cosine)


def ahead_of(heading: ArrayLike) -> Floats:
    """Return unit vectors in the directions of headings in radians, (..., 2)."""
    sine, cosine = _sines(heading)
    return np.stack([cosine, sine], axis=-1)


def left_of(heading: ArrayLike) -> Floats:
    """Return unit vectors to the left of headings in radians, (..., 2)."""
    sine, cosine = _sines(heading)
    return np.stack([-sine, cosine], axis=-1)


def arctan2(y: ArrayLike, x: ArrayLike) -> Floats:
    """Return the angles of vectors, in radians in [-pi, pi]; 0 for the zero vector."""
    y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
    rise, run = np.abs(y), np.abs(x)
    steep = rise > run
    most = np.maximum(rise, run)
    slope = np.minimum(rise, run) / np.where(most > 0, most, 1.0)

    # Compute the arc tangent of a slope in [0, 1].
    bent = slope > 0.66
    t = np.where(bent, (slope - 1.0) / (slope + 1.0), slope)
    square = t * t
    ratio = square * _polynomial(_ATAN_ABOVE, square) / _polynomial(_ATAN_BELOW, square)
    angle = np.where(bent, 0.25 * np.pi, 0.0) + (t * ratio + t)

    angle = np.where(steep, 0.5 * np.pi - angle, angle)
    angle = np.where(x < 0, np.pi - angle, angle)
    return np.asarray(np.where(y < 0, -angle, angle))


def arccos(cosine: ArrayLike) -> Floats:
    """Return the arc cosine, in [0, pi], of values in [-1, 1]."""
    cosine = np.asarray(cosine, np.float64)
    return arctan2(np.sqrt((1.0 - cosine) * (1.0 + cosine)), cosine)


def arcsin(sine: ArrayLike) -> Floats:
    """Return the arc sine, in [-pi / 2, pi / 2], of values in [-1, 1]."""
    sine = np.asarray(sine, np.float64)
    return arctan2(sine, np.sqrt((1.0 - sine) * (1.0 + sine)))


def exp(power: ArrayLike) -> Floats:
    """Return e to the power of each number, of magnitude below 700."""
    power = np.asarray(power, np.float64)
    doublings = np.rint(power * 1.44269504088896340736)
    rest = (power - doublings * _LOG_2[0]) - doublings * _LOG_2[1]
    square = rest * rest
    above = rest * _polynomial(_EXP_ABOVE, square)
    ratio = above / (_polynomial(_EXP_BELOW, square) - above)
    return np.asarray(np.ldexp(1.0 + 2.0 * ratio, doublings.astype(np.int64)))


def hypot(x: ArrayLike, y: ArrayLike) -> Floats:
    """Return the lengths of vectors."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    return np.asarray(np.sqrt(x * x + y * y))


def dot(here: ArrayLike, there: ArrayLike) -> Floats:
    """Return the scalar products of vectors in the plane, (..., 2)."""
    here, there = np.asarray(here, np.float64), np.asarray(there, np.float64)
    return np.asarray(here[..., 0] * there[..., 0] + here[..., 1] * there[..., 1])


def rotate(points: ArrayLike, angle: float) -> Floats:
    """Return points of the plane, (n, 2), turned counter-clockwise by an angle in radians."""
    x, y = np.moveaxis(np.asarray(points, np.float64), -1, 0)
    sine, cosine = _sines(angle)
    return np.stack([x * cosine - y * sine, x * sine + y * cosine], axis=-1)


def smooth_step(share: ArrayLike) -> Floats:
    """Return a curve from 0 at 0 to 1 at 1 with no slope and no curvature at its ends."""
    share = np.asarray(share, np.float64)
    return np.asarray(share * share * share * (10 - 15 * share + 6 * share * share))


def fourth_power(x: ArrayLike) -> Floats:
    """Return the fourth power of numbers."""
    x = np.asarray(x, np.float64)
    return np.asarray((x * x) * (x * x))


def filtered(values: Floats, kernel: Floats) -> Floats:
    """Return the sums of values weighted by a symmetric kernel, (n - k + 1,) for (n,) and (k,)."""
    count = len(values) - len(kernel) + 1
    total = np.zeros(count)
    for first, weight in enumerate(kernel):
        total += weight * values[first : first + count]
    return total


def _sines(angle: ArrayLike) -> tuple[Floats, Floats]:
    angle = np.asarray(angle, np.float64)
    quarters = np.rint(angle * (2.0 / np.pi))
    rest = angle - quarters * _HALF_PI[0]
    rest = (rest - quarters * _HALF_PI[1]) - quarters * _HALF_PI[2]
    square = rest * rest
    sine = rest + rest * (square * _polynomial(_SIN, square))
    cosine = 1.0 - 0.5 * square + square * square * _polynomial(_COS, square)

    quarter = quarters.astype(np.int64) % 4
    across = quarter % 2 == 1
    return (
        np.where(across, cosine, sine) * np.where(quarter >= 2, -1.0, 1.0),
        np.where(across, sine, cosine) * np.where((quarter == 1) | (quarter == 2), -1.0, 1.0),
    )


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    """Evaluate a polynomial at x. The coefficients are ordered from the highest power down."""
    total: Floats = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Fixed cost and cost per unit: times at several values of a knob, and the line T = a + b n."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from puffervec.errors import ConfigError
from puffervec.system.output import table_lines
from puffervec.wings.profile.counts import KINDS
from puffervec.wings.profile.timing import Latency, Timing, Work, latencies


@dataclasses.dataclass(frozen=True)
class Fit:
    """The least-squares line T = a + b n.

    Attributes:
        a, b: in ms.
        r2: coefficient of determination; 1 if the line explains all of the spread.
        residuals: (points,) T - (a + b n), ms.
    """

    a: float
    b: float
    r2: float
    residuals: tuple[float, ...]


def fit_line(n: Sequence[float], times: Sequence[float]) -> Fit:
    """Fit a line through points.

    Raises:
        ConfigError: n has fewer than two different values.
    """
    x, y = np.asarray(n, dtype=float), np.asarray(times, dtype=float)
    if len(np.unique(x)) < 2:
        raise ConfigError(f"a line needs at least two different values, got {list(n)}")
    (a, b), *_ = np.linalg.lstsq(np.stack([np.ones_like(x), x], axis=1), y)
    residuals = y - (a + b * x)
    spread = float(((y - y.mean()) ** 2).sum())
    r2 = 1.0 - float((residuals**2).sum()) / spread if spread > 0 else 1.0
    return Fit(float(a), float(b), r2, tuple(residuals.tolist()))


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Times at several values of a knob.

    Attributes:
        knob: name of the knob.
        values: values in ascending order.
        points: latencies in the order of `values`. The line is fitted to their medians of wall
            time.
    """

    knob: str
    values: tuple[int, ...]
    points: tuple[Latency, ...]

    @property
    def fit(self) -> Fit:
        """The line through the points."""
        return fit_line(self.values, [point.median for point in self.points])

    def __str__(self) -> str:
        """Return a table of the points with the line's values, and the line."""
        fit = self.fit
        kinds = KINDS if all(point.counts is not None for point in self.points) else ()
        rows: list[tuple[str, ...]] = [
            (self.knob, "median ms", "p95 ms", "line ms", "residual ms", *kinds)
        ]
        for value, point, residual in zip(self.values, self.points, fit.residuals, strict=True):
            wall = point.stats()["wall"]
            times = (wall["p50"], wall["p95"], wall["p50"] - residual, residual)
            counts = [f"{getattr(point.counts, kind):g}" for kind in kinds]
            rows.append((f"{value}", *(f"{number:.3f}" for number in times), *counts))
        return "\n".join(
            [
                *table_lines(rows),
                f"  T = {fit.a:.3f} ms + {fit.b:.4f} ms x {self.knob}, R2 {fit.r2:.4f}",
            ]
        )


def sweep(
    make: Callable[[int], Work],
    knob: str,
    values: Sequence[int],
    timing: Timing | None = None,
    **changes: Any,
) -> Sweep:
    """Time work at several values of a knob, alternating between them.

    Args:
        make: takes a value and returns the work, which is called without arguments.
        knob: name of the knob.
        values: at least two values.
        timing, changes: see `latency`.

    Raises:
        ConfigError: there are fewer than two values; also as `latency`.
    """
    (only,) = sweeps({"": make}, knob, values, timing, **changes).values()
    return only


def sweeps(
    makes: Mapping[str, Callable[[int], Work]],
    knob: str,
    values: Sequence[int],
    timing: Timing | None = None,
    **changes: Any,
) -> dict[str, Sweep]:
    """Sweep several works for a comparison, alternating, so that other load affects all alike.

    Args:
        makes: by name, functions like `make` of `sweep`.
        knob, values, timing, changes: see `sweep`.

    Raises: as `sweep`.
    """
    chosen = check_values(knob, values)
    works = {f"{name}\n{value}": make(value) for name, make in makes.items() for value in chosen}
    times = iter(latencies(works, timing, **changes))
    return {
        name: Sweep(
            knob,
            chosen,
            tuple(dataclasses.replace(next(times), name=f"{knob}={value}") for value in chosen),
        )
        for name in makes
    }


def check_values(knob: str, values: Sequence[int]) -> tuple[int, ...]:
    """Return the values of a sweep in ascending order.

    Raises:
        ConfigError: there are fewer than two different values, or one is below 1.
    """
    chosen = tuple(sorted(set(values)))
    if len(chosen) < 2 or chosen[0] < 1:
        text = ",".join(map(str, values))
        raise ConfigError(
            f"sweep {knob}={text}: use at least two different whole numbers from 1, as in "
            f"{knob}=1,2,4,8"
        )
    return chosen

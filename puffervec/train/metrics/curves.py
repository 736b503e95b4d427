# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compute the curves of plots: smoothed, averaged over seeds, and grouped into panels.

Draws nothing; imports no torch.

runs  --join_seeds-->  series, one color each
series  --panels_of-->  panels: metrics of one env with one unit
panel  --curve_of-->  points
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from puffervec.errors import ConfigError
from puffervec.train.config.tables import suggest
from puffervec.train.metrics.keys import (
    ELAPSED_S,
    ENV,
    EPISODE,
    LOSSES,
    METRICS,
    OTHER_FIGURES,
    SPAN_S,
    STEP,
    TIME_PARTS,
    UPDATE,
    base,
    rates_policy,
)

Line = Mapping[str, Any]
Curve = tuple[np.ndarray, np.ndarray]

# Longer raw curves are thinned by averaging neighbours: a panel has no more pixels.
MOST_POINTS = 1000
SMOOTH_PERCENT = 3.0  # Default share of a curve over which each point is averaged.
TIME = "time"  # As a metric: the shares of the time, stacked.
COLUMNS = {"steps": STEP, "minutes": ELAPSED_S}
# Units of the numbers that an env records, by the suffix of their names.
SUFFIXES = {
    "_m": "m", "_mps": "m/s", "_mps2": "m/s²", "_s": "s", "_rad": "rad", "_deg": "degrees",
    "_steps": "steps",
}  # fmt: skip
# Settings that do not make two experiments different: the seed, the place of the run, and how the
# machine did the work.
APART = {
    "train": {
        "seed",
        "precision",
        "device",
        "threads",
        "compile",
        "rank_timeout_s",
        "tensor_parallel",
        "final_eval",
    },
    "vec": {"backend", "num_workers", "num_buffers", "split", "timeout_s"},
    "eval": {"every_s", "suites", "episodes", "metric", "patience"},
}


@dataclasses.dataclass(frozen=True)
class Run:
    """The metrics of one run.

    Attributes:
        lines: Metric lines in order.
        config: Its settings as tables; {} if the file has none.
    """

    name: str
    env: str
    lines: tuple[Line, ...]
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def keys(self) -> list[str]:
        """Return the names of all metrics for which the run has a number, in order."""
        names = {key: None for line in self.lines for key in line if known(line, key)}
        return [key for key in names if key not in (STEP, UPDATE, ELAPSED_S, SPAN_S)]

    def curve(self, x: str, key: str) -> Curve:
        """Return (n,) agent-steps or seconds and (n,) values, for the lines that have both.

        Args:
            x: A key of COLUMNS.
            key: The name of a metric.
        """
        column = COLUMNS[x]
        points = [
            (line[column], line[key])
            for line in self.lines
            if known(line, column) and known(line, key)
        ]
        xs, ys = np.array(sorted(points), np.float64).reshape(-1, 2).T
        return xs, ys


def known(line: Line, key: str) -> bool:
    """Return whether a line has a finite number for a metric."""
    value = line.get(key)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


# ---- series


@dataclasses.dataclass(frozen=True)
class Series:
    """Runs that are drawn as one curve: the same settings with different seeds."""

    name: str
    env: str
    runs: tuple[Run, ...]


def join_seeds(runs: Sequence[Run]) -> list[Series]:
    """Return one series for all runs of the same env and settings with different seeds.

    Every other run becomes a series by itself.
    """
    groups: dict[str, list[Run]] = {}
    for number, run in enumerate(runs):
        key = _experiment(run) if run.config else str(number)
        seeds = [_seed(other) for other in groups.get(key, ())]
        groups.setdefault(key if _seed(run) not in seeds else f"{key} {number}", []).append(run)
    return [Series(_shared_name(group), group[0].env, tuple(group)) for group in groups.values()]


def _experiment(run: Run) -> str:
    tables = {
        name: {k: v for k, v in table.items() if k not in APART.get(name, ())}
        if isinstance(table, Mapping)
        else table
        for name, table in run.config.items()
        if name != "log" and table != {}  # Tables of older versions may be missing.
    }
    return json.dumps([run.env, tables], sort_keys=True, default=str)


def _seed(run: Run) -> Any:
    train = run.config.get("train")
    return train.get("seed") if isinstance(train, Mapping) else None


def _shared_name(runs: Sequence[Run]) -> str:
    if len(runs) == 1:
        return runs[0].name
    shared = os.path.commonprefix([run.name for run in runs]).rstrip("-_. ")
    for ending in ("-s", "_s", "-seed", "_seed"):
        shared = shared.removesuffix(ending)
    return f"{shared or runs[0].name}, {len(runs)} seeds"


# ---- panels


@dataclasses.dataclass(frozen=True)
class Panel:
    """A pair of axes.

    Attributes:
        keys: Names of its metrics, without policies, or (TIME,).
        unit: The unit of all its metrics.
        is_share: All values are shares: the axis goes from 0 to 1.
    """

    env: str
    keys: tuple[str, ...]
    unit: str
    is_share: bool = False

    @property
    def title(self) -> str:
        """Return the title of the panel."""
        if self.keys == (TIME,):
            return "time split"
        if len(self.keys) == 1:
            return self.keys[0]
        return (
            "rates of the env's records"
            if self.is_share
            else ", ".join(key.rpartition("/")[2] for key in self.keys)
        )


def panels_of(series: Sequence[Series], metrics: str | None) -> list[Panel]:
    """Return the panels, separate ones for each env, so that no axis mixes envs of different scale.

    Args:
        metrics: Names separated by commas; those connected by + share a panel. A name is whole
            (env/score), short (score), a pattern with *, or time. None: the usual metrics.

    Raises:
        ConfigError: No run has a metric of that name.
    """
    panels = []
    for env in dict.fromkeys(one.env for one in series):
        mine = [one for one in series if one.env == env]
        keys = list(
            dict.fromkeys(base(key) for one in mine for run in one.runs for key in run.keys())
        )
        groups = _usual(mine, keys) if metrics is None else _chosen(metrics, keys)
        panels += [Panel(env, group, *_scale(mine, group)) for group in groups]
    for text in _names(metrics):
        if not any(
            _matches(text, key)
            for one in series
            for run in one.runs
            for key in [*map(base, run.keys()), TIME]
        ):
            every = [
                *dict.fromkeys(
                    base(key) for one in series for run in one.runs for key in run.keys()
                ),
                TIME,
            ]
            raise ConfigError(f"--metrics {text}: no run has it{suggest(text, every)}")
    return panels


def _names(metrics: str | None) -> list[str]:
    return (
        []
        if metrics is None
        else [text.strip() for part in metrics.split(",") for text in part.split("+")]
    )


def _matches(text: str, key: str) -> bool:
    return fnmatch.fnmatchcase(key, text) or key.rpartition("/")[2] == text


def _chosen(metrics: str, keys: Sequence[str]) -> list[tuple[str, ...]]:
    groups: list[tuple[str, ...]] = []
    for part in metrics.split(","):
        names = [text.strip() for text in part.split("+")]
        matches = dict.fromkeys(
            key for text in names for key in [*keys, TIME] if _matches(text, key)
        )
        together = [key for key in matches if key != TIME]
        groups += [tuple(together)] if len(names) > 1 and together else [(key,) for key in together]
        groups += [(TIME,)] if TIME in matches else []
    return groups


def _usual(series: Sequence[Series], keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the default panels: the env's rates, episodes, other records, the usual metrics.

    A single series has the rates in one panel; several have one panel per rate.
    """
    records = [key for key in keys if key.startswith(ENV)]
    usual = [key for key, metric in METRICS.items() if metric.usual and key in keys]
    rates = [key for key in records if _scale(series, (key,))[1]]
    first = [tuple(rates)] if len(series) == 1 and rates else [(key,) for key in rates]
    rest = [(key,) for key in records if key not in rates]
    episodes = [(key,) for key in usual if key.startswith(EPISODE)]
    scores = [(key,) for key in keys if rates_policy(key)]
    others = [(key,) for key in usual if (key,) not in episodes]
    return [*scores, *first, *episodes, *rest, *others, (TIME,)]


def _scale(series: Sequence[Series], keys: tuple[str, ...]) -> tuple[str, bool]:
    """Return the unit of an axis, and whether it shows shares."""
    if keys == (TIME,):
        return METRICS[TIME_PARTS["env"]].unit, True
    units = dict.fromkeys(unit_of(key) for key in keys)
    if all(
        key.startswith(ENV) and unit == ""
        for key, unit in zip(keys, map(unit_of, keys), strict=True)
    ):
        values = [
            line[key]
            for one in series
            for run in one.runs
            for line in run.lines
            for key in keys
            if known(line, key)
        ]
        is_share = all(0 <= value <= 1 for value in values)
        return ("share, mean over episodes" if is_share else "mean over episodes"), is_share
    return ", ".join(unit or "mean over episodes" for unit in units), False


def unit_of(key: str) -> str:
    """Return the unit of a metric, "" if only the env knows it."""
    if key in METRICS:
        return METRICS[key].unit
    if key.startswith(LOSSES):
        return METRICS[OTHER_FIGURES].unit
    return next((unit for suffix, unit in SUFFIXES.items() if key.endswith(suffix)), "")


# ---- curves


def smoothed(xs: np.ndarray, ys: np.ndarray, width: float) -> np.ndarray:
    """Return (n,) centred moving averages over a window of `width` in x.

    The window shrinks towards the ends so that it stays symmetric and the ends stay in place.

    Args:
        xs: (n,), rising.
        ys: (n,).
    """
    if width <= 0 or len(xs) < 3:
        return ys
    half = np.minimum(width / 2, np.minimum(xs - xs[0], xs[-1] - xs))
    first, last = np.searchsorted(xs, xs - half, "left"), np.searchsorted(xs, xs + half, "right")
    sums = np.concatenate([[0.0], np.cumsum(ys)])
    means: np.ndarray = (sums[last] - sums[first]) / (last - first)
    return means


def thinned(xs: np.ndarray, ys: np.ndarray) -> Curve:
    """Return at most MOST_POINTS points; longer curves are averaged over neighbours."""
    if len(xs) <= MOST_POINTS:
        return xs, ys
    parts = np.array_split(np.stack([xs, ys], axis=1), MOST_POINTS)
    means = np.stack([part.mean(axis=0) for part in parts])
    return means[:, 0], means[:, 1]


@dataclasses.dataclass(frozen=True)
class SmoothCurve:
    """The curve of one metric of a series.

    Attributes:
        raw: The points before smoothing (one run).
        band: The lowest and highest values (several seeds).
    """

    xs: np.ndarray
    ys: np.ndarray
    raw: Curve | None = None
    band: tuple[np.ndarray, np.ndarray] | None = None


def curve_of(series: Series, x: str, key: str, smooth: float, unit: float) -> SmoothCurve | None:
    """Return the curve of one metric, or None if no run has it.

    The curve of several seeds is the mean of their smoothed curves, over the range that all of them
    cover.

    Args:
        smooth: Width of the window as a share of the run's length in x.
        unit: Divisor of x.
    """
    curves = [run.curve(x, key) for run in series.runs]
    curves = [(xs / unit, ys) for xs, ys in curves if len(xs)]
    if not curves:
        return None
    lines = [(xs, smoothed(xs, ys, smooth * (xs[-1] - xs[0]))) for xs, ys in curves]
    if len(curves) == 1:
        return SmoothCurve(*thinned(*lines[0]), raw=thinned(*curves[0]) if smooth > 0 else None)
    grid = np.linspace(max(xs[0] for xs, _ in lines), min(xs[-1] for xs, _ in lines), MOST_POINTS)
    stack = np.stack([np.interp(grid, xs, ys) for xs, ys in lines])
    return SmoothCurve(grid, stack.mean(axis=0), band=(stack.min(axis=0), stack.max(axis=0)))


def x_axis(runs: Iterable[Run], x: str) -> tuple[float, str]:
    """Return the divisor of x and the label of the axis, by the longest run."""
    most = max((run.lines[-1][COLUMNS[x]] for run in runs), default=0.0)
    if x == "minutes":
        return (60.0, "minutes of training") if most >= 120 else (1.0, "seconds of training")
    if most >= 1e6:
        return 1e6, "million agent-steps"
    return (1e3, "thousand agent-steps") if most >= 1e4 else (1.0, "agent-steps")

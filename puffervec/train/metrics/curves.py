# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Curves of runs for pictures: what is drawn side by side, smoothed, and joined over seeds. Draws
nothing; imports no torch.

runs  --join_seeds-->  series, a color each  --panels_of-->  panels: metrics of one env, one unit  --curve-->  points
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
from puffervec.train.config.sections import suggest
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
)

Line = Mapping[str, Any]
Curve = tuple[np.ndarray, np.ndarray]

MOST_POINTS = 1000  # Of a raw curve; of more, neighbours are averaged: a panel has no more pixels.
TIME = "time"  # As a metric: the shares of the time, stacked.
COLUMNS = {"steps": STEP, "minutes": ELAPSED_S}
# Units of what an env records, by the end of its name.
SUFFIXES = {
    "_m": "m", "_mps": "m/s", "_mps2": "m/s²", "_s": "s", "_rad": "rad", "_deg": "degrees", "_steps": "steps",
}  # fmt: skip
# Settings that tell no two experiments apart: the seed, where the run went, and how the machine did
# the work.
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
}


@dataclasses.dataclass(frozen=True)
class Run:
    """The metrics of one run: its name, env and config (tables; {} where the file has none), and
    the lines in order.
    """

    name: str
    env: str
    lines: tuple[Line, ...]
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def keys(self) -> list[str]:
        """Every metric that the run has a number for, in the order in which they first came."""
        found = {key: None for line in self.lines for key in line if known(line, key)}
        return [key for key in found if key not in (STEP, UPDATE, ELAPSED_S, SPAN_S)]

    def curve(self, x: str, key: str) -> Curve:
        """Return (n,) agent-steps or seconds, as `x` says (a key of COLUMNS), and (n,) values,
        where both are known.
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
    """True where a line has a finite number."""
    value = line.get(key)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


# ---------------------------------------------------------------------------------------------------- series


@dataclasses.dataclass(frozen=True)
class Series:
    """Runs that are drawn as one: the same settings, other seeds."""

    name: str
    env: str
    runs: tuple[Run, ...]


def join_seeds(runs: Sequence[Run]) -> list[Series]:
    """Return one series for all runs of the same env and settings with different seeds; each other
    run alone.
    """
    found: dict[str, list[Run]] = {}
    for number, run in enumerate(runs):
        key = _experiment(run) if run.config else str(number)
        seeds = [_seed(other) for other in found.get(key, ())]
        found.setdefault(key if _seed(run) not in seeds else f"{key} {number}", []).append(run)
    return [Series(_shared_name(group), group[0].env, tuple(group)) for group in found.values()]


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


# ---------------------------------------------------------------------------------------------------- panels


@dataclasses.dataclass(frozen=True)
class Panel:
    """One pair of axes. keys: its metrics, by the names without policies, or (TIME,). unit: of all
    of them.
    """

    env: str
    keys: tuple[str, ...]
    unit: str
    is_share: bool = False  # All values are shares: the axis goes from 0 to 1.

    @property
    def title(self) -> str:
        """What is drawn."""
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
    """Return the panels: of each env its own, so that no axis has envs of different scale.

    Args: metrics: names separated by commas, those joined by + in one panel: whole (env/score),
        short (score), with * for any text, or time; None: the usual ones.
    Raises: ConfigError for a name that no run has.
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
        found = dict.fromkeys(key for text in names for key in [*keys, TIME] if _matches(text, key))
        together = [key for key in found if key != TIME]
        groups += [tuple(together)] if len(names) > 1 and together else [(key,) for key in together]
        groups += [(TIME,)] if TIME in found else []
    return groups


def _usual(series: Sequence[Series], keys: Sequence[str]) -> list[tuple[str, ...]]:
    """The env's own rates in one panel where there is one series, else one panel each; its other
    records; the usual metrics.
    """
    records = [key for key in keys if key.startswith(ENV)]
    usual = [key for key, metric in METRICS.items() if metric.usual and key in keys]
    rates = [key for key in records if _scale(series, (key,))[1]]
    first = [tuple(rates)] if len(series) == 1 and rates else [(key,) for key in rates]
    rest = [(key,) for key in records if key not in rates]
    episodes = [(key,) for key in usual if key.startswith(EPISODE)]
    return [*first, *episodes, *rest, *((key,) for key in usual if (key,) not in episodes), (TIME,)]


def _scale(series: Sequence[Series], keys: tuple[str, ...]) -> tuple[str, bool]:
    """Return the unit of an axis, and whether it is one of shares."""
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
    """The unit of a metric, "" where only the env knows it."""
    if key in METRICS:
        return METRICS[key].unit
    if key.startswith(LOSSES):
        return METRICS[OTHER_FIGURES].unit
    return next((unit for suffix, unit in SUFFIXES.items() if key.endswith(suffix)), "")


# ---------------------------------------------------------------------------------------------------- curves


def smoothed(xs: np.ndarray, ys: np.ndarray, width: float) -> np.ndarray:
    """Return (n,) the mean of the points at most half of `width` away in x, as far to the left as
    to the right: towards the ends the window gets narrower, so that the ends stay where they are.
    xs: rising.
    """
    if width <= 0 or len(xs) < 3:
        return ys
    half = np.minimum(width / 2, np.minimum(xs - xs[0], xs[-1] - xs))
    first, last = np.searchsorted(xs, xs - half, "left"), np.searchsorted(xs, xs + half, "right")
    sums = np.concatenate([[0.0], np.cumsum(ys)])
    means: np.ndarray = (sums[last] - sums[first]) / (last - first)
    return means


def thinned(xs: np.ndarray, ys: np.ndarray) -> Curve:
    """Return at most MOST_POINTS points; of more, neighbours are averaged."""
    if len(xs) <= MOST_POINTS:
        return xs, ys
    parts = np.array_split(np.stack([xs, ys], axis=1), MOST_POINTS)
    means = np.stack([part.mean(axis=0) for part in parts])
    return means[:, 0], means[:, 1]


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A series' curve of one key: the line, and behind it the raw points (one run) or lowest and
    highest (several seeds).
    """

    xs: np.ndarray
    ys: np.ndarray
    raw: Curve | None = None
    band: tuple[np.ndarray, np.ndarray] | None = None


def drawn(series: Series, x: str, key: str, smooth: float, unit: float) -> Drawn | None:
    """Return the curve of one key, or None where no run has it.

    Several seeds: the mean of their smoothed curves, over the stretch that all of them have.
    Args: smooth: width of the window as a share of the run's length in x; unit: what x is divided
        by.
    """
    curves = [run.curve(x, key) for run in series.runs]
    curves = [(xs / unit, ys) for xs, ys in curves if len(xs)]
    if not curves:
        return None
    lines = [(xs, smoothed(xs, ys, smooth * (xs[-1] - xs[0]))) for xs, ys in curves]
    if len(curves) == 1:
        return Drawn(*thinned(*lines[0]), raw=thinned(*curves[0]) if smooth > 0 else None)
    grid = np.linspace(max(xs[0] for xs, _ in lines), min(xs[-1] for xs, _ in lines), MOST_POINTS)
    stack = np.stack([np.interp(grid, xs, ys) for xs, ys in lines])
    return Drawn(grid, stack.mean(axis=0), band=(stack.min(axis=0), stack.max(axis=0)))


def x_axis(runs: Iterable[Run], x: str) -> tuple[float, str]:
    """Return what x is divided by and the label, by the longest run."""
    most = max((run.lines[-1][COLUMNS[x]] for run in runs), default=0.0)
    if x == "minutes":
        return (60.0, "minutes of training") if most >= 120 else (1.0, "seconds of training")
    if most >= 1e6:
        return 1e6, "million agent-steps"
    return (1e3, "thousand agent-steps") if most >= 1e4 else (1.0, "agent-steps")

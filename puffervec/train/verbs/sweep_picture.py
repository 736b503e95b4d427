# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Pictures of a sweep, as matplotlib figures: score against cost with the Pareto front, and parallel coordinates of all
settings. Trials are Optuna's, with values (score, seconds), None where they failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from puffervec.train.config.ranges import Choices, Searched, Space, place
from puffervec.train.verbs.plot import COLOURS, new_figure


def draw_pareto(found: Sequence[Any], front: Sequence[Any], metric: str, title: str) -> Any:
    """Return score against seconds; trials that failed are counted only, since what they would have cost is not known."""
    done = [trial for trial in found if trial.values]
    figure = new_figure(7, 4.5)
    axis = figure.subplots()
    scores, costs = zip(*(trial.values for trial in done), strict=True)
    axis.plot(costs, scores, "o", color="0.65", ms=5, label=f"{len(done)} trials")
    scores, costs = zip(*(trial.values for trial in front), strict=True)
    label = "Pareto front: no other trial is both cheaper and better"
    axis.plot(costs, scores, "o-", color=COLOURS[0], ms=7, drawstyle="steps-post", label=label)
    for trial in front:
        axis.annotate(str(trial.number), trial.values[::-1], (5, -11), textcoords="offset points", fontsize=8)
    failed = len(found) - len(done)
    if failed:
        axis.plot([], [], " ", label=f"{failed} failed")
    axis.set(xlabel="seconds of training", ylabel=metric, title=title)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def draw_parallel(found: Sequence[Any], space: Space, metric: str, title: str) -> Any:
    """Return one axis per setting, then cost and score; a line per trial, coloured by its score."""
    from matplotlib import cm, colors

    done = sorted((trial for trial in found if trial.values), key=lambda trial: trial.values)
    scores, costs = (colors.Normalize(*_span(values)) for values in zip(*(trial.values for trial in done), strict=True))
    figure = new_figure(1.6 * (len(space) + 2) + 1, 4.5)
    axis = figure.subplots()
    for trial in done:  # The best are drawn last, on top.
        score, cost = trial.values
        heights = [place(searched, trial.params[key]) for key, searched in space.items()]
        heights += [float(costs(cost)), float(scores(score))]
        axis.plot(range(len(heights)), heights, color=cm.viridis(scores(score)), alpha=0.8, lw=1.5)
    ends = [*(_marks(searched) for searched in space.values())]
    ends += [[(0.0, f"{scale.vmin:.3g}"), (1.0, f"{scale.vmax:.3g}")] for scale in (costs, scores)]
    for at, marks in enumerate(ends):
        axis.axvline(at, color="0.3", lw=0.8)
        for height, text in marks:
            axis.annotate(text, (at, height), (4, 0), textcoords="offset points", fontsize=8, va="center",
                          bbox={"facecolor": "white", "alpha": 0.7, "lw": 0, "pad": 1})  # fmt: skip
    axis.set_xticks(range(len(ends)), [*space, "seconds", metric], fontsize=8, rotation=20, ha="right")
    axis.set(yticks=[], ylim=(-0.05, 1.05), xlim=(-0.3, len(ends) - 0.4), title=title)
    axis.spines[:].set_visible(False)
    figure.colorbar(cm.ScalarMappable(scores, cm.viridis), ax=axis, label=metric, fraction=0.03, pad=0.01)
    return figure


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return least and largest, a little apart where they are the same."""
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _marks(searched: Searched) -> list[tuple[float, str]]:
    """Return (height, text) of the labels on an axis."""
    if isinstance(searched, Choices):
        return [(place(searched, option), option) for option in searched.options]
    log = " (log)" if searched.log else ""
    return [(0.0, f"{searched.low:g}"), (1.0, f"{searched.high:g}{log}")]

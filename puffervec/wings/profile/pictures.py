# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draw reports: a box for each call or phase; for sweeps, the points, line and residuals."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from puffervec.commands.outputs import save_output
from puffervec.commands.plot import new_figure, style_axis
from puffervec.contract.drawing import PALETTE
from puffervec.system import extras
from puffervec.wings.profile.report import Report
from puffervec.wings.profile.timing import Latency

WIDE = 50  # Medians that differ by a larger factor are drawn on a logarithmic scale.


def picture(
    reports: Report | Sequence[Report], path: str | Path, names: Sequence[str] = ()
) -> Path:
    """Draw one report, or several next to each other, as PNG or SVG by the file's suffix.

    Args:
        reports: reports to draw.
        path: path of the file.
        names: names of the reports, if there are several.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ConfigError: the file cannot be written.
    """
    extras.require("a picture", "matplotlib")
    several = [reports] if isinstance(reports, Report) else list(reports)
    image = io.BytesIO()
    kind = "svg" if Path(path).suffix.lower() == ".svg" else "png"
    draw(several, names or [f"{i}" for i in range(len(several))]).savefig(image, format=kind)
    save_output(Path(path), image.getvalue())
    return Path(path)


def draw(reports: Sequence[Report], names: Sequence[str]) -> Any:
    """Return the matplotlib figure."""
    boxes = any(report.latencies for report in reports)
    lines = any(report.sweep is not None for report in reports)
    columns = boxes + lines
    figure = new_figure(5.2 * max(1, columns), 4.4)
    parts = list(figure.subfigures(1, max(1, columns), squeeze=False)[0])
    if boxes:
        _draw_boxes(parts.pop(0), reports, names)
    if lines:
        _draw_lines(parts.pop(0), reports, names)
    targets = dict.fromkeys(str(report.about.get("target", "")) for report in reports)
    figure.suptitle(", ".join(filter(None, targets)), fontsize=10)
    return figure


def _draw_boxes(part: Any, reports: Sequence[Report], names: Sequence[str]) -> None:
    """Draw boxes between the quartiles, whiskers to p1 and p99, and the median as a line."""
    rows: list[tuple[str, Latency, str]] = []
    for report, name, colour in zip(reports, names, PALETTE, strict=False):
        for one in report.latencies:
            rows.append(
                (
                    f"{one.name}, {name}" if len(reports) > 1 and one.name != name else one.name,
                    one,
                    colour,
                )
            )
    labels, samples, colours = [], [], []
    for label, one, colour in rows:
        for clock, times in (("wall", one.wall), ("device", one.device)):
            if times is not None:
                labels.append(f"{label} ({clock})" if one.device is not None else label)
                samples.append(times)
                colours.append(colour)
    axis = part.subplots()
    plot = axis.boxplot(
        samples,
        orientation="horizontal",
        whis=(1, 99),
        showfliers=False,
        patch_artist=True,
        widths=0.6,
    )
    for box, colour in zip(plot["boxes"], colours, strict=True):
        box.set(facecolor=colour, alpha=0.6)
    for median in plot["medians"]:
        median.set_color("black")
    axis.set_yticks(range(1, len(labels) + 1), labels, fontsize=8)
    axis.invert_yaxis()
    medians = [float(np.median(times)) for times in samples]
    if max(medians) > WIDE * min(medians):
        axis.set_xscale("log")
    else:
        axis.set_xlim(left=0)
    axis.set_xlabel("ms; box: quartiles, whiskers: p1 and p99", fontsize=8)
    axis.tick_params(labelsize=8)
    style_axis(axis)


def _draw_lines(part: Any, reports: Sequence[Report], names: Sequence[str]) -> None:
    """Draw the medians and their lines, and the residuals below."""
    above, below = part.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    knob = ""
    for report, name, colour in zip(reports, names, PALETTE, strict=False):
        if report.sweep is None:
            continue
        knob, fit, values = report.sweep.knob, report.sweep.fit, np.asarray(report.sweep.values)
        label = f"{fit.a:.3f} + {fit.b:.4f} {knob}, R² {fit.r2:.4f}"
        above.plot(values, [point.median for point in report.sweep.points], "o", color=colour, ms=4)
        whole = np.array([0, values.max()])
        above.plot(
            whole,
            fit.a + fit.b * whole,
            color=colour,
            lw=1.4,
            label=f"{name}: {label}" if len(reports) > 1 else label,
        )
        below.plot(values, fit.residuals, "o-", color=colour, ms=3, lw=0.8)
    above.set_ylim(bottom=0)
    above.set_ylabel("ms, median", fontsize=8)
    above.legend(fontsize=7, frameon=False)
    below.axhline(0, color="0.6", lw=0.8)
    below.set_ylabel("residual", fontsize=8)
    below.set_xlabel(knob, fontsize=8)
    for axis in (above, below):
        axis.tick_params(labelsize=8)
        style_axis(axis)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draws a driving run's rates over time, as in the README: `python scripts/plot_run.py runs/NAME --out curve.png`.

`puffer-train plot` draws everything else that a run logs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from puffervec.train.plot import read_run

# Rates of the driving env, in the order of the legend, with colours that keep apart in grey and for the colour-blind.
RATES = {"env/score": "#0072B2", "env/goal": "#009E73", "env/collision": "#D55E00", "env/offroad": "#CC79A7"}


def draw(run: Path, out: Path, held_out_score: float | None) -> None:
    """Write the picture. held_out_score: what `puffer-train eval` measured at the end, drawn as a point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = read_run(run)
    lines = found.lines
    minutes = [line["elapsed_s"] / 60 for line in lines]
    figure, axes = pyplot.subplots(figsize=(8, 4.2), dpi=150, layout="constrained")
    for key, colour in RATES.items():
        points = [(minute, line[key]) for minute, line in zip(minutes, lines, strict=True) if key in line]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, lw=2, label=key.removeprefix("env/"))
    if held_out_score is not None:
        axes.plot([minutes[-1]], [held_out_score], "o", ms=9, color=RATES["env/score"], mec="white", clip_on=False, zorder=5)
        label = f"score on held-out scenes: {held_out_score:.2f}"
        axes.annotate(label, (minutes[-1], held_out_score), (-12, -28), textcoords="offset points", ha="right")
    axes.set(xlabel="minutes of training", ylabel="share of agents (latest episodes)")
    axes.set(xlim=(0, minutes[-1] * 1.01), ylim=(0, 1.02))
    steps, seconds = lines[-1]["step"], lines[-1]["elapsed_s"]
    axes.set_title(f"puffer-train {found.env}: {steps / 1e6:.1f} M agent-steps, {steps / seconds:,.0f} per second")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center right")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def main() -> int:
    """Parse the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="run folder or metrics.jsonl")
    parser.add_argument("--out", type=Path, default=Path("curve.png"))
    parser.add_argument("--held-out-score", type=float, default=None)
    arguments = parser.parse_args()
    draw(arguments.run, arguments.out, arguments.held_out_score)
    print(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

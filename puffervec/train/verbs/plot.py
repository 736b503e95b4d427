# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train plot`: curves of runs as a picture."""

from __future__ import annotations

from pathlib import Path

from puffervec.train.config import flags
from puffervec.train.verbs.signals import StopSignals
from puffervec.train.verbs.verb import Verb

ABOUT = """\
  Draws metrics of runs: the env's own records, return, losses, speed and time split. RUN is a run folder or a metrics.jsonl.
  Each env has its own axes. Runs that differ in the seed alone are one line, their mean, in a band from lowest to highest.

  --metrics KEYS        a panel each: env/score,return,losses/*; with + in one panel: score+goal,time [default: the usual ones]
  --x WHAT              steps or minutes [default: steps]
  --smooth PERCENT      bold: mean over this share of the run; faint: as logged; 0: only as logged [default: 3]
  --apart               a line for each run, also where only seeds differ
  --out FILE.png        [default: plot.png in the run folder; of several runs, here]
"""


def run(args: list[str], signals: StopSignals) -> None:
    """`puffer-train plot RUN...`."""
    out, x, metrics, smooth = (flags.take_option(args, flag) for flag in ("--out", "--x", "--metrics", "--smooth"))
    apart = flags.take_switch(args, "--apart")
    runs = [arg for arg in args if not arg.startswith("-")]
    flags.refuse_left([arg for arg in args if arg.startswith("-")], "plot")
    from puffervec.train.metrics.plot import SMOOTH_PERCENT, Request, plot_runs

    width = SMOOTH_PERCENT if smooth is None else flags.number("--smooth", smooth)
    print(plot_runs(runs, None if out is None else Path(out), Request(x or "steps", metrics, width, not apart)))


VERB = Verb(
    "plot", "RUN... [flags]", "curves of one or several runs as a picture", ABOUT, run, trainer=False,
    values={"--x": ("steps", "minutes")},
)  # fmt: skip

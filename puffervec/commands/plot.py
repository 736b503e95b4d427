# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train plot`: curves of runs from their metrics.jsonl as one PNG. Imports no torch.

    env/... (its rates)   episode/return   episode/length
    losses/policy   ...   agent-steps/s    time split

Each env has its own panels; each series (the seeds of one experiment, or one run) its own colour.
curves.py determines the content of a panel.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from puffervec.commands.outputs import check_output, save_output
from puffervec.commands.verb import StopSignals, Verb
from puffervec.contract.drawing import PALETTE
from puffervec.errors import ConfigError
from puffervec.system import extras
from puffervec.system.arguments import Parser
from puffervec.train.config import flags
from puffervec.train.config.sections import LogSection
from puffervec.train.metrics.curves import COLUMNS as X_COLUMNS
from puffervec.train.metrics.curves import (
    SMOOTH_PERCENT,
    TIME,
    Panel,
    Run,
    Series,
    SmoothCurve,
    curve_of,
    join_seeds,
    known,
    panels_of,
    x_axis,
)
from puffervec.train.metrics.keys import (
    AGENT_STEPS_PER_S,
    ELAPSED_S,
    EPISODE_LENGTH,
    STEP,
    TIME_PARTS,
    base,
)
from puffervec.train.metrics.log import METRICS_FILE, read_head, read_metrics
from puffervec.train.run.folders import newest_first

ABOUT = """\
Draws metrics of runs: the env's own records, return, losses, speed and time split. RUN is a run
folder, a metrics.jsonl or latest, the run in runs that was started or resumed last. Each env has
its own axes. Runs that differ only in the seed become one line, their mean, in a band from lowest
to highest."""
STYLES = ("-", "--", ":", "-.")
COLUMNS = 5
LEGEND_COLUMNS = 4


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments of `puffer-train plot`.

    Attributes:
        x: steps or minutes.
        metrics: see curves.panels_of.
        smooth: percentage of a run's length over which a point is averaged.
        join: whether to draw the seeds of one experiment as one series.
    """

    x: str = "steps"
    metrics: str | None = None
    smooth: float = SMOOTH_PERCENT
    join: bool = True


def read_run(where: str | Path) -> Run:
    """Return the metrics of a run.

    Args: where: the run folder, or the file of metrics.
    Raises: ConfigError: there are no metrics, or the file is not one of puffervec's.
    """
    path = Path(where)
    file = path / METRICS_FILE if path.is_dir() else path
    try:
        lines = tuple(
            line for line in read_metrics(file) if known(line, STEP) and known(line, ELAPSED_S)
        )
        head = read_head(file)
    except FileNotFoundError:
        state = f"has no {METRICS_FILE}" if path.is_dir() else "does not exist"
        raise ConfigError(f"{path} {state}: give run folders") from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}: give run folders") from error
    except ValueError as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
    if not lines:
        raise ConfigError(f"{file} has no metrics yet: the run made no update")
    name = file.parent.name if file.name == METRICS_FILE else file.stem
    config = head.get("config")
    return Run(name, str(head.get("env", "")), lines, config if isinstance(config, dict) else {})


def resolve(run: str, runs: Path) -> str:
    """If `run` is "latest", return the folder in `runs` that was started or resumed last.

    Runs that have logged nothing yet are skipped. Other names are returned unchanged.

    Raises: ConfigError: no such run exists.
    """
    if run != "latest":
        return run
    for folder in newest_first(runs):
        if (folder / METRICS_FILE).is_file():
            return str(folder)
    raise ConfigError(f"no run in {runs.absolute()} has a {METRICS_FILE}: give run folders")


def check_request(runs: Sequence[str], out: Path | None, request: Request) -> Path:
    """Check the request and return the path of the picture.

    The path is `out`, else plot.png in the folder of a single run, or in the current folder for
    several runs.

    Raises: ConfigError, MissingExtraError: bad input.
    """
    if not 0 <= request.smooth <= 100:
        raise ConfigError(
            f"--smooth is {request.smooth:g}: must be a percentage of the run, 0 to 100; 0 draws "
            "what was logged"
        )
    if out is None:
        out = (
            Path(runs[0]) / "plot.png"
            if len(runs) == 1 and Path(runs[0]).is_dir()
            else Path("plot.png")
        )
    check_output("--out", out, ".png")
    extras.require("plot", "matplotlib")
    return out


def plot_runs(where: Sequence[str], out: Path | None = None, request: Request = Request()) -> Path:
    """Draw runs into one picture and return its path.

    Args: where: run folders or metrics files.
    Raises: ConfigError, MissingExtraError: bad input; nothing is written.
    """
    path = check_request(where, out, request)
    save(draw([read_run(run) for run in where], request), path)
    return path


def save(figure: Any, path: Path) -> None:
    """Write a picture. Raises: ConfigError: it cannot be written."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    save_output(path, buffer.getvalue())


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure (sizes in inches) without using pyplot's global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    return figure


def style_axis(axis: Any) -> None:
    """Show a pale grid and hide the top and right edges of a matplotlib axis."""
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def draw(runs: Sequence[Run], request: Request = Request()) -> Any:
    """Draw runs and return the matplotlib figure. Raises: ConfigError: no run has a metric."""
    series = (
        join_seeds(runs) if request.join else [Series(run.name, run.env, (run,)) for run in runs]
    )
    panels = panels_of(series, request.metrics)
    columns = min(COLUMNS, len(panels), max(1, round(math.sqrt(2 * len(panels)))))
    rows = -(-len(panels) // columns)
    columns = -(-len(panels) // rows)
    figure = new_figure(max(8.0, 3.8 * columns), max(4.2, 3.0 * rows + 0.6))
    axes = list(np.ravel(figure.subplots(rows, columns, squeeze=False)))
    colours = {id(one): PALETTE[i % len(PALETTE)] for i, one in enumerate(series)}
    several = len({one.env for one in series}) > 1
    for panel, axis in zip(panels, axes, strict=False):
        mine = [(one, colours[id(one)]) for one in series if one.env == panel.env]
        (_draw_times if panel.keys == (TIME,) else _draw_panel)(axis, panel, mine, request)
        axis.set_title(f"{panel.env}: {panel.title}" if several else panel.title, fontsize=10)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    figure.suptitle(_title(runs))
    _figure_legend(figure, series, list(colours.values()), request)
    return figure


def _title(runs: Sequence[Run]) -> str:
    envs = ", ".join(dict.fromkeys(run.env for run in runs))
    if len(runs) > 1:
        return f"{envs}: {len(runs)} runs"
    last = runs[0].lines[-1]
    rate = last[STEP] / max(last[ELAPSED_S], 1e-9)
    minutes = last[ELAPSED_S] / 60
    return (
        f"{envs}: {runs[0].name}, {last['step'] / 1e6:.2f} M agent-steps in {minutes:.1f} min, "
        f"{rate:,.0f} per second"
    )


def _figure_legend(
    figure: Any, series: Sequence[Series], colours: Sequence[str], request: Request
) -> None:
    """Draw the legend of colours and of bold, faint and shaded parts below all panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if len(series) > len({one.env for one in series}):  # Else the titles distinguish the series.
        handles = [
            Line2D([], [], color=colour, lw=2, label=one.name)
            for one, colour in zip(series, colours, strict=True)
        ]
    if request.smooth > 0:
        handles.append(
            Line2D([], [], color="0.3", lw=1.8, label=f"mean over {request.smooth:g} % of the run")
        )
        if any(len(one.runs) == 1 for one in series):
            handles.append(Line2D([], [], color="0.3", lw=0.8, alpha=0.35, label="as logged"))
    if any(len(one.runs) > 1 for one in series):
        handles.append(Patch(color="0.3", alpha=0.2, lw=0, label="lowest to highest seed"))
    if handles:
        columns = min(LEGEND_COLUMNS, len(handles))
        figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8
        )


def _draw_panel(
    axis: Any, panel: Panel, series: Sequence[tuple[Series, str]], request: Request
) -> None:
    """Draw the curves of a panel.

    With several series, colours distinguish series and line styles distinguish metrics or policies;
    with a single series, colours distinguish metrics or policies.
    """
    unit, label = x_axis([run for one, _ in series for run in one.runs], request.x)
    alone = len(series) == 1
    labels: dict[str, int] = {}

    def style(number: int, colour: str) -> dict[str, Any]:
        return (
            {"color": PALETTE[number % len(PALETTE)]}
            if alone
            else {"color": colour, "ls": STYLES[number % len(STYLES)]}
        )

    for one, colour in series:
        metrics = dict.fromkeys(
            key for run in one.runs for key in run.keys() if base(key) in panel.keys
        )
        for key in sorted(metrics, key=lambda key: panel.keys.index(base(key))):
            curve = curve_of(one, request.x, key, request.smooth / 100, unit)
            if curve is not None:
                _draw_curve(
                    axis, curve, style(labels.setdefault(_label(panel, key), len(labels)), colour)
                )
    if len(labels) > 1:
        for name, number in labels.items():
            axis.plot([], [], label=name, lw=1.8, **style(number, "0.4"))
        _legend_below(axis, len(labels))
    if panel.is_share:
        axis.set_ylim(-0.02, 1.02)
    elif any(key in (EPISODE_LENGTH, AGENT_STEPS_PER_S) for key in panel.keys):
        axis.set_ylim(bottom=0)
    axis.set_ylabel(panel.unit, fontsize=8)
    _format_axis(axis, label)


def _label(panel: Panel, key: str) -> str:
    """Return the label of a curve in its panel: the metric, the policy, or both."""
    policy, name = "/".join(key.split("/")[1:-1]), key.rpartition("/")[2]
    return " ".join(filter(None, (policy, name if len(panel.keys) > 1 else ""))) or name


def _draw_curve(axis: Any, curve: SmoothCurve, style: Mapping[str, Any]) -> None:
    if curve.raw is not None:
        axis.plot(*curve.raw, color=style["color"], lw=0.8, alpha=0.3, zorder=1.5)
    if curve.band is not None:
        axis.fill_between(curve.xs, *curve.band, color=style["color"], alpha=0.2, lw=0, zorder=1.6)
    dot = {"marker": "o", "ms": 4} if len(curve.xs) == 1 else {}
    axis.plot(curve.xs, curve.ys, lw=1.8, **style, **dot)


def _format_axis(axis: Any, label: str) -> None:
    axis.set_xlabel(label, fontsize=8)
    axis.margins(x=0.01)
    axis.tick_params(labelsize=8)
    style_axis(axis)


def _draw_times(
    axis: Any, panel: Panel, series: Sequence[tuple[Series, str]], request: Request
) -> None:
    """Draw the shares of time: over the run, or one bar for each of several runs."""
    runs = [run for one, _ in series for run in one.runs]
    if len(runs) == 1:
        unit, label = x_axis(runs, request.x)
        parts = [
            curve_of(series[0][0], request.x, key, max(request.smooth, 0.5) / 100, unit)
            for key in TIME_PARTS.values()
        ]
        curves = [one for one in parts if one is not None]
        if (
            curves
            and all(len(one.xs) == len(curves[0].xs) for one in curves)
            and len(curves) == len(TIME_PARTS)
        ):
            axis.stackplot(
                curves[0].xs,
                *(one.ys for one in curves),
                labels=TIME_PARTS,
                colors=PALETTE,
                alpha=0.8,
            )
        axis.set_ylim(0, 1)
        axis.set_ylabel(panel.unit, fontsize=8)
        _format_axis(axis, label)
    else:
        left = np.zeros(len(runs))
        for (part, key), colour in zip(TIME_PARTS.items(), PALETTE, strict=False):
            shares = np.array([_share(run, key) for run in runs])
            axis.barh(range(len(runs)), shares, left=left, color=colour, alpha=0.8, label=part)
            left += shares
        names = [run.name if len(run.name) <= 16 else f"...{run.name[-14:]}" for run in runs]
        axis.set_yticks(range(len(runs)), names, fontsize=7)
        axis.invert_yaxis()
        axis.set_xlim(0, 1)
        axis.set_xlabel("share of the time, whole run", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    _legend_below(axis, 3)


def _legend_below(axis: Any, count: int) -> None:
    """Draw the legend of a panel below its x label, away from the curves."""
    columns = min(LEGEND_COLUMNS, count)
    axis.legend(
        fontsize=8,
        ncols=columns,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.18),
        frameon=False,
        columnspacing=1.2,
    )


def _share(run: Run, key: str) -> float:
    """Return the mean share over the whole run, weighted by the unequal spans of its lines."""
    ends = np.array([line[ELAPSED_S] for line in run.lines])
    spans = np.diff(ends, prepend=0.0)
    shares = np.array([line.get(key) or 0.0 for line in run.lines])
    return float((shares * spans).sum() / max(float(spans.sum()), 1e-9))


def options(parser: Parser) -> None:
    """Declare the flags of plot."""
    # fmt: off
    flag = parser.flag
    flag("--metrics NAMES", "metrics to draw, a panel each: env/score,return,losses/*; + joins "
         "metrics in one panel: score+goal,time [default: the usual ones]")
    flag("--x WHAT", "x axis: steps or minutes [default: %(default)s]", choices=X_COLUMNS,
         default="steps")
    flag("--smooth PERCENT", "share of the run over which bold lines are averaged; faint lines "
         "are not smoothed; 0: no smoothing [default: %(default)g]", type=flags.number,
         default=SMOOTH_PERCENT)
    flag("--apart", "draw a line for each run, even if runs differ only in the seed")
    flag("--out FILE.png", "path of the picture [default: plot.png in the run folder; for several "
         "runs, in the current folder]", type=Path)
    # fmt: on


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train plot RUN...`."""
    parsed = VERB.parse(args)
    request = Request(parsed.x, parsed.metrics, parsed.smooth, not parsed.apart)
    runs = [resolve(target, LogSection().folder) for target in parsed.target]
    print(plot_runs(runs, parsed.out, request))


VERB = Verb(
    "plot", "RUN|latest... [flags]", "curves of one or several runs as a picture", ABOUT, run,
    options, trainer=False,
)  # fmt: skip

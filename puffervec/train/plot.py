# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train plot`: a run's curves from its metrics.jsonl as one PNG, several runs over each other. Imports no torch.

    score   return   losses/policy   losses/value   ...   agent-steps/s   time split

A metric that no run has gets no panel. Lines that a resumed run wrote again are drawn once, as they were written last.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from puffervec import extras
from puffervec.errors import ConfigError
from puffervec.folder import refuse_odd_file, replace_file
from puffervec.train.dashboard import TIME_PARTS
from puffervec.train.log import METRICS_FILE, read_head, read_metrics

# Colours that keep apart for the colour-blind and in grey (Okabe and Ito 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":", "-.")
PANELS = (
    "env/score", "episode/return", "episode/length", "losses/policy", "losses/value", "losses/entropy", "losses/approx_kl",
    "losses/explained_variance", "charts/agent_steps_per_s",
)  # fmt: skip
AXES = {"steps": ("step", 1e6, "million agent-steps"), "minutes": ("elapsed_s", 60.0, "minutes of training")}
TITLES = {"charts/agent_steps_per_s": "agent-steps/s"}
MOST_POINTS = 200  # Per curve; of more, neighbours are averaged.
COLUMNS = 5

Line = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """The metrics of one run: its name, the env, and the lines in order."""

    name: str
    env: str
    lines: tuple[Line, ...]

    def curve(self, x: str, key: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (n,) values of `x` (a key of AXES) and of `key`, where both are known; at most MOST_POINTS, averaged."""
        column, unit, _ = AXES[x]
        points = [(line[column] / unit, line[key]) for line in self.lines if _known(line, column) and _known(line, key)]
        if not points:
            return np.zeros(0), np.zeros(0)
        parts = np.array_split(np.array(points, np.float64), min(len(points), MOST_POINTS))
        means = np.stack([part.mean(axis=0) for part in parts])
        return means[:, 0], means[:, 1]

    def keys_of(self, panel: str) -> list[str]:
        """Return the run's own keys of a panel: itself, or with several policies losses/<policy>/<name> for losses/<name>."""
        section, _, name = panel.partition("/")
        found = {key: None for line in self.lines for key in line if key.startswith(section + "/")}
        return [
            key for key in found if key == panel or (section == "losses" and key.count("/") == 2 and key.endswith("/" + name))
        ]


def _known(line: Line, key: str) -> bool:
    value = line.get(key)
    return isinstance(value, (int, float)) and math.isfinite(value)


def read_run(where: str | Path) -> Run:
    """Return the metrics of a run.

    Args: where: run folder, or the file.
    Raises: ConfigError where there are none, or the file is none of ours.
    """
    path = Path(where)
    file = path / METRICS_FILE if path.is_dir() else path
    try:
        whole = [line for line in read_metrics(file) if all(_known(line, key) for key in ("step", "elapsed_s"))]
        lines = tuple(latest(whole))
        env = str(read_head(file).get("env", ""))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}: give run folders") from error
    except ValueError as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
    if not lines:
        raise ConfigError(f"{file} has no metrics yet: the run made no update")
    name = file.parent.name if file.name == METRICS_FILE else file.stem
    return Run(name, env, lines)


def latest(lines: Sequence[Line]) -> list[Line]:
    """Return lines without those that were written again: a run that is resumed begins at a step it had passed before."""
    kept: list[Line] = []
    for line in lines:
        while kept and line.get("step", math.inf) <= kept[-1].get("step", 0):
            kept.pop()
        kept.append(line)
    return kept


def check_request(runs: Sequence[str], out: Path | None, x: str) -> Path:
    """Return where the picture goes: `out`, else plot.png in the folder of a single run, or here for several.

    Raises: ConfigError, MissingExtraError: bad input.
    """
    if not runs:
        raise ConfigError("which runs? For example: puffer-train plot runs/NAME (puffer-train plot --help shows more)")
    if x not in AXES:
        raise ConfigError(f"--x is {x!r}: use {' or '.join(AXES)}")
    if out is None:
        out = Path(runs[0]) / "plot.png" if len(runs) == 1 and Path(runs[0]).is_dir() else Path("plot.png")
    check_picture(out, "--out")
    return out


def check_picture(path: Path, flag: str) -> None:
    """Refuse a picture that could not be drawn or written. flag: that names it. Raises: ConfigError, MissingExtraError."""
    if path.suffix.lower() != ".png":
        raise ConfigError(f"{flag} {path}: the name must end in .png")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"{flag} {path}: there is no folder {path.absolute().parent}")
    try:
        refuse_odd_file(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    extras.require(flag, "matplotlib")


def plot_runs(where: Sequence[str], out: Path | None = None, x: str = "steps") -> Path:
    """Draw runs into one picture and return its path.

    Args: where: run folders or metrics files; x: steps or minutes.
    Raises: ConfigError, MissingExtraError: bad input; nothing is written.
    """
    path = check_request(where, out, x)
    save(draw([read_run(run) for run in where], x), path)
    return path


def save(figure: Any, path: Path) -> None:
    """Write a picture. Raises: ConfigError where the disk refuses."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    try:
        replace_file(path, drawn.getvalue())
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure, without its global state. Args: in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def draw(runs: Sequence[Run], x: str = "steps") -> Any:
    """Return the matplotlib figure."""
    panels = [panel for panel in PANELS if any(run.keys_of(panel) for run in runs)]
    count = len(panels) + 1
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    figure = new_figure(3.4 * columns, 2.7 * rows + 0.5)
    axes = list(np.ravel(figure.subplots(rows, columns, squeeze=False)))
    for panel, axis in zip(panels, axes, strict=False):
        _draw_panel(axis, panel, runs, x)
    _draw_times(axes[len(panels)], runs, x)
    for axis in axes[count:]:
        axis.set_axis_off()
    figure.suptitle(_title(runs))
    if len(runs) > 1:
        handles = [axes[0].plot([], [], color=_colour(i), lw=2, label=run.name)[0] for i, run in enumerate(runs)]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(runs)), frameon=False)
    return figure


def _title(runs: Sequence[Run]) -> str:
    envs = ", ".join(dict.fromkeys(run.env for run in runs))
    if len(runs) > 1:
        return f"{envs}: {len(runs)} runs"
    last = runs[0].lines[-1]
    return f"{envs}: {runs[0].name}, {last['step'] / 1e6:.2f} M agent-steps in {last['elapsed_s'] / 60:.1f} min"


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _draw_panel(axis: Any, panel: str, runs: Sequence[Run], x: str) -> None:
    policies: dict[str, str] = {}  # name -> line style
    for i, run in enumerate(runs):
        for key in run.keys_of(panel):
            policy = "/".join(key.split("/")[1:-1])
            style = policies.setdefault(policy, STYLES[len(policies) % len(STYLES)])
            axis.plot(*run.curve(x, key), color=_colour(i), ls=style, lw=1.5)
    axis.set_title(TITLES.get(panel, panel), fontsize=10)
    if len(policies) > 1:
        for policy, style in policies.items():
            axis.plot([], [], color="0.4", ls=style, label=policy)
        axis.legend(frameon=False, fontsize=8)
    if panel in ("episode/length", "charts/agent_steps_per_s"):
        axis.set_ylim(bottom=0)
    _dress(axis, x)


def _dress(axis: Any, x: str) -> None:
    axis.set_xlabel(AXES[x][2], fontsize=8)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_times(axis: Any, runs: Sequence[Run], x: str) -> None:
    """Where the time went: over the run, or of several runs one bar each."""
    axis.set_title("time split", fontsize=10)
    if len(runs) == 1:
        curves = [runs[0].curve(x, f"time/{part}") for part in TIME_PARTS]
        if all(len(xs) == len(curves[0][0]) for xs, _ in curves):
            axis.stackplot(curves[0][0], *(ys for _, ys in curves), labels=TIME_PARTS, colors=COLOURS, alpha=0.8)
        axis.set_ylim(0, 1)
        _legend_below(axis)
        _dress(axis, x)
        return
    left = np.zeros(len(runs))
    for part, colour in zip(TIME_PARTS, COLOURS, strict=False):
        shares = np.array([_share(run, part) for run in runs])
        axis.barh(range(len(runs)), shares, left=left, color=colour, alpha=0.8, label=part)
        left += shares
    axis.set_yticks(range(len(runs)), [f"{i + 1}" for i in range(len(runs))], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.set_xlabel("share of the time, runs in the order of the legend", fontsize=8)
    axis.tick_params(labelsize=8)
    _legend_below(axis)
    axis.spines[["top", "right"]].set_visible(False)


def _legend_below(axis: Any) -> None:
    axis.legend(
        fontsize=7, ncols=len(TIME_PARTS), loc="upper center", bbox_to_anchor=(0.5, -0.22), frameon=False, columnspacing=1
    )


def _share(run: Run, part: str) -> float:
    """Mean share of the whole run's time: lines stand for spans of unequal length."""
    ends = np.array([line["elapsed_s"] for line in run.lines])
    spans = np.diff(ends, prepend=0.0)
    shares = np.array([line.get(f"time/{part}") or 0.0 for line in run.lines])
    return float((shares * spans).sum() / max(float(spans.sum()), 1e-9))

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The interface of an env's own evaluation, and the report that every evaluation returns.

Runs in the learner; no torch.

    ENV = NativeEnv(..., evaluation=lambda: Evaluation(evaluate=my_evaluate, draw=my_drawing))

`puffer-train eval` and the end of a training call it. An env without one is evaluated by return,
length and its episode records.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from puffervec.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np


_listener: ContextVar[Callable[[str, float], None] | None] = ContextVar("listener", default=None)


def report_progress(act: str, share: float) -> None:
    """Report the progress of an evaluation or a replay.

    It costs next to nothing if there is no listener.

    Args:
        act: the activity, as shown to people: "evaluating", "playing".
        share: from 0 to 1.
    """
    listener = _listener.get()
    if listener is not None:
        listener(act, share)


@contextmanager
def progress_to(listener: Callable[[str, float], None] | None) -> Iterator[None]:
    """Call `listener(act, share)` for each `report_progress` in the block.

    Args:
        listener: the function to call; None for no listener.
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def progress_part(index: int, count: int) -> Iterator[None]:
    """Scale the progress reported in the block to one part of `count` equal ones.

    Args:
        index: number of the part, from 0.
        count: number of parts.
    """
    outer = _listener.get()
    inner = None if outer is None else lambda act, share: outer(act, (index + share) / count)
    with progress_to(inner):
        yield


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval.

    low and high are NaN if there is no interval, as with a single sample.
    """

    value: float
    low: float
    high: float


Cell = str | int | float | Interval | None
Row = Mapping[str, Cell]


class Actor(Protocol):
    """A player for all rows of a vector env: a trained policy or a baseline."""

    def reset(self, vec: Any) -> None:
        """Clear all state; called before the first step of a vec env that was just reset."""

    def act(self, obs: Any, vec: Any) -> Any:
        """Return actions, (rows,) or (rows, D), for the observations that `vec.recv` just returned.

        The actor must not keep views on them.
        """


class Recorder(Protocol):
    """A drawer of one running env, for `render_mode="rgb_array"`.

    It reads the env by `vec.peek(0)`.
    """

    def begin(self) -> None:
        """Start an episode; called after each reset."""

    def add(self) -> None:
        """Record a step; called after each step."""

    def picture(self) -> np.ndarray:
        """Return (H, W, 3) uint8, always of the same size.

        Raises:
            CallOrderError: it was called before the first reset.
        """


@dataclass(frozen=True)
class Report:
    """The results of an evaluation as a table.

    Attributes:
        rows: one per part (scene, agent type, ...), all with the same columns; the first column is
            the part's name.
        total: the row over all parts, with the same columns; None if there is none.
        remarks: lines to read with the table: what a rate is a share of, what was left out.
        score: the column that rates a part; higher is better. `--draw worst:N` sorts by it.
        drawn: name of the part that is drawn by default.
        shown: columns of the printed table; empty: all. Files have all.
        tables: further tables by name, each with rows of the same columns.
        unprinted: names of the tables that are only written to files.
        columns: names of the columns to print, by table; of other tables all columns are printed.
        weight: the column with the count by which a part's score was divided, used when two
            evaluations are compared part by part; None if there is none.
        tasks: the env's task in each row (`VectorEnv.set_tasks`); () if parts are not tasks.
        meanings: a line of explanation per column, by name, for people who do not know the env.
    """

    rows: Sequence[Row]
    total: Row | None = None
    remarks: Sequence[str] = ()
    score: str | None = None
    drawn: str | None = None
    shown: Sequence[str] = ()
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    unprinted: tuple[str, ...] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    weight: str | None = None
    tasks: Sequence[int] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)

    def worst(self, count: int) -> list[str]:
        """Return the names of the `count` parts with the lowest score, the lowest first.

        Parts without a score are left out.
        """
        return [str(next(iter(row.values()))) for row in self.worst_rows(count)]

    def worst_rows(self, count: int) -> list[Row]:
        """Return the rows of the `count` parts with the lowest score, the lowest first."""
        if self.score is None:
            return []
        scored = [(_number(row[self.score]), row) for row in self.rows]
        scored = sorted(
            (item for item in scored if not math.isnan(item[0])), key=lambda item: item[0]
        )
        return [row for _, row in scored[:count]]

    def chosen(self, which: str) -> list[str]:
        """Return the names of the parts that `part:NAME`, `worst:N` or `all` selects.

        `all` selects the parts with a score.

        Raises:
            ConfigError: there is no such part, or the text has another form.
        """
        if not re.fullmatch(r"all|worst:[1-9][0-9]*|part:.+", which):
            raise ConfigError(f"--draw {which}: give part:NAME, worst:N or all")
        kind, _, value = which.partition(":")
        if kind == "worst":
            return self.worst(int(value))
        names = self.names()
        if kind == "all":
            scored = set(self.worst(len(names)))
            return [name for name in names if name in scored]
        found = [name for name in names if value in (name, name.removesuffix(".json"))]
        if not found:
            raise ConfigError(
                f"--draw {which}: there is no such part: use one of the {len(names)} parts "
                f"{', '.join(names[:3])}, ..."
            )
        return found[:1]

    def score_of(self, part: str) -> float:
        """Return the score of a part, NaN if it has none."""
        row = next(row for row, name in zip(self.rows, self.names(), strict=True) if name == part)
        return math.nan if self.score is None else _number(row[self.score])

    def names(self) -> list[str]:
        """Return the names of all parts, in order."""
        return [str(next(iter(row.values()))) for row in self.rows]

    def to_json(self) -> dict[str, Any]:
        """Return JSON-like data.

        An interval is the value under its column and [low, high] under `<column>_95`; NaN is null.
        """
        total = None if self.total is None else _plain(self.total)
        found = {
            "rows": [_plain(row) for row in self.rows],
            "total": total,
            "remarks": list(self.remarks),
        }
        tables = {name: [_plain(row) for row in rows] for name, rows in self.tables.items()}
        return found | ({"tables": tables} if tables else {})

    def to_csv(self, table: str | None = None) -> str:
        """Return one line per part, without the total.

        An interval becomes `<column>`, `<column>_low` and `<column>_high`.

        Args:
            table: one of `tables` instead of the parts.
        """
        out = io.StringIO()
        given = self.rows if table is None else self.tables[table]
        rows = [_spread(row) for row in given]
        columns: list[str] = []
        for column in given[0] if given else ():
            wide = any(f"{column}_low" in row for row in rows)
            columns += [column, f"{column}_low", f"{column}_high"] if wide else [column]
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()

    def cells(self) -> list[tuple[str, ...]]:
        """Return header, rows and total as text, with the shown columns."""
        return cells_of([*self.rows, *([self.total] if self.total else [])], self.shown)

    def rest(self) -> list[tuple[str, ...]]:
        """Return the total's columns that are not shown, as (column, text)."""
        hidden = [column for column in self.total or () if self.shown and column not in self.shown]
        return [
            (column, as_text(self.total[column])) for column in hidden if self.total is not None
        ]


def cells_of(rows: Sequence[Row], shown: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """Return header and rows as text.

    Args:
        rows: rows with the same columns.
        shown: the columns to include; empty for all.
    """
    head = tuple(shown or (rows[0] if rows else ()))
    return [head, *(tuple(as_text(row[column]) for column in head) for row in rows)]


@dataclass(frozen=True)
class Suite:
    """An alternative evaluation of an env, requested with `--suite NAME`.

    Attributes:
        evaluate: as `Evaluation.evaluate`.
        about: one line that says what it measures.
        episodes: default number of episodes.
        settings: settings(config) -> config, applied after those of the evaluation; the user's own
            override them.
        options: optional flags of `puffer-train eval` that this suite accepts, while other suites
            may not: their values are passed to `evaluate` by name. The value of `against` is a
            mapping of names to actors that drive in place of other agents.
    """

    evaluate: Callable[..., Report]
    about: str
    episodes: int = 1
    settings: Callable[[Any], Any] | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """An env's own evaluation, in place of the one that works for all envs.

    Attributes:
        evaluate: evaluate(actor, config, episodes=N, seed=N) -> Report; if the user gives --seeds,
            with seeds=N too. config: the env's config as returned by `settings`, overridden by the
            user's own settings. The actor is a policy or a baseline; it knows nothing of the env.
        episodes: default number of episodes.
        settings: settings(config) -> config: turns the config of a run into that of an evaluation,
            for instance with levels that were not trained on.
        baselines: for each name, a function that makes the actor from a seed. "random" need not be
            included.
        draw: draw(actor, config, names, seed=N) yields (name, PNG file as bytes) for parts of the
            report, by their names.
        describe: describe(config) -> text for the start of a training: what there is to train on.
        suites: other evaluations by name.
        replay: replay(config) -> config: the evaluation's settings changed for an episode that is
            played to be watched. An evaluation that has it must set `Report.tasks`.
        seen: seen(trained, evaluated) -> a remark if a run with the config `trained` is evaluated
            on what it was trained on.
        same_task: same_task(config, other) -> the config of another run, with the task of the first
            one; without it, the first config is used.
        compared: names of the baselines that `puffer-train report` compares a run with by default.
        other_rows: whether evaluations have other rows than the training, so that row numbers in
            `policy.map` mean nothing there: the first policy that learns acts for all rows of its
            row group.
    """

    evaluate: Callable[..., Report]
    episodes: int = 1
    settings: Callable[[Any], Any] | None = None
    baselines: Mapping[str, Callable[[int], Actor]] = field(default_factory=dict)
    draw: Callable[..., Iterable[tuple[str, bytes]]] | None = None
    describe: Callable[[Any], str] | None = None
    suites: Mapping[str, Suite] = field(default_factory=dict)
    same_task: Callable[[Any, Any], Any] | None = None
    seen: Callable[[Any, Any], str] | None = None
    replay: Callable[[Any], Any] | None = None
    compared: tuple[str, ...] = ("random",)
    other_rows: bool = False


def as_text(cell: Cell) -> str:
    """Return a cell as shown in a table.

    >>> as_text(Interval(0.923, 0.894, 0.941)), as_text(12345.6), as_text(0.0042)
    ('0.92 [0.89, 0.94]', '12,346', '0.0042')
    >>> as_text(None), as_text(7)
    ('-', '7')
    """
    if isinstance(cell, Interval):
        largest = max(abs(part) for part in (cell.value, cell.low, cell.high))
        if math.isnan(cell.low) or math.isnan(cell.high):
            return as_text(cell.value)
        value, low, high = (_digits(part, largest) for part in (cell.value, cell.low, cell.high))
        return f"{value} [{low}, {high}]"
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if not isinstance(cell, float):
        return str(cell)
    return _digits(cell, abs(cell))


def _digits(value: float, size: float) -> str:
    """Format a number with as many digits as numbers of magnitude `size` get."""
    return (
        f"{value:,.0f}"
        if size >= 1000
        else f"{value:.2f}"
        if size >= 0.01 or size == 0
        else f"{value:.2g}"
    )


def _number(cell: Cell) -> float:
    value = cell.value if isinstance(cell, Interval) else cell
    return float(value) if isinstance(value, (int, float)) else math.nan


def _plain(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column, cell in row.items():
        found[column] = _finite(cell.value if isinstance(cell, Interval) else cell)
        if isinstance(cell, Interval):
            found[f"{column}_95"] = [_finite(cell.low), _finite(cell.high)]
    return found


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _spread(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column, cell in row.items():
        if isinstance(cell, Interval):
            found |= {column: cell.value, f"{column}_low": cell.low, f"{column}_high": cell.high}
        else:
            found[column] = cell
    return found

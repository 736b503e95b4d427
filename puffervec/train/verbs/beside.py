# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Others beside the one that `puffer-train eval` evaluates: baselines and earlier runs, in one table. Imports no torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from puffervec.errors import ConfigError
from puffervec.evaluation import Interval, Report, Row, as_text
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import own_evaluation
from puffervec.train.verbs.players import Player, PlayerRequest, find_player, is_env, known_baselines

TABLE, WHO = "beside", "driver"


def asked_for(request: PlayerRequest) -> tuple[PlayerRequest, list[str]]:
    """Return the request for the one to evaluate, and who is to stand beside it: of an env, the first baseline is the one."""
    names = [name for name in (request.baseline or "").split(",") if name]
    alone = is_env(request.target) and bool(names)
    return dataclasses.replace(request, baseline=names[0] if alone else None), names[alone:]


def find_other(request: PlayerRequest, who: str, main: Player, adapt: Callable[[TrainConfig], TrainConfig]) -> Player:
    """Return a baseline, or what acts for another run or a checkpoint, in the task of `main`.

    Raises: ConfigError, CheckpointError: there is no such baseline or run.
    """
    if who in known_baselines(main.config.target) or not (who == "latest" or Path(who).exists()):
        return dataclasses.replace(find_player(dataclasses.replace(request, baseline=who), adapt), label=who)
    own = own_evaluation(main.config.target)

    def same_task(theirs: TrainConfig) -> TrainConfig:
        if theirs.target != main.config.target:
            raise ConfigError(f"--baseline {who} is a run of {theirs.target}, not of {main.config.target}")
        if own is None or own.same_task is None:
            return dataclasses.replace(theirs, env=main.config.env)
        return dataclasses.replace(theirs, env=own.same_task(main.config.env, theirs.env))

    return dataclasses.replace(find_player(dataclasses.replace(request, target=who, baseline=None), same_task), label=who)


def side_by_side(report: Report, label: str, others: Sequence[tuple[str, Report]]) -> Report:
    """Return the report with a table in which the others' totals stand below its own, and what their scores say."""
    rows: list[Row] = []
    columns = list(report.total or (report.rows[0] if report.rows else ()))[1:]
    for who, found in ((label, report), *others):
        for row in [found.total] if found.total is not None else found.rows:
            rows.append({WHO: who, **{column: row.get(column) for column in columns}})
    shown = (WHO, *(column for column in report.shown[1:] or columns))
    said = [verdict(rows[0], row, report.score) for row in rows[1:] if report.score is not None]
    return dataclasses.replace(
        report,
        tables={TABLE: rows, **report.tables},
        columns={**report.columns, TABLE: shown},
        remarks=[*(line for line in said if line), *report.remarks],
    )


def verdict(own: Row, other: Row, score: str) -> str:
    """Return whether two scores are apart: whether their intervals do not meet. Empty where one of them has none."""
    ours, theirs = own[score], other[score]
    if not isinstance(ours, Interval) or not isinstance(theirs, Interval) or math.isnan(ours.value + theirs.value):
        return ""
    where = "behind" if theirs.high < ours.low else "ahead" if theirs.low > ours.high else None
    apart = f"{where}, intervals apart" if where else "intervals overlap"
    return f"{other[WHO]}: {score} {as_text(theirs)} against {as_text(ours)}: {apart}"

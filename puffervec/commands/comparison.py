# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compare the policy of `puffer-train eval` with baselines and earlier runs, in one table.

Imports no torch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

from puffervec.commands.players import (
    Player,
    PlayerRequest,
    baseline,
    find_player,
    is_env,
    known_baselines,
    with_opponents,
)
from puffervec.contract.evaluation import Interval, Report, Row, as_text
from puffervec.errors import ConfigError
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import own_evaluation, trained_policy

TABLE, WHO = "comparison", "driver"  # Keys of the JSON file.


def split_request(request: PlayerRequest) -> tuple[PlayerRequest, list[str]]:
    """Return the request for the player to evaluate, and the names of the players to compare it to.

    If the target is an env rather than a run, the first baseline is the player to evaluate.
    """
    names = [name for name in (request.baseline or "").split(",") if name]
    alone = is_env(request.target) and bool(names)
    return dataclasses.replace(request, baseline=names[0] if alone else None), names[alone:]


def find_other(request: PlayerRequest, who: str, main: Player) -> Player:
    """Return the player for a baseline, another run or a checkpoint, in the same task as `main`.

    Raises: ConfigError, CheckpointError: no such baseline or run exists.
    """
    own = own_evaluation(main.config.target)
    is_run = who == "latest" or Path(who).exists() or trained_policy(who) is not None
    if who in known_baselines(main.config.target) or not is_run:
        actor = baseline(main.config.target, own, who, request.seed)
        player = with_opponents(Player(main.config, actor, who), request)
        return dataclasses.replace(player, label=who)

    def same_task(theirs: TrainConfig) -> TrainConfig:
        if theirs.target != main.config.target:
            raise ConfigError(
                f"--baseline {who} is a run of {theirs.target}, not of {main.config.target}"
            )
        if own is None or own.same_task is None:
            return dataclasses.replace(theirs, env=main.config.env)
        return dataclasses.replace(theirs, env=own.same_task(main.config.env, theirs.env))

    return dataclasses.replace(
        find_player(dataclasses.replace(request, target=who, baseline=None), same_task), label=who
    )


def side_by_side(report: Report, label: str, others: Sequence[tuple[str, Report]]) -> Report:
    """Add a table and remarks to the report that compare its totals with those of the others."""
    rows: list[Row] = []
    columns = list(report.total or (report.rows[0] if report.rows else ()))[1:]
    for who, one in ((label, report), *others):
        for row in [one.total] if one.total is not None else one.rows:
            rows.append({WHO: who, **{column: row.get(column) for column in columns}})
    visible = (WHO, *(column for column in report.shown[1:] or columns))
    remarks = [
        describe_overlap(rows[0], row, report.score) for row in rows[1:] if report.score is not None
    ]
    remarks += [describe_difference(report, who, other) for who, other in others]
    return dataclasses.replace(
        report,
        tables={TABLE: rows, **report.tables},
        columns={**report.columns, TABLE: visible},
        remarks=[*(line for line in remarks if line), *report.remarks],
    )


def describe_overlap(own: Row, other: Row, score: str) -> str:
    """Describe whether the intervals of two scores overlap; empty if one score has no interval."""
    ours, theirs = own[score], other[score]
    if (
        not isinstance(ours, Interval)
        or not isinstance(theirs, Interval)
        or math.isnan(ours.low + theirs.low)
    ):
        return ""
    where = "behind" if theirs.high < ours.low else "ahead" if theirs.low > ours.high else None
    apart = f"{where}, intervals apart" if where else "intervals overlap"
    return f"{other[WHO]}: {score} {as_text(theirs)} against {as_text(ours)}: {apart}"


def describe_difference(report: Report, who: str, other: Report) -> str:
    """Describe the mean difference from another report's score, paired by part (such as a scene).

    The text has a 95 % interval over parts; it is empty if the two reports have different parts.

    The ratio estimator takes parts as clusters (Cochran, Sampling Techniques, 6.3), with Student's
    t. Parts that are hard for both cancel out, so this interval is narrower than the difference of
    the two separate intervals.
    """
    pairs = [
        (_score_of(a, report), _score_of(b, other))
        for a, b in zip(report.rows, other.rows, strict=False)
    ]
    scored = [(a, b) for a, b in pairs if a is not None and b is not None]
    weights, theirs = ([part[at][1] for part in scored] for at in (0, 1))
    total, clusters = sum(weights), len(scored)
    # One report may count each part several times (--episodes): only the shares must agree.
    alike = [a * sum(theirs) == b * total for a, b in zip(weights, theirs, strict=True)]
    if report.names() != other.names() or clusters < 2 or not all(alike):
        return ""
    gains = [(a[0] - b[0]) * a[1] for a, b in scored]
    gain = sum(gains) / total
    spread = (
        sum((own - gain * weight) ** 2 for own, weight in zip(gains, weights, strict=True))
        * clusters
        / (clusters - 1)
    )
    half = _student(clusters - 1) * math.sqrt(spread) / total
    parts = f"{clusters} {next(iter(report.rows[0]))}s"
    return (
        f"{report.score} above that of {who} on the same {parts}: {gain:+.2f} "
        f"[{gain - half:+.2f}, {gain + half:+.2f}]"
    )


def _score_of(row: Row, report: Report) -> tuple[float, float] | None:
    """Return (score, weight) of a part, or None if it has no score."""
    if report.score is None or report.weight is None:
        return None
    score, weight = row[report.score], row[report.weight]
    if (
        not isinstance(score, Interval)
        or not isinstance(weight, (int, float))
        or not weight
        or math.isnan(score.value)
    ):
        return None
    return score.value, float(weight)


def _student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, within 1 % for 2 or more degrees of freedom.

    Source: Abramowitz and Stegun 26.7.5, with four terms.

    >>> [round(_student(freedom), 2) for freedom in (3, 10, 30)]
    [3.18, 2.23, 2.04]
    """
    z = 1.959964
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term * float(freedom) ** -power for power, term in enumerate(terms, 1))

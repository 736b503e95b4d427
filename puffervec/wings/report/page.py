# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The page of `puffer-train report`: a run in one file that needs no network.

Runs in the learner. The same run, evaluation and date give the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from puffervec.contract.evaluation import Actor, Report
from puffervec.errors import ConfigError
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import training_of
from puffervec.train.metrics.log import METRICS_FILE
from puffervec.viewing.web.board import (
    curve_keys,
    describe_metric,
    last_values,
    name_of,
    rank_metrics,
    read_json,
    time_meanings,
    time_shares,
)
from puffervec.viewing.web.choose import Choice, choices_of, has_parts, play_choices
from puffervec.viewing.web.follow import Follower
from puffervec.viewing.web.page import REPLAY_SCRIPTS, REPLAY_STYLES, page
from puffervec.viewing.web.replay import Replay

SCRIPTS = (*REPLAY_SCRIPTS, "static/charts.js", "static/tables.js", "static/report.js")
STYLES = (*REPLAY_STYLES, "static/pages.css", "static/report.css")
HIDDEN = ("folder", "job")  # fields of a run's starts that only have a meaning on this machine
# Episodes of an env whose evaluation has no parts; the worst and the median one are shown.
EPISODES = 9


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The report of an evaluation and what was evaluated.

    Attributes:
        checkpoint: name of the checkpoint.
        settings: settings of the env.
        seed: seed of the evaluation.
    """

    report: Report
    checkpoint: str
    settings: Mapping[str, Any]
    seed: int


def report_page(
    run: Path, config: TrainConfig, evaluation: Evaluation, replays: Sequence[Replay], date: str
) -> str:
    """Return the page.

    Args:
        run: run folder.
        config: config of the run as it was evaluated.
        evaluation: evaluation of the run.
        replays: replays to show.
        date: date to show.
    """
    meanings = training_of(config.target).meanings
    data = contents(run, evaluation, replays, date, meanings)
    return page(f"{config.target}: {name_of(run)}", SCRIPTS, STYLES, data)


def contents(
    run: Path,
    evaluation: Evaluation,
    replays: Sequence[Replay],
    date: str,
    meanings: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what static/report.js shows.

    Args:
        run: run folder.
        evaluation: its evaluation.
        replays: replays to show.
        date: date to show.
        meanings: meanings of the metrics that the env records.

    Raises:
        ConfigError: the run's metrics cannot be read.
    """
    metrics = read_metrics(run)
    keys = rank_metrics(curve_keys(metrics))
    about = read_json(run, "run.json")
    starts = about.get("starts")
    tables = (
        [start for start in starts if isinstance(start, dict)] if isinstance(starts, list) else []
    )
    report = evaluation.report
    return {
        "name": name_of(run),
        "env": metrics.env,
        "date": date,
        "settings": {
            name: table for name, table in read_json(run, "config.json").items() if name != "log"
        },
        "starts": [
            {name: value for name, value in start.items() if name not in HIDDEN} for start in tables
        ],
        "curves": metrics.curves(keys),
        "metrics": {key: describe_metric(key, meanings) for key in keys},
        "time": time_shares(metrics),
        "meanings": time_meanings(),
        "last": last_values(metrics),
        "evaluation": {
            **report.to_json(),
            "score": report.score,
            "shown": list(report.shown),
            "meanings": dict(report.meanings),
            "columns": {name: list(columns) for name, columns in report.columns.items()},
            "checkpoint": evaluation.checkpoint,
            "settings": dict(evaluation.settings),
            "seed": evaluation.seed,
        },
        "replays": [replay.to_json() for replay in replays],
    }


def read_metrics(run: Path) -> Follower:
    """Return all metrics of a run.

    Raises:
        ConfigError: there are no metrics that can be read.
    """
    metrics = Follower(run / METRICS_FILE)
    before = -1
    while metrics.version != before:  # A large file is read in parts.
        before = metrics.version
        metrics.poll()
    if metrics.error or metrics.age_s is None:
        raise ConfigError(
            f"{run / METRICS_FILE}: {metrics.error or 'there is no such file'}: give the folder "
            "of a run"
        )
    return metrics


def worst_and_median(
    config: TrainConfig, actor: Actor, report: Report, seed: int
) -> Iterator[Replay]:
    """Play and yield the parts with the lowest and the median score.

    If the evaluation has no parts, they are the worst and the median of some episodes.

    Args:
        config: config of the run as it was evaluated.
        actor: actor of the run's policies.
        report: report of the evaluation.
        seed: seed of the evaluation.

    Raises:
        ConfigError: the env has no drawing.
    """
    # The reports of other suites may name no tasks.
    if not (has_parts(config.target) and report.tasks and report.worst(1)):
        every = list(
            play_choices(config, actor, [Choice(seed + number) for number in range(EPISODES)])
        )
        yield from _pick(sorted(every, key=lambda replay: replay.score or 0.0))
        return
    names = report.worst(len(report.rows))
    choices = [
        choices_of(report, f"part:{name}", seed)[0]
        for name in dict.fromkeys((*names[:1], *names[len(names) // 2 :][:1]))
    ]
    yield from _pick(list(play_choices(config, actor, choices)))


def _pick(rising: Sequence[Replay]) -> Iterator[Replay]:
    """Yield the first and the middle one of replays with rising scores, as "worst" and "median"."""
    middle = rising[len(rising) // 2] if len(rising) != 2 else rising[1]
    for words, replay in (("worst", rising[0]), ("median", middle)):
        if words == "worst" or replay.data != rising[0].data:
            yield dataclasses.replace(
                replay, title=f"{words}: {replay.title}" if replay.title else words
            )

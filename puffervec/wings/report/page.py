# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The page of `puffer-train report`: all that is worth knowing of a run, in one file that asks
nothing of any network.

Runs in the learner. The same run, evaluation and day give the same bytes.
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
    name_of,
    newest,
    ranked,
    read_json,
    time_meanings,
    time_shares,
    told_of,
)
from puffervec.viewing.web.choose import Choice, choices_of, has_parts, play_choices
from puffervec.viewing.web.follow import Follower
from puffervec.viewing.web.page import REPLAY_SCRIPTS, REPLAY_STYLES, page
from puffervec.viewing.web.replay import Replay

SCRIPTS = (*REPLAY_SCRIPTS, "static/charts.js", "static/tables.js", "static/report.js")
STYLES = (*REPLAY_STYLES, "static/pages.css", "static/report.css")
NOT_TOLD = ("folder", "job")  # of a start: names of this machine that say nothing of the run
# Of an env whose evaluation has no parts, of which the worst and the median one are shown.
EPISODES = 9


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """What an evaluation found. checkpoint: whose policies. settings: of the env in it. seed: of
    it.
    """

    report: Report
    checkpoint: str
    settings: Mapping[str, Any]
    seed: int


def report_page(
    run: Path, config: TrainConfig, found: Evaluated, replays: Sequence[Replay], date: str
) -> str:
    """Return the page. Args: run: its folder. config: of the run as it was evaluated. date: to
    stand on it.
    """
    meanings = training_of(config.target).meanings
    data = contents(run, found, replays, date, meanings)
    return page(f"{config.target}: {name_of(run)}", SCRIPTS, STYLES, data)


def contents(
    run: Path,
    found: Evaluated,
    replays: Sequence[Replay],
    date: str,
    meanings: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what static/report.js shows.

    Args: meanings: what the env says of the numbers that it records.
    Raises: ConfigError: the run's metrics cannot be read.
    """
    metrics = followed(run)
    keys = ranked(curve_keys(metrics))
    about = read_json(run, "run.json")
    starts = about.get("starts")
    told = (
        [start for start in starts if isinstance(start, dict)] if isinstance(starts, list) else []
    )
    report = found.report
    return {
        "name": name_of(run),
        "env": metrics.env,
        "date": date,
        "settings": {
            name: table for name, table in read_json(run, "config.json").items() if name != "log"
        },
        "starts": [
            {name: value for name, value in start.items() if name not in NOT_TOLD} for start in told
        ],
        "curves": metrics.curves(keys),
        "metrics": {key: told_of(key, meanings) for key in keys},
        "time": time_shares(metrics),
        "meanings": time_meanings(),
        "last": newest(metrics),
        "evaluation": {
            **report.to_json(),
            "score": report.score,
            "shown": list(report.shown),
            "meanings": dict(report.meanings),
            "columns": {name: list(columns) for name, columns in report.columns.items()},
            "checkpoint": found.checkpoint,
            "settings": dict(found.settings),
            "seed": found.seed,
        },
        "replays": [replay.to_json() for replay in replays],
    }


def followed(run: Path) -> Follower:
    """Return all metrics of a run. Raises: ConfigError: there are none that can be read."""
    metrics = Follower(run / METRICS_FILE)
    before = -1
    while metrics.version != before:  # It reads a large file in parts.
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
    """Play the part with the lowest score and the one in the middle; of an env without parts, those
    of some episodes.

    Args: config: as it is evaluated. seed: of the evaluation.
    Raises: ConfigError: the env does not say how it is drawn.
    """
    if not (
        has_parts(config.target) and report.tasks and report.worst(1)
    ):  # Other suites may tell no tasks.
        every = list(
            play_choices(config, actor, [Choice(seed + number) for number in range(EPISODES)])
        )
        yield from _named(sorted(every, key=lambda replay: replay.score or 0.0))
        return
    names = report.worst(len(report.rows))
    choices = [
        choices_of(report, f"part:{name}", seed)[0]
        for name in dict.fromkeys((*names[:1], *names[len(names) // 2 :][:1]))
    ]
    yield from _named(list(play_choices(config, actor, choices)))


def _named(rising: Sequence[Replay]) -> Iterator[Replay]:
    """The first and the middle one of replays, with what they are in their titles."""
    middle = rising[len(rising) // 2] if len(rising) != 2 else rising[1]
    for words, replay in (("worst", rising[0]), ("median", middle)):
        if words == "worst" or replay.data != rising[0].data:
            yield dataclasses.replace(
                replay, title=f"{words}: {replay.title}" if replay.title else words
            )

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The choice of episodes to look at: the worst of an evaluation, or those requested by name.

If an env's evaluation names the tasks of its parts (`Evaluation.replay`, `Report.tasks`), these are
played; for other envs, some episodes with consecutive seeds are. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from puffervec.contract.evaluation import Actor, Report, progress_part
from puffervec.contract.native import NativeEnv
from puffervec.errors import ConfigError
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import native_env, own_evaluation
from puffervec.viewing.web.pictures import MOST_BYTES, PAGE_BYTES
from puffervec.viewing.web.record import MOST_STEPS, play
from puffervec.viewing.web.replay import Replay, replay_of

WORST = "worst:5"


@dataclass(frozen=True)
class Choice:
    """An episode to play.

    Attributes:
        seed: seed of the env.
        name: name of the part; "" for the drawing's own title.
        task: task of the env; None: the default.
        score: score of the part; None if it was not evaluated.
        measure: name of the score.
    """

    seed: int
    name: str = ""
    task: int | None = None
    score: float | None = None
    measure: str = "score"


def check(which: str, target: str) -> None:
    """Raise ConfigError if `which` has no meaning, or none in the env `target`."""
    if not re.fullmatch(r"all|(worst|first):[1-9][0-9]{0,3}|part:.+", which):
        raise ConfigError(f"--draw {which}: use part:NAME, worst:N, first:N or all")
    if not has_parts(target) and not which.startswith(("worst:", "first:")):
        raise ConfigError(f"--draw {which}: {target} has no evaluation by parts: use worst:N")


def has_parts(target: str) -> bool:
    """Return whether the evaluation of an env names the tasks of its parts."""
    own = own_evaluation(target)
    return own is not None and own.replay is not None


def choose(config: TrainConfig, actor: Actor, which: str = WORST, seed: int = 0) -> list[Choice]:
    """Return the episodes that `which` means, after an evaluation if `which` needs one.

    Args:
        config: config for evaluations (`evaluation_config`).
        actor: the actor to evaluate.
        which: see `choices_of`.
        seed: seed of the evaluation.

    Raises:
        ConfigError: `which` has no meaning.
    """
    check(which, config.target)
    own = own_evaluation(config.target)
    if own is None or own.replay is None or which.startswith("first:"):
        return [Choice(seed + number) for number in range(int(which.partition(":")[2]))]
    return choices_of(own.evaluate(actor, config.env, episodes=1, seed=seed), which, seed)


def choices_of(report: Report, which: str, seed: int = 0) -> list[Choice]:
    """Return the episodes that `part:NAME`, `worst:N` or `all` means.

    Args:
        report: report of an evaluation with parts.
        which: as above.
        seed: seed of that evaluation.

    Raises:
        ConfigError: the part does not exist.
    """
    names, choices = report.names(), []
    for name in report.chosen(which):
        task, score = report.tasks[names.index(name)], report.score_of(name)
        choices.append(
            Choice(
                seed + task,
                name,
                task,
                None if math.isnan(score) else score,
                report.score or "score",
            )
        )
    return choices


def play_choices(
    config: TrainConfig, actor: Actor, choices: list[Choice], most_steps: int = MOST_STEPS
) -> Iterator[Replay]:
    """Play episodes, one after the other.

    Args:
        config: see `choose`.
        actor: actor that plays.
        choices: the episodes.
        most_steps: largest number of steps of each episode.
    """
    env = native_env(config.target)
    assert env is not None
    settings = viewing_settings(env, config.env, actor)
    for number, choice in enumerate(choices):
        with progress_part(number, len(choices)):
            episode = play(
                env, settings, actor, task=choice.task, seed=choice.seed, most_steps=most_steps
            )
        yield replay_of(
            episode,
            title=choice.name,
            score=choice.score,
            measure=choice.measure,
            picture_bytes=min(MOST_BYTES, PAGE_BYTES // len(choices)),
        )


def viewing_settings(env: NativeEnv, config: Any, actor: Actor) -> Any:
    """Return an env's settings for viewing, as changed by the env and, if one acts, a baseline."""
    overrides = getattr(actor, "overrides", {})
    config = dataclasses.replace(config, **overrides) if overrides else config
    own = env.own_evaluation()
    return config if own is None or own.replay is None else own.replay(config)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train bench`: measure how fast a preset trains on this machine, and how time is spent.

It runs in the learner and trains in a temporary folder. The measurement starts with the first
update after the warm-up and ends with the last update.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from puffervec.commands.verb import StopSignals, Verb
from puffervec.errors import PuffervecError
from puffervec.system.arguments import Parser
from puffervec.train.config import flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.metrics import keys
from puffervec.train.metrics.dashboard import Dashboard

if TYPE_CHECKING:
    from puffervec.train.run.trainer import Trainer

ABOUT = """\
Trains for a few seconds and prints agent-steps/s, env-steps/s and how the time is spent. No file is
kept."""
WARM_UP = 1 / 3  # Share of the measured seconds.
FOR_EVER = 10**15  # Agent-steps.

Metrics = Mapping[str, float]


class TooShort(PuffervecError):
    """The error for a measurement with fewer than two updates."""


@dataclasses.dataclass(frozen=True)
class Speed:
    """The measured speed of a run.

    Attributes:
        run: description of the run.
        seconds: duration of the measured updates.
        updates: number of measured updates.
        times: share of the time that each part of the loop takes; they add up to 1.
        observation_numbers: numbers per row, summed over groups.
        replay_ratio: how often each sample is used for learning.
        overlap: see docs/run-folder.md; None if the run does not report it (without workers or with
            one buffer).
    """

    run: str
    seconds: float
    updates: int
    agent_steps_per_s: float
    env_steps_per_s: float
    times: dict[str, float]
    observation_numbers: int
    parameters: int
    replay_ratio: float
    overlap: float | None = None

    def as_json(self) -> str:
        """Return the speed as one JSON object."""
        return json.dumps(dataclasses.asdict(self))

    def text(self) -> str:
        """Return the speed as lines of text."""
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.times.items())
        return (
            f"{self.run}\n"
            f"  {self.agent_steps_per_s:,.0f} agent-steps/s, "
            f"{self.env_steps_per_s:,.0f} env-steps/s, end to end over {self.updates} updates in "
            f"{self.seconds:.1f} s\n"
            f"  time split: {shares}\n"
            + (
                ""
                if self.overlap is None
                else f"  overlap: {self.overlap:.2f} (1: the shorter of policy and envs is "
                "hidden)\n"
            )
            + f"  {self.observation_numbers} numbers per observation, {self.parameters:,} "
            f"parameters, each sample used {self.replay_ratio:g} times"
        )


class Recorder(Dashboard):
    """A dashboard that records the metrics of each update."""

    def __init__(self) -> None:
        """Start without metrics."""
        self.lines: list[dict[str, float]] = []

    def show(self, metrics: Metrics, progress: float) -> None:
        """Record the metrics of one update."""
        self.lines.append(dict(metrics))


def measure(config: TrainConfig, seconds: float, signals: StopSignals) -> Speed | None:
    """Train for a warm-up, then for `seconds`; return the latter's speed, or None after a signal.

    Raises:
        ConfigError, SceneError: bad input.
        TooShort: `seconds` is too short for a measurement.
    """
    from puffervec.train.run.trainer import Trainer

    limit = {"total_timesteps": FOR_EVER, "time_limit_s": seconds * (1 + WARM_UP)}
    recorder = Recorder()
    with tempfile.TemporaryDirectory(prefix="puffer-train-") as folder:
        config = config.merged(
            {"train": limit, "log": {"dashboard": "off", "checkpoint_interval_s": 1e9}}
        )

        def make() -> Trainer:
            return Trainer(config, folder=Path(folder), dashboard=recorder)

        with signals.start(make) as trainer, signals.training(trainer):
            trainer.train()
            if signals.received:
                return None
            groups = trainer.vec.spec.groups
            numbers = sum(sum(field.size for field in group.fields) for group in groups)
            parameters = sum(
                p.numel() for policy in trainer.policies.values() for p in policy.parameters()
            )
            description = trainer.describe()
    return summary(
        description,
        recorder.lines,
        seconds * WARM_UP,
        numbers,
        parameters,
        float(config.train.update_epochs),
    )


def summary(
    run: str,
    lines: Sequence[Metrics],
    warm_up_s: float,
    observation_numbers: int,
    parameters: int,
    replay_ratio: float,
) -> Speed:
    """Return the speed over all updates except those of the warm-up.

    Raises: TooShort.
    """
    at = next((i for i, line in enumerate(lines) if line[keys.ELAPSED_S] >= warm_up_s), len(lines))
    updates = lines[at + 1 :]
    if not updates:
        raise TooShort(f"{len(lines)} updates fitted into the time: use a larger --seconds")
    spans = [
        b[keys.ELAPSED_S] - a[keys.ELAPSED_S] for a, b in zip(lines[at:], updates, strict=False)
    ]
    total = sum(spans)

    def mean(key: str) -> float:
        return sum(line[key] * span for line, span in zip(updates, spans, strict=True)) / total

    has_overlap = all(keys.OVERLAP in line for line in updates)

    return Speed(
        run=run,
        seconds=total,
        updates=len(updates),
        agent_steps_per_s=mean(keys.AGENT_STEPS_PER_S),
        env_steps_per_s=mean(keys.ENV_STEPS_PER_S),
        times={part: mean(key) for part, key in keys.TIME_PARTS.items()},
        observation_numbers=observation_numbers,
        parameters=parameters,
        replay_ratio=replay_ratio,
        overlap=mean(keys.OVERLAP) if has_overlap else None,
    )


def options(parser: Parser) -> None:
    """Declare the flags of bench."""
    # fmt: off
    flag = parser.flag
    flag("--seconds N", "length of the measurement, after a warm-up of a third of it [default: "
         "%(default)s]", type=flags.at_least(1), default=10)
    flag("--json", "print one JSON object instead of text")
    # fmt: on


def run(args: list[str], signals: StopSignals) -> None:
    """Run `puffer-train bench ENV`."""
    parsed = VERB.parse(args)
    config = flags.build_config(
        TrainConfig.of(parsed.target), parsed.settings, VERB.parser().long_flags()
    )
    speed = measure(config, float(parsed.seconds), signals)
    if speed is not None:
        print(speed.as_json() if parsed.json else speed.text())


VERB = Verb(
    "bench", "ENV [flags]", "speed and time split of a short run", ABOUT, run, options,
    configured=True,
)  # fmt: skip

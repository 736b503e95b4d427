# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The score of a run after given minutes, on scenes that it was not trained on: a part of bench/train.py.

    python bench/train.py --parts score                                    drive: held-out scenes after 5 and 30 minutes
    python bench/train.py --parts score --real ../shared/data/scenes       and on a folder of JSON scenes
    python bench/train.py --parts score --real DIR --scenes DIR            trained on that folder

The clock starts before the trainer is made: starting workers and compiling scenes count, imports do not. At each time the
policy is copied, which takes milliseconds, after the last update that ends before it. The copies are evaluated when the
training is over. The step size falls over all of --minutes, so after 5 minutes a run of 5 minutes scores better than one of 30.
Runs in the learner.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import functools
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from bench import common, runs
from drive_env.evaluate import evaluate as drive
from drive_env.generate.generate import DEFAULT_COUNT
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.act import evaluate as ev
from puffervec.train.metrics.dashboard import Dashboard
from puffervec.train.metrics.keys import STEP
from puffervec.train.policies.mapping import PolicyRows, policy_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAINED, HELD_OUT, REAL = "training scenes", "held-out", "real"
GENERATED = "generated"  # DEFAULT_COUNT scenes, enough for an evaluation; "generated:N" begins with the same ones.
WANTED = {5.0: 0.70, 30.0: 0.90}  # Score on the held-out scenes, by minutes, trained on generated ones.
SEED = 0  # Of evaluations.
CURVE_POINTS = 300
COLOURS = {TRAINED: "#009E73", HELD_OUT: "#0072B2", REAL: "#D55E00"}


@dataclasses.dataclass(frozen=True)
class Moment:
    """A run at one of the times. minutes: the given time; seconds: on the clock; score: in training, with drawn actions."""

    minutes: float
    seconds: float
    agent_steps: float
    score: float | None
    policies: dict[str, nn.Module]


class Watch(Dashboard):
    """Copies the policies at the given times and stops the run at the last one. Takes the place of a dashboard."""

    def __init__(self, minutes: Sequence[float], metric: str, clock: Callable[[], float] = time.perf_counter) -> None:
        """Start the clock."""
        self.due, self.metric, self.clock = sorted(minutes), metric, clock
        self.trainer: Trainer | None = None
        self.moments: list[Moment] = []
        self.curve: list[dict[str, float | None]] = []
        self.begin = clock()
        self.before_s: float | None = None  # When the update before this one ended.

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """After an update, copy the policies if another update would end too late."""
        assert self.trainer is not None
        seconds, score = self.clock() - self.begin, metrics.get(self.metric)
        update_s = 0.0 if self.before_s is None else seconds - self.before_s
        self.before_s = seconds
        self.curve.append({"minutes": seconds / 60, "agent_steps": metrics[STEP], "score": score})
        while self.due and seconds + update_s > 60 * self.due[0]:
            policies = {name: copy.deepcopy(policy).eval() for name, policy in self.trainer.policies.items()}
            self.moments.append(Moment(self.due.pop(0), seconds, metrics[STEP], score, policies))
        if not self.due:
            self.trainer.request_stop()


def score_sample(run: runs.Run, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train for --minutes, then evaluate the policy of each time on all sets of scenes."""
    with tempfile.TemporaryDirectory(prefix="puffervec-score-") as folder:
        config = runs.config_of(run, options.device, 60 * options.minutes, seed).merged({"log": {"folder": folder}})
        if options.scenes is not None:
            config = config.merged({"env": {"scenes": options.scenes}})
        watch = Watch(times_of(options), run.metric)
        with Trainer(config, dashboard=watch) as trainer:
            watch.trainer = trainer
            facts = runs.facts_of(trainer)
            start_s = watch.clock() - watch.begin
            trainer.train()
            device, rows = trainer.device, policy_rows(trainer.vec.spec, trainer.config)
    sets = scene_sets(config, options.real)
    return {
        "facts": facts,
        "seed": seed,
        "trained_on": shown(config.env.scenes),
        "start_s": start_s,
        "moments": [moment_row(moment, config, sets, device, rows, options.episodes) for moment in watch.moments],
        "curve": watch.curve[:: max(1, math.ceil(len(watch.curve) / CURVE_POINTS))],
    }


def times_of(options: argparse.Namespace) -> list[float]:
    """Return the minutes after which the policy is evaluated: those of --at, and the end.

    Raises: ConfigError for bad times and for times after the end.
    """
    try:
        found = {float(text) for text in options.at.split(",")} if options.at else {m for m in WANTED if m <= options.minutes}
    except ValueError:
        raise ConfigError(f"--at is {options.at!r}: give minutes, separated by commas, such as 5,30") from None
    if not options.minutes > 0 or not all(0 < minutes <= options.minutes for minutes in found):
        raise ConfigError(f"--at is {options.at!r}: give minutes above 0, up to --minutes, which is {options.minutes:g}")
    return sorted(found | {options.minutes})


def scene_sets(config: TrainConfig, real: str | None) -> dict[str, str]:
    """Return the sets of scenes to evaluate on, by name, as values of the env's setting `scenes`."""
    scenes = config.env.scenes
    count = scenes.partition(":")[2]
    first = GENERATED if is_generated(scenes) and int(count or DEFAULT_COUNT) > DEFAULT_COUNT else scenes
    sets = {TRAINED: first, HELD_OUT: "held-out"}
    return sets if real is None or real == scenes else {**sets, REAL: real}


def is_generated(scenes: str) -> bool:
    """True for "generated" and "generated:N"."""
    return scenes.partition(":")[0] == GENERATED


def shown(scenes: str) -> str:
    """Return `scenes` for tables and JSON, without paths."""
    return scenes if is_generated(scenes) or scenes == "held-out" else "a folder of scenes"


def moment_row(
    moment: Moment,
    config: TrainConfig,
    sets: Mapping[str, str],
    device: Any,
    rows: Mapping[str, PolicyRows],
    episodes: int,
) -> dict[str, Any]:
    """Evaluate a moment: the likeliest actions, shaping rewards off. Rates come with 95 % intervals over scenes."""
    found = {}
    for name, scenes in sets.items():
        actor = ev.PolicyActor(moment.policies, device, deterministic=True, seed=SEED, rows=rows)
        env = dataclasses.replace(config.env, scenes=scenes)
        result = drive.evaluate(actor, env, episodes=episodes, seed=SEED)
        found[name] = {"scenes": sum(scene.agents > 0 for scene in result.scenes), **result.report().to_json()["total"]}
    return {
        "minutes": moment.minutes,
        "seconds": moment.seconds,
        "agent_steps": moment.agent_steps,
        "score_in_training": moment.score,
        "evaluations": found,
        "gaps": gaps(found),
    }


def gaps(evaluations: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return how much higher the score is on the training scenes than on each of the other sets."""
    first = evaluations[TRAINED]["score"]
    return {name: first - found["score"] for name, found in evaluations.items() if name != TRAINED}


def measure_score(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Return a sample per run and seed, and how much of the machine others took.

    Raises: ConfigError for runs whose env has no scenes, and for bad times.
    """
    names = [name for name in options.runs or ("drive",) if runs.RUNS[name].target == "drive"]
    if not names:
        raise ConfigError("--parts score is for runs whose env has scenes: use --runs drive or drive-500k")
    times_of(options)
    worst = 0.0
    results: dict[str, Any] = {name: [] for name in names}
    for name in names:
        for seed in range(1, options.seeds + 1):
            note(f"{name}: seed {seed}, {options.minutes:g} minutes and the evaluations")
            found, foreign = common.foreign_load(functools.partial(score_sample, runs.RUNS[name], options, seed))
            results[name].append(found)
            worst = max(worst, foreign)
    return results, worst


# ---- output ---------------------------------------------------------------------------------------


def show_score(results: Mapping[str, Any]) -> None:
    """Print a line per run, time and set of scenes, then the targets and the gaps."""
    rows, notes = [], []
    for name, samples in results.items():
        for sample in samples:
            for moment in sample["moments"]:
                rows += _lines(name, sample, moment)
                notes += verdicts(name, sample, moment)
    columns = ("run", "scenes", "min", "agent-steps", "score", "goal", "collision", "off-road", "agents", *runs.FACT_COLUMNS)
    title = "score after minutes of training: rates of agents with 95 % intervals over scenes"
    common.print_table(title, columns, rows, notes)


def _lines(name: str, sample: Mapping[str, Any], moment: Mapping[str, Any]) -> list[tuple[str, ...]]:
    run = f"{name}, seed {sample['seed']}, on {sample['trained_on']}"
    head, tail = (f"{moment['minutes']:g}", common.number(moment["agent_steps"])), runs.fact_cells(sample["facts"])
    while_training = common.number(moment["score_in_training"])
    lines = [(run, "while training, drawn actions", *head, while_training, *["-"] * 4, *tail)]
    for where, found in moment["evaluations"].items():
        rates = (_rate(found, key) for key in ("score", "goal", "collision", "offroad"))
        lines.append((run, f"{where} ({found['scenes']})", *head, *rates, str(found["agents"]), *tail))
    return lines


def _rate(found: Mapping[str, Any], key: str) -> str:
    low, high = found[f"{key}_95"]
    return f"{found[key]:.3f} [{low:.2f}, {high:.2f}]" if key == "score" else f"{found[key]:.3f}"


def verdicts(name: str, sample: Mapping[str, Any], moment: Mapping[str, Any]) -> list[str]:
    """Return lines for a moment: whether its target was met, and the gaps between sets of scenes."""
    at = f"{name}, seed {sample['seed']}, {moment['minutes']:g} min"
    found, wanted, lines = moment["evaluations"][HELD_OUT], WANTED.get(moment["minutes"]), []
    if wanted is not None and is_generated(sample["trained_on"]):
        word = "met" if found["score"] >= wanted else "MISSED"
        lines.append(f"{at}: held-out {_rate(found, 'score')}, wanted {wanted:.2f}: {word}")
    shown_gaps = (f"{gap:+.3f} over {where}" for where, gap in moment["gaps"].items())
    return [*lines, f"{at}: score on the {TRAINED} {', '.join(shown_gaps)}"]


def panels(results: Mapping[str, Any]) -> list[runs.Panel]:
    """Return a panel per run and seed."""
    return [
        functools.partial(draw_score, f"{name}, seed {sample['seed']}, trained on {sample['trained_on']}", sample)
        for name, samples in results.items()
        for sample in samples
    ]


def draw_score(title: str, sample: Mapping[str, Any], axis: Axes) -> None:
    """Draw the score while training as a curve, and the evaluations as points with their intervals."""
    curve = [point for point in sample["curve"] if point["score"] is not None]
    axis.plot(
        [p["minutes"] for p in curve], [p["score"] for p in curve], color="#999999", label="while training, drawn actions"
    )
    spread = 0.006 * max(moment["minutes"] for moment in sample["moments"])  # Side by side: none hides another.
    for place, where in enumerate(sample["moments"][0]["evaluations"]):
        found = [moment["evaluations"][where] for moment in sample["moments"]]
        x = [moment["minutes"] + place * spread for moment in sample["moments"]]
        middle = [one["score"] for one in found]
        ends = [[m - one["score_95"][0] for m, one in zip(middle, found, strict=True)],
                [one["score_95"][1] - m for m, one in zip(middle, found, strict=True)]]  # fmt: skip
        label = f"{where} ({found[0]['scenes']} scenes), 95 %"
        axis.errorbar(x, middle, yerr=ends, fmt="o", capsize=3, color=COLOURS[where], label=label)
    axis.set(xlabel="minutes", ylabel="score", ylim=(0, 1), title=title)
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, fontsize=8)

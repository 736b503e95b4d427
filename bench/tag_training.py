# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Training in both Tag games: speed, sampling, and reward over time; parts of bench/tag.py.

The published training rates are those of the paper, on one A100. Its Figure 10 shows reward against
time for 2 taggers and 10 runners in 60 envs; it names no sizes, so the other settings are those of
WarpDrive's tag_continuous.yaml.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import common, runs, sampling, tag_rates
from bench.tag_rates import CASES, CROWD, NEAREST
from puffervec.train import TrainConfig, Trainer
from puffervec.train.device.device import one_torch_thread
from puffervec.train.metrics.keys import TIME_PARTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROLLOUT_SAMPLES = (
    250_000  # Agents' steps per rollout; the number of envs and the horizon follow from it.
)
CHASE: dict[str, Any] = {**CROWD, **NEAREST, "num_taggers": 2, "num_runners": 10, "tag_reward_for_tagger": 10.0,
                         "tag_penalty_for_runner": -10.0, "episode_length": 500}  # fmt: skip
CHASE_ENVS = 60
COLOURS = {"taggers": "#D55E00", "runners": "#0072B2"}


# ---- speed ---------------------------------------------------------------------------------------


def training_config(name: str, num_envs: int) -> TrainConfig:
    """Return the preset of a case's game with as many of these envs as make a rollout of a usual
    size.
    """
    case = CASES[name]
    envs = max(2, min(num_envs, ROLLOUT_SAMPLES // (10 * case.agents)) // 2 * 2)
    horizon = int(np.clip(ROLLOUT_SAMPLES // (envs * case.agents), 8, 32))
    tables = {"env": case.kwargs, "vec": {"num_envs": envs}, "train": {"horizon": horizon}}
    return runs.config_of(runs.Run(case.env, tables), "cpu")


def measure_training(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Return env-steps/s and agent-steps/s of training by case, and the split of time."""
    variants, results = {}, {}
    for name in (name for name in options.cases if CASES[name].num_envs is None):
        config = training_config(name, options.num_envs)
        case, copies = CASES[name], config.train.horizon + 1
        if reason := tag_rates.too_large(
            dataclasses.replace(case, num_envs=copies * config.vec.num_envs).workload(name, 0)
        ):
            results[name] = {"left_out": reason}
        else:
            variants[name] = functools.partial(runs.trained, config, options.train_seconds)
    found = common.interleave(variants, options.train_repeats, note, options.attempts)
    for name, samples in found.results.items():
        results[name] = {
            "facts": samples[0]["facts"],
            "published": CASES[name].published.get("training"),
            "env_steps_per_s": common.figure(sample["env_steps_per_s"] for sample in samples),
            "agent_steps_per_s": common.figure(sample["agent_steps_per_s"] for sample in samples),
            "shares": {
                part: common.figure(sample["shares"][part] for sample in samples)
                for part in TIME_PARTS
            },
        }
    return results, found.foreign


def show_training(results: Mapping[str, Any]) -> None:
    """Print the table."""
    cells, notes = [], ["A100: Lan et al. 2021, 2,000 envs, not measured here"]
    for name, found in results.items():
        if "left_out" in found:
            notes.append(f"{name} is left out: {found['left_out']}")
            continue
        split = ", ".join(
            f"{part} {100 * found['shares'][part].median:.0f}%" for part in TIME_PARTS
        )
        cells.append((name, split, str(found["facts"]["num_envs"]), str(found["env_steps_per_s"]),
                      str(found["agent_steps_per_s"]), common.number(found["published"])))  # fmt: skip
    columns = ("case", "time", "envs", "env-steps/s", "agent-steps/s", "A100, published")
    common.print_table("rollout and training", columns, cells, notes)


# ---- sampling ------------------------------------------------------------------------------------


def measure_sampling(options: argparse.Namespace, note: Any) -> tuple[list[dict[str, Any]], float]:
    """Return actions drawn per second on one thread against `Categorical`: five choices of the
    grid, 21 of the plane.
    """
    rows, worst = [], 0.0
    with one_torch_thread():
        for choices in (5, 21):
            found, foreign = sampling.measure(
                choices, 10_000, min(options.seconds, 0.3), options.repeats, note
            )
            worst = max(worst, foreign)
            per_s = {key: common.figure(1e6 * found.rows / us for us in getattr(found, key).samples)
                     for key in ("ours_us", "categorical_us")}  # fmt: skip
            rows.append({"choices": choices, "rows": found.rows, "gain": found.gain, "ours_per_s": per_s["ours_us"],
                         "categorical_per_s": per_s["categorical_us"]})  # fmt: skip
    return rows, worst


def show_sampling(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the table."""
    keys = ("categorical_per_s", "ours_per_s", "gain")
    cells = [
        (str(row["choices"]), str(row["rows"]), *(str(row[key]) for key in keys)) for row in rows
    ]
    columns = ("choices", "rows", "Categorical, actions/s", "ours, actions/s", "x as fast")
    notes = ["A100, published: 18M actions/s per agent, 3.6x PyTorch; not measured here"]
    common.print_table("actions drawn on one thread", columns, cells, notes)


# ---- reward against the clock --------------------------------------------------------------------


def by_side(episodes: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    """Return the mean return of taggers and of runners from the latest episodes, rows of
    `EpisodeWindow.state`.
    """
    agents = episodes[:, 2 + names.index("agents")]
    sides = {"taggers": CHASE["num_taggers"], "runners": CHASE["num_runners"]}
    return {
        side: float(episodes[agents == count, 0].mean())
        for side, count in sides.items()
        if (agents == count).any()
    }


def chase(seed: int, seconds: float) -> dict[str, Any]:
    """Train both sides for `seconds` and return the curve and how long rollouts and updates took.
    Start-up does not count.
    """
    tables = {"env": CHASE, "vec": {"num_envs": CHASE_ENVS}, "train": {"horizon": 100}}
    config = runs.config_of(runs.Run("tag_continuous", tables), "cpu", seed=seed)
    curve: list[dict[str, float]] = []
    spent = {"rollout": 0.0, "update": 0.0}
    with (
        tempfile.TemporaryDirectory(prefix="puffervec-train-") as folder,
        Trainer(config.merged({"log": {"folder": folder}})) as trainer,
    ):
        begin = time.perf_counter()
        while (now := time.perf_counter()) - begin < seconds or not curve:
            trainer.collect()
            collected = time.perf_counter()
            trainer.update()
            spent["rollout"] += collected - now
            spent["update"] += time.perf_counter() - collected
            window = trainer.collector.episodes
            returns = by_side(window.state(), window.names)
            curve.append(
                {
                    "seconds": time.perf_counter() - begin,
                    "steps": trainer.counters.agent_steps,
                    **returns,
                }
            )
    return {"curve": curve, "spent": spent}


def measure_chase(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Return the curves of all seeds and the split of time."""
    variants = {
        str(seed): functools.partial(chase, seed, options.chase_seconds)
        for seed in range(options.seeds)
    }
    found = common.interleave(variants, 1, note, options.attempts)
    samples = [samples[0] for samples in found.results.values()]
    shares = [sample["spent"]["rollout"] / sum(sample["spent"].values()) for sample in samples]
    last = {side: common.figure(ended) for side in COLOURS
            if (ended := [s["curve"][-1][side] for s in samples if side in s["curve"][-1]])}  # fmt: skip
    rate = common.figure(
        sample["curve"][-1]["steps"] / sample["curve"][-1]["seconds"] for sample in samples
    )
    results = {"settings": CHASE, "num_envs": CHASE_ENVS, "seconds": options.chase_seconds, "agent_steps_per_s": rate,
               "rollout_share": common.figure(shares), "return": last, "curves": [s["curve"] for s in samples]}  # fmt: skip
    return results, found.foreign


def show_chase(results: Mapping[str, Any]) -> None:
    """Print where the seeds ended."""
    returns = ", ".join(f"{side} {figure.median:.1f}" for side, figure in results["return"].items())
    share = f"{100 * results['rollout_share'].median:.0f}% of the time in rollouts"
    print(
        f"2 taggers, 10 runners, {CHASE_ENVS} envs, {len(results['curves'])} seeds of "
        f"{results['seconds']:g} s each:"
    )
    print(
        f"return per agent: {returns or '-'}; {results['agent_steps_per_s']} agent-steps/s, {share}"
    )


def chase_panels(results: Mapping[str, Any]) -> list[runs.Panel]:
    """Return a panel of reward against the clock."""
    return [functools.partial(_draw_chase, results)]


def _draw_chase(results: Mapping[str, Any], axis: Axes) -> None:
    for side, colour in COLOURS.items():
        for number, curve in enumerate(results["curves"]):
            points = [(point["seconds"], point[side]) for point in curve if side in point]
            if points:
                axis.plot(
                    *zip(*points, strict=True),
                    color=colour,
                    alpha=0.6,
                    label=None if number else side,
                )
    axis.set(
        xlabel="s of training",
        ylabel="return per agent",
        title=f"2 taggers, 10 runners, {CHASE_ENVS} envs",
    )
    if axis.lines:
        axis.legend(frameon=False)

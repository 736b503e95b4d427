# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Check that both sides of Tag learn: train 2 taggers and 10 runners, and compare with random ones.

    python bench/tag_learning.py    8.5 minutes of training on two cores, then four pairings
    python bench/tag_learning.py --minutes 2 --png tag_learning.png

First the taggers learn, against runners with their initial weights, which act at random
(`to_train`); then runners learn against these fixed taggers (`opponent`). Both sides can also learn
simultaneously, but then each side learns to beat the current opponent, and loses some of its skill
against random ones.

The settings of the env are those of WarpDrive's trainer test except for the length of an episode:
200 steps, as in its Lightning tutorial, since in 500 steps random taggers catch half of the
runners, so that no policy could catch three times as many. The seeds of the evaluation differ from
those of the training and of the search for settings. Actions are sampled, as in training. The
pairings are also played from random starts, while the training has only one start.

Tags: runners caught in an episode. Survival: steps that a runner is in the game, as mean over all
runners.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from bench import common, runs
from puffervec.train import TrainConfig
from puffervec.train.act import evaluate as ev
from puffervec.train.act.acting import Sides
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run.find import find_checkpoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENV: dict[str, Any] = {
    "num_taggers": 2, "num_runners": 10, "grid_length": 20,
    "episode_length": 200, "tagging_distance": 0.02,
    "min_acceleration": -0.1, "max_acceleration": 0.1, "num_acceleration_levels": 20,
    "min_turn": -2.356194490192345, "max_turn": 2.356194490192345, "num_turn_levels": 20,
    "use_full_observation": False, "num_other_agents_observed": 10, "seed": 274880,
    "tag_reward_for_tagger": 10.0, "tag_penalty_for_runner": -10.0,
    "end_of_game_reward_for_runner": 1.0,
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "vec": {"num_envs": 128},
    "train": {
        "horizon": 32,
        "minibatch_size": 3072,
        "gamma": 0.95,
        "scale_rewards": True,
        "lr": 5e-3,
        "entropy_coef": 0.002,
    },
    "policy": {"hidden": (64, 64)},
}
SHARE = {
    "tagger": 2 / 3,
    "runner": 1 / 3,
}  # Shares of the minutes: chasing takes longer to learn than fleeing.
LEARNING = {"tagger": {"update_epochs": 4}, "runner": {"update_epochs": 1}}
PAIRINGS = {  # The policies that act at random, by name.
    "trained, trained": (),
    "trained, random": ("runner",),
    "random, trained": ("tagger",),
    "random, random": ("tagger", "runner"),
}
WANTED = {"tags": 3.0, "survival": 2.0}
EVALUATION_SEED = 1_000_003
COLOURS = {"tags": "#D55E00", "survival": "#0072B2"}


def config_of(
    options: argparse.Namespace, folder: str, seed: int, side: str, tables: Mapping[str, Any]
) -> TrainConfig:
    """Return the config of the run in which one side learns. Args: tables: the other side's."""
    log = {"folder": folder, "name": side, "dashboard": "off"}
    budget = {
        "seed": seed,
        "device": "cpu",
        "time_limit_s": 60 * options.minutes * SHARE[side],
        "total_timesteps": 10**10,
    }
    config = TrainConfig.of("tag_continuous", env=ENV, **SETTINGS).merged(
        {"train": budget, "log": log}
    )
    return config.merged({"policies": {side: LEARNING[side], **tables}})


def sample(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train both sides with a seed and play all pairings."""
    with tempfile.TemporaryDirectory(prefix="puffervec-tag-") as folder:
        against: dict[str, dict[str, Any]] = {"runner": {"to_train": False}}
        taggers = runs.learn(config_of(options, folder, seed, "tagger", against), [*WANTED])
        against = {"tagger": {"opponent": str(taggers["run"])}}
        runners = runs.learn(config_of(options, folder, seed, "runner", against), [*WANTED])
        run, policies = ev.load_policies(
            find_checkpoint(runners["run"], Path(folder)), torch.device("cpu")
        )
    moved = run.config.merged({"env": {"random_starts": True}})
    starts = {"same start": run, "random starts": dataclasses.replace(run, config=moved)}
    pairings = {where: play(own, policies, options.episodes) for where, own in starts.items()}
    training = {
        side: {**result, "run": side} for side, result in (("tagger", taggers), ("runner", runners))
    }
    return {
        "seed": seed,
        "training": training,
        "pairings": pairings,
        "ratios": {where: ratios(result) for where, result in pairings.items()},
    }


def play(
    run: RunSpec, policies: Mapping[str, torch.nn.Module], episodes: int
) -> dict[str, dict[str, Any]]:
    """Play all pairings; return tags and survival as means and half widths of 95 % intervals."""
    config, rows, results = run.config, run.rows, {}
    for number, (name, random) in enumerate(PAIRINGS.items()):
        seed = EVALUATION_SEED + 1000 * number
        learned = ev.PolicyActor(dict(policies), torch.device("cpu"), False, seed, rows)
        actor = Sides(
            learned, {side: ev.RandomActor(seed + i) for i, side in enumerate(random)}, rows
        )
        rates = ev.evaluate_generic(config.target, config.env, actor, episodes, seed, num_envs=64)
        results[name] = {key: list(rates[0].reported[key]) for key in WANTED}
    return results


def ratios(results: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """Return the ratios of trained to random policies: in tags, and in survival.

    >>> one = {"tags": [6.0, 0.1], "survival": [80.0, 1.0]}
    >>> two = {"tags": [2.0, 0.1], "survival": [160.0, 1.0]}
    >>> ratios({"trained, random": one, "random, random": two, "trained, trained": two})
    {'tags': 3.0, 'survival': 2.0}
    """
    against_random = results["trained, random"]
    return {
        "tags": against_random["tags"][0] / results["random, random"]["tags"][0],
        "survival": results["trained, trained"]["survival"][0] / against_random["survival"][0],
    }


# ---- output --------------------------------------------------------------------------------------


def show(results: Sequence[Mapping[str, Any]]) -> None:
    """Print the table of pairings, and whether the targets were reached."""
    rows, notes = [], []
    for one in results:
        for where, pairings in one["pairings"].items():
            for name, result in pairings.items():
                cells = (f"{result[key][0]:.2f} +- {result[key][1]:.2f}" for key in WANTED)
                rows.append((str(one["seed"]), where, name, *cells))
            for key, target in WANTED.items():
                ratio = one["ratios"][where][key]
                word = "met" if ratio >= target else "MISSED"
                notes.append(
                    f"seed {one['seed']}, {where}: {key} x {ratio:.2f}, wanted {target}: {word}"
                )
        for side, run in one["training"].items():
            steps = common.number(run["agent_steps"])
            took = (
                f"{steps} agent-steps learned in {run['seconds']:.0f} s, "
                f"{run['learner_cpu_s']:.0f} s of CPU in the learner"
            )
            notes.append(f"seed {one['seed']}, {side}: {run['about']}; {took}")
    columns = ("seed", "starts", "taggers, runners", "tags", "survival (steps)")
    common.print_table(
        "2 taggers, 10 runners: trained sides against random ones", columns, rows, notes
    )


def draw(one: Mapping[str, Any], path: Path) -> None:
    """Write a picture of the training and of the pairings."""
    from puffervec.commands.plot import new_figure, save

    figure = new_figure(10, 3.4)
    axes = figure.subplots(1, 3, width_ratios=(1.3, 1, 1))
    draw_curves(axes[0], one["training"])
    for axis, key, label in (
        (axes[1], "tags", "runners caught"),
        (axes[2], "survival", "steps in the game"),
    ):
        draw_pairings(axis, one["pairings"]["same start"], key, label)
    save(figure, path)


def draw_curves(axis: Axes, training: Mapping[str, Any]) -> None:
    """Draw the number of caught runners while the taggers learn, and then while the runners do."""
    since = 0.0
    for side, label in (("tagger", "taggers learn"), ("runner", "then runners learn")):
        curve = training[side]["curve"]
        axis.plot(
            [since + point["minutes"] for point in curve],
            [point["tags"] for point in curve],
            label=label,
        )
        since += curve[-1]["minutes"] if curve else 0.0
    axis.set(xlabel="minutes", ylabel="runners caught", ylim=(0, 10), title="training")
    axis.legend(frameon=False)


def draw_pairings(
    axis: Axes, results: Mapping[str, Mapping[str, Sequence[float]]], key: str, label: str
) -> None:
    """Draw a bar with a 95 % interval per pairing."""
    names = [name.replace(", ", " /\n") for name in results]
    means, halves = zip(*(one[key] for one in results.values()), strict=True)
    axis.bar(names, means, yerr=halves, color=COLOURS[key], capsize=3)
    axis.set(title=label, xlabel="taggers / runners")
    axis.tick_params(axis="x", labelsize=7)


main = runs.learning_command("tag-learning", __doc__, 8.5, 256, sample, show, draw)


if __name__ == "__main__":
    raise SystemExit(main())

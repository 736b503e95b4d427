# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Check that both policies of covid learn.

States and planner are trained together, then replaced by random and idle ones.

    python bench/covid_learning.py    ten minutes of training on two cores, then pairings
    python bench/covid_learning.py --minutes 2 --png covid.png

Social welfare is the planner's objective: the sum of its rewards over an episode of 540 days. The
states' return is the mean of their own sums. Some pairings replace both policies, others one of
them: the states' return depends mostly on the subsidies, and a random planner pays a lot, so states
are compared under the same trained planner. Random policies draw uniformly from the allowed
actions; idle ones always choose action 0: stringency as on the last day of the data, and no
subsidy. The env is deterministic; trained policies choose their most probable actions.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import puffervec
from bench import common, runs
from puffervec.envs.covid import ENV
from puffervec.envs.covid.settings import CovidConfig
from puffervec.train import TrainConfig, load_policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUPS = ("states", "planner")
RECORDS = (
    "social_welfare",
    "states_return",
    "deaths",
    "unemployment",
    "subsidies",
    "stringency",
    "vaccinated",
)
PAIRINGS = {  # The policies of the states and of the planner, by name.
    "trained": ("trained", "trained"),
    "random": ("random", "random"),
    "idle": ("idle", "idle"),
    "random states": ("random", "trained"),
    "idle states": ("idle", "trained"),
    "random planner": ("trained", "random"),
    "idle planner": ("trained", "idle"),
}
# Ratios of a figure of "trained" to that of another pairing.
COMPARED = {
    "social welfare over random": ("social_welfare", "random"),
    "social welfare over idle": ("social_welfare", "idle"),
    "states' return over random states": ("states_return", "random states"),
    "states' return over idle states": ("states_return", "idle states"),
    "social welfare over random states": ("social_welfare", "random states"),
    "social welfare over idle states": ("social_welfare", "idle states"),
    "social welfare over a random planner": ("social_welfare", "random planner"),
    "social welfare over an idle planner": ("social_welfare", "idle planner"),
}
WANTED = 1.2
CURVE_DAYS = 5  # Days between two points of a curve.
EVALUATION_SEED = 1_000_003
COLOURS = {"trained": "#0072B2", "random": "#D55E00", "idle": "#999999"}
Act = Callable[[Any, Any, np.random.Generator], Mapping[str, np.ndarray]]


def random_actions(vec: Any, draw: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw allowed actions uniformly; return them by group."""
    actions = {}
    for name, rows in vec.halves[0].groups.items():
        scores = np.where(rows.action_masks, draw.random(rows.action_masks.shape), -1.0)
        actions[name] = scores.argmax(axis=1).astype(np.int32)
    return actions


def play(policy: Any, who: Sequence[str], episodes: int, seed: int) -> dict[str, Any]:
    """Return the mean records of simultaneous episodes, and curves of the first one.

    Args:
        who: the policies of the groups: trained, random or idle.
    """
    draw = np.random.default_rng(seed)
    with puffervec.make("covid", backend="serial", num_envs=episodes) as vec:
        observations, _ = vec.reset(seed=seed)
        assert ENV.drawing is not None
        numbers = ENV.drawing(CovidConfig(), vec.peek(0)).numbers
        assert numbers is not None
        curves = [numbers(vec.peek(0))]
        infos: Any = None
        for day in range(1, CovidConfig().episode_length + 1):
            idle = {
                name: np.zeros(rows.rows, np.int32) for name, rows in vec.halves[0].groups.items()
            }
            by = {"random": random_actions(vec, draw), "idle": idle}
            if "trained" in who:
                by["trained"] = policy.act(observations, vec)
            observations, _, _, _, infos = vec.step(
                {name: by[player][name] for name, player in zip(GROUPS, who, strict=True)}
            )
            if day % CURVE_DAYS == 0:
                curves.append(numbers(vec.peek(0)))
        values = infos.episodes["values"][infos.episodes["agent_type"] == 0].astype(np.float64)
        places = [vec.spec.record_names.index(name) for name in RECORDS]
    means = dict(zip(RECORDS, values[:, places].mean(axis=0).tolist(), strict=True))
    errors = dict(
        zip(RECORDS, (values[:, places].std(axis=0) / np.sqrt(len(values))).tolist(), strict=True)
    )
    return {**means, "standard_error": errors, "curves": curves}


def sample(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train with a seed and play all pairings."""
    with tempfile.TemporaryDirectory(prefix="puffervec-covid-") as folder:
        budget = {
            "seed": seed,
            "device": "cpu",
            "time_limit_s": 60 * options.minutes,
            "total_timesteps": 10**10,
        }
        log = {"folder": folder, "name": f"seed-{seed}", "dashboard": "off"}
        config = TrainConfig.of("covid").merged({"train": budget, "log": log})
        training = runs.learn(config, RECORDS)
        policy = load_policy(training.pop("run"))
        pairings = {
            name: play(
                policy, who, options.episodes if "random" in who else 1, EVALUATION_SEED + number
            )
            for number, (name, who) in enumerate(PAIRINGS.items())
        }
    for name in PAIRINGS.keys() - COLOURS.keys():
        del pairings[name]["curves"]  # They are not drawn.
    return {"seed": seed, "training": training, "pairings": pairings, "ratios": ratios(pairings)}


def ratios(pairings: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the ratios of COMPARED.

    >>> one = {"social_welfare": 300.0, "states_return": 200.0}
    >>> trained = {"social_welfare": 450.0, "states_return": 300.0}
    >>> pairings = {name: one for name in PAIRINGS} | {"trained": trained}
    >>> ratios(pairings)["social welfare over random"]
    1.5
    """
    return {
        name: pairings["trained"][key] / pairings[other][key]
        for name, (key, other) in COMPARED.items()
    }


# ---- output --------------------------------------------------------------------------------------


def show(results: Sequence[Mapping[str, Any]]) -> None:
    """Print the pairings, and whether the targets were reached."""
    rows, notes = [], []
    for one in results:
        for name, records in one["pairings"].items():
            rows.append((str(one["seed"]), name, *(common.number(records[key]) for key in RECORDS)))
        for name, ratio in one["ratios"].items():
            notes.append(
                f"seed {one['seed']}: {name} x {ratio:.2f}, wanted {WANTED}: "
                f"{'met' if ratio >= WANTED else 'MISSED'}"
            )
        run = one["training"]
        notes.append(
            f"seed {one['seed']}: {run['about']}; {common.number(run['agent_steps'])} agent-steps "
            f"in {run['seconds']:.0f} s, {run['learner_cpu_s']:.0f} s of CPU"
        )
    common.print_table("covid: states and planner", ("seed", "who", *RECORDS), rows, notes)


def draw(one: Mapping[str, Any], path: Path) -> None:
    """Write a picture of the training, and of an episode of each kind."""
    from puffervec.commands.plot import new_figure, save

    figure = new_figure(11, 5.6)
    axes = figure.subplots(2, 3)
    draw_training(axes[0][0], one["training"]["curve"])
    names = list(one["pairings"]["trained"]["curves"][0])
    for axis, name in zip(list(axes.flat)[1:], names, strict=False):
        for who, colour in COLOURS.items():
            points = [point[name] for point in one["pairings"][who]["curves"]]
            axis.plot(
                range(0, CURVE_DAYS * len(points), CURVE_DAYS), points, color=colour, label=who
            )
        axis.set(title=name, xlabel="days")
    axes[0][1].legend(frameon=False)
    save(figure, path)


def draw_training(axis: Axes, curve: Sequence[Mapping[str, float]]) -> None:
    """Draw social welfare and the states' return over the time of training."""
    minutes = [point["minutes"] for point in curve]
    axis.plot(
        minutes,
        [point["social_welfare"] for point in curve],
        color="#009E73",
        label="social welfare",
    )
    axis.plot(
        minutes,
        [point["states_return"] for point in curve],
        color="#CC79A7",
        label="states' return",
    )
    axis.set(title="training", xlabel="minutes")
    axis.legend(frameon=False)


main = runs.learning_command("covid-learning", __doc__, 10.0, 32, sample, show, draw)


if __name__ == "__main__":
    raise SystemExit(main())

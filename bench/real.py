# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure drivers on real scenes by the rules of several benchmarks.

    python bench/real.py --real DIR --real DIR      baselines, and the driver that comes with the
                                                    package
    python bench/real.py --real DIR --drivers driver,runs/NAME

The scenes are those of WOMD in the folders, as in bench/score.py. The driver that comes with the
package has seen none of them, what other runs have seen is yours to know.

Rules are those of drive_env/rules.py, except for the dynamics: a driver keeps its own car. Where no
scene marks a self-driving car there are no rates by the rules of nuPlan, which drive that car
alone. Nothing is timed. Runs in the learner.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, runs, score
from drive_env.evaluate import evaluate as drive
from drive_env.rules import RULES
from puffervec.contract.evaluation import Actor
from puffervec.errors import SceneError
from puffervec.train import TrainConfig
from puffervec.train.device.device import choose_device

ALL = "all"  # All scenes, in results.
BASELINES = ("log", "lane-follow", "idm")
RATES = ("score", "goal", "collision", "offroad", "comfortable")
KEPT = ("scenes", "agents", *RATES, *(f"{name}_95" for name in RATES))
HEADS = (">agents", ">score", ">goal", ">collision", ">off-road", ">comfortable")

Rates = dict[str, dict[str, Any]]  # Rates with their intervals on ALL.


def by_rules(config: TrainConfig, rules: str) -> TrainConfig:
    """Return the config with the rules of a benchmark, and its own dynamics."""
    settings = {name: value for name, value in RULES[rules].items() if name != "dynamics"}
    return dataclasses.replace(config, env=dataclasses.replace(config.env, **settings))


def measure(actor: Actor, config: TrainConfig, scenes: str) -> dict[str, Rates]:
    """Evaluate a driver on scenes by all rules.

    Rates are None where the rules drive the self-driving car and no scene marks one.
    """
    results: dict[str, Rates] = {}
    for name in RULES:
        ruled = by_rules(config, name)
        found: dict[str, Any] = {}
        try:
            found = score.evaluate(actor, ruled, scenes, 1)
        except SceneError:  # Most files do not mark the self-driving car.
            if ruled.env.control != "sdc":
                raise
        results[name] = {ALL: {key: found.get(key) for key in KEPT}}
    return results


def measure_all(options: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Any]:
    """Measure baselines and trained drivers.

    Raises:
        CheckpointError, ConfigError: there are no such scenes or drivers.
    """
    scenes = ",".join(map(str, score.real_scenes(options.real)))
    config = runs.config_of(runs.RUNS["drive"], options.device)
    task = dataclasses.replace(config.env, scenes=scenes)
    device = choose_device(options.device)
    players = {name: (drive.baseline(name, score.SEED), config) for name in BASELINES}
    players |= score.load_drivers(options.drivers, task, device, True)
    drivers: dict[str, dict[str, Rates]] = {}
    for name, (actor, own) in players.items():
        note(name)
        drivers[name] = measure(actor, own, scenes)
    return {"drivers": drivers}


# ---- output --------------------------------------------------------------------------------------


def rate_rows(results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a row per rules and driver: rates with 95 % intervals over scenes.

    Rules without rates have no row.
    """
    return [
        (rules, driver, f"{rates['agents']}", *(cell(rates, name) for name in RATES))
        for rules in RULES
        for driver, measured in results["drivers"].items()
        if (rates := measured[rules][ALL])["score"] is not None
    ]


def cell(rates: Mapping[str, Any], name: str) -> str:
    """Return a rate with its interval, "-" if it has no value."""
    if rates[name] is None:
        return "-"
    ends = [end for end in rates[f"{name}_95"] or () if end is not None]
    return f"{rates[name]:.2f}" + (f" [{ends[0]:.2f}, {ends[1]:.2f}]" if len(ends) == 2 else "")


def markdown(results: Mapping[str, Any]) -> str:
    """Return the rates as a table."""
    return common.markdown(("rules", "driver", *HEADS), rate_rows(results))


# ---- the command ---------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    flags = common.parser(__doc__)
    add = flags.add_argument
    add("--real", action="append", required=True, help="folder of WOMD scenes; repeatable")
    add(
        "--drivers",
        default=score.DRIVER,
        help="trained drivers: runs, checkpoints, or policies that come with drive, separated by "
        'commas; "" for none (default: %(default)s)',
    )
    add("--cores", type=int, default=2, help="cores to use (default: %(default)s)")
    add("--device", default="cpu", help="cpu, cuda or auto (default: %(default)s)")
    add(
        "--json",
        type=Path,
        help="path of the results (default: bench/results/<CPU>/<day>-real.json)",
    )
    return flags


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parser().parse_args(arguments)
    progress = common.Progress()
    score.use_cores(options.cores)
    choose_device(options.device)
    results, foreign = common.foreign_load(lambda: measure_all(options, progress))
    heads = [head.removeprefix(">") for head in HEADS]
    title = "rates with 95 % intervals over scenes"
    common.print_table(title, ("rules", "driver", *heads), rate_rows(results))
    common.finish("real", options, common.machine(), foreign, results)


if __name__ == "__main__":
    sys.exit(main())

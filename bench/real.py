# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure drivers on real scenes by the rules of several benchmarks, and the time to reach goals.

    python bench/real.py --real DIR --real DIR      baselines, the driver that comes with the
                                                    package, trainings of 7, 30 and 180 minutes
    python bench/real.py --real DIR --minutes 1     one training of a minute
    python bench/real.py --real DIR --minutes ""    none
    python bench/real.py --real DIR --minutes "" --drivers driver,runs/NAME

The scenes are those of WOMD in the folders, numbered as in bench/score.py. A hash of its name puts
a scene into one part for good: training (60 %), validation or test (20 % each). The 47 scenes with
which bench/score.py is run divide into 27, 11 and 9. The test scenes are those that drive's split
"train" leaves out. A driver trains on the preset's scenes and on the training scenes, which are a
quarter of what it sees. Each number of --minutes is a training of its own, because the learning
rate decreases over the whole of it. The scenes are compiled before the clock starts. Baselines and
--drivers are also measured on all scenes together. The driver that comes with the package has seen
none of them; other runs may have.

Rules are those of drive_env/rules.py, except for the dynamics: a driver keeps its own dynamics. The
time to a share of goals is the first of TIMES after which the driver reaches that share by the
rules of GPUDrive or PufferDrive. Where no scene marks a self-driving car there are no rates by the
rules of nuPlan, which drive that car alone. Rates are given for each part and for the validation
and test scenes together. Runs in the learner.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, runs, score
from drive_env.config import sets_of
from drive_env.evaluate import evaluate as drive
from drive_env.prepare import prepare_scenes
from drive_env.rules import RULES
from drive_env.sources import id_of
from puffervec.contract.evaluation import Actor
from puffervec.errors import ConfigError, SceneError
from puffervec.train import TrainConfig
from puffervec.train.device.device import choose_device

PARTS = {"training": 0.6, "validation": 0.8, "test": 1.0}  # Upper end of each part in [0, 1).
ALL, UNSEEN = "all", "unseen"  # The parts together; those that no training sees.
BASELINES = ("log", "lane-follow", "idm")
MINUTES = "7,30,180"
TIMES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180)
PEERS = ("gpudrive", "pufferdrive")
GOALS = (0.80, 0.95, 0.99)
RATES = ("score", "goal", "collision", "offroad", "comfortable")
KEPT = ("scenes", "agents", *RATES, *(f"{name}_95" for name in RATES))
HEADS = (">agents", ">score", ">goal", ">collision", ">off-road", ">comfortable")

Rates = dict[str, dict[str, Any]]  # By part: rates with their intervals.


def part_of(name: str) -> str:
    """Return the part of a scene, from the name of its file.

    >>> part_of("tfrecord-00000-of-01000_325.json"), part_of("elsewhere/scene-1.json")
    ('training', 'validation')
    """
    digest = hashlib.sha256(id_of(name).encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    return next(part for part, end in PARTS.items() if place < end)


def split_scenes(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Return the scenes of each part.

    Raises:
        ConfigError: a part has no scene.
    """
    parts = {part: [path for path in paths if part_of(path.name) == part] for part in PARTS}
    for part, own in parts.items():
        if not own:
            raise ConfigError(f"--real: none of the {len(paths)} scenes is for {part}: add scenes")
    return parts


def numbers_of(parts: Mapping[str, Sequence[Path]], paths: Sequence[Path]) -> dict[str, list[int]]:
    """Return the numbers of the scenes of each part: positions in the list of all, from 1."""
    return {part: [1 + paths.index(path) for path in own] for part, own in parts.items()}


def training_scenes(scenes: str, real: Sequence[Path]) -> str:
    """Return a value of the setting `scenes` in which the real scenes weigh as much as each set."""
    weights = {name: 1.0 if weight is None else weight for name, weight in sets_of(scenes)}
    weights |= {str(path): 1.0 / len(real) for path in real}
    return ",".join(f"{name}={weight:.6f}" for name, weight in weights.items())


def by_rules(config: TrainConfig, rules: str) -> TrainConfig:
    """Return the config with the rules of a benchmark, and its own dynamics."""
    settings = {name: value for name, value in RULES[rules].items() if name != "dynamics"}
    return dataclasses.replace(config, env=dataclasses.replace(config.env, **settings))


def measure(
    actor: Actor, config: TrainConfig, parts: Mapping[str, Sequence[Path]], rules: Sequence[str]
) -> dict[str, Rates]:
    """Evaluate a driver on all parts by all rules.

    Rates are None where the rules drive the self-driving car and no scene of the part marks one.
    """
    results: dict[str, Rates] = {}
    for name in rules:
        ruled = by_rules(config, name)
        results[name] = {}
        for part, paths in parts.items():
            found: dict[str, Any] = {}
            try:
                found = score.evaluate(actor, ruled, ",".join(map(str, paths)), 1)
            except SceneError:  # Most files do not mark the self-driving car.
                if ruled.env.control != "sdc":
                    raise
            results[name][part] = {key: found.get(key) for key in KEPT}
    return results


def train_and_measure(
    minutes: float, config: TrainConfig, parts: Mapping[str, Sequence[Path]]
) -> tuple[dict[str, Rates], dict[str, Any]]:
    """Train for some minutes.

    Returns:
        The rates at the end, and the run: shares of goals by the peers' rules at all times, and the
        minutes to GOALS.
    """
    times = [float(time) for time in TIMES if time < minutes] + [minutes]
    watch, facts, driver = score.train(config, times)
    final = measure(driver(watch.moments[-1]), config, parts, list(RULES))
    moments = [
        {
            "minutes": moment.seconds / 60,
            "agent_steps": moment.agent_steps,
            "goal": goals_of(measure(driver(moment), config, parts, PEERS)),
        }
        for moment in watch.moments[:-1]
    ]
    last = watch.moments[-1]
    moments.append(
        {"minutes": last.seconds / 60, "agent_steps": last.agent_steps, "goal": goals_of(final)}
    )
    return final, {"minutes": minutes, **facts, "moments": moments, "time_to": times_to(moments)}


def goals_of(results: Mapping[str, Rates]) -> dict[str, dict[str, float]]:
    """Return the shares of goals by the peers' rules, by part."""
    return {
        rules: {part: rates["goal"] for part, rates in results[rules].items()} for rules in PEERS
    }


def times_to(moments: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float | None]]]:
    """Return the minutes until each of GOALS is reached, by rules and part; None: it is not."""
    return {
        rules: {
            part: [
                next((m["minutes"] for m in moments if m["goal"][rules][part] >= share), None)
                for share in GOALS
            ]
            for part in PARTS
        }
        for rules in PEERS
    }


def measure_all(options: argparse.Namespace, note: Callable[[str], None]) -> dict[str, Any]:
    """Measure baselines and trained drivers, then one that is trained for each number of minutes.

    Raises:
        CheckpointError, ConfigError: there are no such scenes or drivers, or --minutes is not a
            list of times.
    """
    minutes = minutes_of(options.minutes)
    paths = score.real_scenes(options.real)
    parts = split_scenes(paths)
    parts[UNSEEN] = parts["validation"] + parts["test"]
    config = runs.config_of(runs.RUNS["drive"], options.device, seed=options.seed)
    every = {**parts, ALL: paths}
    task = dataclasses.replace(config.env, scenes=",".join(map(str, paths)))
    device = choose_device(options.device)
    players = {name: (drive.baseline(name, score.SEED), config) for name in BASELINES}
    players |= score.load_drivers(options.drivers, task, device, True)
    drivers: dict[str, dict[str, Rates]] = {}
    for name, (actor, own) in players.items():
        note(name)
        drivers[name] = measure(actor, own, every, list(RULES))
    scenes = options.scenes or training_scenes(config.env.scenes, parts["training"])
    if minutes:
        note("compiling the scenes")
        prepare_scenes(dataclasses.replace(config.env, scenes=scenes))
    trainings = []
    for count in minutes:
        note(f"a training of {count:g} minutes")
        limited = config.merged({"env": {"scenes": scenes}, "train": {"time_limit_s": 60 * count}})
        drivers[f"{count:g} min"], run = train_and_measure(count, limited, parts)
        trainings.append(run)
    return {"split": numbers_of(every, paths), "drivers": drivers, "trainings": trainings}


def minutes_of(text: str) -> list[float]:
    """Return the numbers of --minutes.

    Raises:
        ConfigError: they are not numbers above 0.
    """
    try:
        minutes = [float(part) for part in text.split(",") if part]
    except ValueError:
        minutes = [0.0]
    if not all(count > 0 for count in minutes):
        raise ConfigError(f"--minutes is {text!r}: give numbers above 0, such as {MINUTES}")
    return minutes


# ---- output --------------------------------------------------------------------------------------


def rate_rows(results: Mapping[str, Any], part: str) -> list[tuple[str, ...]]:
    """Return a row per rules and driver: rates on a part with 95 % intervals over scenes.

    Drivers that were not measured on the part, and rules without rates there, have no row.
    """
    return [
        (rules, driver, f"{rates['agents']}", *(cell(rates, name) for name in RATES))
        for rules in RULES
        for driver, measured in results["drivers"].items()
        if (rates := measured[rules].get(part, {})).get("score") is not None
    ]


def cell(rates: Mapping[str, Any], name: str) -> str:
    """Return a rate with its interval, "-" if it has no value."""
    if rates[name] is None:
        return "-"
    ends = [end for end in rates[f"{name}_95"] or () if end is not None]
    return f"{rates[name]:.2f}" + (f" [{ends[0]:.2f}, {ends[1]:.2f}]" if len(ends) == 2 else "")


def time_rows(results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a row per rules, training and part: minutes to each of GOALS."""
    return [
        (rules, f"{run['minutes']:g} min", part, *("-" if t is None else f"{t:.1f}" for t in found))
        for rules in PEERS
        for run in results["trainings"]
        for part, found in run["time_to"][rules].items()
    ]


def time_heads() -> tuple[str, ...]:
    """Return the column headings of `time_rows`."""
    return ("rules", "training", "scenes", *(f">{100 * share:.0f} % goals" for share in GOALS))


def markdown(results: Mapping[str, Any]) -> str:
    """Return the rates on all scenes as a table.

    If drivers were trained, the rates on scenes that they have not seen and the minutes to goals
    are further tables.
    """
    heads = ("rules", "driver", *HEADS)
    tables = [common.markdown(heads, rate_rows(results, ALL))]
    if results["trainings"]:
        tables += [
            "On the validation and test scenes, with drivers that were trained on the others too:",
            common.markdown(heads, rate_rows(results, UNSEEN)),
            "Minutes of their training until they reached a share of the goals:",
            common.markdown(time_heads(), time_rows(results)),
        ]
    return "\n\n".join(tables)


def show(results: Mapping[str, Any]) -> None:
    """Print the rates on each part, and the minutes to goals."""
    for part, numbers in results["split"].items():
        heads = [head.removeprefix(">") for head in HEADS]
        title = f"{part}: {len(numbers)} scenes, rates with 95 % intervals over scenes"
        common.print_table(title, ("rules", "driver", *heads), rate_rows(results, part))
    if results["trainings"]:
        heads = [head.removeprefix(">") for head in time_heads()]
        common.print_table("minutes to a share of goals", heads, time_rows(results))


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
    add("--minutes", default=MINUTES, help='trainings; "" for none (default: %(default)s)')
    add("--scenes", help="training scenes (default: the preset's and those of the part training)")
    add("--cores", type=int, default=2, help="cores to use (default: %(default)s)")
    add("--seed", type=int, default=1, help="seed of the trainings (default: %(default)s)")
    add("--device", default="cpu", help="cpu, cuda or auto (default: %(default)s)")
    common.add_json(flags, "real")
    return flags


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parser().parse_args(arguments)
    progress = common.Progress()
    score.use_cores(options.cores)
    choose_device(options.device)
    results, foreign = common.foreign_load(lambda: measure_all(options, progress))
    show(results)
    common.finish("real", options, common.machine(), foreign, results)


if __name__ == "__main__":
    sys.exit(main())

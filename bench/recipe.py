# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Search for a better recipe of `puffer-train drive`: variants of its preset, trained with seeds.

    python bench/recipe.py --cores 0,1          all recipes of bench/recipe.toml, three seeds each
    python bench/recipe.py --recipes "preset,lr 0.002" --seeds 5
    python bench/recipe.py --json FILE          continues where FILE ends

A training has --steps agent-steps on one core, on the scenes of the split "train"; the most
probable actions are then evaluated on those of the split "validation". The held-out and the real
scenes are not used, so they remain valid for the final figures. One training runs on each of
--cores. A difference compares runs with equal seeds, with a 95 % t interval over seeds.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import math
import queue
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.foreign import foreign_load
from puffervec.errors import ConfigError

TABLE = common.ROOT / "bench" / "recipe.toml"
PROGRAM = Path(sys.executable).with_name("puffer-train")
PRESET = "preset"
# The scenes of evaluations, by their names in results: scenes of 30 to 80 m for one car, and
# streets as large as real ones.
SETS = {"generated": "generated:1000", "streets": "streets:1000"}
KEPT = (
    "agents",
    "score",
    "goal",
    "collision",
    "offroad",
    "comfortable",
    "lawful",
    "goal_time",
    "peak_lateral",
)
SHOWN = ("score", "comfortable", "goal_time", "peak_lateral")
T_95 = (
    math.nan,
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
)  # By degrees of freedom, from 1.


@dataclasses.dataclass(frozen=True)
class Job:
    """One training of the search."""

    recipe: str
    stages: tuple[tuple[str, ...], ...]
    seed: int
    steps: int


def command(arguments: Sequence[str], core: int, log: Path) -> None:
    """Run puffer-train on one core. Raises: ConfigError: it failed; has its last lines."""
    with log.open("w") as out:
        done = subprocess.run(
            ["taskset", "-c", str(core), str(PROGRAM), *arguments],
            stdout=out, stderr=subprocess.STDOUT, cwd=log.parent,
        )  # fmt: skip
    if done.returncode:
        raise ConfigError(
            f"puffer-train {' '.join(arguments)} ended with {done.returncode}: "
            f"{log.read_text()[-600:]}"
        )


def train_and_evaluate(job: Job, core: int) -> dict[str, Any]:
    """Train in a new folder, evaluate on each of SETS, and return the rates.

    Raises:
        ConfigError: a command failed.
    """
    with tempfile.TemporaryDirectory(prefix="puffervec-recipe-") as name:
        folder = Path(name)
        common_flags = [
            "--log.folder",
            "runs",
            "--env.split",
            "train",
            "--seed",
            str(job.seed),
            "--time-limit-s",
            "0",
        ]
        limit = ["--total-timesteps", str(job.steps // len(job.stages))]
        begin = time.perf_counter()
        for number, flags in enumerate(job.stages):
            before = ["--init-from", f"runs/{number - 1}"] if number else []
            run = ["drive", *before, "--run-name", str(number), *common_flags, *limit, *flags]
            command(run, core, folder / "train.log")
        results: dict[str, Any] = {"seconds": time.perf_counter() - begin}
        for where, scenes in SETS.items():
            path = folder / f"{where}.json"
            what = ["eval", f"runs/{number}", "--scenes", scenes, "--env.split", "validation"]
            what += ["--env.draw-rewards", "0", "--json", str(path)]
            command(what, core, folder / "eval.log")
            total = json.loads(path.read_text())["total"]
            results[where] = {key: total[key] for key in KEPT}
        return results


def jobs_of(
    recipes: Mapping[str, Sequence[Sequence[str]]], seeds: int, steps: int, done: Mapping[str, Any]
) -> list[Job]:
    """Return the remaining jobs, seed by seed, so that all recipes advance together."""
    return [
        Job(name, tuple(map(tuple, stages)), seed, steps)
        for seed in range(1, seeds + 1)
        for name, stages in recipes.items()
        if str(seed) not in done.get(name, {}).get("seeds", {})
    ]


def search(
    jobs: Sequence[Job],
    cores: Sequence[int],
    results: dict[str, Any],
    path: Path,
    note: Callable[[str], None],
) -> None:
    """Run the jobs, one on each core at a time; the file at `path` has the results so far."""
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in cores:
        free.put(core)

    def work(job: Job) -> dict[str, Any]:
        core = free.get()
        try:
            return train_and_evaluate(job, core)
        finally:
            free.put(core)

    with concurrent.futures.ThreadPoolExecutor(len(cores)) as pool:
        waiting = {pool.submit(work, job): job for job in jobs}
        try:
            for number, future in enumerate(concurrent.futures.as_completed(waiting), 1):
                job = waiting[future]
                entry = results.setdefault(
                    job.recipe,
                    {"stages": list(map(list, job.stages)), "steps": job.steps, "seeds": {}},
                )
                entry["seeds"][str(job.seed)] = future.result()
                common.write_json(path, {"results": results})
                note(f"{number}/{len(jobs)}: {job.recipe}, seed {job.seed}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def mean_of(entry: Mapping[str, Any], where: str, key: str) -> float:
    """Return the mean over seeds of a rate on a set."""
    return statistics.fmean(rates[where][key] for rates in entry["seeds"].values())


def score_of(rates: Mapping[str, Any]) -> float:
    """Return the mean score of all sets of one training."""
    return statistics.fmean(rates[where]["score"] for where in SETS)


def difference(entry: Mapping[str, Any], preset: Mapping[str, Any]) -> tuple[float, float, int]:
    """Return the difference of the mean score of all sets from that of the preset.

    The values are the mean, half of its 95 % interval, and the number of seeds.
    """
    seeds = sorted(set(entry["seeds"]) & set(preset["seeds"]))
    deltas = [score_of(entry["seeds"][seed]) - score_of(preset["seeds"][seed]) for seed in seeds]
    if len(deltas) < 2:
        return (deltas[0] if deltas else math.nan), math.nan, len(deltas)
    half = T_95[min(len(deltas), len(T_95)) - 1] * statistics.stdev(deltas) / math.sqrt(len(deltas))
    return statistics.fmean(deltas), half, len(deltas)


def show(results: Mapping[str, Any]) -> None:
    """Print a line per recipe: means over seeds, and the difference from the preset."""
    rows = []
    for name, entry in results.items():
        cells = [f"{mean_of(entry, where, key):.3f}" for where in SETS for key in SHOWN]
        mean, half, seeds = (
            difference(entry, results[PRESET]) if PRESET in results else (math.nan, math.nan, 0)
        )
        seconds = statistics.fmean(rates["seconds"] for rates in entry["seeds"].values())
        rows.append(
            (
                name,
                str(len(entry["seeds"])),
                *cells,
                f"{mean:+.3f} ±{half:.3f} ({seeds})",
                f"{seconds:.0f}",
            )
        )
    heads = [f"{where[:3]} {key}" for where in SETS for key in SHOWN]
    notes = [
        "difference: of the mean score of both sets, with the same seed; s: of a training on one "
        "core"
    ]
    common.print_table(
        "recipes on validation scenes", ("recipe", "seeds", *heads, "difference", "s"), rows, notes
    )


def markdown(results: Mapping[str, Any]) -> str:
    """Return the table of docs/drive.md, best first. Args: results: the results of a JSON file."""
    preset = results[PRESET]
    score = statistics.fmean(map(score_of, preset["seeds"].values()))
    rows = [("*the preset*", f"{score:.3f}", comfort(preset), "1")]
    others = {name: difference(one, preset) for name, one in results.items() if name != PRESET}
    for name, (mean, half, _) in sorted(others.items(), key=lambda item: -item[1][0]):
        time_ratio = seconds_of(results[name]) / seconds_of(preset)
        cells = (f"{mean:+.3f} ± {half:.3f}", comfort(results[name]), f"{time_ratio:.1f}")
        rows.append((name, *cells))
    return common.markdown(("recipe", ">difference", ">comfortable", ">time"), rows)


def comfort(entry: Mapping[str, Any]) -> str:
    """Return the mean share of comfortable half-seconds over all sets."""
    return f"{statistics.fmean(mean_of(entry, where, 'comfortable') for where in SETS):.2f}"


def seconds_of(entry: Mapping[str, Any]) -> float:
    """Return the median seconds of a training."""
    return statistics.median(rates["seconds"] for rates in entry["seeds"].values())


def choose_recipes(names: str | None) -> dict[str, list[list[str]]]:
    """Return the stages of the chosen recipes, by name. Raises: ConfigError: an unknown name."""
    listed: dict[str, list[Any]] = tomllib.loads(TABLE.read_text())["recipes"]
    recipes = {
        name: flags if any(isinstance(part, list) for part in flags) else [flags]
        for name, flags in listed.items()
    }
    chosen = list(recipes) if names is None else [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in recipes:
            raise ConfigError(
                f"--recipes has {name!r}: use some of {', '.join(recipes)}, or add it to "
                f"{TABLE.name}"
            )
    return {name: recipes[name] for name in chosen}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    flags = common.parser(__doc__)
    flags.add_argument("--recipes", help="names, separated by commas (default: all)")
    flags.add_argument(
        "--seeds",
        type=int,
        default=3,
        help="trainings of each, with seeds 1, 2, ... (default: %(default)s)",
    )
    flags.add_argument(
        "--steps",
        type=int,
        default=3_000_000,
        help="agent-steps of a training (default: %(default)s)",
    )
    flags.add_argument(
        "--cores",
        type=lambda text: [int(core) for core in text.split(",")],
        default=[0],
        help="numbers of cores, separated by commas (default: 0)",
    )
    common.add_json(flags, "recipe")
    return flags


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parser().parse_args(arguments)
    facts, progress = common.machine(), common.Progress()
    path = options.json = options.json or common.results_path("recipe", facts)
    results: dict[str, Any] = json.loads(path.read_text())["results"] if path.exists() else {}
    jobs = jobs_of(choose_recipes(options.recipes), options.seeds, options.steps, results)
    _, foreign = foreign_load(lambda: search(jobs, options.cores, results, path, progress))
    show(results)
    common.finish("recipe", options, facts, foreign, results)


if __name__ == "__main__":
    sys.exit(main())

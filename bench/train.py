# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure training end to end: agent-steps/s, the time split, and the gain over a naive loop.

    python bench/train.py                                speed of all presets, and the naive loop
    python bench/train.py --parts ladder --envs tag_grid --seconds 5
    python bench/train.py --device cuda

Each line has the facts on which the figure depends: floats per observation, the policy's
parameters, and the replay ratio (samples learned from per collected sample). Each sample starts new
workers and a new policy; its first fifth is not measured.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, loops, runs
from puffervec.train.device.device import choose_device
from puffervec.train.metrics.keys import TIME_PARTS

PARTS = ("speed", "ladder")
NAIVE, TRAINER = "naive", "the trainer"


# ---- speed ---------------------------------------------------------------------------------------


def overlap(sample: Mapping[str, Any], simulation_s: float) -> float | None:
    """Return the time of an iteration / (2 x the longer of simulation and policy on one half).

    The result is None without two buffers.
    """
    if sample["facts"]["buffers"] < 2:
        return None
    return float(sample["iteration_s"] / (2 * max(simulation_s, sample["policy_half_s"])))


def measure_speed(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Measure all runs; return the results and the share of foreign load."""
    names = options.runs or list(runs.RUNS)
    configs = {name: runs.config_of(runs.RUNS[name], options.device) for name in names}
    variants = {
        name: functools.partial(runs.train, config, options.seconds)
        for name, config in configs.items()
    }
    measured = common.interleave(variants, options.repeats, note, options.attempts)
    results = {}
    for name, samples in measured.results.items():
        half_s = runs.simulation_half_s(configs[name])
        overlaps = [value for sample in samples if (value := overlap(sample, half_s)) is not None]
        results[name] = {
            "facts": samples[0]["facts"],
            "agent_steps_per_s": common.figure(sample["agent_steps_per_s"] for sample in samples),
            "env_steps_per_s": common.figure(sample["env_steps_per_s"] for sample in samples),
            "shares": {
                part: common.figure(sample["shares"][part] for sample in samples)
                for part in TIME_PARTS
            },
            "simulation_half_s": half_s,
            "overlap": common.figure(overlaps) if overlaps else None,
        }
    return results, measured.foreign


def show_speed(results: Mapping[str, Any]) -> None:
    """Print the table of speeds."""
    rows = []
    for name, result in results.items():
        facts, shares = result["facts"], result["shares"]
        split = ", ".join(f"{part} {100 * shares[part].median:.0f}%" for part in TIME_PARTS)
        rows.append((name, split, str(result["agent_steps_per_s"]), *runs.fact_cells(facts),
                     "-" if result["overlap"] is None
                     else f"{result['overlap'].median:.2f}"))  # fmt: skip
    columns = ("run", "time", "agent-steps/s", *runs.FACT_COLUMNS, "overlap")
    notes = [
        "overlap: time of an iteration / (2 x the longer of: all cores simulating one half, "
        "policy on one half)"
    ]
    common.print_table("training end to end", columns, rows, notes)


# ---- the naive loop ------------------------------------------------------------------------------


def measure_ladder(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Measure agent-steps/s of the naive loop and of the trainer by env, and their ratio."""
    results, worst = {}, 0.0
    for env in options.envs:
        config = runs.config_of(runs.RUNS[env], options.device)
        variants = {
            NAIVE: functools.partial(loops.measure, config, options.seconds),
            TRAINER: functools.partial(runs.train, config, options.seconds),
        }
        measured = common.interleave(
            variants,
            options.repeats,
            lambda text, env=env: note(f"{env}: {text}"),
            options.attempts,
        )
        worst = max(worst, measured.foreign)
        results[env] = ladder_rows(measured.results)
    return results, worst


def ladder_rows(samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return a row per variant. Args: samples: one per repeat, by variant, the naive loop first."""
    rates = {
        label: [float(sample["agent_steps_per_s"]) for sample in repeats]
        for label, repeats in samples.items()
    }
    return [
        {
            "label": label,
            "facts": samples[label][0]["facts"],
            "agent_steps_per_s": common.figure(own),
            "over_naive": common.ratio(own, rates[NAIVE]),
        }
        for label, own in rates.items()
    ]


def show_ladder(results: Mapping[str, Any]) -> None:
    """Print a table."""
    cells = [
        (env, row["label"], str(row["agent_steps_per_s"]), str(row["over_naive"]),
         *runs.fact_cells(row["facts"]))
        for env, rows in results.items()
        for row in rows
    ]  # fmt: skip
    columns = ("env", "what", "agent-steps/s", "x naive", *runs.FACT_COLUMNS)
    common.print_table("a naive loop and the trainer", columns, cells)


# ---- the command ---------------------------------------------------------------------------------

MEASURES = {
    "speed": (measure_speed, show_speed),
    "ladder": (measure_ladder, show_ladder),
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    flags = common.parser(__doc__)
    common.add_flags(flags, "train-<parts>", 20.0)
    flags.add_argument(
        "--parts", default="speed,ladder", help=f"from {','.join(PARTS)} (default: %(default)s)"
    )
    flags.add_argument("--runs", help="runs of the part speed (default: all)")
    flags.add_argument(
        "--envs", default="tag_grid,drive", help="runs beside the naive loop (default: %(default)s)"
    )
    flags.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: %(default)s)")
    return flags


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parser().parse_args(arguments)
    progress, results, worst = common.Progress(), {}, 0.0
    options.parts = common.names("--parts", options.parts, PARTS)
    options.runs = (
        None if options.runs is None else common.names("--runs", options.runs, [*runs.RUNS])
    )
    options.envs = common.names("--envs", options.envs, [*runs.RUNS])
    choose_device(options.device)
    for part in options.parts:
        measure, show = MEASURES[part]
        results[part], foreign = measure(options, progress)
        worst = max(worst, foreign)
        show(results[part])
    common.finish(f"train-{'-'.join(options.parts)}", options, common.machine(), worst, results)


if __name__ == "__main__":
    sys.exit(main())

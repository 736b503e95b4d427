# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compare backends, threads of the policy and numbers of buffers: a part of bench/train.py.

    python bench/train.py --parts presets --seconds 5

Trains the presets end to end with these settings changed, to compare what `auto` chooses with the
best choice. Updates always run on all cores; "1 thread" and "all threads" are for the policy in
rollouts, while workers simulate. Runs in the learner.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from bench import common, runs
from puffervec.train import Trainer
from puffervec.train.device.device import ThreadPool

AUTO = "auto: what a run chooses"


@dataclasses.dataclass(frozen=True)
class Setting:
    """vec: overrides the preset's table; one_thread: rollouts run the policy on one thread, else
    on all cores.
    """

    vec: Mapping[str, Any]
    one_thread: bool


def settings() -> dict[str, Setting]:
    """Return all combinations by label, beginning with the unchanged preset."""
    ways: dict[str, dict[str, Any]] = {
        "in-process, 1 buffer": {"backend": "serial", "num_buffers": 1},
        "threads, 1 buffer": {"backend": "threading", "num_buffers": 1},
        "threads, 2 buffers": {"backend": "threading", "num_buffers": 2},
        "processes, 1 buffer": {"backend": "multiprocessing", "num_buffers": 1},
        "processes, 2 buffers, split workers": {
            "backend": "multiprocessing",
            "num_buffers": 2,
            "split": "workers",
        },
        "processes, 2 buffers, split envs": {
            "backend": "multiprocessing",
            "num_buffers": 2,
            "split": "envs",
        },
    }
    found = {AUTO: Setting({}, False)}
    for label, vec in ways.items():
        found |= {
            f"{label}; all threads": Setting(vec, False),
            f"{label}; 1 thread": Setting(vec, True),
        }
    return found


def sample(run: runs.Run, setting: Setting, seconds: float) -> dict[str, Any]:
    """Train a fresh run on the CPU for about `seconds`; see `runs.trained`."""
    config = runs.config_of(run, "cpu").merged({"vec": setting.vec})
    return runs.trained(config, seconds, one_thread if setting.one_thread else lambda trainer: None)


def one_thread(trainer: Trainer) -> None:
    """Let rollouts run the policy on one thread; the update keeps its threads."""
    trainer.collector.rollout.pool = ThreadPool(1)


def measure_presets(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Return a row per setting, by env, the fastest first, and how much of the machine others took."""
    results, worst = {}, 0.0
    for env in options.envs:
        variants = {
            label: functools.partial(sample, runs.RUNS[env], setting, options.seconds)
            for label, setting in settings().items()
        }
        found = common.interleave(
            variants,
            options.repeats,
            lambda text, env=env: note(f"{env}: {text}"),
            options.attempts,
        )
        worst = max(worst, found.foreign)
        results[env] = rows(found.results)
    return results, worst


def rows(samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return a row per setting, the fastest first. samples: one per repeat."""
    rates = {
        label: [float(one["agent_steps_per_s"]) for one in taken]
        for label, taken in samples.items()
    }
    found = [
        {
            "label": label,
            "facts": taken[0]["facts"],
            "runs": sorted(
                {one["facts"]["description"] for one in taken}
            ),  # auto may choose differently each time
            "agent_steps_per_s": common.figure(rates[label]),
            "over_auto": common.ratio(rates[label], rates[AUTO]),
        }
        for label, taken in samples.items()
    ]
    return sorted(found, key=lambda row: -row["agent_steps_per_s"].median)


def show_presets(results: Mapping[str, Any]) -> None:
    """Print a table per env."""
    for env, table in results.items():
        cells = [
            (
                row["label"],
                str(row["agent_steps_per_s"]),
                str(row["over_auto"]),
                *runs.fact_cells(row["facts"]),
            )
            for row in table
        ]
        chosen = next(row["runs"] for row in table if row["label"] == AUTO)
        columns = ("setting", "agent-steps/s", "x auto", *runs.FACT_COLUMNS)
        common.print_table(
            f"{env}: settings of a CPU, end to end",
            columns,
            cells,
            [f"auto: {line}" for line in chosen],
        )


def panels(results: Mapping[str, Any]) -> list[runs.Panel]:
    """Return a panel per env."""
    return runs.bar_panels(results, "settings of a CPU")

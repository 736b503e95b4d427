# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the effect of `train.plan` on the time of a half's turn in rollouts on a CPU.

A turn is everything between `recv` and `send` of a half: its rows are copied into the storage, the
policy runs, actions are sampled and written for the env. Both modes collect rollouts of the same
env in this process, in turn; a sample is the median over rollouts of the time per turn. Policies
use float32.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.common import Figure
from puffervec.doors import policy_wrapper
from puffervec.errors import ConfigError
from puffervec.train.collect.rollout import Rollout
from puffervec.train.collect.storage import Slot, storage_of
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import ThreadPool, one_torch_thread
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run.setup import make_vec

HORIZON, ROLLOUTS = 16, 4
CPU = torch.device("cpu")
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("cartpole", {}),
    "CartPole-v1": ("CartPole-v1", {}),
    "tag_grid": ("tag_grid", {}),
    "tag_grid, mingru": ("tag_grid", {"policy": {"memory": "mingru"}}),
    "drive": ("drive", {"env": {"scenes": "generated:20"}}),
    "drive, pictures": (
        "drive",
        {
            "env": {"scenes": "generated:20", "raster": 32, "raster_alone": 1},
            "vec": {"num_envs": 8},
        },
    ),
}
COLUMNS = ("case", "rows", "eager us", "arena us", "arena / eager", "bytes of plans")


@dataclasses.dataclass(frozen=True)
class Result:
    """One line of the table, with times per turn of a half in microseconds.

    Attributes:
        rows: rows of a half.
        ratio: ratio of the times of the same repeat.
    """

    case: str
    rows: int
    eager_us: Figure
    arena_us: Figure
    ratio: Figure
    bytes: int


def rollout_of(config: TrainConfig, mode: str, pool: ThreadPool) -> Rollout:
    """Return a started rollout of an env in this process."""
    vec, slots = make_vec(config), {}
    torch.manual_seed(0)
    for name, rows in RunSpec.of(config).rows.items():
        storage = storage_of(rows, config.vec.num_envs, HORIZON, CPU, False)
        slots[name] = Slot(
            name, rows.build(), rows.group, storage, rows.agents, policy_wrapper(mode)
        )
    rollout = Rollout(vec, slots, CPU, False, torch.Generator().manual_seed(1), pool)
    rollout.begin(1)
    rollout.collect()  # Makes the plans.
    return rollout


def turn_us(rollout: Rollout) -> float:
    """Measure the time of a turn, as median of some rollouts."""
    times = []
    for _ in range(ROLLOUTS):
        before = rollout.times.forward + rollout.times.copy
        rollout.collect()
        times.append(rollout.times.forward + rollout.times.copy - before)
    return 1e6 * statistics.median(times) / HORIZON / len(rollout.turns)


def measure(
    name: str, options: argparse.Namespace, pool: ThreadPool, note: common.Progress
) -> tuple[Result, float]:
    """Measure a policy; return its line and the share of foreign load."""
    target, tables = CASES[name]
    fixed = {"train": {"precision": "fp32"}, "vec": {"backend": "serial"}}
    config = TrainConfig.of(target, **tables).merged(fixed)
    with contextlib.ExitStack() as stack:
        rollouts = {mode: rollout_of(config, mode, pool) for mode in ("eager", "arena")}
        for rollout in rollouts.values():
            stack.enter_context(rollout.vec)
        runs = common.interleave(
            {mode: partial(turn_us, rollout) for mode, rollout in rollouts.items()},
            options.repeats, lambda text: note(f"{name}: {text}"), options.attempts,
        )  # fmt: skip
        eager, arena = runs.results["eager"], runs.results["arena"]
        slots = rollouts["arena"].slots.values()
        rows = sum(slot.storage.rows for slot in slots) // len(rollouts["arena"].turns)
        held = sum(slot.acting.nbytes for slot in slots)
    return Result(
        name, rows, common.figure(eager), common.figure(arena), common.ratio(arena, eager), held
    ), runs.foreign


def markdown(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of docs/plan.md. Args: results: the results of a JSON file."""
    rows = []
    for one in results:
        eager, ratio = (str(common.Figure(**one[key])) for key in ("eager_us", "ratio"))
        size = f"{one['bytes'] / 2**10:,.0f} KiB"
        rows.append((one["case"], f"{one['rows']:,}", eager, ratio, size))
    columns = ("rollouts of", ">rows of a half", ">eager, us", ">arena, of eager", ">plans")
    return common.markdown(columns, rows)


@common.command
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    flags = argparse.ArgumentParser(
        description="Turns of a half on a CPU, as they stand and in planned memory."
    )
    common.add_flags(flags, "plan-turns", seconds=0.0)
    flags.add_argument(
        "--cases", default="/".join(CASES), help="separated by / (default: %(default)s)"
    )
    flags.add_argument(
        "--threads", type=int, default=2, help="that run pieces of a half (default: %(default)s)"
    )
    options = flags.parse_args(argv)
    if unknown := [name for name in options.cases.split("/") if name not in CASES]:
        raise ConfigError(f"--cases has {unknown[0]!r}: use some of {'/'.join(CASES)}")
    facts, note = common.machine(), common.Progress()
    results, foreign, pool = [], 0.0, ThreadPool(options.threads)
    with one_torch_thread(), contextlib.closing(pool):
        for name in options.cases.split("/"):
            line, others = measure(name, options, pool, note)
            results, foreign = [*results, line], max(foreign, others)
    rows = [
        [r.case, f"{r.rows:,}", str(r.eager_us), str(r.arena_us), str(r.ratio), f"{r.bytes:,}"]
        for r in results
    ]  # fmt: skip
    common.print_table("A turn of a half", COLUMNS, rows)
    common.finish(
        "plan-turns", options, facts, foreign, [dataclasses.asdict(result) for result in results]
    )


if __name__ == "__main__":
    sys.exit(main())

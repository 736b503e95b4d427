# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the cost of a vector step in the learner's process.

The trainer's rollout loop runs with an env that does nothing and a trivial policy.

    python bench/host.py                  the loop for a CPU, and that for a GPU on a CPU
    python bench/host.py --device cuda    the loop for a GPU: one graph per half

A vector step is one half's turn: receive its rows, act, send. On CUDA `host` excludes the wait for
the actions, during which the learner is idle. On a CPU there is no such wait, and the loop for a
GPU runs each operation that a graph would contain.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import Tensor, nn

from bench import common
from bench.common import Figure
from bench.workloads import Workload
from puffervec.train.collect.rollout import Rollout, Times
from puffervec.train.collect.storage import Slot, Storage
from puffervec.train.device.device import ThreadPool, choose_device, one_torch_thread

HORIZON = 64
HALVES = 2
WARM_ROLLOUTS = 2  # On CUDA, the third turn of a half is captured.
TARGET_US = 60.0  # Target for the host, on CUDA.
LOOPS = {
    "cpu": {"a CPU's loop": False, "a GPU's loop, on a CPU": True},
    "cuda": {"a GPU's loop": True},
}


class Trivial(nn.Module):
    """A policy with the same logits for all rows, and the first logit as value."""

    def __init__(self, choices: int) -> None:
        """Make the logits. Args: choices: number of choices of the action."""
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(choices))

    def initial_state(self, rows: int) -> tuple[Tensor, ...]:
        """Return no state, since the policy has no memory."""
        return ()

    def forward(
        self, obs: Any, state: Any, reset: Any, mask: Any
    ) -> tuple[tuple[Tensor, ...], Tensor, tuple[Tensor, ...]]:
        """Return logits and values, as in puffervec/train/policies/protocol.py."""
        logits = self.logits.expand(len(obs), -1)
        return (logits,), logits[:, 0], ()


@dataclass(frozen=True)
class Cost:
    """The microseconds per vector step of one loop.

    Attributes:
        host: all parts except the wait for the device.
        target: upper limit of host.
    """

    loop: str
    host: Figure
    receive_and_send: Figure
    act: Figure
    wait: Figure
    target: float | None

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.host.median < self.target


def sample(device: torch.device, device_turns: bool, seconds: float) -> dict[str, float]:
    """Collect rollouts for about `seconds`; return the microseconds per vector step by part."""
    workload = Workload("probe", "probe", {"episode_length": 100}, num_envs=HALVES)
    with workload.make("serial", num_buffers=HALVES) as vec:
        (group,) = vec.spec.groups
        storage = Storage(group, HORIZON, group.agents * HALVES, device, None)
        policy = Trivial(sum(storage.spec.sizes)).to(device)
        slots = {group.name: Slot(group.name, policy, group, storage)}
        generator = torch.Generator(device)
        rollout = Rollout(vec, slots, device, False, generator, ThreadPool(1), device_turns)
        rollout.begin(0)
        for _ in range(WARM_ROLLOUTS):
            rollout.collect()
        rollout.times, turns = Times(), 0
        begin = time.perf_counter()
        while not turns or time.perf_counter() - begin < seconds:
            rollout.collect()
            turns += HORIZON * HALVES
        total = time.perf_counter() - begin
        rollout.episodes.clear()
    wait = rollout.times.forward if device.type == "cuda" else 0.0
    act = rollout.times.copy + rollout.times.forward - wait
    parts = {"host": total - wait, "receive_and_send": rollout.times.env, "act": act, "wait": wait}
    return {name: 1e6 * spent / turns for name, spent in parts.items()}


def run(
    device: torch.device, options: argparse.Namespace, note: Callable[[str], None]
) -> tuple[list[Cost], float]:
    """Measure the loops of a device in turns; return the table and the share of foreign load."""
    loops = LOOPS[device.type]
    variants = {
        name: functools.partial(sample, device, turns, options.seconds)
        for name, turns in loops.items()
    }
    runs = common.interleave(variants, options.repeats, note, options.attempts)
    target = TARGET_US if device.type == "cuda" else None
    costs = []
    for name, samples in runs.results.items():
        figures = {part: common.figure(one[part] for one in samples) for part in samples[0]}
        costs.append(Cost(loop=name, target=target, **figures))
    return costs, runs.foreign


def show(costs: Sequence[Cost]) -> None:
    """Print the table of results."""
    rows = [
        (
            cost.loop,
            str(cost.host),
            str(cost.receive_and_send),
            str(cost.act),
            str(cost.wait),
            common.number(cost.target),
        )
        for cost in costs
    ]
    common.print_table(
        "a vector step of the learner's loop, us",
        ("loop", "host", "receive, send", "act", "wait", "target: host below"),
        rows,
        [
            f"an env that does nothing, in this process; one row per half; rollouts of {HORIZON} "
            "steps"
        ],
    )


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    common.add_flags(flags, "host", 2.0)
    flags.add_argument("--device", default="cpu", help="cpu, cuda or auto (default: %(default)s)")
    options = flags.parse_args(arguments)
    with one_torch_thread():
        costs, foreign = run(choose_device(options.device), options, common.Progress())
    show(costs)
    results = [{**asdict(cost), "met": cost.met} for cost in costs]
    common.finish("host", options, common.machine(), foreign, results)


if __name__ == "__main__":
    sys.exit(main())

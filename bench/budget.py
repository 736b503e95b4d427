# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure where the time of training goes: envs, policy, gradient steps, and matrix products alone.

    python bench/budget.py
    python bench/budget.py --cases CartPole-v1,drive

Everything runs in one thread and one process, and counts CPU time, so that other programs disturb
little. The matrix products of a gradient step are recorded and repeated into memory that is
allocated once: no way of computing these gradients with PyTorch's products is faster. "at most" is
the speed-up of training that would result if all but the envs and the products cost nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench import common, runs
from puffervec.train import TrainConfig, Trainer
from puffervec.train.device.device import one_torch_thread
from puffervec.train.run.setup import make_vec

ALONE = {
    "vec": {"backend": "serial", "num_buffers": 1},
    "train": {"threads": 1, "precision": "fp32"},
}
CASES = {
    # As bench/peers_train.py trains with identical settings.
    "CartPole-v1": runs.Run(
        "CartPole-v1",
        {
            "vec": {"num_envs": 16},
            "train": {"horizon": 128, "update_epochs": 6, "minibatch_size": 256},
        },
    ),
    **{name: runs.Run(name, {}) for name in ("tag_continuous", "tag_grid", "drive")},
}
PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default)
WARM_UP = 2  # Iterations, or calls, before the measured ones.
CALLS = 15  # Timed calls, whose median counts.
COLUMNS = (
    "training",
    "agent-steps/s",
    "envs",
    "rest of rollouts",
    "update",
    "operations",
    "products",
    "GFLOP/s",
    "at most",
)
NOTES = (
    "operations: of PyTorch per gradient step; products: their share of a gradient step's time",
    "GFLOP/s: of the products alone, in one thread; at most: speed-up if all else cost nothing",
)


class Products(TorchDispatchMode):
    """Records the matrix products that run inside, and repeats them alone.

    Attributes:
        operations: number of all operations that ran inside.
        flops: floating-point operations of the products.
    """

    def __init__(self) -> None:
        """Start without products."""
        super().__init__()
        self.operations, self.flops = 0, 0
        self._calls: list[Callable[[], object]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and record it if it is a product."""
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        if func in PRODUCTS:
            left, right = args[-2:]
            multiply = torch.bmm if left.dim() == 3 else torch.mm
            self._calls.append(
                functools.partial(
                    multiply, left.detach(), right.detach(), out=torch.empty_like(result)
                )
            )
            self.flops += 2 * left.numel() * right.shape[-1]
        return result

    def run(self) -> None:
        """Repeat the products."""
        for call in self._calls:
            call()


def cpu_s_once(work: Callable[[], object]) -> float:
    """Return the CPU time of one call in this thread, in seconds."""
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def cpu_s(work: Callable[[], object], calls: int = CALLS) -> float:
    """Return the median CPU time of a call in this thread, in seconds."""
    times = [cpu_s_once(work) for _ in range(WARM_UP + calls)]
    return statistics.median(times[WARM_UP:])


def envs_s(config: TrainConfig) -> float:
    """Return the CPU time of a rollout's steps without a policy, in seconds."""
    with make_vec(config) as vec:
        vec.async_reset(seed=1)
        vec.recv()
        actions = vec.action_space.sample()

        def rollout() -> None:
            for _ in range(config.train.horizon):
                vec.send(actions)
                vec.recv()

        return cpu_s(rollout)


def sample(run: runs.Run, iterations: int) -> dict[str, float]:
    """Train a fresh run for some iterations and measure its parts; see COLUMNS."""
    config = runs.config_of(run, "cpu").merged(ALONE)
    with (
        one_torch_thread(),
        tempfile.TemporaryDirectory() as folder,
        Trainer(config.merged({"log": {"folder": folder}})) as trainer,
    ):
        trainer.begin(1)
        collects, updates = [], []
        for _ in range(WARM_UP + iterations):
            collects.append(cpu_s_once(trainer.collect))
            updates.append(cpu_s_once(trainer.update))
        collect_s = statistics.median(collects[WARM_UP:])
        update_s = statistics.median(updates[WARM_UP:])
        step_s = products_s = all_products_s = 0.0
        operations = flops = 0
        for updater in trainer.learner.updaters.values():
            samples = updater._samples(behind=False)
            part = updater._parts(samples, lambda: False)[0][0]
            step = functools.partial(updater._gradient_step, samples, part)
            step_s += cpu_s(step)
            with Products() as products:
                step()
            with torch.no_grad():
                alone_s = cpu_s(products.run)
            products_s += alone_s
            steps = updater.section.update_epochs * updater.minibatches
            # A rollout runs the forward third of the products of one epoch.
            all_products_s += alone_s * (steps + updater.minibatches / 3)
            operations, flops = operations + products.operations, flops + products.flops
        rows = sum(slot.storage.rows for slot in trainer.slots.values()) * config.train.horizon
    stepping_s = min(envs_s(config), collect_s)
    whole_s = collect_s + update_s
    return {
        "agent_steps_per_s": rows / whole_s,
        "envs": stepping_s / whole_s,
        "rollouts": (collect_s - stepping_s) / whole_s,
        "update": update_s / whole_s,
        "operations": operations,
        "products": products_s / step_s,
        "gflops": flops / products_s / 1e9,
        "at_most": whole_s / (stepping_s + all_products_s),
    }


def cells(results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a row of text per case, in the order of COLUMNS."""
    return [
        (
            name,
            common.number(row["agent_steps_per_s"]["median"]),
            *(f"{100 * row[key]['median']:.0f}%" for key in ("envs", "rollouts", "update")),
            f"{row['operations']['median']:.0f}",
            f"{100 * row['products']['median']:.0f}%",
            f"{row['gflops']['median']:.0f}",
            f"{row['at_most']['median']:.1f}x",
        )
        for name, row in results.items()
    ]


def markdown(results: Mapping[str, Any]) -> str:
    """Return the results as a Markdown table."""
    columns = (COLUMNS[0], *(f">{column}" for column in COLUMNS[1:]))
    return common.markdown(columns, cells(results))


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    common.add_flags(flags, "budget", seconds=0.0)
    flags.add_argument("--cases", default=",".join(CASES), help="(default: %(default)s)")
    flags.add_argument(
        "--iterations", type=int, default=6, help="of each training (default: %(default)s)"
    )
    options = flags.parse_args(arguments)
    progress = common.Progress()
    variants = {
        name: functools.partial(sample, CASES[name], options.iterations)
        for name in common.names("--cases", options.cases, CASES)
    }
    measured = common.interleave(variants, options.repeats, progress, options.attempts)
    results = {
        name: {
            key: dataclasses.asdict(common.figure(one[key] for one in samples))
            for key in samples[0]
        }
        for name, samples in measured.results.items()
    }
    common.print_table("CPU time of training in one thread", COLUMNS, cells(results), NOTES)
    common.finish("budget", options, common.machine(), measured.foreign, results)


if __name__ == "__main__":
    sys.exit(main())

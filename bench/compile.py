# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the gain of `torch.compile` in an update on a CPU.

An update is forward, loss and backward of one microbatch, eager and compiled.

    python bench/compile.py

The eager variant uses the loss in C wherever the trainer does, at any number of rows; the column
"loss" says which one ran. The compiled variant uses torch's loss, fused with the network. Both run
on one thread, as in the trainer's pool. Figures are CPU time, which other processes disturb less. A
sample is the median over many microbatches, on which the two variants take turns. The cost of
compiling is measured once per case, with an empty cache, helper processes included. "Pays after" is
the eager update time after which compiling has saved as much as it cost.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import nn

from bench import common
from bench.common import Figure
from puffervec.train import TrainConfig
from puffervec.train.collect.storage import Storage
from puffervec.train.config import target
from puffervec.train.config.algorithms import Loss
from puffervec.train.device.device import one_torch_thread
from puffervec.train.learn.compiled import CompiledLoss, missing_compiler
from puffervec.train.learn.ppo_loss import _Loss, ppo_loss
from puffervec.train.learn.samples import Batch, samples_of
from puffervec.train.policies.distributions import ActionSpec
from puffervec.train.policies.registry import build_policy

COLUMNS = (
    "case",
    "precision",
    "samples",
    "parameters",
    "loss",
    "eager, ms",
    "compiled, ms",
    "ratio",
    "compiling, s",
    "pays after, s",
)
CPU = torch.device("cpu")
FUSED = f"{_Loss.__name__}Backward"  # torch's name of the gradient of the loss in C.


@dataclasses.dataclass(frozen=True)
class Case:
    """A policy and its microbatch."""

    name: str
    env: str
    samples: int
    bf16: bool = False
    hidden: tuple[int, ...] | None = None  # None: the preset's widths.


CASES = (
    Case("drive, object sets", "drive", 1024, bf16=True),
    Case("drive, object sets", "drive", 1024),
    Case("tag_grid, MLP 32 32", "tag_grid", 25_600, bf16=True),
    Case("tag_grid, MLP 32 32", "tag_grid", 25_600),
    Case("cartpole, MLP 64 64", "cartpole", 256, hidden=(64, 64)),
)


@dataclasses.dataclass(frozen=True)
class Result:
    """One line of the table.

    Attributes:
        loss: implementation of the loss in the eager variant, C or torch.
        ratio: compiled / eager, of the same repeat.
        pays_after_s: see above; None if compiling never pays.
    """

    case: Case
    parameters: int
    loss: str
    eager_ms: Figure
    compiled_ms: Figure
    ratio: Figure
    compiling_s: float
    pays_after_s: float | None


def gradients_of(case: Case) -> tuple[Callable[[Loss], object], int]:
    """Return a function that computes gradients, and the number of parameters.

    The gradients are those of a microbatch of random rows.
    """
    tables = {} if case.hidden is None else {"policy": {"hidden": case.hidden}}
    scenes = (
        {"scenes": "generated"} if case.env == "drive" else {}
    )  # rows like the preset's, and quicker to make
    config = TrainConfig.of(case.env, env=scenes, **tables)
    group = target.env_spec(config).groups[0]
    torch.manual_seed(1)
    policy = build_policy(group, config.policy)
    storage = Storage(group, 1, case.samples, CPU, torch.bfloat16 if case.bf16 else None)
    for tensor in storage.obs.values():
        if tensor.is_floating_point():
            tensor.uniform_(-1, 1)
    valid = torch.ones(1, case.samples, dtype=torch.uint8)
    samples = samples_of(storage, torch.randn(1, case.samples), valid, memory=False, pad=case.bf16)
    batch = samples.cut(torch.arange(case.samples), case.samples)[0]()
    parameters = list(policy.parameters())

    def gradients(loss: Loss) -> object:
        total, _ = loss(policy, storage.spec, batch, config.train, case.bf16)
        return torch.autograd.grad(total / case.samples, parameters, allow_unused=True)

    return gradients, sum(p.numel() for p in parameters)


def loss_of(gradients: Callable[[Loss], object]) -> str:
    """Return the implementation of the loss in the eager variant: C or torch."""
    kinds = []

    def loss(
        policy: nn.Module, spec: ActionSpec, batch: Batch, section: Any, bf16: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        total, sums = ppo_loss(policy, spec, batch, section, bf16)
        kinds.append("C" if type(total.grad_fn).__name__ == FUSED else "torch")
        return total, sums

    gradients(loss)
    return kinds[0]


def medians_ms(works: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """Call the functions in turn; return the median CPU milliseconds of each.

    This takes about `seconds`, and each is called at least 3 times.
    """
    times: list[list[float]] = [[] for _ in works]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[-1]) < 3:
        for work, samples in zip(works, times, strict=True):
            begin = time.thread_time()
            work()
            samples.append(1e3 * (time.thread_time() - begin))
    return [statistics.median(samples) for samples in times]


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its finished children."""
    return sum(os.times()[:4])


def measure(
    case: Case, seconds: float, repeats: int, backend: Any, note: Callable[[str], None]
) -> tuple[Result, float]:
    """Measure a case; return its result and the share of the machine that other processes took."""
    gradients, parameters = gradients_of(case)
    loss = CompiledLoss(ppo_loss, CPU, must=True, backend=backend)
    note(f"{case.name}: compiling")
    begin = cpu_s()
    gradients(loss)
    compiling_s = cpu_s() - begin
    kind = loss_of(gradients)
    works = (lambda: gradients(ppo_loss), lambda: gradients(loss))
    runs = common.interleave(
        {"both": lambda: medians_ms(works, seconds)},
        repeats,
        lambda text: note(f"{case.name}: {text}"),
    )
    eager, fast = zip(*runs.results["both"], strict=True)
    share = common.ratio(fast, eager)
    pays = compiling_s / (1 - share.median) if share.median < 1 else None
    return Result(
        case, parameters, kind, common.figure(eager), common.figure(fast), share, compiling_s, pays
    ), runs.foreign


def main(
    argv: Sequence[str] | None = None, cases: Sequence[Case] = CASES, backend: Any = "inductor"
) -> int:
    """Run the benchmark and return the exit status."""
    flags = argparse.ArgumentParser(description="Updates of a CPU with and without torch.compile.")
    common.add_flags(flags, "compile", seconds=1.0)
    options = flags.parse_args(argv)
    if backend == "inductor" and (missing := missing_compiler(CPU)):
        print(f"compile.py: {missing}", file=sys.stderr)
        return 1
    facts, note = common.machine(), common.Progress()
    results: list[Result] = []
    foreign = 0.0
    with tempfile.TemporaryDirectory() as cache, one_torch_thread():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        for case in cases:
            result, others = measure(case, options.seconds, options.repeats, backend, note)
            results.append(result)
            foreign = max(foreign, others)
    common.print_table(
        "Forward, loss and backward of a microbatch, one thread",
        COLUMNS,
        [_row(result) for result in results],
    )
    common.finish(
        "compile", options, facts, foreign, [dataclasses.asdict(result) for result in results]
    )
    return 0


def _row(result: Result) -> list[str]:
    case = result.case
    figures = (str(figure) for figure in (result.eager_ms, result.compiled_ms, result.ratio))
    return [
        case.name,
        "bf16" if case.bf16 else "fp32",
        f"{case.samples:,}",
        f"{result.parameters:,}",
        result.loss,
        *figures,
        common.number(result.compiling_s),
        common.number(result.pays_after_s) if result.pays_after_s is not None else "never",
    ]


if __name__ == "__main__":
    sys.exit(main())

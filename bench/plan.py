# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure the effect of a plan of a policy's memory on latency, bytes and allocations.

Calls of a policy with one batch of observations are timed in all modes of puffervec/wings/plan, in
turn; a sample is the median of its calls, each of which copies the observations and the state (if
any) to the buffers. torch's kernels have one thread, as for the pieces of a rollout. "bytes" is the
size of a mode's fixed buffers; in mode arena, of the whole arena. "allocations" counts those of
torch, per call, after a warm-up.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_map

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from bench.common import Figure
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import one_torch_thread
from puffervec.train.policies.leaves import TORCH_DTYPES, arrays, policy_input
from puffervec.train.policies.run_spec import RunSpec
from puffervec.wings import plan

BATCHES = (1, 64, 1024)
MODES = ("eager", "arena", "compile")
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "mlp": ("tag_grid", {"hidden": (64, 64)}),
    "mingru": ("tag_grid", {"hidden": (64, 64), "memory": "mingru"}),
    "lstm": ("tag_grid", {"hidden": (64, 64), "memory": "lstm"}),
    "set encoder": ("drive", {}),
    "nature cnn": ("", {}),
}
MOST_CALLS = 2000  # Calls per sample.
COLUMNS = ("policy", "mode", "rows", "us", "of eager", "bytes", "allocations", "ready in s")


@dataclasses.dataclass(frozen=True)
class Result:
    """One line of the table.

    Attributes:
        of_eager: ratio of the time to that of the policy itself, of the same repeat.
        ready_s: seconds until the first result.
        difference: largest difference of the outputs, relative for numbers above 1.
        separate, aliased, bound: sizes of an arena, see puffervec/wings/plan/arena.py.
    """

    policy: str
    mode: str
    rows: int
    us: Figure
    of_eager: Figure
    bytes: int
    allocations: float
    ready_s: float
    difference: float = 0.0
    separate: int = 0
    aliased: int = 0
    bound: int = 0


def nature_cnn() -> nn.Module:
    """Return the network of Mnih et al. 2015, for 84 x 84 x 4 pictures."""
    layers: list[nn.Module] = [
        nn.Conv2d(4, 32, 8, 4),
        nn.ReLU(True),
        nn.Conv2d(32, 64, 4, 2),
        nn.ReLU(True),
    ]
    layers += [
        nn.Conv2d(64, 64, 3),
        nn.ReLU(True),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(True),
        nn.Linear(512, 6),
    ]
    return nn.Sequential(*layers)


def make_policy(name: str, batch: int, device: torch.device) -> tuple[nn.Module, tuple[Any, ...]]:
    """Return a policy with fresh weights, and its arguments."""
    policy, args = _make_policy(name, batch)
    return policy.to(device), tree_map(
        lambda part: part.to(device) if isinstance(part, Tensor) else part, args
    )


def _make_policy(name: str, batch: int) -> tuple[nn.Module, tuple[Any, ...]]:
    target, settings = POLICIES[name]
    torch.manual_seed(0)
    if not target:
        return nature_cnn().eval(), (torch.rand(batch, 4, 84, 84),)
    config = TrainConfig.of(target, policy=settings)
    rows = next(iter(RunSpec.of(config).rows.values()))
    policy = rows.build().eval()
    obs = policy_input(
        {
            key: _numbers(batch, shape, TORCH_DTYPES[dtype])
            for key, (_, dtype, shape) in arrays(rows.group).items()
        }
    )
    state = policy.initial_state(batch)  # type: ignore[operator]
    return policy, (obs, state, torch.zeros(batch, dtype=torch.bool), None)


def _numbers(batch: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return (
        torch.rand(batch, *shape).to(dtype)
        if dtype.is_floating_point
        else torch.ones(batch, *shape, dtype=dtype)
    )


def callee(
    policy: nn.Module, args: tuple[Any, ...], mode: str
) -> tuple[Callable[[], object], plan.PolicyPlan | None]:
    """Return a call in a mode; mode `eager` is the policy itself, without fixed buffers."""
    if mode == "eager":

        def call() -> object:
            with torch.no_grad():
                return policy(*args)

        return call, None
    planned = plan.compile_policy(policy, args, mode, tolerance=1e-4)
    return partial(planned, *args), planned


def median_us(call: Callable[[], object], seconds: float, wait: Callable[[], object]) -> float:
    """Return the median of the calls of one sample, in microseconds.

    Args:
        wait: waits for the device.
    """
    call()
    wait()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < MOST_CALLS and (time.perf_counter() < end or len(times) < 5):
        begin = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - begin)
    return 1e6 * sorted(times)[len(times) // 2]


def allocations(call: Callable[[], object], runs: int = 10) -> float:
    """Return the number of allocations per call; on a GPU, torch's count of device memory."""
    call()
    if torch.cuda.is_available() and torch.cuda.memory_allocated():
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        for _ in range(runs):
            call()
        return float(torch.cuda.memory_stats()["allocation.all.allocated"] - before) / runs
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        for _ in range(runs):
            call()
    assert seen.profiler is not None
    events = seen.profiler.kineto_results.events()
    return sum(event.name() == "[memory]" and event.nbytes() > 0 for event in events) / runs


def measure(
    name: str,
    rows: int,
    modes: Sequence[str],
    options: argparse.Namespace,
    note: Callable[[str], None],
) -> tuple[list[Result], float]:
    """Measure all modes; return a line per mode and the share of foreign load."""
    policy, args = make_policy(name, rows, torch.device(options.device))
    wait = torch.cuda.synchronize if options.device == "cuda" else int
    calls, plans, ready = {}, {}, {}
    for mode in modes:
        begin = time.perf_counter()
        calls[mode], plans[mode] = callee(policy, args, mode)
        calls[mode]()
        ready[mode] = time.perf_counter() - begin
    samples = {
        mode: partial(median_us, call, options.seconds, wait) for mode, call in calls.items()
    }
    runs = common.interleave(
        samples,
        options.repeats,
        lambda text: note(f"{name}, {rows} rows: {text}"),
        options.attempts,
    )
    results = []
    for mode, call in calls.items():
        us, made_plan = runs.results[mode], plans[mode]
        line = Result(
            name, mode, rows, common.figure(us), common.ratio(us, runs.results["eager"]),
            0 if made_plan is None else made_plan.nbytes, allocations(call), ready[mode],
        )  # fmt: skip
        if made_plan is not None:
            line = dataclasses.replace(line, difference=made_plan.difference)
        if made_plan is not None and mode == "arena":
            arena = made_plan.arena
            line = dataclasses.replace(
                line, separate=arena.separate, aliased=arena.aliased, bound=arena.bound
            )
        results.append(line)
    return results, runs.foreign


@common.command
def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    flags = argparse.ArgumentParser(
        description="Calls of policies, as they stand and in planned memory."
    )
    common.add_flags(flags, "plan", seconds=0.3)
    flags.add_argument("--policies", default=",".join(POLICIES), help="default: %(default)s")
    flags.add_argument("--modes", help=f"default: {','.join(MODES)}; on a GPU all")
    flags.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    flags.add_argument(
        "--rows", default=",".join(map(str, BATCHES)), help="rows per call (default: %(default)s)"
    )
    options = flags.parse_args(argv)
    options.modes = options.modes or ",".join(MODES if options.device == "cpu" else plan.MODES)
    policies = common.names("--policies", options.policies, POLICIES)
    chosen = common.names("--modes", options.modes, plan.MODES)
    facts, note = common.machine(), common.Progress()
    results: list[Result] = []
    foreign = 0.0
    modes = tuple(dict.fromkeys(("eager", *chosen)))
    with one_torch_thread():
        for name in policies:
            for rows in map(int, options.rows.split(",")):
                lines, others = measure(name, rows, modes, options, note)
                results, foreign = [*results, *lines], max(foreign, others)
    common.print_table(
        "Calls of a policy, one thread", COLUMNS, [_row(result) for result in results]
    )
    common.finish(
        "plan", options, facts, foreign, [dataclasses.asdict(result) for result in results]
    )


def markdown(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of docs/plan.md. Args: results: the results of a JSON file."""
    columns = (
        "policy", ">rows", ">eager, us", ">arena, of eager", ">compile, of eager", ">allocations",
        ">one buffer per tensor", ">arena",
    )  # fmt: skip
    lines = []
    modes = {(one["policy"], one["rows"], one["mode"]): one for one in results}
    for one in results:
        if one["mode"] == "eager":
            arena, compiled = (
                modes[one["policy"], one["rows"], mode] for mode in ("arena", "compile")
            )
            ratios = [str(common.Figure(**found["of_eager"])) for found in (arena, compiled)]
            sizes = [f"{arena[key] / 2**10:,.1f} KiB" for key in ("separate", "bytes")]
            counts = (
                f"{one['allocations']:g} / {arena['allocations']:g} / {compiled['allocations']:g}"
            )
            eager = str(common.Figure(**one["us"]))
            lines.append((one["policy"], f"{one['rows']:,}", eager, *ratios, counts, *sizes))
    return common.markdown(columns, lines)


def _row(result: Result) -> list[str]:
    return [
        result.policy, result.mode, f"{result.rows:,}",
        str(result.us), str(result.of_eager), f"{result.bytes:,}",
        f"{result.allocations:g}", common.number(result.ready_s),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

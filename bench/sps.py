# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure steps/s: serial, threading, multiprocess and double-buffered, with and without a policy.

    python bench/sps.py                                    probe, tag_grid and drive, no policy
    python bench/sps.py --envs tag_grid --policy-ms auto   a wait as long as the simulation
    python bench/sps.py --envs tag_grid --workers 1,2,4    efficiency of the vector env
    python bench/sps.py --envs tag_grid --png t.png        a timeline

Efficiency is throughput / (cores x throughput of a single-thread C loop on the same rows), measured
in the same run with the same actions. "of ceiling" is throughput / that of simultaneous C loops,
one per core, each with its share of the envs: two cores together seldom do twice the work of one.
Overlap is the time of a double-buffered iteration / (2 x the longer of: all cores stepping one
half, policy on one half); 1.0 is perfect. Gain is the ratio of rows per second to multiprocess
without double buffering, repeat by repeat.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, trace
from bench.ceiling import c_loops
from bench.common import Figure
from bench.modes import Mode, PolicyChoice, Sample, baseline, measure, measure_half, modes, plan
from bench.workloads import (
    PRESETS,
    Shares,
    Workload,
    actions_of,
    c_loop,
    count_shares,
    missing,
    preset,
)
from puffervec.errors import ConfigError
from puffervec.system.cores import usable_cores

CALIBRATIONS = 3
COLUMNS = (
    "env",
    "mode",
    "policy",
    "workers",
    "env-steps/s",
    "agent-steps/s",
    "us/iteration",
    "us/turn",
    "efficiency",
    "of ceiling",
    "gain",
    "overlap",
)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A workload with the measurements that precede the timed repeats.

    Attributes:
        limit_s: seconds of one iteration of the C loop.
        policies: "none" and perhaps another one.
    """

    workload: Workload
    actions: Mapping[str, np.ndarray]
    shares: Shares
    limit_s: float
    policies: tuple[PolicyChoice, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table; figures that do not apply are None."""

    env: str
    num_envs: int
    mode: str
    policy: str
    workers: int | None
    num_buffers: int
    env_steps_per_s: Figure
    agent_steps_per_s: Figure
    iteration_us: Figure
    turn_us: Figure
    efficiency: Figure | None = None
    of_ceiling: Figure | None = None
    gain: Figure | None = None
    overlap: Figure | None = None
    policy_ms: Figure | None = None
    half_ms: Figure | None = None


@dataclasses.dataclass(frozen=True)
class Measured:
    """The results of one workload.

    Attributes:
        limit_s: seconds of one iteration of the C loop.
        foreign: highest share of the machine that other processes took.
    """

    prepared: Prepared
    rows: list[Row]
    limit_s: Figure
    foreign: float


# ---- before the repeats --------------------------------------------------------------------------


def _median(samples: Sequence[float]) -> float:
    return float(np.median(samples))


def choose_policies(
    options: argparse.Namespace,
    workload: Workload,
    actions: Mapping[str, np.ndarray],
    limit_s: float,
) -> tuple[PolicyChoice, ...]:
    """Return the policies to run: none, and the chosen one with its time for one half."""
    choices = [PolicyChoice()]
    if options.policy_ms == "auto":
        turns = plan(options.seconds, limit_s / 2, PolicyChoice())
        samples = [
            measure_half(workload, actions, usable_cores(), turns, turns // 4)
            for _ in range(CALIBRATIONS)
        ]
        choices.append(PolicyChoice("wait", half_s=_median(samples)))
    elif options.policy_ms is not None:
        choices.append(PolicyChoice("wait", half_s=options.policy_ms * 1e-3))
    return tuple(choices)


def prepare(options: argparse.Namespace, workload: Workload) -> Prepared:
    """Draw actions, count transitions, time the C loop once, and choose the policies."""
    actions = actions_of(workload)
    probe_s = c_loop(workload, actions, 5, 2)
    turns = plan(options.seconds, probe_s, PolicyChoice())
    limit_s = c_loop(workload, actions, turns, turns // 4)
    shares = count_shares(workload, actions, min(2 * workload.episode_turns, max(4, turns)))
    return Prepared(
        workload, actions, shares, limit_s, choose_policies(options, workload, actions, limit_s)
    )


# ---- the repeats ---------------------------------------------------------------------------------


def _key(mode: Mode, policy: PolicyChoice) -> str:
    return f"{mode.name}, {mode.workers} workers, policy {policy.kind}"


def _ceiling_key(cores: int) -> str:
    return f"{cores} C loops at once"


def _half_key(workers: int) -> str:
    return f"one half on {workers} workers"


def _per_half(mode: Mode) -> int:
    assert mode.workers is not None
    return min(mode.workers // 2 if mode.split == "workers" else mode.workers, usable_cores())


def run(
    options: argparse.Namespace,
    prepared: Prepared,
    chosen: Sequence[Mode],
    note: Callable[[str], None],
) -> Measured:
    """Run all variants in turns, including the C loop."""
    workload, actions, limit_s = prepared.workload, prepared.actions, prepared.limit_s
    turns = plan(options.seconds, limit_s, PolicyChoice())
    variants: dict[str, Any] = {"limit": lambda: c_loop(workload, actions, turns, turns // 4)}
    for cores in sorted({mode.cores for mode in chosen if mode.cores > 1}):
        variants[_ceiling_key(cores)] = lambda n=cores: c_loops(workload, n, turns)
    for mode in chosen:
        for policy in prepared.policies:
            count = plan(options.seconds, limit_s, policy)
            warmup = max(1, round(count * options.warmup / options.seconds))
            variants[_key(mode, policy)] = lambda m=mode, p=policy, n=count, w=warmup: measure(
                workload, actions, m, p, n, w
            )
    if len(prepared.policies) > 1:
        for workers in sorted({_per_half(mode) for mode in chosen if mode.num_buffers == 2}):
            variants[_half_key(workers)] = lambda w=workers: measure_half(
                workload, actions, w, turns, turns // 4
            )
    runs = common.interleave(
        variants, options.repeats, lambda text: note(f"{workload.name}: {text}"), options.attempts
    )
    rows = [
        _row(prepared, mode, policy, chosen, runs.results)
        for policy in prepared.policies
        for mode in chosen
    ]
    return Measured(prepared, rows, common.figure(runs.results["limit"]), runs.foreign)


def _row(
    prepared: Prepared,
    mode: Mode,
    policy: PolicyChoice,
    chosen: Sequence[Mode],
    results: Mapping[str, list[Any]],
) -> Row:
    samples: list[Sample] = results[_key(mode, policy)]
    seconds = [sample.iteration_s for sample in samples]
    efficiency = of_ceiling = gain = overlap = policy_ms = half_ms = None
    if policy.kind == "none":
        efficiency = common.ratio(results["limit"], [mode.cores * s for s in seconds])
        of_ceiling = (
            common.ratio(results[_ceiling_key(mode.cores)], seconds)
            if mode.cores > 1
            else efficiency
        )
    other = baseline(mode, chosen)
    if other is not None:
        gain = common.ratio(
            [sample.iteration_s for sample in results[_key(other, policy)]], seconds
        )
    if policy.kind != "none":
        policy_s = [sample.policy_s for sample in samples]
        policy_ms = common.figure(1e3 * s for s in policy_s)
        if mode.num_buffers == 2:
            half_s = results[_half_key(_per_half(mode))]
            half_ms = common.figure(1e3 * s for s in half_s)
            overlap = common.ratio(
                seconds, [2 * max(half, pol) for half, pol in zip(half_s, policy_s, strict=True)]
            )
    return Row(
        env=prepared.workload.name,
        num_envs=prepared.workload.num_envs,
        mode=mode.name,
        policy=policy.kind,
        workers=mode.workers,
        num_buffers=mode.num_buffers,
        env_steps_per_s=common.figure(prepared.shares.env_steps / s for s in seconds),
        agent_steps_per_s=common.figure(prepared.shares.agent_steps / s for s in seconds),
        iteration_us=common.figure(1e6 * s for s in seconds),
        turn_us=common.figure(1e6 * s / mode.num_buffers for s in seconds),
        efficiency=efficiency,
        of_ceiling=of_ceiling,
        gain=gain,
        overlap=overlap,
        policy_ms=policy_ms,
        half_ms=half_ms,
    )


def limit_row(measured: Measured) -> dict[str, Any]:
    """Return the facts about the C loop for the JSON."""
    prepared, samples = measured.prepared, measured.limit_s.samples
    return {
        "env": prepared.workload.name,
        "num_envs": prepared.workload.num_envs,
        "env_kwargs": dict(prepared.workload.kwargs),
        "c_loop_us": common.figure(1e6 * s for s in samples),
        "c_loop_env_steps_per_s": common.figure(prepared.shares.env_steps / s for s in samples),
        "c_loop_agent_steps_per_s": common.figure(prepared.shares.agent_steps / s for s in samples),
        "env_steps_per_iteration": prepared.shares.env_steps,
        "agent_steps_per_iteration": prepared.shares.agent_steps,
        "policies": [dataclasses.asdict(policy) for policy in prepared.policies],
    }


# ---- output --------------------------------------------------------------------------------------


def _percent(figure: Figure | None) -> str:
    return "-" if figure is None else f"{100 * figure.median:.0f}% ±{100 * figure.spread:.0f}%"


def _times(figure: Figure | None) -> str:
    return "-" if figure is None else f"{figure.median:.2f} ±{100 * figure.spread:.0f}%"


def _policy_text(row: Row) -> str:
    return row.policy if row.policy_ms is None else f"{row.policy} {row.policy_ms.median:.3g} ms"


def show(measured: Measured) -> None:
    """Print the table of one workload."""
    prepared, rows, limit_s = measured.prepared, measured.rows, measured.limit_s.median
    workload, shares = prepared.workload, prepared.shares
    cells = [
        (
            row.env,
            row.mode,
            _policy_text(row),
            str(row.workers or "-"),
            str(row.env_steps_per_s),
            str(row.agent_steps_per_s),
            str(row.iteration_us),
            str(row.turn_us),
            _percent(row.efficiency),
            _percent(row.of_ceiling),
            _times(row.gain),
            _times(row.overlap),
        )
        for row in rows
    ]
    notes = [
        f"{workload.name}: {workload.num_envs} envs, {dict(workload.kwargs)}; C loop on one "
        f"thread: {1e6 * limit_s:.4g} us per iteration, "
        f"{common.number(shares.env_steps / limit_s)} env-steps/s, "
        f"{common.number(shares.agent_steps / limit_s)} agent-steps/s"
    ]
    if any(row.policy == "wait" for row in rows):
        half = next(policy.half_s for policy in prepared.policies if policy.kind == "wait")
        notes.append(
            f"policy wait: a sleep of {1e3 * half:.4g} ms per half in place of a GPU; with one "
            "buffer twice as long"
        )
    common.print_table(
        f"{workload.name}: median ± half the distance of the quartiles", COLUMNS, cells, notes
    )


def make_timelines(options: argparse.Namespace, prepared: Prepared) -> list[trace.Timeline]:
    """Record some turns of single and double buffering with a waiting policy."""
    workload, actions = prepared.workload, prepared.actions
    waits = [policy for policy in prepared.policies if policy.kind != "none"]
    if waits:
        policy = waits[0]
    else:
        turns = plan(options.seconds, prepared.limit_s / 2, PolicyChoice())
        policy = PolicyChoice(
            "wait", half_s=measure_half(workload, actions, usable_cores(), turns, turns // 4)
        )
    workers = usable_cores()
    double = workers if options.trace_split == "envs" else 2 * workers
    timelines = []
    for title, mode in (
        ("One buffer", Mode("multiprocess", "multiprocessing", workers)),
        ("Two buffers", Mode("double", "multiprocessing", double, 2, options.trace_split)),
    ):
        warmup = plan(options.warmup, prepared.limit_s, policy) * mode.num_buffers
        with workload.make(mode.backend, **mode.settings) as vec:
            timelines.append(
                trace.record(
                    vec,
                    policy.build(vec, actions),
                    options.trace_turns * mode.num_buffers,
                    warmup,
                    title,
                )
            )
    return timelines


def draw_timelines(
    options: argparse.Namespace, prepared: Prepared, facts: Mapping[str, Any]
) -> None:
    """Draw the timelines of the first env."""
    workload = prepared.workload
    caption = (
        f"{workload.name}, {workload.num_envs:,} envs, {usable_cores()} cores of "
        f"{facts['cpu']}; measured with the workers' time stamps\nA, B: halves of the envs; "
        "hatched: a wait in place of a GPU policy"
    )
    trace.draw(make_timelines(options, prepared), options.png, caption)
    print(f"picture: {options.png}")


# ---- the command ---------------------------------------------------------------------------------


def _counts(text: str) -> list[int]:
    counts = [int(part) for part in text.split(",")]
    if any(count < 1 for count in counts):
        raise argparse.ArgumentTypeError(f"{text}: give numbers of workers from 1, as in 1,2,4")
    return counts


def _policy_ms(text: str) -> str | float:
    return text if text == "auto" else float(text)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    flags = common.parser(__doc__)
    add = flags.add_argument
    add("--envs", default=",".join(PRESETS), help="comma-separated, of: %(default)s")
    add("--num-envs", type=int, help="envs over all halves (default: each env's own)")
    add("--env-kwargs", type=json.loads, default={}, help="env settings as a JSON object")
    add("--scenes", help="drive: folder or file of scenes")
    cores = usable_cores()
    add(
        "--workers",
        type=_counts,
        default=[cores],
        help=f"workers on one half, as in 1,2,4 (default: the usable cores, {cores})",
    )
    add("--modes", help="comma-separated words; only modes whose name contains one of them are run")
    add(
        "--policy-ms",
        type=_policy_ms,
        help="also run with a wait of X ms per half in place of a GPU; auto: as long as all cores "
        "simulate one half",
    )
    add(
        "--warmup",
        type=float,
        default=0.3,
        help="seconds before each sample (default: %(default)s)",
    )
    add("--png", type=Path, help="draw a timeline of the first env (needs matplotlib)")
    add(
        "--trace-split",
        choices=("workers", "envs"),
        default="workers",
        help="split of the double buffering in the picture",
    )
    add(
        "--trace-turns",
        type=int,
        default=40,
        help="iterations in a timeline (default: %(default)s)",
    )
    common.add_flags(flags, "sps", 1.0)
    return flags


def workloads(options: argparse.Namespace) -> list[Workload]:
    """Return the chosen workloads that can run; print the others."""
    result = []
    for name in options.envs.split(","):
        kwargs = dict(options.env_kwargs)
        if name == "drive" and options.scenes:
            kwargs["scenes"] = options.scenes
        workload = preset(name, options.num_envs, **kwargs)
        if reason := missing(workload):
            print(reason, file=sys.stderr)
        else:
            result.append(workload)
    if not result:
        raise ConfigError("none of the envs can run here")
    return result


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parser().parse_args(arguments)
    facts, progress = common.machine(), common.Progress()
    words = options.modes.split(",") if options.modes else [""]
    chosen = [mode for mode in modes(options.workers) if any(word in mode.name for word in words)]
    results: list[Measured] = []
    for workload in workloads(options):
        fitting = [mode for mode in chosen if mode.fits(workload.num_envs)]
        if len(fitting) < len(chosen):
            print(
                f"{workload.name}: {workload.num_envs} envs are too few for some modes, which "
                "are left out",
                file=sys.stderr,
            )
        progress(f"{workload.name}: preparing")
        results.append(run(options, prepare(options, workload), fitting, progress))
        show(results[-1])
    if options.png:
        draw_timelines(options, results[0].prepared, facts)
    document = {
        "limits": [limit_row(measured) for measured in results],
        "rows": [dataclasses.asdict(row) for measured in results for row in measured.rows],
    }
    common.finish("sps", options, facts, max(measured.foreign for measured in results), document)


if __name__ == "__main__":
    sys.exit(main())

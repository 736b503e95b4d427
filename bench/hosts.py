# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure hosts over Ray on this machine: agent-steps/s of 1, 2 and 4 hosts, and their costs.

    python bench/hosts.py                            drive and cartpole
    python bench/hosts.py --target drive --hosts 1 2

Observations are also sent in fewer bytes. Each host is a process on one core that steps its envs
itself; the learner uses the last core. "collected": the learner receives segments but does not
learn. "trained": with the updates of the env's preset. All clusters of hosts exist simultaneously
and take turns, so a slow moment of the machine affects all; waiting hosts have collected as many
segments as they may, and are idle. "CPU" is the time of all processes, including Ray's, for a
segment.

bench/scale.py predicts the rates of several hosts from the costs of one, and from the duration of a
rollout when as many processes play simultaneously without Ray: cores share caches and memory.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common

NAME = "hosts"
KINDS = ("exact", "bf16", "uint8")
# Settings of a host: for drive as many rows as in the preset; for cartpole more, since rollouts of
# the preset take 10 ms.
TABLES: dict[str, dict[str, Any]] = {
    "drive": {"env": {"scenes": "generated:50"}, "vec": {"num_envs": 4}},
    "cartpole": {"vec": {"num_envs": 1024}},
}
CORES = sorted(os.sched_getaffinity(0))
SETTLE = 2  # Segments of each host that are ignored after a change of turns.


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the flags."""
    flags = common.parser(__doc__)
    common.add_flags(flags, NAME, 2.0)
    flags.add_argument(
        "--target",
        choices=TABLES,
        nargs="+",
        default=list(TABLES),
        help="envs (default: %(default)s)",
    )
    flags.add_argument(
        "--hosts",
        type=int,
        nargs="+",
        default=[1, 2, 4],
        help="numbers of them (default: %(default)s)",
    )
    return flags.parse_args(arguments)


def config_of(target: str, hosts: int, folder: str, observations: str = "exact") -> Any:
    """Return the config of a run over Ray in which each host uses one core."""
    from puffervec.train import TrainConfig

    return TrainConfig.of(target, **TABLES[target]).merged(
        {
            "vec": {"backend": "serial", "num_buffers": 1},
            "train": {
                "device": "cpu",
                "precision": "fp32",
                "threads": 1,
                "total_timesteps": 10**12,
                "time_limit_s": 0.0,
            },
            "ray": {
                "address": "local",
                "hosts": hosts,
                "cpus": 1,
                "observations": observations,
                "wait_s": 300.0,
            },
            "log": {
                "folder": folder,
                "dashboard": "off",
                "name": f"{target}-{hosts}-{observations}",
            },
        }
    )


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all processes that Ray has started."""
    mine = psutil.Process()
    times = [mine.cpu_times()]
    for process in mine.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times.append(process.cpu_times())
    return sum(spent.user + spent.system for spent in times)


def collect(trainer: Any, seconds: float, learn: bool) -> dict[str, float]:
    """Collect for `seconds`; return agent-steps/s and mean seconds per segment and update."""
    for _ in range(SETTLE):
        trainer.collect()
    figures, times, learner_s = (
        trainer.collector.source.counts,
        trainer.collector.times,
        trainer.learner.seconds,
    )
    before, copied, updates = vars(figures).copy(), times.copy, 0
    cpu_s, begin = cpu_seconds(), time.perf_counter()
    while updates < 3 or time.perf_counter() - begin < seconds:
        trainer.collect()
        updates += 1
        if learn:
            trainer.update()
    spent, cpu_s = time.perf_counter() - begin, cpu_seconds() - cpu_s
    done = {key: value - before[key] for key, value in vars(figures).items()}
    return {
        "agent_steps_per_s": done["agent_steps"] / spent,
        "play_s": done["seconds"] / max(1, done["taken"]),
        "cpu_s": cpu_s / max(1, done["taken"]),
        "take_s": (times.copy - copied) / max(1, done["taken"]),
        "update_s": (trainer.learner.seconds - learner_s) / updates,
        "segment_bytes": done["nbytes"] / max(1, done["taken"]),
        "segment_steps": done["agent_steps"] / max(1, done["taken"]),
        "lag": done["lag"] / max(1, done["taken"]),
    }


def handover(trainer: Any) -> dict[str, float]:
    """Measure the costs of the communication with a host.

    They are the seconds to put a segment into Ray's store, to read it, and of a request without a
    rollout, and the bytes of the weights.
    """
    import ray

    from puffervec.wings.ray.host import dump_weights

    trainer.collect()
    source = trainer.collector.source
    source.top_up(1)
    segment = None
    while segment is None:
        segment = source.next(1.0)
    put_s, get_s, order_s = [], [], []
    for _ in range(20):
        begin = time.perf_counter()
        ref = ray.put(segment)
        put_s.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        copy = ray.get(ref)
        get_s.append(time.perf_counter() - begin)
        del copy, ref
        begin = time.perf_counter()
        (actor,) = list(trainer.cluster._actors.values())[:1]
        ray.get(actor.describe.remote([trainer.cluster._setup]))
        order_s.append(time.perf_counter() - begin)
    weights = len(dump_weights(trainer.policies))
    return {
        "put_s": min(put_s),
        "get_s": min(get_s),
        "order_s": min(order_s),
        "weights_bytes": float(weights),
    }


class Player:
    """A process on one core that collects rollouts on request, like a host but without Ray."""

    def __init__(self, setup: Any, core: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=play_on_request, args=(theirs, setup, core), daemon=True
        )
        self.process.start()


def play_on_request(pipe: Any, setup: Any, core: int) -> None:
    """Collect for each received number of seconds, and send back the mean seconds of a rollout.

    The number 0 ends the process.
    """
    from puffervec.wings.ray.host import Host, Request, dump_weights

    os.sched_setaffinity(0, {core})
    host = Host(dataclasses.replace(setup, cpus=0), 0)
    weights, order = dump_weights(host.policies), Request(0, host.incarnation, 1)
    while seconds := pipe.recv():
        host.play(weights, order)
        spent: list[float] = []
        while sum(spent) < seconds:
            spent.append(host.play(weights, order).seconds)  # type: ignore[union-attr]
        pipe.send(statistics.fmean(spent))


def measure_crowd(players: Sequence[Player], seconds: float) -> float:
    """Measure the mean seconds of a rollout while all of these players collect."""
    for player in players:
        player.pipe.send(seconds)
    return statistics.fmean(player.pipe.recv() for player in players)


def measure(target: str, hosts: Sequence[int], seconds: float, repeats: int) -> dict[str, Any]:
    """Measure rates by number of hosts and by format of observations, and costs.

    The costs are those of one host, and of a crowd of players. Ray must be running.
    """
    import ray

    from puffervec.wings.ray import RayTrainer

    samples: dict[str, list[dict[str, float]]] = {}
    crowds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        configs = {(n, "exact"): config_of(target, n, folder) for n in hosts}
        configs |= {(1, kind): config_of(target, 1, folder, kind) for kind in KINDS[1:]}
        trainers = {}
        for key, config in configs.items():
            trainers[key] = stack.enter_context(RayTrainer(config))
            trainers[key].collect()  # The first rollout lacks statistics of observations.
            trainers[key].update()
        setup = ray.get(trainers[hosts[0], "exact"].cluster._setup)
        players = [Player(setup, core) for core in CORES[: max(hosts)]]
        measure_crowd(players, 0.1)  # All have started.
        for repeat in range(repeats):
            for n in hosts:
                crowds.setdefault(str(n), []).append(measure_crowd(players[:n], seconds))
            for (n, kind), trainer in list(trainers.items())[:: 1 if repeat % 2 == 0 else -1]:
                for learn in (False, True) if kind == "exact" else (False,):
                    name = f"{n} {kind} {'trained' if learn else 'collected'}"
                    samples.setdefault(name, []).append(collect(trainer, seconds, learn))
                    print(
                        f"{target} {repeat + 1}/{repeats} {name}: "
                        f"{samples[name][-1]['agent_steps_per_s']:,.0f}",
                        flush=True,
                    )
        for player in players:
            player.pipe.send(0)
        costs = handover(trainers[1, "exact"]) if (1, "exact") in trainers else {}
    figures = {
        name: {key: common.figure(sample[key] for sample in values) for key in values[0]}
        for name, values in samples.items()
    }
    return {
        "figures": figures,
        "costs": costs,
        "crowds": {n: common.figure(spent) for n, spent in crowds.items()},
    }


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write the results."""
    options = parse(arguments)
    from bench.foreign import foreign_load

    facts = common.machine()
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=64, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    os.sched_setaffinity(0, {CORES[-1]})
    results: dict[str, Any] = {"cores": len(CORES)}
    worst = 0.0
    try:
        for target in options.target:
            results[target], foreign = foreign_load(
                lambda target=target: measure(
                    target, options.hosts, options.seconds, options.repeats
                )  # type: ignore[misc]
            )
            worst = max(worst, foreign)
    finally:
        ray.shutdown()
    for target in options.target:
        show(target, results[target])
    common.finish(NAME, options, facts, worst, results)


def show(target: str, result: dict[str, Any]) -> None:
    """Print the rates of a target."""
    rows = []
    for name, figures in result["figures"].items():
        n, kind, what = name.split()
        base = result["figures"].get(f"1 exact {what}")
        over = (
            common.ratio(figures["agent_steps_per_s"].samples, base["agent_steps_per_s"].samples)
            if base
            else "-"
        )
        per_step = figures["segment_bytes"].median / max(1.0, figures["segment_steps"].median)
        ms = [
            f"{1e3 * figures[key].median:.2f}" for key in ("play_s", "cpu_s", "take_s", "update_s")
        ]
        lag = f"{figures['lag'].median:.1f}"
        rows.append(
            [
                what,
                n,
                kind,
                str(figures["agent_steps_per_s"]),
                str(over),
                f"{per_step:.0f}",
                *ms,
                lag,
            ]
        )
    columns = ["", "hosts", "observations", "agent-steps/s", "over one", "bytes/step"]
    columns += ["play ms", "CPU ms", "take ms", "update ms", "lag"]
    notes = [f"{key}: {value:.6g}" for key, value in result["costs"].items()]
    notes += [
        f"{n} at once without Ray: a rollout takes {1e3 * spent.median:.2f} ms"
        for n, spent in result["crowds"].items()
    ]
    common.print_table(target, columns, sorted(rows), notes)


def markdown(results: Mapping[str, Any]) -> str:
    """Return a table of docs/ray.md: the rates and the traffic by number of hosts.

    Args: results: the results of a JSON file.
    """
    rows = []
    for target, result in results.items():
        if target == "cores":
            continue
        one = result["figures"]["1 exact collected"]["agent_steps_per_s"]["samples"]
        for name, figures in result["figures"].items():
            hosts, kind, what = name.split()
            if what == "collected":
                size = figures["segment_bytes"]["median"] / figures["segment_steps"]["median"]
                rate = common.Figure(**figures["agent_steps_per_s"])
                over = str(common.ratio(rate.samples, one))
                rows.append((target, hosts, kind, f"{size:,.0f}", str(rate), over))
    columns = ("env", ">hosts", "observations", ">bytes per agent-step", ">agent-steps/s")
    return common.markdown((*columns, ">of one host, exact"), rows)


if __name__ == "__main__":
    sys.exit(main())

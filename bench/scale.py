# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Predict the agent-steps/s of 1 to 1,000 hosts and 1 to 64 GPUs from costs on one machine.

    python bench/hosts.py    measures the costs, and the rates that the check compares with
    python bench/scale.py    predicts from the newest results, and checks against 1, 2 and 4 hosts
    python bench/scale.py --gbit 100 --host-cores 64 --gpu-steps-per-s 3e6 --most-segments 256

An update takes K segments: as many as hosts, at most `--most-segments` of each learner. It takes at
least as long as

    simulation   K x play / hosts of a learner; play: time of a rollout and of its transfer to the
                 object store
    network      shared by the learners of a machine: segments in, weights out to each host (bytes)
    learner      K x (take + update), and the messages of the gradients between GPUs
    policy lag   ahead x play / (max_lag + 1); with faster updates the segments that arrive would
                 be older than `ray.max_lag`

and the largest of the four is the limit. Lag is the age of a segment in updates (Little's law),
bounded by the allowed age. Hosts and GPUs other than the cores of this machine are assumptions,
which are printed as such. On this machine hosts and learner share cores: core n has the hosts n, n
+ cores, ..., the last one also has the learner, and work moves to idle processes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from operator import truediv
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common

NAME = "scale"
HOSTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
GPUS = (1, 2, 4, 8, 16, 32, 64)
WITHIN = 0.20
MESSAGE_S = 30e-6  # Time of a small message between GPUs, per doubling of their number.


@dataclasses.dataclass(frozen=True)
class Costs:
    """The measured costs of one host on one core, in seconds and bytes.

    Attributes:
        steps: valid transitions of a segment.
        play: time of a rollout.
        put: time to put a segment into the object store.
        take: time to copy a segment to the learner's rows.
        order: time of a round trip.
        cpu: CPU time of all processes for a segment, including Ray's, without learning.
        update: time to learn from a segment on one core.
        nbytes: bytes of a segment.
        weights: bytes of the weights.
        crowds: factor by which a rollout takes longer, by the number of cores that collect
            simultaneously: they share caches and memory.
    """

    steps: float
    play: float
    put: float
    take: float
    order: float
    cpu: float
    update: float
    nbytes: float
    weights: float
    crowds: Mapping[int, float] = dataclasses.field(default_factory=lambda: {1: 1.0})

    def slower(self, cores: int) -> float:
        """Return the factor of `crowds` for this many cores, or for fewer if they lack one."""
        return max(1.0, self.crowds[max(known for known in self.crowds if known <= cores)])


@dataclasses.dataclass(frozen=True)
class Plant:
    """The hardware and the settings of a cluster.

    Attributes:
        host_cores: cores of a host, each with the rows of one core.
        gbit: bandwidth of a machine's network, each way.
        gpu_steps_per_s: agent-steps per second that a GPU learns from.
        gpus_per_machine: GPUs that share a machine's network.
        gradient_steps: gradient steps of an update, each with one all-reduce over all GPUs.
        ahead, max_lag, most_segments: settings of the run.
    """

    host_cores: int = 16
    gbit: float = 25.0
    gpu_steps_per_s: float = 1e6
    gpus_per_machine: int = 8
    gradient_steps: int = 16
    ahead: int = 2
    max_lag: int = 4
    most_segments: int = 64


@dataclasses.dataclass(frozen=True)
class Row:
    """A prediction.

    Attributes:
        period_s: time of an update.
        parts: lower bounds of that time, by limit.
        lag: age of segments in updates.
    """

    hosts: int
    gpus: int
    agent_steps_per_s: float
    period_s: float
    limit: str
    lag: float
    parts: Mapping[str, float]


def predict(costs: Costs, plant: Plant, hosts: int, gpus: int) -> Row:
    """Predict the rates of a cluster.

    Args:
        costs: the measured costs.
        plant: the cluster.
        hosts: number of hosts of all learners, at least as many as GPUs.
        gpus: number of GPUs, with one learner each.
    """
    own = hosts / gpus
    segments = min(own, plant.most_segments)
    steps, nbytes = plant.host_cores * costs.steps, plant.host_cores * costs.nbytes
    bytes_per_s = plant.gbit * 1e9 / 8
    sharing = min(gpus, plant.gpus_per_machine)
    play = costs.slower(plant.host_cores) * costs.play + plant.host_cores * costs.put
    messages = 0.0
    if gpus > 1:
        ring = (
            2 * (gpus - 1) / gpus * costs.weights / bytes_per_s
            if gpus > plant.gpus_per_machine
            else 0.0
        )
        messages = plant.gradient_steps * (MESSAGE_S * math.log2(gpus) + ring)
    parts = {
        "simulation": segments * play / own,
        "network": sharing * max(segments * nbytes, own * costs.weights) / bytes_per_s,
        "learner": segments * (plant.host_cores * costs.take + steps / plant.gpu_steps_per_s)
        + messages,
        "policy lag": plant.ahead * play / (plant.max_lag + 1) if segments < own else 0.0,
    }
    limit = max(parts, key=parts.__getitem__)
    lag = min(float(plant.max_lag), max(0.0, plant.ahead * own / segments - 1))
    return Row(hosts, gpus, gpus * segments * steps / parts[limit], parts[limit], limit, lag, parts)


def on_one_machine(costs: Costs, hosts: int, cores: int, learn: bool) -> float:
    """Predict the agent-steps/s of hosts and a learner that share the cores of one machine.

    They are placed as in bench/hosts.py.

    Args:
        learn: whether to learn, on one core, with one segment per host and update.
    """
    update = costs.update if learn else 0.0
    slower = costs.slower(min(hosts, cores))
    cycle = (
        slower * costs.play + costs.put
    )  # Requests wait at the host, so their transfer costs it no time.
    learner = hosts * (costs.take + costs.order + update)
    period = max(cycle, hosts * (slower * costs.cpu + update) / cores, learner)
    beside = sum(host % cores == cores - 1 for host in range(hosts))  # On the learner's core.
    if learn and hosts >= cores:
        period = max(period, learner + beside * cycle)
    return hosts * costs.steps / period


def costs_of(result: Mapping[str, Any], repeat: int | None = None) -> Costs:
    """Return the costs of one host from results of bench/hosts.py.

    Args:
        repeat: number of the repeat, None for medians of all.
    """

    def figure(name: str, key: str) -> float:
        value = result["figures"][name][key]
        return float(value["median"] if repeat is None else value["samples"][repeat])

    one, learned, more = "1 exact collected", "1 exact trained", result["costs"]
    alone = result["crowds"]["1"]["samples"]
    crowds = {
        int(n): statistics.median(map(truediv, value["samples"], alone))
        for n, value in result["crowds"].items()
    }
    return Costs(
        steps=figure(one, "segment_steps"),
        play=figure(one, "play_s"),
        put=more["put_s"],
        take=figure(one, "take_s") + more["get_s"],
        order=more["order_s"],
        cpu=figure(one, "cpu_s"),
        update=figure(learned, "update_s"),
        nbytes=figure(one, "segment_bytes"),
        weights=more["weights_bytes"],
        crowds=crowds,
    )


def check(result: Mapping[str, Any], cores: int) -> list[dict[str, Any]]:
    """Compare predictions and measurements for each number of hosts, collecting and training.

    In each repeat the costs of that repeat predict its rates: the speed of a shared machine changes
    within minutes. All three are medians over repeats.
    """
    checked = []
    for name, figures in result["figures"].items():
        hosts, kind, what = name.split()
        if kind == "exact":
            rates = figures["agent_steps_per_s"]["samples"]
            costs = [costs_of(result, repeat) for repeat in range(len(rates))]
            predicted = [
                on_one_machine(each, int(hosts), cores, what == "trained") for each in costs
            ]
            checked.append(
                {
                    "hosts": int(hosts),
                    "what": what,
                    "measured": statistics.median(rates),
                    "predicted": statistics.median(predicted),
                    "error": statistics.median(map(truediv, predicted, rates)) - 1,
                }
            )
    return checked


def newest(folder: Path = common.RESULTS) -> Path:
    """Return the newest results of bench/hosts.py. Raises: SystemExit: there are none."""
    paths = sorted(folder.glob("*/*-hosts.json"), key=lambda path: path.name)
    if not paths:
        raise SystemExit("no results of bench/hosts.py: run it first")
    return paths[-1]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the flags."""
    flags = common.parser(__doc__)
    plant = Plant()
    flags.add_argument(
        "--measured", type=Path, help="results of bench/hosts.py (default: the newest)"
    )
    flags.add_argument("--target", nargs="+", help="envs of these results (default: all)")
    for field in dataclasses.fields(Plant):
        flag, default = f"--{field.name.replace('_', '-')}", getattr(plant, field.name)
        flags.add_argument(
            flag,
            type=type(default),
            default=default,
            help="see Plant in this file (default: %(default)s)",
        )
    flags.add_argument("--json", type=Path, help="path of the results (default: not written)")
    return flags.parse_args(arguments)


def show(
    target: str,
    costs: Costs,
    plant: Plant,
    rows: Sequence[Row],
    checked: Sequence[Mapping[str, Any]],
) -> None:
    """Print inputs, predictions and the check."""
    known = dataclasses.asdict(costs)
    crowds = ", ".join(f"{n} at once {times:.3g} times" for n, times in known.pop("crowds").items())
    measured = (
        ", ".join(f"{name} {value:.4g}" for name, value in known.items())
        + f"; play takes with {crowds} as long"
    )
    assumed = ", ".join(f"{name} {value:g}" for name, value in dataclasses.asdict(plant).items())
    print(f"{target}\n  measured here, one host on one core: {measured}\n  ASSUMED: {assumed}")
    cells = [
        [
            str(row.hosts),
            str(row.gpus),
            common.number(row.agent_steps_per_s),
            row.limit,
            f"{row.lag:.1f}",
            *(f"{1e3 * part:.3g}" for part in row.parts.values()),
        ]
        for row in rows
    ]
    ms = [f"{name} ms" for name in rows[0].parts]
    common.print_table(
        f"{target}: predicted", ("hosts", "GPUs", "agent-steps/s", "limited by", "lag", *ms), cells
    )
    lines = [
        [
            str(c["hosts"]),
            c["what"],
            common.number(c["measured"]),
            common.number(c["predicted"]),
            f"{100 * c['error']:+.0f} %",
        ]
        for c in checked
    ]
    common.print_table(
        f"{target}: check on this machine", ("hosts", "", "measured", "predicted", "error"), lines
    )
    worst = max(abs(c["error"]) for c in checked)
    print(
        f"check: {100 * worst:.0f} % at most, {'within' if worst <= WITHIN else 'NOT WITHIN'} "
        f"{100 * WITHIN:.0f} %\n"
    )


def markdown(results: Mapping[str, Any]) -> str:
    """Return the table of docs/scale.md: prediction and measurement on one machine.

    Args:
        results: the results of a JSON file.
    """
    rows = []
    for target, result in results.items():
        for one in () if target in ("measured", "assumed", "within") else result["check"]:
            rates = (common.number(one[key]) for key in ("measured", "predicted"))
            error = f"{100 * one['error']:+.0f} %"
            rows.append((target, str(one["hosts"]), one["what"], *rates, error))
    return common.markdown(("env", ">hosts", "", ">measured", ">predicted", ">error"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Predict, check, print and write the results; return the exit status: 1 if the check fails."""
    options = parse(arguments)
    path = options.measured or newest()
    document = json.loads(path.read_text())
    plant = Plant(
        **{field.name: getattr(options, field.name) for field in dataclasses.fields(Plant)}
    )
    results: dict[str, Any] = {
        "measured": path.name,
        "assumed": dataclasses.asdict(plant),
        "within": WITHIN,
    }
    good = True
    for target in options.target or [name for name in document["results"] if name != "cores"]:
        result = document["results"][target]
        costs = costs_of(result)
        rows = [
            predict(costs, plant, hosts, gpus) for gpus in GPUS for hosts in HOSTS if hosts >= gpus
        ]
        comparison = check(result, document["results"]["cores"])
        show(target, costs, plant, rows, comparison)
        good = good and all(abs(c["error"]) <= WITHIN for c in comparison)
        predictions = [dataclasses.asdict(row) for row in rows]
        results[target] = {
            "costs": dataclasses.asdict(costs),
            "rows": predictions,
            "check": comparison,
        }
    if options.json is not None:
        common.write_json(
            options.json, common.report(NAME, common.machine(), vars(options), results)
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

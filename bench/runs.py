# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Training runs for benchmarks: presets with changes, facts behind figures, rates from logs.

Runs in the learner. Each run starts new workers and a
new policy; its first fifth is not measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import common, modes
from bench.foreign import foreign_load
from bench.workloads import Workload, draw_actions
from puffervec.errors import PuffervecError
from puffervec.system.cores import usable_cores
from puffervec.train import TrainConfig, Trainer
from puffervec.train.metrics.dashboard import Dashboard
from puffervec.train.metrics.keys import ELAPSED_S, ENV, STEP, TIME_PARTS
from puffervec.train.metrics.log import METRICS_FILE, read_metrics

if TYPE_CHECKING:
    from puffervec.core.spec import EnvSpec

WARM_SHARE = 0.2
FEWEST_UPDATES = 4
ENDLESS = 10**15
FACTS = ("observation_floats", "parameters", "replay_ratio")
FACT_COLUMNS = ("obs floats", "parameters", "replay ratio")


@dataclasses.dataclass(frozen=True)
class Run:
    """A preset with changes."""

    target: str
    tables: Mapping[str, Mapping[str, Any]]


RUNS = {
    "drive": Run("drive", {}),
    # Half a million parameters; each sample is used once.
    "drive-500k": Run(
        "drive",
        {
            "policy": {"hidden": (576, 464)},
            "train": {"update_epochs": 1, "advantage_share": 1.0, "minibatch_size": 2048},
        },
    ),
    "tag_grid": Run("tag_grid", {}),
}


def config_of(run: Run, device: str, limit_s: float = 0.0, seed: int = 1) -> TrainConfig:
    """Return the config of a silent run whose only limit is `limit_s` seconds."""
    quiet = {"dashboard": "off", "checkpoint_interval_s": 1e9}
    limits = {"time_limit_s": limit_s, "total_timesteps": ENDLESS, "device": device, "seed": seed}
    return TrainConfig.of(run.target, **run.tables).merged({"train": limits, "log": quiet})


def floats_of(spec: EnvSpec) -> int:
    """Return the number of numbers in an observation, summed over groups of rows."""
    return sum(math.prod(field.shape) for group in spec.groups for field in group.fields)


def fact_cells(facts: Mapping[str, Any]) -> list[str]:
    """Return the cells of a table for FACT_COLUMNS."""
    return [common.number(facts[key]) for key in FACTS]


def facts_of(trainer: Trainer) -> dict[str, Any]:
    """Return the facts on which an end-to-end figure depends, besides the machine."""
    spec, config = trainer.vec.spec, trainer.config
    return {
        "observation_floats": floats_of(spec),
        "parameters": sum(
            p.numel() for policy in trainer.policies.values() for p in policy.parameters()
        ),
        "replay_ratio": config.train.update_epochs * config.train.learned_share(),
        "num_envs": config.vec.num_envs,
        "rows": trainer.vec.num_agents,
        "horizon": config.train.horizon,
        "buffers": trainer.vec.num_buffers,
        "device": str(trainer.device),
        "description": trainer.describe(),
    }


class Watch(Dashboard):
    """A stand-in for the dashboard that stops a run once `enough(metrics)` is true."""

    def __init__(self, enough: Callable[[Mapping[str, float]], bool]) -> None:
        self.enough = enough
        self.trainer: Trainer | None = None
        self.updates = 0

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        """Check the metrics of an update."""
        self.updates += 1
        if self.enough(metrics):
            assert self.trainer is not None
            self.trainer.request_stop()


def each_seed(
    options: argparse.Namespace, sample: Callable[[argparse.Namespace, int], Any]
) -> tuple[dict[str, Any], list[Any], float]:
    """Take a sample with each of the seeds 1 to --seeds, on the first --cores usable cores.

    Returns:
        facts about the machine with these cores, the samples, and the highest share of foreign
        load.

    Raises:
        PuffervecError: there are not enough cores.
    """
    if not 1 <= options.cores <= usable_cores():
        raise PuffervecError(
            f"--cores is {options.cores}: this process may use 1 to {usable_cores()}"
        )
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[: options.cores])
    try:
        facts = common.machine()
        results = [
            foreign_load(functools.partial(sample, options, seed))
            for seed in range(1, options.seeds + 1)
        ]
        return (
            facts,
            [one for one, _ in results],
            max((foreign for _, foreign in results), default=0.0),
        )
    finally:
        os.sched_setaffinity(0, cores)


def train(config: TrainConfig, seconds: float) -> dict[str, Any]:
    """Train for `seconds`, but at least a few updates; return rates and the time split.

    Args:
        config: config of the run; its files are written to a temporary folder.
    """
    watch = Watch(lambda metrics: metrics[ELAPSED_S] >= seconds and watch.updates >= FEWEST_UPDATES)
    with tempfile.TemporaryDirectory(prefix="puffervec-train-") as folder:
        with Trainer(config.merged({"log": {"folder": folder}}), dashboard=watch) as trainer:
            watch.trainer = trainer
            facts = facts_of(trainer)
            trainer.train()
        return {"facts": facts, **rates(list(read_metrics(trainer.folder / METRICS_FILE)), facts)}


def rates(lines: Sequence[Mapping[str, float]], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return rates from two or more lines of a log.

    They are agent-steps/s, env-steps/s, shares of the time, and the seconds of one step of all envs
    in a rollout and of the policy on one half.
    """
    first = max(0, min(len(lines) - 2, int(WARM_SHARE * len(lines))))
    begin, measured = lines[first], lines[first + 1 :]
    spans = [
        line[ELAPSED_S] - before[ELAPSED_S]
        for before, line in zip(lines[first:], measured, strict=False)
    ]
    span = sum(spans)
    weighted = list(zip(measured, spans, strict=True))
    shares = {
        part: sum(line[key] * length for line, length in weighted) / span
        for part, key in TIME_PARTS.items()
    }
    steps = len(measured) * facts["horizon"]
    return {
        "agent_steps_per_s": (measured[-1][STEP] - begin[STEP]) / span,
        "env_steps_per_s": steps * facts["num_envs"] / span,
        "shares": shares,
        "iteration_s": (shares["env"] + shares["copy"] + shares["forward"]) * span / steps,
        "policy_half_s": (shares["copy"] + shares["forward"]) * span / (steps * facts["buffers"]),
    }


def simulation_half_s(config: TrainConfig, turns: int = 200) -> float:
    """Measure the seconds in which all cores step one half, by the workers' time stamps.

    Nothing else runs meanwhile.
    """
    workload = Workload(config.target, config.target, config.tables()["env"], config.vec.num_envs)
    with workload.make("serial") as vec:
        actions = draw_actions(vec.spec, workload.num_envs)
    return modes.measure_half(workload, actions, usable_cores(), turns, warmup=turns // 4)


# ---- what is learned in some minutes -------------------------------------------------------------


def learn(config: TrainConfig, names: Sequence[str]) -> dict[str, Any]:
    """Train; return facts about the training, with the run folder as `run`, and a curve.

    Args:
        names: metrics of the env that form the curve.
    """
    begin, used = time.perf_counter(), time.process_time()
    with Trainer(config) as trainer:
        trainer.train()
        run, about, steps = trainer.folder, trainer.describe(), trainer.counters.agent_steps
    curve = [
        {"minutes": line[ELAPSED_S] / 60, **{name: line[ENV + name] for name in names}}
        for line in read_metrics(run / METRICS_FILE)
        if ENV + names[0] in line
    ]
    return {
        "run": run,
        "about": about,
        "seconds": time.perf_counter() - begin,
        "learner_cpu_s": time.process_time() - used,
        "agent_steps": steps,
        "curve": curve[:: max(1, len(curve) // 100)],
    }


def learning_command(
    name: str,
    about: str | None,
    minutes: float,
    episodes: int,
    sample: Callable[[argparse.Namespace, int], Any],
    show: Callable[[Sequence[Any]], None],
    draw: Callable[[Any, Path], None],
) -> Callable[..., int]:
    """Return the command that takes a sample with each seed, shows them all and draws the first.

    Args:
        about: its docstring.
        minutes, episodes: defaults of its flags.
    """

    @common.command
    def main(arguments: Sequence[str] | None = None) -> None:
        flags = common.parser(about)
        add = flags.add_argument
        add("--minutes", type=float, default=minutes, help="of training (default: %(default)s)")
        add("--episodes", type=int, default=episodes, help="of a pairing (default: %(default)s)")
        add("--seeds", type=int, default=1, help="number of runs (default: %(default)s)")
        add("--cores", type=int, default=2, help="that it may use (default: %(default)s)")
        add("--png", type=Path, help="path of the picture (default: none)")
        common.add_json(flags, name)
        options = flags.parse_args(arguments)
        facts, results, worst = each_seed(options, sample)
        show(results)
        if options.png is not None:
            draw(results[0], options.png)
        common.finish(name, options, facts, worst, results)

    return main

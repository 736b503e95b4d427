# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Find settings for unknown envs, by training small envs of different kinds with candidates.

    PYTHONPATH=FOLDER python bench/defaults.py
    python bench/defaults.py --tasks CartPole-v1,cartpole --candidates generic

FOLDER has box2d, pygame and examples/out_of_tree (pip install --target FOLDER).

Each candidate overrides settings of GENERIC in puffervec/train/config/target.py. A score is the
mean return of 50 episodes with the most probable actions after the task's budget of agent-steps. It
counts as (score - random) / (good - random), clipped to 0..1, where `random` is the return of
random actions and `good` a return known to be reachable. Every sample is a fresh process with its
own seed, in which envs, policy and update share one thread. Envs that are not installed are
skipped, with a note.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from puffervec.errors import ConfigError, PuffervecError

EPISODES, EVALUATION_SEED = 50, 1000

Tables = Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Task:
    """An env, its budget, and the scores that count as 0 and 1."""

    env: str
    steps: int
    random: float
    good: float
    tables: Tables = dataclasses.field(default_factory=dict)


TASKS = {
    "CartPole-v1": Task("CartPole-v1", 100_000, 22, 500),
    "cartpole": Task("cartpole", 100_000, 22, 500),  # The same env in C.
    "Acrobot-v1": Task("Acrobot-v1", 100_000, -500, -80),
    "Pendulum-v1": Task("Pendulum-v1", 150_000, -1230, -170),
    "LunarLander-v3": Task("LunarLander-v3", 150_000, -180, 240),
    "coin_grid": Task("coin_grid", 100_000, -1.6, 13),  # C
    "recall": Task(
        "tests.learn.envs:DelayedCopy", 50_000, 0.67, 2, {"policy": {"memory": "mingru"}}
    ),
    "parts": Task("tests.learn.envs:Parts", 30_000, 2.9, 8),
    "spot": Task("tests.learn.envs:Spot", 30_000, 2, 8),
}

BEFORE: Tables = {  # The preset of C envs before there was a common one.
    "vec": {"num_envs": 16},
    "train": {
        "horizon": 64, "update_epochs": 2, "gamma": 0.98,
        "value_coef": 1.0, "entropy_coef": 0.01, "scale_rewards": False,
    },
    "policy": {"normalize": False},
}  # fmt: skip


def wide(policy: Mapping[str, Any] | None = None, **train: Any) -> Tables:
    """Return the settings of 64 envs x 32 steps with these changes."""
    return {
        "vec": {"num_envs": 64},
        "train": {"horizon": 32, "lr": 2e-3, **train},
        "policy": policy or {},
    }


CANDIDATES: dict[str, Tables] = {
    "generic": {},
    "before, C": BEFORE,
    "16 x 128, lr 1e-3": {"vec": {"num_envs": 16}, "train": {"horizon": 128, "lr": 1e-3}},
    "32 x 64, lr 2e-3": {"vec": {"num_envs": 32}, "train": {"horizon": 64, "lr": 2e-3}},
    "64 x 32, lr 1e-3": wide(lr=1e-3),
    "64 x 32, lr 2e-3": wide(),
    "64 x 32, lr 3e-3": wide(lr=3e-3),
    "64 x 32, lr 2e-3, 10 epochs": wide(update_epochs=10),
    "64 x 32, lr 2e-3, entropy 0.01": wide(entropy_coef=0.01),
    "64 x 32, lr 2e-3, minibatches of 128": wide(minibatch_size=128),
    "64 x 32, lr 2e-3, 128 units": wide({"hidden": (128, 128)}),
}


def sample(job: tuple[str, str, int]) -> dict[str, Any]:
    """Train and evaluate. Args: job: task, candidate, seed."""
    import torch

    from puffervec.train import TrainConfig, Trainer
    from puffervec.train.act import evaluate
    from puffervec.train.metrics.keys import EPISODE_RETURN
    from puffervec.train.run import checkpoint as ckpt

    torch.set_num_threads(
        1
    )  # With small networks, more threads are slower, especially on a busy machine.
    name, candidate, seed = job
    task, cpu = TASKS[name], torch.device("cpu")
    with tempfile.TemporaryDirectory(prefix="puffervec-defaults-") as folder:
        config = (
            TrainConfig.of(task.env)
            .merged(CANDIDATES[candidate])
            .merged(task.tables)
            .merged(
                {
                    "vec": {"backend": "serial", "num_buffers": 1},
                    "train": {
                        "seed": seed,
                        "total_timesteps": task.steps,
                        "threads": 1,
                        "device": "cpu",
                    },
                    "log": {"folder": folder, "dashboard": "off", "checkpoint_interval_s": 1e9},
                }
            )
        )
        begin = time.perf_counter()
        with Trainer(config) as trainer:
            metrics = trainer.train()
        seconds = time.perf_counter() - begin
        newest = ckpt.newest(trainer.folder / "checkpoints")
        assert newest is not None
        run, policies = evaluate.load_policies(newest, cpu, (config.target,))
        config = run.config
        actor = evaluate.PolicyActor(policies, cpu, True)
        if config.python:
            (rates,) = evaluate.evaluate_python(config, actor, EPISODES, EVALUATION_SEED)
        else:
            (rates,) = evaluate.evaluate_generic(
                config.target, config.env, actor, EPISODES, EVALUATION_SEED
            )
    score = rates.episode_return[0]
    share = (score - task.random) / (task.good - task.random)
    return {
        "task": name, "candidate": candidate, "seed": seed,
        "score": score, "share": min(1.0, max(0.0, share)),
        "logged_return": metrics[EPISODE_RETURN], "seconds": seconds,
    }  # fmt: skip


def missing(task: Task) -> str:
    """Return the reason why an env cannot be made here, "" if it can."""
    from puffervec.train import TrainConfig
    from puffervec.train.config.target import env_spec

    try:
        env_spec(TrainConfig.of(task.env))
    except PuffervecError as error:
        return " ".join(str(error).split())[:120]
    return ""


def table(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per candidate, best first, with its mean scaled score and its scores by task."""
    rows = []
    for candidate in dict.fromkeys(one["candidate"] for one in samples):
        own = [one for one in samples if one["candidate"] == candidate]
        tasks = list(dict.fromkeys(one["task"] for one in own))
        by_task = {task: [one for one in own if one["task"] == task] for task in tasks}
        shares = {
            task: statistics.mean(one["share"] for one in scores)
            for task, scores in by_task.items()
        }
        rows.append(
            {
                "candidate": candidate,
                "share": statistics.mean(shares.values()),
                "worst_share": min(shares.values()),
                "scores": {
                    task: [one["score"] for one in scores] for task, scores in by_task.items()
                },
                "seconds": {
                    task: statistics.median(one["seconds"] for one in scores)
                    for task, scores in by_task.items()
                },
            }
        )
    return sorted(rows, key=lambda row: -row["share"])


def run(options: argparse.Namespace, note: Any) -> list[dict[str, Any]]:
    """Return a sample per task, candidate and seed. Raises: ConfigError: an unknown name."""
    for names, known in ((options.tasks, TASKS), (options.candidates, CANDIDATES)):
        for name in names:
            if name not in known:
                raise ConfigError(f"{name!r} is unknown: use {', '.join(known)}")
    reasons = {name: missing(TASKS[name]) for name in options.tasks}
    options.left_out = {name: why for name, why in reasons.items() if why}
    seeds = range(1, options.seeds + 1)
    jobs = [
        (t, c, s)
        for s in seeds
        for t in options.tasks
        for c in options.candidates
        if not reasons[t]
    ]
    samples = []
    with concurrent.futures.ProcessPoolExecutor(
        options.processes, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        for done in concurrent.futures.as_completed([pool.submit(sample, job) for job in jobs]):
            one = done.result()
            samples.append(one)
            note(
                f"{len(samples)} of {len(jobs)}: {one['task']}, {one['candidate']}: "
                f"{one['score']:.1f}"
            )
    return sorted(samples, key=lambda one: jobs.index((one["task"], one["candidate"], one["seed"])))


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(";" if ";" in text else ",")]


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    flags.add_argument("--tasks", type=_names, default=list(TASKS), help="from %(default)s")
    flags.add_argument(
        "--candidates",
        type=_names,
        default=list(CANDIDATES),
        help="from %(default)s; with ; where names have ,",
    )
    flags.add_argument("--seeds", type=int, default=3, help="runs of each (default: %(default)s)")
    flags.add_argument(
        "--processes", type=int, default=2, help="simultaneous runs (default: %(default)s)"
    )
    common.add_json(flags, "defaults")
    options = flags.parse_args(arguments)
    progress = common.Progress()
    samples, foreign = common.foreign_load(lambda: run(options, progress))
    rows = table(samples)
    tasks = list(dict.fromkeys(one["task"] for one in samples))
    cells = [
        (row["candidate"], f"{row['share']:.2f}", f"{row['worst_share']:.2f}",
         *(f"{statistics.median(row['scores'][task]):.1f}" for task in tasks))
        for row in rows
    ]  # fmt: skip
    notes = [f"{name} is left out: {why}" for name, why in options.left_out.items()]
    common.print_table(
        "settings for unknown envs", ("candidate", "mean share", "worst", *tasks), cells, notes
    )
    common.finish(
        "defaults", options, common.machine(), foreign, {"rows": rows, "samples": samples}
    )


if __name__ == "__main__":
    sys.exit(main())

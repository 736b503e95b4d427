# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Check whether a run over Ray learns as well as a single process, seed by seed.

Both have the same agent-steps, rows per update and settings.

    python bench/hosts_learning.py                                  cartpole, 3 seeds
    python bench/hosts_learning.py --target drive --steps 3000000 --seeds 1 --num-envs 4
    python bench/hosts_learning.py --observations exact bf16 uint8  formats of sent observations

One process has all the envs; each of two hosts has half of them, so that an update learns from as
many rows. The score is the mean of the env's metric over the last tenth of the updates.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common

NAME = "hosts-learning"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the flags."""
    flags = common.parser(__doc__)
    flags.add_argument("--target", default="cartpole", help="env (default: %(default)s)")
    flags.add_argument(
        "--steps", type=int, default=500_000, help="agent-steps of a run (default: %(default)s)"
    )
    flags.add_argument(
        "--num-envs", type=int, default=64, help="envs of the single process (default: %(default)s)"
    )
    flags.add_argument("--seeds", type=int, default=3, help="number of them (default: %(default)s)")
    flags.add_argument(
        "--observations",
        nargs="+",
        default=["exact"],
        help="formats of the hosts (default: %(default)s)",
    )
    common.add_json(flags, "hosts-learning")
    return flags.parse_args(arguments)


def score(run: Path, metric: str) -> dict[str, float]:
    """Return the score of a run, its agent-steps/s, and over Ray its lag and bytes."""
    from puffervec.train import read_metrics

    lines = list(read_metrics(run / "metrics.jsonl"))
    last = [line for line in lines if line["update"] > 0.9 * lines[-1]["update"]]
    result = {"score": statistics.fmean(line[metric] for line in last), "steps": lines[-1]["step"]}
    result["agent_steps_per_s"] = lines[-1]["step"] / lines[-1]["elapsed_s"]
    for key in ("ray/lag", "ray/bytes_per_agent_step"):
        if key in last[0]:
            result[key.partition("/")[2]] = statistics.fmean(line[key] for line in last)
    return result


def train(
    options: argparse.Namespace, folder: str, seed: int, observations: str | None
) -> dict[str, float]:
    """Train one run and return its `score`.

    Args:
        observations: the format in which hosts send them; None: a run in one process.
    """
    from puffervec.train import TrainConfig, Trainer
    from puffervec.train.config.target import training_of
    from puffervec.wings.ray import RayTrainer

    name = f"{seed}-{observations or 'process'}"
    config = TrainConfig.of(options.target).merged(
        {
            "vec": {"num_envs": options.num_envs // (2 if observations else 1)},
            "train": {
                "seed": seed,
                "device": "cpu",
                "total_timesteps": options.steps,
                "time_limit_s": 0.0,
            },
            "log": {"folder": folder, "dashboard": "off", "name": name},
        }
    )
    if observations is None:
        with Trainer(config) as trainer:
            trainer.train()
    else:
        ray = {"address": "local", "hosts": 2, "observations": observations, "wait_s": 300.0}
        with RayTrainer(config.merged({"ray": ray})) as trainer:
            trainer.train()
    return score(Path(folder) / name, training_of(options.target).metric)


def markdown(results: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return a table of docs/ray.md: the score of each way of collecting, seed by seed.

    Args: results: the results of a JSON file.
    """
    rows = []
    for name, runs in results.items():
        scores = ", ".join(f"{one['score']:.4g}" for one in runs)
        rows.append((name, scores, ", ".join(f"{one['steps'] / 1e6:.1f} M" for one in runs)))
    return common.markdown(("played by", ">score of each seed", ">agent-steps"), rows)


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print and write the results."""
    options = parse(arguments)
    from bench.foreign import foreign_load

    facts = common.machine()
    variants = [None, *options.observations]
    results: dict[str, list[dict[str, float]]] = {}
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, options.seeds + 1):
            for kind in variants:
                name = "one process" if kind is None else f"two hosts, {kind}"
                sample, foreign = foreign_load(
                    lambda seed=seed, kind=kind: train(options, folder, seed, kind)
                )  # type: ignore[misc]
                results.setdefault(name, []).append(sample)
                worst = max(worst, foreign)
                print(f"seed {seed} {name}: {sample}", flush=True)
    rows: list[list[Any]] = []
    for name, runs in results.items():
        columns = ("score", "agent_steps_per_s", "lag", "bytes_per_agent_step")
        cells = [
            str(common.figure(run[key] for run in runs)) if key in runs[0] else "-"
            for key in columns
        ]
        rows.append([name, ", ".join(f"{run['score']:.3f}" for run in runs), *cells])
    common.print_table(
        options.target, ("", "score by seed", "median", "agent-steps/s", "lag", "bytes/step"), rows
    )
    common.finish(NAME, options, facts, worst, results)


if __name__ == "__main__":
    sys.exit(main())

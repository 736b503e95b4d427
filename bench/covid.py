# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measure covid: rollouts, transfer and training, next to its NumPy twin.

    python bench/covid.py                       60 and 1,000 envs
    python bench/covid.py --parts rollout --envs 60

rollout: env-steps/s of this process, of one worker, of two workers, and of our NumPy twin (one env
on one core), written as a user would write it: arrays over the states, and unemployment as a sum
over 600 days. transfer: the time to copy the observations of a step once into the storage of a
rollout. Both time each turn and use the fastest tenth: a turn takes a millisecond or less, so some
turns are undisturbed even on a busy machine. The variants alternate, sample by sample. training:
rates and shares of the time while both policies learn.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common, runs
from bench.modes import Mode
from bench.policies import Replay
from bench.workloads import Workload, actions_of, on_one_core
from puffervec.envs.covid.data import load_data
from puffervec.errors import ConfigError
from puffervec.testing.reference.covid import Covid
from puffervec.train.metrics.keys import TIME_PARTS

NUMPY, ONE, TWO = "NumPy", "one worker", "two workers"
MODES = {
    "serial": Mode("serial", "serial"),
    ONE: Mode(ONE, "multiprocessing", 1),
    TWO: Mode(TWO, "multiprocessing", 2),
}
WANTED = {"serial_over_numpy": 50.0, "two_over_one": 1.7}
TWIN_STEPS = 540
SAMPLES = 225_000  # Agent-steps per rollout of a training; the horizon follows from it.


def workload_of(envs: int) -> Workload:
    """Return a workload of `envs` envs with the paper's settings."""
    return Workload(f"covid, {envs} envs", "covid", {}, envs, 541)


def fast_turn(turn: Callable[[], object], turns: int) -> float:
    """Call `turn` repeatedly; return the seconds of the slowest call of the fastest tenth."""
    spent = []
    for _ in range(turns):
        begin = time.perf_counter()
        turn()
        spent.append(time.perf_counter() - begin)
    return float(np.quantile(spent, 0.1))


def rollout(workload: Workload, actions: Mapping[str, np.ndarray], mode: Mode, turns: int) -> float:
    """Measure the seconds of a turn of all envs, without a policy."""
    with workload.make(mode.backend, **mode.settings) as vec:
        policy = Replay(vec, actions)

        def turn() -> None:
            rows = vec.recv()
            vec.send(policy(vec.half, rows))

        for _ in range(max(1, turns // 10)):
            turn()
        return fast_turn(turn, turns)


def numpy_twin(turns: int) -> float:
    """Measure the seconds of one step of one env of the NumPy twin on one core."""
    twin, draw = Covid(load_data()), np.random.default_rng(1)
    actions = [
        {"states": draw.integers(0, 11, 51), "planner": draw.integers(0, 21, 1)} for _ in range(64)
    ]

    def turn() -> None:
        if twin.step(actions[twin.time % len(actions)])[2]:
            twin.reset()

    with on_one_core():
        return fast_turn(turn, turns)


def transfer(workload: Workload, turns: int) -> float:
    """Measure the seconds in which one core copies the observations of a step of all envs once."""
    with workload.make("serial") as vec, on_one_core():
        rows = {name: rows.observations for name, rows in vec.halves[0].groups.items()}
        copies = {name: np.zeros_like(of) for name, of in rows.items()}

        def turn() -> None:
            for name, of in rows.items():
                np.copyto(copies[name], of)

        return fast_turn(turn, turns)


def measure_rollout(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Measure env-steps/s of all variants for each number of envs, and their ratios."""
    results, worst = {}, 0.0
    for envs in options.envs:
        workload = workload_of(envs)
        actions = actions_of(workload)
        turns = max(20, round(options.seconds / (3e-6 * envs)))
        variants: dict[str, Any] = {
            name: functools.partial(rollout, workload, actions, mode, turns)
            for name, mode in MODES.items()
        }
        variants |= {
            "transfer": lambda w=workload, n=turns: transfer(w, n),
            NUMPY: lambda: numpy_twin(TWIN_STEPS),
        }
        samples = common.interleave(variants, options.repeats, note, options.attempts)
        worst = max(worst, samples.foreign)
        results[str(envs)] = rates(samples.results, envs)
    return results, worst


def rates(seconds: Mapping[str, Sequence[float]], envs: int) -> dict[str, Any]:
    """Return the figures of a case.

    Args:
        seconds: samples by variant, of a turn of all envs; for NumPy of a step of one env.
        envs: number of envs.
    """
    steps = {name: 1 if name == NUMPY else envs for name in seconds}
    per_step = {name: [s / steps[name] for s in samples] for name, samples in seconds.items()}
    return {
        "env_steps_per_s": {
            name: common.figure(1 / s for s in per_step[name]) for name in (*MODES, NUMPY)
        },
        "transfer_share": common.ratio(seconds["transfer"], seconds["serial"]),
        "serial_over_numpy": common.ratio(per_step[NUMPY], per_step["serial"]),
        "two_over_one": common.ratio(seconds[ONE], seconds[TWO]),
    }


def show_rollout(results: Mapping[str, Any]) -> None:
    """Print the table of results."""
    cells, notes = [], []
    for envs, case in results.items():
        per_s = case["env_steps_per_s"]
        ratios = (str(case[key]) for key in ("serial_over_numpy", "two_over_one", "transfer_share"))
        cells.append((envs, *(str(per_s[name]) for name in per_s), *ratios))
        for key, target in WANTED.items():
            word = "met" if case[key].median >= target else "MISSED"
            notes.append(
                f"{envs} envs: {key.replace('_', ' ')} {case[key].median:.3g}, wanted "
                f"{target:g}: {word}"
            )
    columns = ("envs", *MODES, NUMPY, "serial / NumPy", "two / one", "transfer / serial")
    common.print_table("covid: env-steps/s", columns, cells, notes)


def measure_training(options: argparse.Namespace, note: Any) -> tuple[dict[str, Any], float]:
    """Measure rates and the time split of training with the preset's policies."""
    variants: dict[str, Any] = {}
    for envs in options.envs:
        train = {"horizon": int(np.clip(SAMPLES // (52 * envs), 4, 540)), "minibatch_size": 0}
        tables = {"vec": {"num_envs": envs}, "train": train}
        config = runs.config_of(runs.Run("covid", tables), "cpu")
        variants[str(envs)] = functools.partial(runs.train, config, options.train_seconds)
    samples = common.interleave(variants, options.train_repeats, note, options.attempts)
    results = {
        envs: {
            "facts": repeats[0]["facts"],
            "env_steps_per_s": common.figure(sample["env_steps_per_s"] for sample in repeats),
            "agent_steps_per_s": common.figure(sample["agent_steps_per_s"] for sample in repeats),
            "shares": {
                part: common.figure(sample["shares"][part] for sample in repeats)
                for part in TIME_PARTS
            },
        }
        for envs, repeats in samples.results.items()
    }
    return results, samples.foreign


def show_training(results: Mapping[str, Any]) -> None:
    """Print the table of results."""
    cells = [
        (envs,
         ", ".join(f"{part} {100 * case['shares'][part].median:.0f}%" for part in TIME_PARTS),
         str(case["env_steps_per_s"]), str(case["agent_steps_per_s"]))
        for envs, case in results.items()
    ]  # fmt: skip
    common.print_table(
        "covid: both policies train",
        ("envs", "time", "env-steps/s", "agent-steps/s"),
        cells,
    )


MEASURES = {
    "rollout": (measure_rollout, show_rollout),
    "training": (measure_training, show_training),
}


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    common.add_flags(flags, "covid", 0.3)
    flags.add_argument(
        "--parts", default=",".join(MEASURES), help="comma-separated, of: %(default)s"
    )
    flags.add_argument(
        "--envs", default="60,1000", help="comma-separated numbers of envs (default: %(default)s)"
    )
    flags.add_argument(
        "--train-seconds",
        type=float,
        default=10.0,
        help="length of a sample (default: %(default)s)",
    )
    flags.add_argument(
        "--train-repeats", type=int, default=3, help="samples (default: %(default)s)"
    )
    options = flags.parse_args(arguments)
    facts, progress, results, worst = common.machine(), common.Progress(), {}, 0.0
    parts = common.names("--parts", options.parts, MEASURES)
    if not all(word.isdecimal() and 2 <= int(word) <= 10_000 for word in options.envs.split(",")):
        raise ConfigError(
            f"--envs is {options.envs!r}: give numbers from 2 to 10000, separated by commas"
        )
    options.envs = [int(word) for word in options.envs.split(",")]
    for part in parts:
        measure_part, show = MEASURES[part]
        results[part], foreign = measure_part(options, progress)
        worst = max(worst, foreign)
        show(results[part])
    common.finish("covid", options, facts, worst, results)


if __name__ == "__main__":
    sys.exit(main())

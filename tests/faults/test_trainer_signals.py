# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Ctrl-C and SIGTERM for the whole group of a `puffer-train`, at random times from its first line
of code on (puffervec/commands/cli.py): one is answered by a checkpoint and 130 or 143, a second one
by the end at once; nothing is left.

One signal of each kind, in training, is in tests/commands/test_cli.py.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from puffervec.train.run import checkpoint as ckpt
from tests.faults.trainers import Run, start
from tests.helpers import eventually

ROUNDS = int(os.environ.get("PV_ROUNDS", "100"))
FOR_EVER = ["--total-timesteps", str(10**12)]
# What training looks like: workers and many saves; updates that take longer than rollouts; Python
# envs of a fork server.
KINDS = {
    "workers": [
        "probe",
        "--backend",
        "multiprocessing",
        "--num-workers",
        "2",
        "--log.checkpoint-interval-s",
        "0",
    ],
    "long updates": [
        "probe",
        "--num-envs",
        "64",
        "--train.horizon",
        "64",
        "--train.update-epochs",
        "50",
    ],
    "Python envs": [
        "CartPole-v1",
        "--num-envs",
        "8",
        "--backend",
        "multiprocessing",
        "--num-workers",
        "2",
    ],
}


def checked(run: Run, folder: Path, numbers: list[signal.Signals]) -> None:
    """What must hold after the signals, whenever they came."""
    code = run.end()
    expected = {128 + number for number in numbers}
    if (
        len(numbers) > 1
    ):  # The second may meet Python's own end, after it has set the handlers back.
        expected |= {-number for number in numbers}
    assert code in expected, f"exit code {code}"
    assert "Traceback" not in run.err + run.out and "Exception" not in run.err + run.out
    assert [
        line for line in run.err.splitlines() if line and not line.startswith("stopping: saving")
    ] == []
    eventually(lambda: not run.left(), "no process of the run is left")
    folders = list(folder.iterdir()) if folder.is_dir() else []
    found = [ckpt.newest(path / "checkpoints") for path in folders]
    for path in found:
        assert path is None or ckpt.read(path).tensors
    if len(numbers) == 1:  # Either nothing was begun, or it was saved.
        assert None not in found, "a run folder without a checkpoint"
        assert found or "run folder" not in run.out


@pytest.mark.slow
def test_at_random_times(tmp_path: Path) -> None:
    seed = int(os.environ.get("PV_SEED", "0")) or random.SystemRandom().randrange(1, 2**31)
    rng = random.Random(seed)
    again = f"PV_SEED={seed} PV_ROUNDS={ROUNDS} python -m pytest -m slow {Path(__file__).name}"
    for index in range(ROUNDS):
        kind = rng.choice(list(KINDS))
        target, *flags = KINDS[kind]
        numbers = [
            rng.choice((signal.SIGINT, signal.SIGTERM)) for _ in range(rng.choice((1, 1, 1, 2)))
        ]
        in_training, delay_s, pause_s = (
            rng.random() < 0.5,
            rng.uniform(0.0, 4.0),
            rng.uniform(0.0, 0.3),
        )
        said = (
            f"round {index}, {kind}: {[n.name for n in numbers]}, in training: {in_training}, "
            f"after {delay_s:.3f} s; {again}"
        )
        run = start([*FOR_EVER, *flags], tmp_path / str(index), target)
        try:
            if in_training:
                run.wait_for("agent-steps/s")
                delay_s /= 10
            time.sleep(delay_s)
            for number in numbers:
                run.send(number)
                time.sleep(pause_s if len(numbers) > 1 else 0.0)
            checked(run, tmp_path / str(index), numbers)
        except Exception as error:
            raise AssertionError(f"{said}\n{error}\n{run.out}{run.err}") from error
        finally:
            run.kill()

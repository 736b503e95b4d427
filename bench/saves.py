# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Kill trainers that save constantly, and count run folders that cannot be loaded afterwards.

There must be none.

    python bench/saves.py

Most of these trainers are small and forked from a process that has imported torch: each resumes
from the newest checkpoint, learns a little and saves repeatedly until SIGKILL at a random moment. A
few are whole `puffer-train` commands, including their start. After each kill the newest checkpoint
must verify and its tensors must load. It must be the last checkpoint whose save returned, or the
next one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common

KEEPS = (1, 3)  # Numbers of checkpoints to keep, in alternation.
# A forked trainer is killed within this time after its first save, about twenty saves later.
LONGEST_S = 0.15
COMMAND = (
    "--backend serial --num-envs 4 --train.horizon 8 --policy.hidden 8 --device cpu "
    "--train.precision fp32 --train.threads 1 --total-timesteps 1000000000000 --log.dashboard "
    "plain --log.print-interval-s 0 --log.checkpoint-interval-s 0"
).split()


@dataclass
class Count:
    """Counts and failures after kills.

    Attributes:
        unloadable, lost: messages about failures; both must stay empty.
    """

    kills: int = 0
    inside_a_save: int = 0  # Kills that left a half-written or half-removed folder behind.
    saves: int = 0  # Saves that returned before a kill.
    unloadable: list[str] | None = None
    lost: list[str] | None = None

    def add_failure(self, kind: str, text: str) -> None:
        """Record a failure of a kind: unloadable or lost."""
        setattr(self, kind, [*(getattr(self, kind) or []), text])

    @property
    def failures(self) -> int:
        """The number of kills that left a faulty run folder."""
        return len(self.unloadable or []) + len(self.lost or [])


# ---- forked trainers -----------------------------------------------------------------------------


def train_and_save(folder: Path, keep: int, saved: Connection) -> None:
    """Train in `folder` and save after every update; send the number of saved updates.

    This runs in a child process.
    """
    from puffervec.train import TrainConfig, Trainer
    from puffervec.train.run import checkpoint as ckpt

    config = TrainConfig.of(
        "probe",
        vec={"backend": "serial", "num_envs": 4},
        train={
            "horizon": 8,
            "device": "cpu",
            "precision": "fp32",
            "threads": 1,
            "total_timesteps": 10**12,
        },
        policy={"hidden": (8,)},
        log={"dashboard": "off", "keep_checkpoints": keep},
    )
    newest = ckpt.newest(folder / "checkpoints")
    with Trainer(config, checkpoint=newest, folder=folder) as trainer:
        while True:
            trainer.collect()
            trainer.update()
            trainer.save()
            saved.send(trainer.counters.updates)


def kill_forked(folder: Path, kills: int, rng: random.Random, note: Callable[[str], None]) -> Count:
    """Fork trainers in `folder`, one after the other, kill each and check the run folder."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["puffervec.train.run.trainer"])
    count = Count()
    for index in range(kills):
        note(f"kill {index + 1}/{kills}")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(
            target=train_and_save, args=(folder, KEEPS[index % len(KEEPS)], sender), daemon=True
        )
        child.start()
        sender.close()
        receiver.poll(100)  # Wait for its first save.
        time.sleep(rng.uniform(0.0, LONGEST_S))
        child.kill()
        child.join()
        updates = None
        with contextlib.suppress(EOFError):
            while True:
                updates = receiver.recv()
                count.saves += 1
        receiver.close()
        look(folder, updates, count, f"kill {index + 1}, after update {updates}")
    return count


def look(folder: Path, updates: int | None, count: Count, when: str) -> None:
    """Load the newest checkpoint of a run folder, as resuming and evaluating do.

    Args:
        updates: updates of the last save that returned.
    """
    from puffervec.train.run import checkpoint as ckpt

    count.kills += 1
    count.inside_a_save += any((folder / "checkpoints").glob(".*"))
    try:
        path = ckpt.newest(folder / "checkpoints")
        content = None if path is None else ckpt.read(path)
    except Exception as error:  # Any failure counts.
        count.add_failure("unloadable", f"{when}: {type(error).__name__}: {error}")
        return
    if content is None:
        if updates is not None:
            count.add_failure("unloadable", f"{when}: no checkpoint verifies")
        return
    loaded = content.manifest["counters"]["updates"]
    if updates is not None and loaded not in (updates, updates + 1):
        count.add_failure("lost", f"{when}: the newest checkpoint is of update {loaded}")


# ---- whole commands ------------------------------------------------------------------------------


def kill_commands(
    folder: Path, kills: int, rng: random.Random, note: Callable[[str], None]
) -> Count:
    """Run `puffer-train` to resume the killed run, and kill it at any time, even at its start."""
    count = Count()
    for index in range(kills):
        note(f"kill {index + 1}/{kills} of a whole command")
        resumable = any((folder / "checkpoints").glob("[0-9]*"))
        name = ["--run-name", folder.name] if not folder.exists() else []
        target = (
            ["--resume", str(folder)]
            if resumable
            else ["probe", *COMMAND, "--log.folder", str(folder.parent), *name]
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "puffervec.commands.cli", *target],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=common.ROOT,
        )
        output = _run_for_a_while(process, rng)
        if not resumable and folder.exists() and not any((folder / "checkpoints").glob("[0-9]*")):
            folder.rename(
                folder.with_name(f"{folder.name}-unused-{index}")
            )  # Killed before its first save.
        if process.returncode != -signal.SIGKILL:
            count.add_failure(
                "unloadable",
                f"command {index + 1} ended by itself with {process.returncode}: {output[-500:]}",
            )
        look(folder, None, count, f"command {index + 1}")
    return count


def _run_for_a_while(process: subprocess.Popen[str], rng: random.Random) -> str:
    """Kill a process after a random time and return its output.

    In half of the cases the time starts at the first update.
    """
    assert process.stdout is not None
    output = ""
    if rng.random() < 0.5:
        for line in process.stdout:
            output += line
            if "agent-steps/s |" in line:
                break
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(0.0, 4.0))
    process.kill()
    rest, _ = process.communicate()
    return output + rest


# ---- the command ---------------------------------------------------------------------------------


def run(kills: int, commands: int, seed: int, note: Callable[[str], None]) -> dict[str, Count]:
    """Kill forked trainers and whole commands; return the counts by kind."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return {
            "forked trainers": kill_forked(folder / "forked", kills, rng, note),
            "whole commands": kill_commands(folder / "command", commands, rng, note),
        }


def show(counts: dict[str, Count]) -> None:
    """Print the table and every failure."""
    rows = [
        (
            name,
            *(
                str(n)
                for n in (
                    c.kills,
                    c.inside_a_save,
                    c.saves,
                    len(c.unloadable or []),
                    len(c.lost or []),
                )
            ),
        )
        for name, c in counts.items()
    ]
    columns = ("killed", "kills", "inside a save", "saves before", "unloadable", "older than saved")
    common.print_table(
        "SIGKILL at random moments of saves", columns, rows, ["the last two must be 0"]
    )
    for count in counts.values():
        for text in [*(count.unloadable or []), *(count.lost or [])]:
            print(f"FAILED {text}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 1 if a run folder could not be loaded."""
    flags = common.parser(__doc__)
    flags.add_argument(
        "--kills",
        type=int,
        default=300,
        help="number of killed forked trainers (default: %(default)s)",
    )
    flags.add_argument(
        "--commands", type=int, default=10, help="kills of whole commands (default: %(default)s)"
    )
    flags.add_argument(
        "--seed",
        type=int,
        default=int(os.environ.get("PV_SEED", "1")),
        help="seed of the random moments (default: %(default)s)",
    )
    common.add_json(flags, "saves")
    options = flags.parse_args(arguments)
    facts = common.machine()
    progress = common.Progress()
    counts, foreign = common.foreign_load(
        lambda: run(options.kills, options.commands, options.seed, progress)
    )
    progress.clear()
    show(counts)
    results: dict[str, Any] = {
        name: {**asdict(count), "failures": count.failures} for name, count in counts.items()
    }
    common.finish("saves", options, facts, foreign, results)
    failed = any(count.failures for count in counts.values())
    if failed:
        print(
            f"again: python bench/saves.py --kills {options.kills} --commands {options.commands} "
            f"--seed {options.seed}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

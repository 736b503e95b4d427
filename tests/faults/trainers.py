# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train` in a separate process and session, for tests that send it signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.helpers import eventually

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "--backend serial --num-envs 4 --train.horizon 8 --policy.hidden 8 --device cpu "
    "--train.precision fp32 --total-timesteps 100 --train.threads 1 --log.dashboard plain "
    "--log.print-interval-s 0"
).split()
# Says when Python has started and our code is about to run: signals before that are Python's.
COMMAND = (
    "import os, sys; from puffervec.commands import cli; os.write(1, b'here\\n'); "
    "sys.exit(cli.main(sys.argv[1:]))"
)
WAIT_S = 100.0  # No measurement: a machine under load.


class Notes:
    """A dashboard that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def show(self, metrics: Mapping[str, float], progress: float) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)

    def close(self) -> None:
        pass


class Run:
    """A `puffer-train` under way; `out` and `err` are what it said, whole after `end`."""

    def __init__(self, args: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=ROOT,
        )
        self.pid, self.out, self.err = self._process.pid, "", ""

    def wait_for(self, words: str) -> None:
        """Read its output until a line has these words. Blocks."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.out += line
            if words in line:
                return
        raise AssertionError(
            f"it ended without saying {words!r}: {self.end()}, {self.out}{self.err}"
        )

    def send(self, number: int) -> None:
        """Send a signal to its whole group, as a terminal does."""
        # Until it has been waited for, its number is not given to another process.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def end(self) -> int:
        """Wait for its end; return the exit code, negative for a signal."""
        out, self.err = self._process.communicate(timeout=WAIT_S)
        self.out += out
        return self._process.returncode

    def left(self) -> list[Any]:
        """Processes of its session that are still there; workers have groups of their own."""
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, ProcessLookupError):
                continue
        return found

    def kill(self) -> None:
        """End what is left of it."""
        self.send(signal.SIGKILL)
        for process in self.left():
            process.kill()
        if self._process.returncode is None:
            self._process.communicate()
        eventually(lambda: not self.left(), "all processes of a killed run are gone")


def start(args: Sequence[str], folder: Path, target: str = "probe") -> Run:
    """Start a small run that leaves its files in `folder`; returns when its own code begins."""
    run = Run([target, *SMALL, *args, "--log.folder", str(folder)])
    try:
        run.wait_for("here")
    except BaseException:
        run.kill()
        raise
    return run

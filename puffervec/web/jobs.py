# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Work that a page asks for, in a process of its own that steps back for everything else: evaluations and replays of a run.

    puffer-train eval RUN --json FILE, puffer-train render RUN --out FILE.html

They read the run's newest checkpoint and write into a temporary folder. One works at a time, at the lowest priority and with
one thread of torch, so that a training on the same machine goes on as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_WAITING = 8
MOST_SAID = 4000  # characters of what a failed job says
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass
class Job:
    """Something to make. Equal questions are one job.

    Attributes:
        run: number of the run. kind: "eval" or "replay". part: of the evaluation, "" for what shows where nobody chose.
        checkpoint: that was the newest when it was asked for. state: waiting, working, done or failed. said: why it failed.
        out: the file that it writes.
    """

    number: int
    run: int
    kind: str
    part: str
    checkpoint: str
    command: list[str]
    out: Path
    state: str = "waiting"
    said: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a page knows it."""
        return {name: getattr(self, name) for name in ("number", "run", "kind", "part", "checkpoint", "state", "said")}


class Jobs:
    """A queue of jobs, and all that were."""

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        """Args: folder: for what they write. flags: of `eval` and `render`, beside ours."""
        self.folder, self.flags = folder, list(flags)
        self.jobs: list[Job] = []
        self._queue: deque[Job] = deque()
        self._wake = asyncio.Event()

    def ask(self, run: int, path: Path, kind: str, part: str, checkpoint: str) -> Job | None:
        """Return the job that makes this, a new one where it is the first that does; None where too many wait already."""
        wanted = (run, kind, part, checkpoint)
        for job in self.jobs:
            if (job.run, job.kind, job.part, job.checkpoint) == wanted and job.state != "failed":
                return job
        if len(self._queue) >= MOST_WAITING:
            return None
        number = len(self.jobs)
        out = self.folder / f"{number}.{'json' if kind == 'eval' else 'html'}"
        words = command_of(path, kind, part, out, self.flags)
        job = Job(number, *wanted, words, out)
        self.jobs.append(job)
        self._queue.append(job)
        self._wake.set()
        return job

    async def work(self) -> None:
        """Do what is asked for, until cancelled; then what is under way is ended."""
        while True:
            await self._wake.wait()
            if not self._queue:
                self._wake.clear()
                continue
            await self._do(self._queue.popleft())

    async def _do(self, job: Job) -> None:
        job.state = "working"
        process = await asyncio.create_subprocess_exec(
            *job.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,
        )
        try:
            said = (await process.communicate())[1].decode("utf-8", "replace").strip()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        made = process.returncode == 0 and job.out.is_file()
        job.state = "done" if made else "failed"
        job.said = "" if made else said[-MOST_SAID:] or f"it ended with code {process.returncode}"


def command_of(run: Path, kind: str, part: str, out: Path, flags: Sequence[str]) -> list[str]:
    """Return the command of a job."""
    lowest = ["nice", "-n", "19"] if shutil.which("nice") else []
    # A path, so that a run that is called like an env is the run. -P: nothing is imported from the current folder unasked.
    command = [
        *lowest,
        sys.executable,
        "-P",
        "-m",
        "puffervec.train.cli",
        "eval" if kind == "eval" else "render",
        str(run.absolute()),
    ]
    own = ["--json", str(out)] if kind == "eval" else ["--out", str(out), *(["--draw", f"part:{part}"] if part else [])]
    return [*command, *own, *flags]

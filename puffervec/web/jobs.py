# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Work that a page asks for, in a process of its own that steps back for everything else: evaluations and replays of a run.

    puffer-train eval CHECKPOINT --json FILE, puffer-train render CHECKPOINT --out FILE.html

They read the run's newest checkpoint and write into a temporary folder. One works at a time, at the lowest priority for cores
and disks and with one thread of torch, so that a training on the same machine goes on as before. Replays of new checkpoints
are recorded without being asked for (`Latest`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puffervec.web.board import CHECKPOINTS, Run, newest_checkpoint

MOST_WAITING = 8
KEPT_BY_ITSELF = 2  # replays of a run that nobody asked for
LOWEST = (("nice", "-n", "19"), ("ionice", "-c", "3"))  # commands that run others so that they step back
MOST_SAID = 4000  # characters of what a failed job says
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass
class Job:
    """Something to make. Equal questions are one job.

    Attributes:
        run: number of the run; path: its folder. kind: "eval" or "replay". part: of the evaluation, "" for what shows where
        nobody chose. checkpoint: the newest one, when it was asked for or, later, when work began. out: the file that it
        writes. by_itself: nobody has asked for it. state: waiting, working, done or failed. said: why it failed.
    """

    number: int
    run: int
    kind: str
    part: str
    checkpoint: str
    path: Path
    out: Path
    by_itself: bool = False
    state: str = "waiting"
    said: str = ""

    @property
    def open(self) -> bool:
        """Whether there is still something to do."""
        return self.state in ("waiting", "working")

    def to_json(self) -> dict[str, Any]:
        """As a page knows it."""
        return {
            name: getattr(self, name) for name in ("number", "run", "kind", "part", "checkpoint", "by_itself", "state", "said")
        }


class Jobs:
    """A queue of jobs, and all that were."""

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        """Args: folder: for what they write. flags: of `eval` and `render`, beside ours."""
        self.folder, self.flags = folder, list(flags)
        self.jobs: list[Job] = []
        self._count = 0
        self._queue: deque[Job] = deque()
        self._wake = asyncio.Event()

    def ask(self, run: int, path: Path, kind: str, part: str, checkpoint: str, by_itself: bool = False) -> Job | None:
        """Return the job that makes this, a new one where it is the first that does; None where too many wait already."""
        wanted = (run, kind, part, checkpoint)
        for job in self.jobs:
            if (job.run, job.kind, job.part, job.checkpoint) == wanted and job.state != "failed":
                job.by_itself &= by_itself
                return job
        if len(self._queue) >= MOST_WAITING:
            return None
        out = self.folder / f"{self._count}.{'json' if kind == 'eval' else 'html'}"
        job = Job(self._count, *wanted, path, out, by_itself)
        self._count += 1
        self.jobs.append(job)
        self._queue.append(job)
        self._wake.set()
        return job

    def forget(self, job: Job) -> None:
        """Remove a job that is over, and what it has made."""
        self.jobs.remove(job)
        job.out.unlink(missing_ok=True)

    async def work(self) -> None:
        """Do what is asked for, until cancelled; then what is under way is ended."""
        while True:
            await self._wake.wait()
            if not self._queue:
                self._wake.clear()
                continue
            await self._do(self._queue.popleft())

    async def _do(self, job: Job) -> None:
        job.state, job.checkpoint = "working", newest_checkpoint(job.path) or job.checkpoint  # The older may be gone by now.
        process = await asyncio.create_subprocess_exec(
            *command_of(job.path / CHECKPOINTS / job.checkpoint, job.kind, job.part, job.out, self.flags),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,
        )
        step_back(process.pid)
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


def step_back(pid: int) -> None:
    """Let a session of its own step back for all others: Linux shares cores among sessions first, and heeds nice within one."""
    with contextlib.suppress(OSError):  # Not on every system, nor in every container.
        Path(f"/proc/{pid}/autogroup").write_text("19")


class Latest:
    """Lets a replay of each new checkpoint be recorded while somebody looks at its run."""

    def __init__(self, jobs: Jobs, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Args: every_s: at least, from the end of one replay of a run to the begin of its next; 0: none unless asked for."""
        self._jobs, self._every_s, self._clock = jobs, every_s, clock
        self._due: dict[int, float] = {}

    def looked_at(self, number: int, run: Run) -> None:
        """Somebody looks at a run: let its newest checkpoint be played if that is due and nothing else is being made."""
        mine = [job for job in self._jobs.jobs if (job.run, job.kind, job.part) == (number, "replay", "")]
        if any(job.open for job in mine):
            self._due[number] = self._clock() + self._every_s
        if not self._every_s or any(job.open for job in self._jobs.jobs) or self._clock() < self._due.get(number, 0.0):
            return
        newest = run.checkpoint()
        known = any(job.checkpoint == newest or (job.by_itself and job.state == "failed") for job in mine)
        if newest is None or known:  # What failed would fail again.
            return
        self._jobs.ask(number, run.path, "replay", "", newest, by_itself=True)
        for job in [job for job in mine if job.by_itself][: -KEPT_BY_ITSELF + 1 or None]:
            self._jobs.forget(job)


def command_of(checkpoint: Path, kind: str, part: str, out: Path, flags: Sequence[str]) -> list[str]:
    """Return the command of a job."""
    lowest = [word for words in LOWEST if shutil.which(words[0]) for word in words]
    # A path, so that a run that is called like an env is the run. -P: nothing is imported from the current folder unasked.
    command = [
        *lowest,
        sys.executable,
        "-P",
        "-m",
        "puffervec.train.cli",
        "eval" if kind == "eval" else "render",
        str(checkpoint.absolute()),
    ]
    own = ["--json", str(out)] if kind == "eval" else ["--out", str(out), *(["--draw", f"part:{part}"] if part else [])]
    return [*command, *own, *flags]

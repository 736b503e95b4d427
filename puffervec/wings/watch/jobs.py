# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The queue of evaluations and replays that the page shows; each runs in a process of its own.

    puffer-train eval CHECKPOINT --json FILE, puffer-train render CHECKPOINT --out FILE.html

These commands read the run's newest checkpoint and write into a temporary folder, one at a time and
with one torch thread. Jobs that a person requested come first, at a niceness that gets a share of a
core next to a training run. Automatic replays of new checkpoints (`AutoReplay`) use only idle
resources; they are ended when a person requests a job, and start again after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puffervec.system.background import (
    IDLE_NICE,
    ONE_THREAD,
    background_command,
    set_session_nice,
)
from puffervec.train.metrics.tables import PROGRESS
from puffervec.viewing.web.board import CHECKPOINTS, Run, newest_checkpoint

MOST_WAITING = 8  # largest number of waiting jobs that a person requested
MOST_AUTO_REPLAYS = 2  # automatic replays that are kept per run
# The next automatic replay waits this many times as long if the last one failed.
FAILED_WAITS = 10
MOST_TRIES = 3  # tries of a job whose checkpoint the run has removed before it was read
# A job gets a quarter or a seventieth of a core that it shares with a process of niceness 0.
ASKED_NICE, AUTO_NICE = 5, IDLE_NICE
MOST_ERROR_CHARS = 4000  # characters that are kept of the output of a failed job
_PROGRESS = re.compile(rf"{PROGRESS} (\w+) ([01]\.\d+)")


@dataclass
class Job:
    """An evaluation or a replay; equal requests share one job.

    Attributes:
        number: number of the job.
        run: number of the run.
        kind: "eval" or "replay".
        part: part of the evaluation; "" for the default.
        checkpoint: the newest checkpoint: when the job was requested, then when its work began.
        path: folder of the run.
        out: the file that the job writes.
        automatic: whether the job was queued without a person's request.
        state: waiting, working, done or failed.
        error: why the job failed.
        phase, share: the current phase of the work, and the share of it that is done, in [0, 1].
        begun: when work began, in seconds.
    """

    number: int
    run: int
    kind: str
    part: str
    checkpoint: str
    path: Path
    out: Path
    automatic: bool = False
    state: str = "waiting"
    error: str = ""
    phase: str = ""
    share: float = 0.0
    begun: float = 0.0

    @property
    def open(self) -> bool:
        """Whether the job is waiting or running."""
        return self.state in ("waiting", "working")

    @property
    def nice(self) -> int:
        """Niceness of the job's process."""
        return AUTO_NICE if self.automatic else ASKED_NICE

    def to_json(self) -> dict[str, Any]:
        """Return the job as JSON for the page; its `seconds` are null unless it is running."""
        names = (
            "number",
            "run",
            "kind",
            "part",
            "checkpoint",
            "automatic",
            "state",
            "error",
            "phase",
            "share",
        )
        seconds = time.monotonic() - self.begun if self.state == "working" else None
        return {**{name: getattr(self, name) for name in names}, "seconds": seconds}


class Jobs:
    """A queue of jobs, and all earlier jobs."""

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        """Create an empty queue.

        Args:
            folder: folder for the files that jobs write.
            flags: additional flags for `eval` and `render`.
        """
        self.folder, self.flags = folder, list(flags)
        self.jobs: list[Job] = []
        self._count = 0
        self._wake = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._preempted = False

    def queue(self) -> list[Job]:
        """Return the waiting jobs, the next one first: requested before automatic, then by age."""
        return sorted(
            (job for job in self.jobs if job.state == "waiting"),
            key=lambda job: (job.automatic, job.number),
        )

    def ask(
        self, run: int, path: Path, kind: str, part: str, checkpoint: str, automatic: bool = False
    ) -> Job | None:
        """Return the job of this request, new or existing; None if too many jobs are waiting."""
        wanted = (run, kind, part, checkpoint)
        for job in self.jobs:
            if (job.run, job.kind, job.part, job.checkpoint) == wanted and job.state != "failed":
                if job.automatic and not automatic:
                    if job.open:
                        self._preempt()
                    job.automatic = False
                return job
        if not automatic and sum(not job.automatic for job in self.queue()) >= MOST_WAITING:
            return None
        out = self.folder / f"{self._count}.{'json' if kind == 'eval' else 'html'}"
        job = Job(self._count, *wanted, path, out, automatic)
        self._count += 1
        self.jobs.append(job)
        if not automatic:
            self._preempt()
        self._wake.set()
        return job

    def forget(self, job: Job) -> None:
        """Remove a finished job and its file."""
        self.jobs.remove(job)
        job.out.unlink(missing_ok=True)

    def _preempt(self) -> None:
        """End a running automatic job, which then waits again.

        A process cannot lower its niceness, so the job cannot simply continue with a better one.
        """
        if any(job.state == "working" and job.automatic for job in self.jobs):
            self._preempted = True
            if self._process is not None:
                _kill(self._process)

    async def work(self) -> None:
        """Run jobs until cancelled; then end the one that is running."""
        while True:
            await self._wake.wait()
            waiting = self.queue()
            if waiting:
                await self._do(waiting[0])
            else:
                self._wake.clear()

    async def _do(self, job: Job) -> None:
        """Run a job; try again if the run has removed its checkpoint before it was read."""
        job.state, job.error = "working", ""
        for _ in range(MOST_TRIES):
            job.checkpoint = newest_checkpoint(job.path) or job.checkpoint
            job.begun, job.phase, job.share = time.monotonic(), "", 0.0
            code = await self._run(job)
            if self._preempted:
                self._preempted, job.state = False, "waiting"
                return
            if code == 0 and job.out.is_file():
                job.state, job.error = "done", ""
                return
            job.error = job.error or f"it ended with code {code}"
            # A job with a phase has read its checkpoint, so a missing one is not why it failed.
            if job.phase or (job.path / CHECKPOINTS / job.checkpoint).is_dir():
                break
        job.state = "failed"

    async def _run(self, job: Job) -> int:
        """Run the command of a job, follow its output and return its exit code."""
        checkpoint = job.path / CHECKPOINTS / job.checkpoint
        process = self._process = await asyncio.create_subprocess_exec(
            *background_command(job.nice),
            *command_of(checkpoint, job.kind, job.part, job.out, self.flags),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,
        )
        set_session_nice(process.pid, job.nice)
        job.error = ""
        if self._preempted:  # The job was preempted while its process was being made.
            _kill(process)
        try:
            assert process.stderr is not None
            async for line in _lines(process.stderr):
                progress = _PROGRESS.fullmatch(line.strip())
                if progress is not None:
                    job.phase, job.share = progress[1], float(progress[2])
                else:
                    job.error = (job.error + line)[-MOST_ERROR_CHARS:]
            job.error = job.error.strip()
            return await process.wait()
        except asyncio.CancelledError:
            _kill(process)
            await process.wait()
            raise
        finally:
            self._process = None


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield the output of a process line by line; a line that is too long comes in pieces."""
    while data := await _line(stream):
        yield data.decode("utf-8", "replace")


async def _line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readuntil()
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await stream.read(error.consumed)


def _kill(process: asyncio.subprocess.Process) -> None:
    """End a process and all processes that it started, which form a session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class AutoReplay:
    """Requests a replay of each new checkpoint of a run while a page shows that run."""

    def __init__(
        self, jobs: Jobs, every_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start without any run.

        Args:
            jobs: the queue.
            every_s: seconds between the end of one replay of a run and the start of its next; 0: no
                automatic replays.
            clock: returns the time in seconds.
        """
        self._jobs, self._every_s, self._clock = jobs, every_s, clock
        self._due: dict[int, float] = {}

    def record_view(self, number: int, run: Run) -> None:
        """Note that a page shows a run; request a replay if one is due and no job is open."""
        mine = [
            job
            for job in self._jobs.jobs
            if (job.run, job.kind, job.part) == (number, "replay", "")
        ]
        if any(job.open for job in mine):
            self._due[number] = self._clock() + self._every_s
        if not self._every_s or any(job.open for job in self._jobs.jobs):
            return
        # For an env that cannot be drawn every replay would fail; after an accidental failure the
        # replay of the next checkpoint succeeds.
        failed = bool(mine) and mine[-1].automatic and mine[-1].state == "failed"
        if self._clock() < self._due.get(number, 0.0) + (FAILED_WAITS - 1) * self._every_s * failed:
            return
        newest = run.checkpoint()
        if newest is None or any(job.checkpoint == newest for job in mine):
            return
        self._jobs.ask(number, run.path, "replay", "", newest, automatic=True)
        for job in [job for job in mine if job.automatic][: -MOST_AUTO_REPLAYS + 1 or None]:
            self._jobs.forget(job)


def command_of(
    checkpoint: Path, kind: str, part: str, out: Path, flags: Sequence[str]
) -> list[str]:
    """Return the command of a job."""
    # The checkpoint is passed as a path, so that a run with the name of an env is recognized as a
    # run. -P keeps Python from importing from the current folder.
    command = [
        sys.executable,
        "-P",
        "-m",
        "puffervec.commands.cli",
        "eval" if kind == "eval" else "render",
        str(checkpoint.absolute()),
        "--progress",
    ]
    own = (
        ["--json", str(out)]
        if kind == "eval"
        else ["--out", str(out), *(["--draw", f"part:{part}"] if part else [])]
    )
    return [*command, *own, *flags]

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Evaluations and replays that a page shows, each made by a command in a process of its own.

    puffer-train eval CHECKPOINT --json FILE, puffer-train render CHECKPOINT --out FILE.html

They read the run's newest checkpoint and write into a temporary folder, one at a time and with one
thread of torch. What a person has asked for comes first, at a niceness that gets a share of a core
beside a training. Replays of new checkpoints, which are made without being asked for (`Latest`),
use only what is idle, and are ended for a click and begun again behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puffervec.train.metrics.tables import PROGRESS
from puffervec.viewing.web.board import CHECKPOINTS, Run, newest_checkpoint

MOST_WAITING = 8  # jobs that were asked for
KEPT_BY_ITSELF = 2  # replays of a run that nobody asked for
# Times as long until the next replay of a run by itself where the last one failed.
FAILED_WAITS = 10
MOST_TRIES = 3  # of a job whose checkpoint the run has removed before it was read
ASKED_NICE, BY_ITSELF_NICE = (
    5,
    19,
)  # beside a process of niceness 0 on the same core: a quarter of it, and a seventieth
IDLE_DISK = (
    "ionice",
    "-c",
    "3",
)  # a command that runs others so that they use disks only while nothing else does
MOST_SAID = 4000  # characters of what a failed job says
LONGEST_LINE = 1 << 16
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_PROGRESS = re.compile(rf"{PROGRESS} (\w+) ([01]\.\d+)")


@dataclass
class Job:
    """Something to make. Equal questions are one job.

    Attributes:
        run: number of the run; path: its folder. kind: "eval" or "replay". part: of the evaluation,
        "" for what shows where nobody chose. checkpoint: the newest one, when it was asked for or,
        later, when work began. out: the file that it writes. by_itself: nobody has asked for it.
        state: waiting, working, done or failed. said: why it failed. act, share: what it does while
        it works, and how much of that is done, from 0 to 1. begun: when work began, in seconds.
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
    act: str = ""
    share: float = 0.0
    begun: float = 0.0

    @property
    def open(self) -> bool:
        """Whether there is still something to do."""
        return self.state in ("waiting", "working")

    @property
    def nice(self) -> int:
        """The niceness of its process."""
        return BY_ITSELF_NICE if self.by_itself else ASKED_NICE

    def to_json(self) -> dict[str, Any]:
        """Return what a page is told. seconds: since work began; null while it waits."""
        names = (
            "number",
            "run",
            "kind",
            "part",
            "checkpoint",
            "by_itself",
            "state",
            "said",
            "act",
            "share",
        )
        seconds = time.monotonic() - self.begun if self.state == "working" else None
        return {**{name: getattr(self, name) for name in names}, "seconds": seconds}


class Jobs:
    """A queue of jobs, and all that were."""

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        """Args: folder: for what they write. flags: of `eval` and `render`, beside ours."""
        self.folder, self.flags = folder, list(flags)
        self.jobs: list[Job] = []
        self._count = 0
        self._wake = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._ended_for_another = False

    def queue(self) -> list[Job]:
        """Return the jobs that wait, the next one first: those that were asked for before the
        others, then the older ones.
        """
        return sorted(
            (job for job in self.jobs if job.state == "waiting"),
            key=lambda job: (job.by_itself, job.number),
        )

    def ask(
        self, run: int, path: Path, kind: str, part: str, checkpoint: str, by_itself: bool = False
    ) -> Job | None:
        """Return the job that makes this, a new one where it is the first that does; None where too
        many wait already.
        """
        wanted = (run, kind, part, checkpoint)
        for job in self.jobs:
            if (job.run, job.kind, job.part, job.checkpoint) == wanted and job.state != "failed":
                if job.by_itself and not by_itself:
                    if job.open:
                        self._make_way()
                    job.by_itself = False
                return job
        if not by_itself and sum(not job.by_itself for job in self.queue()) >= MOST_WAITING:
            return None
        out = self.folder / f"{self._count}.{'json' if kind == 'eval' else 'html'}"
        job = Job(self._count, *wanted, path, out, by_itself)
        self._count += 1
        self.jobs.append(job)
        if not by_itself:
            self._make_way()
        self._wake.set()
        return job

    def forget(self, job: Job) -> None:
        """Remove a job that is over, and what it has made."""
        self.jobs.remove(job)
        job.out.unlink(missing_ok=True)

    def _make_way(self) -> None:
        """End what works without having been asked for; it waits again then. A process cannot be
        made less nice.
        """
        if any(job.state == "working" and job.by_itself for job in self.jobs):
            self._ended_for_another = True
            if self._process is not None:
                _kill(self._process)

    async def work(self) -> None:
        """Do what is asked for, until cancelled; then what is under way is ended."""
        while True:
            await self._wake.wait()
            waiting = self.queue()
            if waiting:
                await self._do(waiting[0])
            else:
                self._wake.clear()

    async def _do(self, job: Job) -> None:
        """Make what a job is about; again where the run that writes there has removed its
        checkpoint before it was read.
        """
        job.state, job.said = "working", ""
        for _ in range(MOST_TRIES):
            job.checkpoint = newest_checkpoint(job.path) or job.checkpoint
            job.begun, job.act, job.share = time.monotonic(), "", 0.0
            code = await self._run(job)
            if self._ended_for_another:
                self._ended_for_another, job.state = False, "waiting"
                return
            if code == 0 and job.out.is_file():
                job.state, job.said = "done", ""
                return
            job.said = job.said or f"it ended with code {code}"
            # What plays has read its checkpoint: that one may be gone, and is not the reason.
            if job.act or (job.path / CHECKPOINTS / job.checkpoint).is_dir():
                break
        job.state = "failed"

    async def _run(self, job: Job) -> int:
        """Run the command of a job and take what it says; return its exit code."""
        checkpoint = job.path / CHECKPOINTS / job.checkpoint
        process = self._process = await asyncio.create_subprocess_exec(
            *stepping_back(job.nice),
            *command_of(checkpoint, job.kind, job.part, job.out, self.flags),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,
            limit=LONGEST_LINE,
        )
        share_among_sessions(process.pid, job.nice)
        job.said = ""
        if self._ended_for_another:  # It was asked to make way while the process was being made.
            _kill(process)
        try:
            assert process.stderr is not None
            async for line in _lines(process.stderr):
                found = _PROGRESS.fullmatch(line.strip())
                if found is not None:
                    job.act, job.share = found[1], float(found[2])
                else:
                    job.said = (job.said + line)[-MOST_SAID:]
            job.said = job.said.strip()
            return await process.wait()
        except asyncio.CancelledError:
            _kill(process)
            await process.wait()
            raise
        finally:
            self._process = None


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield what a process says, line by line; a line that is too long comes in pieces."""
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
    """End a process and all that it started: they are a session of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def stepping_back(nice: int) -> list[str]:
    """Return the commands that run another one at a niceness, and for the highest one with idle
    disks only.
    """
    words = [("nice", "-n", str(nice)), *([IDLE_DISK] if nice == BY_ITSELF_NICE else [])]
    return [word for command in words if shutil.which(command[0]) for word in command]


def share_among_sessions(pid: int, nice: int) -> None:
    """Give a session of its own a niceness: Linux shares cores among sessions first, and heeds that
    of processes within one.
    """
    with contextlib.suppress(OSError):  # Not on every system, nor in every container.
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


class Latest:
    """Lets a replay of each new checkpoint be recorded while somebody looks at its run."""

    def __init__(
        self, jobs: Jobs, every_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Args: every_s: at least, from the end of one replay of a run to the begin of its next; 0:
        none unless asked for.
        """
        self._jobs, self._every_s, self._clock = jobs, every_s, clock
        self._due: dict[int, float] = {}

    def looked_at(self, number: int, run: Run) -> None:
        """Somebody looks at a run: let its newest checkpoint be played if that is due and nothing
        else is being made.
        """
        mine = [
            job
            for job in self._jobs.jobs
            if (job.run, job.kind, job.part) == (number, "replay", "")
        ]
        if any(job.open for job in mine):
            self._due[number] = self._clock() + self._every_s
        if not self._every_s or any(job.open for job in self._jobs.jobs):
            return
        # An env that cannot be drawn would fail each time; what failed by chance succeeds with the
        # next checkpoint.
        failed = bool(mine) and mine[-1].by_itself and mine[-1].state == "failed"
        if self._clock() < self._due.get(number, 0.0) + (FAILED_WAITS - 1) * self._every_s * failed:
            return
        newest = run.checkpoint()
        if newest is None or any(job.checkpoint == newest for job in mine):
            return
        self._jobs.ask(number, run.path, "replay", "", newest, by_itself=True)
        for job in [job for job in mine if job.by_itself][: -KEPT_BY_ITSELF + 1 or None]:
            self._jobs.forget(job)


def command_of(
    checkpoint: Path, kind: str, part: str, out: Path, flags: Sequence[str]
) -> list[str]:
    """Return the command of a job."""
    # A path, so that a run that is called like an env is the run. -P: nothing is imported from the
    # current folder unasked.
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

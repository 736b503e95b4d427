# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from puffervec.web import jobs as module
from puffervec.web.jobs import MOST_WAITING, Job, Jobs, command_of
from tests.helpers import POLL_S


def scripted(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let jobs run a script of Python, which gets the name of the file that it is to write."""
    monkeypatch.setattr(module, "command_of", lambda run, kind, part, out, flags: [sys.executable, "-c", script, str(out)])


def working(jobs: Jobs, steps: Callable[[], Awaitable[None]]) -> None:
    async def both() -> None:
        worker = asyncio.create_task(jobs.work())
        try:
            await asyncio.wait_for(steps(), POLL_S)
        finally:
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await worker

    asyncio.run(both())


async def until(job: Job, *states: str) -> None:
    while job.state not in states:
        await asyncio.sleep(0.01)


def test_a_job_is_made_once_in_a_process_of_lowest_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, "import os, sys; open(sys.argv[1], 'w').write(os.environ['OMP_NUM_THREADS'])")
    jobs = Jobs(tmp_path)

    async def steps() -> None:
        job = jobs.ask(0, tmp_path, "eval", "", "000001")
        assert job is not None and job is jobs.ask(0, tmp_path, "eval", "", "000001")
        await until(job, "done")
        assert job.out.read_text() == "1"
        again = jobs.ask(0, tmp_path, "eval", "", "000002")  # A newer checkpoint.
        assert again is not None and again is not job
        await until(again, "done")

    working(jobs, steps)
    assert command_of(tmp_path, "eval", "", tmp_path / "x.json", [])[:3] == ["nice", "-n", "19"]


def test_a_failure_is_told_in_its_words_and_may_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, "import sys; sys.exit('no <b>scene</b>')")
    jobs = Jobs(tmp_path)

    async def steps() -> None:
        job = jobs.ask(0, tmp_path, "replay", "x", "1")
        assert job is not None
        await until(job, "failed")
        assert job.said == "no <b>scene</b>"
        assert jobs.ask(0, tmp_path, "replay", "x", "1") is not job

    working(jobs, steps)


def test_the_end_ends_what_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)")
    jobs = Jobs(tmp_path)

    async def steps() -> None:
        job = jobs.ask(0, tmp_path, "eval", "", "1")
        assert job is not None
        while not (job.out.exists() and job.out.read_text()):
            await asyncio.sleep(0.01)

    working(jobs, steps)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "0.json").read_text()), 0)


def test_few_may_wait(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    asked = [jobs.ask(0, tmp_path, "eval", str(part), "1") for part in range(MOST_WAITING + 1)]
    assert None not in asked[:-1] and asked[-1] is None


def test_commands_name_the_run_by_its_path_and_take_flags() -> None:
    command = command_of(Path("drive"), "replay", "a b", Path("/tmp/0.html"), ["--seed", "3"])
    assert command[command.index("puffervec.train.cli") + 1 :] == [
        "render", str(Path("drive").absolute()), "--out", "/tmp/0.html", "--draw", "part:a b", "--seed", "3",
    ]  # fmt: skip

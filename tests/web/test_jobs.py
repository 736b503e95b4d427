# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from puffervec.web import jobs as module
from puffervec.web.board import Run
from puffervec.web.follow import Follower
from puffervec.web.jobs import KEPT_BY_ITSELF, MOST_WAITING, Job, Jobs, Latest, command_of
from tests.helpers import POLL_S


def scripted(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let jobs run a script of Python, which gets the name of the file that it is to write."""
    monkeypatch.setattr(module, "command_of", lambda path, kind, part, out, flags: [sys.executable, "-c", script, str(out)])


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
    command = command_of(tmp_path, "eval", "", tmp_path / "x.json", [])
    assert command[:3] == ["nice", "-n", "19"] and (shutil.which("ionice") is None or command[3:6] == ["ionice", "-c", "3"])


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="sessions have no priority of their own here")
def test_its_session_steps_back_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, nice would count within the job's own session only, and the job would get as much as a training."""
    scripted(
        monkeypatch,
        "import sys, time\nwhile 'nice 19' not in (said := open('/proc/self/autogroup').read()): time.sleep(0.01)\n"
        "open(sys.argv[1], 'w').write(said)",
    )
    before, jobs = Path("/proc/self/autogroup").read_text(), Jobs(tmp_path)

    async def steps() -> None:
        job = jobs.ask(0, tmp_path, "eval", "", "1")
        assert job is not None
        await until(job, "done")

    working(jobs, steps)
    assert Path("/proc/self/autogroup").read_text() == before


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


def run_of(folder: Path) -> Run:
    return Run(folder, folder.name, Follower(folder / "metrics.jsonl"))


def saved(folder: Path, step: int) -> str:
    name = f"{step:012d}"
    (folder / "checkpoints" / name).mkdir(parents=True)
    return name


def test_a_job_plays_the_checkpoint_that_is_the_newest_when_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the question may have been removed while the job waited."""
    monkeypatch.setattr(
        module,
        "command_of",
        lambda path, kind, part, out, flags: [
            sys.executable,
            "-c",
            "import sys; open(sys.argv[2], 'w').write(sys.argv[1])",
            path,
            out,
        ],
    )
    jobs = Jobs(tmp_path)
    older = saved(tmp_path, 10)
    job = jobs.ask(0, tmp_path, "replay", "", older)
    assert job is not None
    (tmp_path / "checkpoints" / older).rmdir()
    newer = saved(tmp_path, 20)

    async def steps() -> None:
        await until(job, "done")
        assert job.checkpoint == newer and job.out.read_text() == str(tmp_path / "checkpoints" / newer)

    working(jobs, steps)


def test_new_checkpoints_are_played_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once each, only when nothing else is made, not more often than said, and the oldest are forgotten."""
    scripted(monkeypatch, "import sys; open(sys.argv[1], 'w').write('x')")
    folder = tmp_path / "run"
    saved(folder, 1)
    run, jobs, now = run_of(folder), Jobs(tmp_path), [0.0]
    latest, off = Latest(jobs, 60.0, lambda: now[0]), Latest(jobs, 0.0, lambda: now[0])

    def looked(times: int = 1) -> list[Job]:
        for _ in range(times):
            latest.looked_at(0, run)
            off.looked_at(0, run)
        return jobs.jobs

    async def steps() -> None:
        assert off.looked_at(0, run) is None and jobs.jobs == []
        (first,) = looked(3)
        assert (first.checkpoint, first.by_itself) == ("000000000001", True)
        now[0] = 30.0
        looked()  # It is still under way.
        await until(first, "done")
        saved(folder, 2)
        now[0] = 89.0
        assert looked() == [first]
        now[0] = 91.0
        asked = jobs.ask(0, folder, "eval", "", "000000000002")
        assert asked is not None and looked() == [first, asked]
        await until(asked, "done")
        _, _, second = looked()
        await until(second, "done")
        made = [first, second]
        for step in (3, 4):
            now[0] += 61.0
            looked()
            now[0] += 61.0
            saved(folder, step)
            made.append(looked()[-1])
            await until(made[-1], "done")
        assert jobs.jobs == [asked, *made[-KEPT_BY_ITSELF:]]
        assert [job.out.exists() for job in made] == [False, False, True, True]
        assert len({job.number for job in [asked, *made]}) == 5

    working(jobs, steps)


def test_what_fails_by_itself_is_not_tried_by_itself_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, "import sys; sys.exit('it cannot be drawn')")
    folder = tmp_path / "run"
    saved(folder, 1)
    run, jobs, now = run_of(folder), Jobs(tmp_path), [0.0]
    latest = Latest(jobs, 60.0, lambda: now[0])

    async def steps() -> None:
        latest.looked_at(0, run)
        await until(jobs.jobs[0], "failed")
        saved(folder, 2)
        now[0] = 1000.0
        latest.looked_at(0, run)
        assert len(jobs.jobs) == 1
        assert jobs.ask(0, folder, "replay", "", "000000000002") is not None

    working(jobs, steps)


def test_commands_name_the_run_by_its_path_and_take_flags() -> None:
    command = command_of(Path("drive/checkpoints/7"), "replay", "a b", Path("/tmp/0.html"), ["--seed", "3"])
    assert command[command.index("puffervec.train.cli") + 1 :] == [
        "render", str(Path("drive/checkpoints/7").absolute()), "--out", "/tmp/0.html", "--draw", "part:a b", "--seed", "3",
    ]  # fmt: skip

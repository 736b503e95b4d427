# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from puffervec.viewing.web.board import Run
from puffervec.viewing.web.follow import Follower
from puffervec.wings.watch import jobs as module
from puffervec.wings.watch.jobs import (
    ASKED_NICE,
    AUTO_NICE,
    MOST_AUTO_REPLAYS,
    AutoReplay,
    Job,
    Jobs,
    background_command,
    command_of,
    set_session_nice,
)
from tests.helpers import POLL_S


@pytest.fixture(autouse=True)
def unhindered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs not step back: a test that waits for what uses idle cores alone waits long where
    there are none.
    """
    monkeypatch.setattr(module, "background_command", lambda nice: ["env", f"NICE={nice}"])
    monkeypatch.setattr(module, "set_session_nice", lambda pid, nice: None)


def scripted(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let jobs run a script of Python, which gets the name of the file that it is to write."""
    monkeypatch.setattr(
        module,
        "command_of",
        lambda path, kind, part, out, flags: [sys.executable, "-c", script, str(out)],
    )


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


def test_a_job_is_made_once_with_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(
        monkeypatch, "import os, sys; open(sys.argv[1], 'w').write(os.environ['OMP_NUM_THREADS'])"
    )
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
    assert background_command(ASKED_NICE) == ["nice", "-n", "5"]
    idle = [] if shutil.which("ionice") is None else ["ionice", "-c", "3"]
    assert background_command(AUTO_NICE) == ["nice", "-n", "19", *idle]


def nices() -> str:
    """Return the niceness of this process and, where sessions have one, of its session."""
    session = Path("/proc/self/autogroup")
    # It is empty for what was never in a session of its own, as in some containers.
    return f"{os.nice(0)} {session.read_text() if session.exists() else ''}"


def test_a_click_gets_a_share_and_what_nobody_asked_for_gets_what_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both senses of Linux: the process in its session, and the session among others."""
    script = """
import os, pathlib, sys, time
session = pathlib.Path("/proc/self/autogroup")
while session.exists() and not session.read_text().strip().endswith(f" {OF_SESSIONS[os.nice(0)]}"):
    time.sleep(0.01)
open(sys.argv[1], "w").write(str(os.nice(0)))
"""
    # Where the tests run at a niceness of their own it is added to that of processes, not to that
    # of sessions.
    of_sessions = {min(os.nice(0) + nice, 19): nice for nice in (ASKED_NICE, AUTO_NICE)}
    scripted(monkeypatch, f"OF_SESSIONS = {of_sessions}\n{script}")
    monkeypatch.setattr(module, "background_command", background_command)
    monkeypatch.setattr(module, "set_session_nice", set_session_nice)
    before, jobs, base = nices(), Jobs(tmp_path), os.nice(0)

    async def steps() -> None:
        for automatic, nice in ((False, ASKED_NICE), (True, AUTO_NICE)):
            job = jobs.ask(0, tmp_path, "eval", "", str(automatic), automatic)
            assert job is not None
            await until(job, "done")
            assert int(job.out.read_text()) == min(base + nice, 19)

    working(jobs, steps)
    assert nices() == before


BEGINNING = """
import os, sys, time
with open(os.path.dirname(sys.argv[1]) + "/begun", "a") as begun:
    begun.write(f"{os.path.basename(sys.argv[1])} ")
if sys.argv[1].endswith(".html") and not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(1000)
open(sys.argv[1], "w").write("x")
"""


def test_a_click_goes_before_what_nobody_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay under way is ended for it and made again afterwards; clicks keep their order."""
    scripted(monkeypatch, BEGINNING)
    jobs, begun = Jobs(tmp_path), tmp_path / "begun"

    async def steps() -> None:
        unasked = jobs.ask(0, tmp_path, "replay", "", "1", automatic=True)
        assert unasked is not None
        while not begun.exists():
            await asyncio.sleep(0.01)
        unasked.out.with_name("0.html.go").touch()
        clicks = [jobs.ask(0, tmp_path, "eval", part, "1") for part in "ab"]
        assert jobs.queue() == clicks
        await until(unasked, "done")
        assert [job.state for job in clicks if job is not None] == ["done", "done"]

    working(jobs, steps)
    assert begun.read_text().split() == ["0.html", "1.json", "2.json", "0.html"]


def test_a_replay_under_way_that_somebody_asks_for_begins_again_with_a_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(
        monkeypatch,
        "import os, sys, time\nopen(sys.argv[1] + '.log', 'a').write('x')\n"
        f"if os.environ['NICE'] == '{AUTO_NICE}': time.sleep(1000)\n"
        "open(sys.argv[1], 'w').write('x')",
    )
    jobs = Jobs(tmp_path)

    async def steps() -> None:
        job = jobs.ask(0, tmp_path, "replay", "", "1", automatic=True)
        assert job is not None
        while not job.out.with_name(job.out.name + ".log").exists():
            await asyncio.sleep(0.01)
        assert jobs.ask(0, tmp_path, "replay", "", "1") is job and not job.automatic
        await until(job, "done")

    working(jobs, steps)


def test_progress_is_told_and_is_none_of_the_words_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(
        monkeypatch,
        "import os, sys, time\nprint('progress evaluating 0.250', file=sys.stderr, flush=True)\n"
        "open(sys.argv[1] + '.tries', 'a').write('x')\n"
        "while not os.path.exists(sys.argv[1] + '.go'): time.sleep(0.01)\n"
        "print('progress of nothing\\n' + 'x' * 100000, end='', file=sys.stderr)\nsys.exit(3)",
    )
    jobs, begun = Jobs(tmp_path), time.monotonic()

    async def steps() -> None:
        job = jobs.ask(0, tmp_path, "eval", "", "1")
        assert job is not None and job.to_json()["seconds"] is None
        assert (job.phase, job.share) == ("", 0.0)
        while not job.share:
            await asyncio.sleep(0.01)
        told = job.to_json()
        assert (told["phase"], told["share"], told["error"]) == ("evaluating", 0.25, "")
        assert 0 <= told["seconds"] <= time.monotonic() - begun
        jobs.ask(0, tmp_path, "eval", "other", "1")  # It waits, and the first one is not ended.
        job.out.with_name(job.out.name + ".go").touch()
        await until(job, "failed")
        assert job.error == "x" * 4000
        assert Path(f"{job.out}.tries").read_text() == "x"

    working(jobs, steps)


def test_a_failure_is_told_in_its_words_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it has written something; and thrice by itself where its checkpoint is gone."""
    scripted(
        monkeypatch,
        "import sys; open(sys.argv[1], 'w').write('x'); open(sys.argv[1] + '.tries', 'a')"
        ".write('x'); sys.exit('no <b>scene</b>')",
    )
    jobs = Jobs(tmp_path)

    async def steps() -> None:
        job = jobs.ask(0, tmp_path, "replay", "x", "1")
        assert job is not None
        await until(job, "failed", "done")
        assert (job.state, job.error) == ("failed", "no <b>scene</b>")
        assert Path(f"{job.out}.tries").read_text() == "xxx"
        assert jobs.ask(0, tmp_path, "replay", "x", "1") is not job

    working(jobs, steps)


def test_the_end_ends_what_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(
        monkeypatch,
        "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)",
    )
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
    asked = [jobs.ask(0, tmp_path, "eval", str(part), "1") for part in range(9)]
    assert None not in asked[:8] and asked[8] is None


def run_of(folder: Path) -> Run:
    return Run(folder, folder.name, Follower(folder / "metrics.jsonl"))


def saved(folder: Path, step: int) -> str:
    name = f"{step:012d}"
    (folder / "checkpoints" / name).mkdir(parents=True)
    (folder / "checkpoints" / name / "manifest.json").write_text(json.dumps({"sequence": step}))
    return name


def removed(folder: Path, name: str) -> None:
    shutil.rmtree(folder / "checkpoints" / name)


def test_a_job_plays_the_checkpoint_that_is_the_newest_when_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    removed(tmp_path, older)
    newer = saved(tmp_path, 20)

    async def steps() -> None:
        await until(job, "done")
        assert job.checkpoint == newer and job.out.read_text() == str(
            tmp_path / "checkpoints" / newer
        )

    working(jobs, steps)


def test_new_checkpoints_are_played_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once each, only when nothing else is made, not more often than said, and the oldest are
    forgotten.
    """
    scripted(monkeypatch, "import sys; open(sys.argv[1], 'w').write('x')")
    folder = tmp_path / "run"
    saved(folder, 1)
    run, jobs, now = run_of(folder), Jobs(tmp_path), [0.0]
    latest, off = AutoReplay(jobs, 60.0, lambda: now[0]), AutoReplay(jobs, 0.0, lambda: now[0])

    def looked(times: int = 1) -> list[Job]:
        for _ in range(times):
            latest.record_view(0, run)
            off.record_view(0, run)
        return jobs.jobs

    async def steps() -> None:
        assert off.record_view(0, run) is None and jobs.jobs == []
        (first,) = looked(3)
        assert (first.checkpoint, first.automatic) == ("000000000001", True)
        now[0] = 30.0
        looked()  # It is still under way.
        await until(first, "done")
        saved(folder, 2)
        now[0] = 89.0
        assert looked() == [first]
        now[0] = 90.0
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
        assert jobs.jobs == [asked, *made[-MOST_AUTO_REPLAYS:]]
        assert [job.out.exists() for job in made] == [False, False, True, True]
        assert len({job.number for job in [asked, *made]}) == 5

    working(jobs, steps)


def test_a_checkpoint_that_is_removed_while_it_is_read_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has saved a newer one by then, which is taken."""
    script = (
        "import os, shutil, sys\nif 'old' in os.listdir(sys.argv[2]): shutil.move(sys.argv[2], "
        "sys.argv[1] + '.away')\n"
    )
    script += "open(sys.argv[1] if os.path.isdir(sys.argv[2]) else '/none/x', 'w').write('x')"
    monkeypatch.setattr(
        module,
        "command_of",
        lambda path, kind, part, out, flags: [sys.executable, "-c", script, str(out), str(path)],
    )
    older, newer, jobs = saved(tmp_path, 1), saved(tmp_path, 2), Jobs(tmp_path)
    (tmp_path / "checkpoints" / newer / "old").touch()

    async def steps() -> None:
        job = jobs.ask(0, tmp_path, "replay", "", newer)
        assert job is not None
        await until(job, "done", "failed")
        assert (job.state, job.checkpoint, job.error) == ("done", older, "")

    working(jobs, steps)


def test_what_fails_while_it_plays_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has removed its checkpoint meanwhile, but that was read before."""
    script = (
        "import shutil, sys\nprint('progress playing 0.500', file=sys.stderr, flush=True)\n"
        "open(sys.argv[1] + '.tries', 'a').write('x')\nshutil.rmtree(sys.argv[2])\n"
        "sys.exit('the env failed')"
    )
    monkeypatch.setattr(
        module,
        "command_of",
        lambda path, kind, part, out, flags: [sys.executable, "-c", script, str(out), str(path)],
    )
    newer, jobs = [saved(tmp_path, number) for number in (1, 2)][1], Jobs(tmp_path)

    async def steps() -> None:
        job = jobs.ask(0, tmp_path, "eval", "", newer)
        assert job is not None
        await until(job, "done", "failed")
        assert (job.state, job.checkpoint, job.error) == ("failed", newer, "the env failed")
        assert Path(f"{job.out}.tries").read_text() == "x"

    working(jobs, steps)


def test_after_a_failure_newer_checkpoints_are_played_by_themselves_but_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, "import sys; sys.exit('it cannot be drawn')")
    folder = tmp_path / "run"
    saved(folder, 1)
    run, jobs, now = run_of(folder), Jobs(tmp_path), [0.0]
    latest = AutoReplay(jobs, 60.0, lambda: now[0])

    async def steps() -> None:
        latest.record_view(0, run)
        latest.record_view(0, run)  # under way
        await until(jobs.jobs[0], "failed")
        now[0] = 601.0
        latest.record_view(0, run)
        assert len(jobs.jobs) == 1  # the same checkpoint
        saved(folder, 2)
        now[0] = 599.0
        latest.record_view(0, run)
        assert len(jobs.jobs) == 1  # too early
        scripted(monkeypatch, "import sys; open(sys.argv[1], 'w').write('x')")
        now[0] = 601.0
        latest.record_view(0, run)
        await until(jobs.jobs[-1], "done")
        assert [job.checkpoint for job in jobs.jobs] == ["000000000001", "000000000002"]

    working(jobs, steps)


def test_commands_name_the_run_by_its_path_and_take_flags() -> None:
    command = command_of(
        Path("drive/checkpoints/7"), "replay", "a b", Path("/tmp/0.html"), ["--seed", "3"]
    )
    assert command[command.index("puffervec.commands.cli") + 1 :] == [
        "render", str(Path("drive/checkpoints/7").absolute()), "--progress", "--out", "/tmp/0.html",
        "--draw", "part:a b", "--seed", "3",
    ]  # fmt: skip


def test_what_somebody_asks_for_is_no_longer_made_by_itself(tmp_path: Path) -> None:
    """And stays so, whoever looks at the run later: it is not forgotten with those that nobody
    asked for.
    """
    jobs = Jobs(tmp_path)
    job = jobs.ask(0, tmp_path, "replay", "", "1", automatic=True)
    assert job is not None and job.automatic
    assert jobs.ask(0, tmp_path, "replay", "", "1", automatic=True) is job and job.automatic
    assert jobs.ask(0, tmp_path, "replay", "", "1") is job and not job.automatic
    assert jobs.ask(0, tmp_path, "replay", "", "1", automatic=True) is job and not job.automatic

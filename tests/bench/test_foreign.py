# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What counts as other programs' use of the machine, and what does not, in CPU seconds, which no
load changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import common, foreign

pytestmark = pytest.mark.skipif(
    not Path("/proc/stat").exists(), reason="reads CPU times from /proc"
)
WORK_S = 0.3
WORK = f"import time\nwhile time.process_time() < {WORK_S}: pass"
# Starts WORK and ends: init waits for such an orphan, and passes its CPU time on to nobody.
ORPHAN = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WORK!r}])"
# Has an orphan work at each line that it reads, and answers when the orphan has closed its output,
# which is when it ended.
SERVER = f"""
import subprocess, sys
for line in sys.stdin:
    subprocess.run([sys.executable, "-c", {ORPHAN!r}], stdout=subprocess.PIPE)
    print("done", flush=True)
"""
# The CPU seconds of a program and of the machine, while another program works and while its own
# orphan does.
PROGRAM = """
import json, subprocess, sys
from bench import foreign

used_s = foreign.own_clock()

def used(run):
    own, busy = used_s(), foreign.busy_s()
    run()
    return used_s() - own, foreign.busy_s() - busy

def others():
    print("go", flush=True)
    sys.stdin.readline()

ours = lambda: subprocess.run([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
print(json.dumps([used(others), used(ours), foreign.own_group() is not None]))
"""


def _two_programs(program: str) -> list[Any]:
    """Return what a program prints as JSON while a server, which has another parent, works whenever
    it is asked to.
    """
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "text": True,
        "cwd": common.ROOT,
    }
    with (
        subprocess.Popen([sys.executable, "-c", SERVER], **pipes) as server,
        subprocess.Popen([sys.executable, "-c", program, ORPHAN], **pipes) as measured,
    ):
        for asking, answering in ((measured, server), (server, measured)):
            # Without a line it has failed, and its errors say why.
            if line := asking.stdout.readline():  # type: ignore[union-attr]
                answering.stdin.write(line)  # type: ignore[union-attr]
                answering.stdin.flush()  # type: ignore[union-attr]
            else:
                server.kill()
        found: list[Any] = json.loads(measured.communicate()[0])
        return found


@pytest.mark.slow
def test_a_short_program_is_foreign_although_init_waited_for_it_and_an_orphan_of_ours_is_ours() -> (
    None
):
    (own_meanwhile, busy), (own, _), grouped = _two_programs(PROGRAM)
    if not grouped:
        pytest.skip("needs the right to make a control group")
    assert busy - own_meanwhile >= 0.8 * WORK_S and own_meanwhile < 0.5 * WORK_S
    assert own >= 0.8 * WORK_S


@pytest.mark.slow
def test_without_a_control_group_what_is_lost_counts_as_foreign_and_children_are_ours() -> None:
    tree = PROGRAM.replace("used_s = ", "foreign.own_group = lambda: None\nused_s = ")
    (own_meanwhile, busy), _, _ = _two_programs(tree)
    assert busy - own_meanwhile >= 0.8 * WORK_S and own_meanwhile < 0.5 * WORK_S
    before = foreign.tree_s()
    subprocess.run([sys.executable, "-c", WORK], check=True)
    assert foreign.tree_s() - before >= 0.8 * WORK_S


def _grouped(end: str) -> subprocess.Popen[str]:
    """Start a program that prints its control group, waits for its input to be closed, and ends as
    `end` says.
    """
    code = (
        "import os, sys; from bench import foreign; print(foreign.own_group(), flush=True); "
        f"sys.stdin.read(); {end}"
    )
    command = [sys.executable, "-c", code]
    return subprocess.Popen(
        command, cwd=common.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_the_control_group_goes_with_its_program_or_that_of_a_killed_one_with_the_next() -> None:
    with _grouped("os.kill(os.getpid(), 9)") as killed:
        left = Path(killed.stdout.readline().strip())  # type: ignore[union-attr]
    if left == Path("None"):
        pytest.skip("needs the right to make a control group")
    with _grouped("") as lives, _grouped("") as also:
        groups = [Path(program.stdout.readline().strip()) for program in (lives, also)]  # type: ignore[union-attr]
        assert all(group.is_dir() for group in groups) and not left.exists()
    assert not any(group.exists() for group in groups)


def test_load_is_the_share_of_the_machine_that_was_busy_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of ten seconds on two cores others took three, twelve were our own."""
    clocks = {"busy": iter([100.0, 115.0]), "own": iter([50.0, 62.0]), "now": iter([1.0, 11.0])}
    monkeypatch.setattr(foreign, "busy_s", lambda: next(clocks["busy"]))
    monkeypatch.setattr(foreign, "own_clock", lambda: lambda: next(clocks["own"]))
    monkeypatch.setattr(foreign, "time", SimpleNamespace(monotonic=lambda: next(clocks["now"])))
    monkeypatch.setattr(foreign, "_cores", lambda: 2)
    assert foreign.foreign_load(lambda: "result") == ("result", pytest.approx(0.15))


def test_where_the_kernel_does_not_say_how_long_it_idled_everything_is_foreign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreign, "_read", lambda path: "")
    monkeypatch.setattr(foreign, "own_clock", lambda: lambda: 0.0)
    assert foreign.foreign_load(lambda: time.sleep(foreign.SHORTEST_S))[1] > 0.9


def test_children_and_marked_orphans_are_ours() -> None:
    """A fork server's worker has another parent, so its environment tells."""
    quiet = dict(os.environ)
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(sleep, env=quiet)
    orphans = {}
    for name, environment in (
        ("marked", {**quiet, foreign.MARK: str(os.getpid())}),
        ("foreign", quiet),
    ):
        code = (
            f"import subprocess; print(subprocess.Popen({sleep!r}, stdout=subprocess.DEVNULL, "
            "stderr=subprocess.DEVNULL).pid)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        orphans[name] = int(done.stdout)
    try:
        ours = foreign._ours(foreign._parents())
        assert {child.pid, os.getpid(), orphans["marked"]} <= ours and orphans[
            "foreign"
        ] not in ours
    finally:
        for pid in (child.pid, *orphans.values()):
            os.kill(pid, 9)
        child.wait()


def test_processes_that_are_started_meanwhile_carry_the_mark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreign, "own_clock", lambda: lambda: 0.0)
    code = f"import os; print(os.environ[{foreign.MARK!r}])"
    done, _ = foreign.foreign_load(
        lambda: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    )
    assert done.stdout.strip() == str(os.getpid()) and foreign.MARK not in os.environ

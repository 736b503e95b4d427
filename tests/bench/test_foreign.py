# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What counts as other programs' use of the machine, and what does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import foreign
from bench.foreign import Seen, taken_s

pytestmark = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="reads CPU times from /proc")
WORK = "import time; end = time.process_time() + 0.4\nwhile time.process_time() < end: pass"


def _named(pid: int) -> bool:
    return any(name.startswith(f"{pid}:") for name in foreign.foreign_processes())


def test_children_and_marked_orphans_are_ours() -> None:
    """A fork server's worker has another parent, so its environment tells."""
    quiet = dict(os.environ)
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = subprocess.Popen(sleep, env=quiet)
    orphans = {}
    for name, environment in (("marked", {**quiet, foreign.MARK: str(os.getpid())}), ("foreign", quiet)):
        code = (
            f"import subprocess; print(subprocess.Popen({sleep!r}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
        )
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        orphans[name] = int(done.stdout)
    try:
        assert not _named(child.pid) and not _named(os.getpid())
        assert not _named(orphans["marked"]) and _named(orphans["foreign"])
    finally:
        for pid in (child.pid, *orphans.values()):
            os.kill(pid, 9)
        child.wait()


def test_processes_that_are_started_meanwhile_carry_the_mark() -> None:
    code = f"import os; print(os.environ[{foreign.MARK!r}])"
    done, _ = foreign.foreign_load(lambda: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True))
    assert done.stdout.strip() == str(os.getpid()) and foreign.MARK not in os.environ


@pytest.mark.slow
def test_a_foreign_program_is_seen_and_our_own_work_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    _, ours = foreign.foreign_load(lambda: subprocess.run([sys.executable, "-c", WORK], check=True))
    monkeypatch.setattr(foreign, "_ours", lambda parents: set())
    before = foreign.foreign_processes()
    subprocess.run([sys.executable, "-c", WORK], check=True)
    assert taken_s(before, foreign.foreign_processes()) >= 0.3, "the child's time reached its parent, who is foreign now"
    assert 0.0 <= ours <= 1.0


def test_a_long_life_that_ends_meanwhile_is_not_counted_as_if_it_had_happened_now() -> None:
    """Its parent is given the time of its whole life at once."""
    before = {"2:0": Seen(5.0, 0.0), "3:9": Seen(1000.0, 20.0)}
    assert taken_s(before, {"2:0": Seen(5.5, 1021.0)}) == pytest.approx(0.5 + 1.0)
    assert taken_s(before, {"2:0": Seen(5.5, 0.0)}) == pytest.approx(0.5), "nobody was told of its end"
    assert taken_s({}, {"7:1": Seen(2.0, 1.0)}) == pytest.approx(3.0), "a new one"

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/slow_tests.py: every test comes up, a draw can be repeated, what was drawn runs to its
end, failures count.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import slow_tests

NAMES = [f"tests/test_{number % 9}.py::test_it[{number}]" for number in range(3000)]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=b")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for number in range(3):
        git("commit", "-q", "--allow-empty", "-m", str(number))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.03, 0.1])
@pytest.mark.parametrize("first", [1, 1234])
def test_every_test_comes_up_over_successive_commits(share: float, first: int) -> None:
    """Within three times as many commits as shares make a whole, whichever commit is the first."""
    count = int(share * len(NAMES))
    seen: set[str] = set()
    for number in range(first, first + int(3 / share)):
        seen.update(slow_tests.draw_order(NAMES, number * slow_tests.GOLDEN % 1)[:count])
    assert seen == set(NAMES)


def test_a_new_test_moves_no_other() -> None:
    before = slow_tests.draw_order(NAMES[1:], 0.3)
    after = slow_tests.draw_order(NAMES, 0.3)
    assert [name for name in after if name != NAMES[0]] == before
    assert after == slow_tests.draw_order(NAMES[::-1], 0.3) != slow_tests.draw_order(NAMES, 0.4)


def test_a_commit_has_its_place(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    golden = slow_tests.GOLDEN
    places = [
        slow_tests.place_of_commit(commit, repository) for commit in ("HEAD~2", "HEAD~1", "HEAD")
    ]
    assert places == pytest.approx([golden, 2 * golden % 1, 3 * golden % 1], abs=1e-6)
    shallow = tmp_path_factory.mktemp("shallow")
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", f"file://{repository}", str(shallow)], check=True
    )
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=shallow, capture_output=True, text=True, check=True
    ).stdout
    assert slow_tests.place_of_commit("HEAD", shallow) == pytest.approx(
        int(commit[:12], 16) / 16**12, abs=1e-6
    )


class Machine:
    """A clock, and runs that take some seconds a batch."""

    def __init__(self, *seconds: float, failing: int = -1) -> None:
        self.seconds, self.failing = seconds, failing
        self.now = 100.0
        self.ran: list[list[str]] = []

    def clock(self) -> float:
        return self.now

    def run(self, names: Sequence[str]) -> int:
        self.ran.append(list(names))
        self.now += self.seconds[len(self.ran) - 1]
        return int(len(self.ran) - 1 == self.failing)


@pytest.mark.parametrize(
    ("seconds", "failing", "ran", "passed"),
    [
        ((30, 30, 30, 30), -1, 3, True),
        ((10, 60, 10), -1, 2, True),
        ((500,), -1, 1, True),
        ((30, 30, 30), 0, 3, False),
    ],
    ids=["as long as they fit", "the longest has to fit", "at least one", "a failure ends nothing"],
)
def test_batches_run_while_they_fit(
    seconds: tuple[float, ...], failing: int, ran: int, passed: bool
) -> None:
    machine = Machine(*seconds, failing=failing)
    order = slow_tests.draw_order(NAMES, 0.5)
    assert slow_tests.run_for(order, 100.0, machine.run, machine.clock) == (
        ran * slow_tests.BATCH,
        passed,
    )
    assert len(machine.ran) == ran
    assert {name for batch in machine.ran for name in batch} == set(order[: ran * slow_tests.BATCH])
    assert all(batch == sorted(batch) for batch in machine.ran)


def test_the_command_that_it_prints_repeats_the_draw(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slow_tests, "collect_apart", lambda choice: NAMES)
    runs, words = [], ["--commit", "HEAD"]
    for failing in (-1, 1):
        machine = Machine(400.0, 400.0, failing=failing)
        monkeypatch.setattr(slow_tests, "run_pytest", machine.run)
        monkeypatch.setattr(slow_tests, "time", SimpleNamespace(monotonic=machine.clock))
        assert slow_tests.main(words) == (failing == 1)
        runs.append(machine.ran)
        shown = capsys.readouterr().out
        assert [name for name in NAMES if f"\n  {name}\n" not in shown] == sorted(
            set(NAMES) - {name for batch in machine.ran for name in batch}, key=NAMES.index
        )
        words = shown.split('ARGS="')[-1].split('"')[0].split()
    assert runs[0] == runs[1] and len(runs[0]) == 2


@pytest.mark.slow
def test_only_what_can_run_here_is_drawn_and_a_failure_is_seen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n gpu\n network\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\npytestmark = pytest.mark.slow\n"
        "@pytest.mark.parametrize('text', ['a b', 'c::d', '[e]'])\ndef test_good(text): pass\n"
        "def test_bad(): assert False\n"
        "@pytest.mark.gpu\ndef test_gpu(): pass\n"
        "@pytest.mark.network\ndef test_network(): pass\n"
        "@pytest.mark.skipif(True, reason='x')\ndef test_other(): pass\n"
        "@pytest.mark.skip\ndef test_absent(): pass\n"
    )
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from scripts import slow_tests\n"
        "print(*slow_tests.collect(slow_tests.CHOICE), sep='|')"
    )
    command = [sys.executable, "-c", code, str(slow_tests.ROOT)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    names = said.strip().split("|")
    good = [f"test_it.py::test_good[{text}]" for text in ("a b", "c::d", "[e]")]
    assert names == [*good, "test_it.py::test_bad"]
    monkeypatch.setattr(slow_tests, "ROOT", tmp_path)
    monkeypatch.setattr(slow_tests, "OPTIONS", ("-q", "-p", "no:cacheprovider"))
    assert slow_tests.run_pytest(good) == 0 and "3 passed" in capfd.readouterr().out
    assert slow_tests.run_pytest(names) == 1 and "1 failed, 3 passed" in capfd.readouterr().out

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A function over many items on all cores: order, errors, ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from puffervec.errors import PuffervecError, SceneError
from puffervec.workers.process import parallel
from puffervec.workers.process.parallel import each_on_all_cores
from puffervec.workers.process.processes import hidden_main
from tests.helpers import slow_but


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)


def where(number: int) -> tuple[int, int, str]:
    return number, os.getpid(), os.environ["OMP_NUM_THREADS"]


def fails_at_odd(number: int) -> int:
    if number % 2:
        raise SceneError(f"scene {number} is broken")
    return number


def dies_at_20(number: int) -> int:
    if number == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def naps(number: int) -> int:
    if number < 2 * parallel.CHUNK and number % parallel.CHUNK == 0:
        os.write(1, b"naps\n")  # in one piece
    time.sleep(0.05)
    return number


@pytest.mark.slow
def test_results_come_in_order_from_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = list(each_on_all_cores(where, range(40), least=20))
    assert [number for number, _, _ in found] == list(range(40))
    pids = {pid for _, pid, _ in found}
    assert os.getpid() not in pids and 1 <= len(pids) <= 2
    assert {threads for _, _, threads in found} == {"1"} and "OMP_NUM_THREADS" not in os.environ
    assert not [child for child in psutil.Process().children() if child.pid in pids]


def test_few_items_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert {pid for _, pid, _ in each_on_all_cores(where, range(40), least=21)} == {os.getpid()}
    assert list(each_on_all_cores(where, [])) == []


@pytest.mark.parametrize("least", slow_but([100], [20, 100]))
def test_the_first_error_is_raised_as_it_is(least: int) -> None:
    with pytest.raises(SceneError, match="scene 1 is broken"):
        list(each_on_all_cores(fails_at_odd, range(40), least=least))


@pytest.mark.slow
def test_a_killed_process_is_an_error() -> None:
    with pytest.raises(PuffervecError, match="one of 2 processes that prepare 40 items was killed"):
        list(each_on_all_cores(dies_at_20, range(40), least=20))


@pytest.mark.slow
def test_what_has_not_begun_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is held back while processes are started, and comes when that is over."""

    @contextlib.contextmanager
    def interrupted() -> Iterator[None]:
        with hidden_main():
            yield
        raise KeyboardInterrupt

    monkeypatch.setattr(parallel, "hidden_main", interrupted)
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(each_on_all_cores(naps, range(4000)))  # 100 s of naps
    assert time.monotonic() - began_s < 50


@pytest.mark.slow
@pytest.mark.parametrize("end", slow_but([signal.SIGKILL], [signal.SIGKILL, signal.SIGINT]))
def test_the_processes_end_with_the_learner(end: signal.Signals, tmp_path: Path) -> None:
    """A script without a guard around its main part, killed, or interrupted with its whole group as
    by Ctrl-C.
    """
    script = tmp_path / "script.py"
    script.write_text(
        "from puffervec.workers.process import parallel\nfrom tests.test_parallel import naps\n"
        "parallel.usable_cores = lambda: 2\nlist(parallel.each_on_all_cores(naps, range(4000)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ) as learner:
        assert learner.stdout is not None and learner.stderr is not None
        assert [learner.stdout.readline() for _ in range(2)] == [
            b"naps\n"
        ] * 2  # both processes are at work
        processes = psutil.Process(learner.pid).children()
        if end == signal.SIGINT:
            os.killpg(learner.pid, end)
        else:
            learner.kill()
        assert learner.wait(10) == -end
        gone, alive = psutil.wait_procs(processes, timeout=10)
        assert len(gone) >= 2 and not alive
        said = learner.stderr.read().decode()
    assert said.count("Traceback") == (end == signal.SIGINT)

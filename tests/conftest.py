# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What all tests share: a hang is a failure, a crash leaves no core file, `no_leaks` looks for what
a test left behind.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import psutil
import pytest

import puffervec
from tests.helpers import TIME_SCALE
from tests.needs import Absent
from tests.viewing.web.browser import SESSIONS

# Read when torch is loaded, here and in processes of tests. Threads of small kernels wait for each
# other in a loop: with the cores taken by other programs, 64 rows of an MLP took 50 ms with four
# threads and 50 us with one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Ignored where the tests run in the background of a script, and then by the processes of tests,
# which are sent it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST_TEST_S = 300 * TIME_SCALE
LONGEST_SLOW_TEST_S = 3600 * TIME_SCALE
# Long-lived helpers of multiprocessing, started once per session; and the small arenas that its
# heap keeps for reuse.
HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
KEPT_FILES = "/pym-"
MOST_KEPT_BYTES = 16 << 20


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector off what the test files import: a full pass over that takes a
    fifth of a second.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Skip tests whose programs are not installed."""
    config.pluginmanager.register(Absent(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about another build of the core than the one at hand; the reason stands at
    its marker.
    """
    unfit = "normal_build" if os.environ.get("PUFFERVEC_BUILD") else "guarded_build"
    left_out = [item for item in items if item.get_closest_marker(unfit)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


class TestHangs(BaseException):
    """Not an Exception, so that no test can swallow it."""

    __test__ = False


@pytest.fixture(autouse=True, scope="session")
def no_core_files() -> None:
    """Tests kill workers in all ways; none of them should fill the disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


@pytest.fixture(autouse=True, scope="session")
def no_tqdm_thread() -> None:
    """Its monitor lives on after the first bar of any library, and a process with threads may not
    fork workers.
    """
    with contextlib.suppress(ImportError):
        import tqdm

        tqdm.tqdm.monitor_interval = 0


def _waits() -> list[str]:
    """Return what this process's children are and what each of their threads waits for in the
    kernel.
    """
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            waits = [path.read_text() for path in Path(f"/proc/{child.pid}/task").glob("*/wchan")]
            found.append(f"{child.pid} {child.status()} {waits}: {' '.join(child.cmdline())[:80]}")
    return found


@pytest.fixture(autouse=True)
def deadline(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that hangs. Waiting in C returns to Python after each slice, where this signal's
    handler runs.
    """
    limit_s = LONGEST_SLOW_TEST_S if request.node.get_closest_marker("slow") else LONGEST_TEST_S

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TestHangs(
            f"{request.node.nodeid} ran for more than {limit_s} s; its processes: {_waits()}"
        )

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _children() -> Iterator[tuple[psutil.Process, str]]:
    """Yield the processes below this one and their commands, but for helpers of the whole session.

    A browser begins and ends processes of its own at any time.
    """
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            command = " ".join(process.cmdline()) or process.status()
            session = os.getsid(process.pid)
            if not any(helper in command for helper in HELPERS) and session not in SESSIONS:
                yield process, command


def _files() -> Counter[str]:
    """Open descriptors by what they are; numbers of pipes and the like are left out, since they
    differ each time.
    """
    found: Counter[str] = Counter()
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if KEPT_FILES not in target:
            found["open file " + target.split(":[")[0]] += 1
    return found


def _shared_mappings() -> Counter[str]:
    """Shared memory that this process maps, by what backs it; of the arenas that multiprocessing
    keeps only too many bytes.
    """
    found: Counter[str] = Counter()
    kept_bytes = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, flags, _, _, _, *name = line.split(maxsplit=5)
        if "s" not in flags or "gconv-modules" in "".join(name):  # the C library's own cache
            continue
        elif KEPT_FILES in "".join(name):
            begin, end = place.split("-")
            kept_bytes += int(end, 16) - int(begin, 16)
        else:
            found[f"shared mapping {' '.join(name)}"] += 1
    if kept_bytes > MOST_KEPT_BYTES:
        found[f"arenas of multiprocessing with more than {MOST_KEPT_BYTES} bytes"] += 1
    return found


def _held() -> Counter[str]:
    """Return what this process holds: children, threads, open files, shared memory; and the names
    in /dev/shm.
    """
    children = Counter(f"process {child.pid}: {command}" for child, command in _children())
    threads = Counter(f"thread {thread.name}" for thread in threading.enumerate())
    names = Counter(f"/dev/shm/{name}" for name in os.listdir("/dev/shm"))
    return children + _files() + _shared_mappings() + threads + names


def _is_of_others(name: str) -> bool:
    """Return whether a name in /dev/shm belongs to a process that none of ours has started: others
    run beside the tests.
    """
    if not name.startswith("/dev/shm/"):
        return False
    ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if pid not in ours and name in Path(f"/proc/{pid}/maps").read_text():
                return True
    return False


def _left(before: Counter[str]) -> Counter[str]:
    return Counter(
        {name: count for name, count in (_held() - before).items() if not _is_of_others(name)}
    )


def _end_children() -> None:
    """Kill what a failed test has left running, so that the next one begins without it."""
    for process, _ in _children():
        with contextlib.suppress(psutil.Error):
            process.kill()


@pytest.fixture(autouse=True, scope="session")
def helpers_of_multiprocessing() -> None:
    """Start the helper processes that multiprocessing keeps, so that they do not count as leaks of
    the first test.

    In every session: a fork server that begins with a Python env has NumPy, and then its C workers
        have it too.
    """
    for method in ("spawn", "forkserver"):
        puffervec.make("probe", num_workers=1, start_method=method).close()


@pytest.fixture
def no_leaks(helpers_of_multiprocessing: None) -> Iterator[None]:
    """Fail if the test leaves a process, a thread, an open file, shared memory or a name in
    /dev/shm behind.
    """
    before = _held()
    yield
    give_up = time.monotonic() + 5.0
    while (left := _left(before)) and time.monotonic() < give_up:
        gc.collect()  # a failed test's traceback, or a cycle that is the test's own
        time.sleep(0.02)  # a dead process may take a moment to leave the table
    if left:
        _end_children()
    assert not left

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Run a share of the slow tests, drawn by commit, as `.ci/run` does after `make test`.

    make slow                                          the share of the last commit, for 15 minutes
    make slow ARGS="--start 0.236068 --count 96"       the same tests again

Each test has a position on a ring, the hash of its name, so that a new test does not move others. A
commit has a position too: its number in the history times the golden ratio, which spreads
successive commits evenly. Tests are drawn from that position on, in batches, until no further batch
fits into the time. A batch always runs to its end. Tests that need a GPU, a network or a program
that is not installed are excluded, and so are those that must pass only before a release.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MINUTES = 15.0
BATCH = 48
GOLDEN = (5**0.5 - 1) / 2
DIGITS = 6  # Digits of printed positions.
CHOICE = "slow and not gpu and not network and not release"
OPTIONS = ("-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "worksteal")


class Collected:
    """A pytest plugin that collects names.

    Attributes:
        names: names of the tests that can run here.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_collection_finish(self, session: Any) -> None:
        for item in session.items:
            skipped = any(mark.args[0] for mark in item.iter_markers("skipif"))
            if not skipped and item.get_closest_marker("skip") is None:
                self.names.append(item.nodeid)


def collect(choice: str, *arguments: str) -> list[str]:
    """Import all tests and return the names of those that can run here.

    Raises: RuntimeError: a file cannot be imported.
    """
    import pytest

    plugin, output = Collected(), io.StringIO()
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-m", choice]
    with contextlib.redirect_stdout(output):
        status = pytest.main([*options, *arguments], plugins=[plugin])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"the tests cannot be collected:\n{output.getvalue()}")
    return plugin.names


def collect_apart(choice: str) -> list[str]:
    """Collect in a separate process, which frees the memory of the imports."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(collect, choice).result()


def place_of_test(name: str) -> float:
    """Return the position of a test on the ring, 0 to 1."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big") / 2**48


def place_of_commit(commit: str, folder: Path = ROOT) -> float:
    """Return the position at which a commit's share begins, 0 to 1.

    In a shallow clone, where commits have no numbers, it comes from the commit's hash.
    """

    def git(*words: str) -> str:
        command = ["git", *words]
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()

    if git("rev-parse", "--is-shallow-repository") == "true":
        return round(int(git("rev-parse", commit)[:12], 16) / 16**12, DIGITS)
    return round(int(git("rev-list", "--count", commit)) * GOLDEN % 1, DIGITS)


def draw_order(names: Sequence[str], start: float) -> list[str]:
    """Return all tests, in the order in which they are drawn from a position."""
    return sorted(names, key=lambda name: ((place_of_test(name) - start) % 1, name))


def batches(names: Sequence[str]) -> Iterator[list[str]]:
    """Yield the tests in batches, each in the order of files, so that fixtures are set up once."""
    for begin in range(0, len(names), BATCH):
        yield sorted(names[begin : begin + BATCH])


def run_pytest(names: Sequence[str]) -> int:
    """Run tests by name to their end; return the exit status."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(names))
        file.flush()
        return subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, f"@{file.name}"], cwd=ROOT
        ).returncode


def run_for(
    names: Sequence[str],
    seconds: float,
    run: Callable[[Sequence[str]], int],
    clock: Callable[[], float],
) -> tuple[int, bool]:
    """Run at least one batch, and more while the longest one so far would fit into the time.

    Returns:
        the number of tests that ran, and whether all batches passed.
    """
    began, longest, count, passed = clock(), 0.0, 0, True
    for batch in batches(names):
        begin = clock()
        if count and begin - began + longest > seconds:
            break
        print(
            f"== tests {count + 1} to {count + len(batch)} of the draw:",
            *batch,
            sep="\n  ",
            flush=True,
        )
        passed &= run(batch) == 0
        count += len(batch)
        longest = max(longest, clock() - begin)
    return count, passed


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("--commit", default="HEAD", help="commit whose share is run")
    flags.add_argument(
        "--start", type=float, help="place on the ring, 0 to 1, instead of a commit's"
    )
    flags.add_argument("--count", type=int, help="number of tests to run, without a time limit")
    flags.add_argument(
        "--minutes", type=float, default=MINUTES, help="for how long to draw batches"
    )
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw tests, run them and return the exit status."""
    flags = parser().parse_args(arguments)
    os.chdir(ROOT)
    start = place_of_commit(flags.commit) if flags.start is None else flags.start
    names = collect_apart(CHOICE)
    order = draw_order(names, start)
    seconds = 60 * flags.minutes
    if flags.count is not None:
        order, seconds = order[: flags.count], float("inf")
    count, passed = run_for(order, seconds, run_pytest, time.monotonic)
    print(
        f"{count} of {len(names)} slow tests ran: {'all passed' if passed else 'SOME FAILED'}. "
        "The same tests again:"
    )
    print(f'  make slow ARGS="--start {start:.{DIGITS}f} --count {count}"')
    return 0 if passed and count else 1


if __name__ == "__main__":
    sys.exit(main())

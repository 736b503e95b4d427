# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`make sabotage`: break the product on purpose, one line at a time, and check that a test fails.

    python scripts/sabotage.py                all of scripts/sabotages.toml
    python scripts/sabotage.py --only NAME    one of them
    python scripts/sabotage.py --list         their names
    python scripts/sabotage.py --random 100   fresh ones, drawn by scripts/mutations.py

Each breakage is applied to a copy of the tree, which is built again if C has changed. Then the
tests that the breakage names run there. A hang counts as a failure, and its processes are killed.
The tests first run on an unbroken copy, since a test that always fails detects nothing.

Exit status: 0; 1 if a breakage was not found (a test is missing), or more than 5 % of those drawn
at random; 2 if the list is stale or tests fail without a breakage.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common

LIST = Path(__file__).resolve().parent / "sabotages.toml"
LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv",
    "build",
    "dist",
    "runs",
    "results",
    "__pycache__",
    ".*_cache",
    "*.so",
    "*.o",
    "*.egg-info",
    "_native.c",
)
TEMPORARY = ".tmp"
CI = "not slow and not gpu"  # tests that find breakages of the list have to run at every push
SLOW = "slow and not gpu"  # ... those that are drawn at random may be found by tests that CI draws
WIDE = ("tests",)
NOTICED = 0.95  # share of breakages drawn at random that tests have to find
BUILD = {"PUFFERVEC_OPT": "-O1"}  # three seconds instead of half a minute
BUILD_LIMIT_S = 600.0
WIDE_LIMIT_S = 1200.0
RED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
REFUSED = re.compile(
    r"^E   ImportError: (csrc/.*)$", re.MULTILINE
)  # puffervec compares its C core with the Python sources
RUNNING = re.compile(
    r"^(tests/\S+::.+?) *$", re.MULTILINE
)  # -v prints a name, and later the outcome after it
PASSED, FAILED, NO_TESTS = 0, 1, 5  # exit statuses of pytest
NOTHING_RUN = (4, NO_TESTS)


class Stale(Exception):
    """The list does not fit the tree."""


@dataclass(frozen=True)
class Sabotage:
    """One breakage: `old`, which occurs once in `file`, becomes `new`; one of `tests` has to fail.
        why: what it breaks.

    room: tests that run where `tests` pass.
    """

    name: str
    file: str
    why: str
    old: str
    new: str
    tests: tuple[str, ...]
    room: tuple[str, ...] = ()

    def applied(self, text: str) -> str:
        """Return the text of the file with the breakage in it.

        Raises: Stale if `old` does not occur in it exactly once.
        """
        count = text.count(self.old)
        if count != 1:
            raise Stale(
                f"{self.name}: {self.old!r} occurs {count} times in {self.file}, not once: update "
                f"{LIST.name}"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Outcome:
    """The result of one breakage.

    found: a test failed. by: the test, or what else happened. seconds: build and tests. why: what
    was broken. valid: whether it could be compiled.
    """

    name: str
    file: str
    found: bool
    by: str
    seconds: float
    why: str = ""
    valid: bool = True


def read_list(path: Path = LIST) -> list[Sabotage]:
    """Return all breakages in the order of the file."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["sabotage"]
    return [Sabotage(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


# ---- copies and processes ------------------------------------------------------------------------


def copy_tree(source: Path, target: Path) -> None:
    """Copy a source tree without build products."""
    shutil.copytree(source, target, ignore=LEFT_OUT, symlinks=True)


def environment(folder: Path) -> dict[str, str]:
    """Return variables with which imports come from `folder` and nothing is written elsewhere."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PUFFERVEC_", "PYTEST_"))
    }
    return {
        **kept,
        **BUILD,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PUFFERVEC_CACHE": str(folder / ".cache"),
    }


def in_session(session: int) -> Iterator[psutil.Process]:
    """Yield the processes of a session, including those with a group of their own or without their
    parent.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session:
                yield process


def end_session(session: int) -> None:
    """Kill the processes of a session until none is left."""
    while left := [
        process for process in in_session(session) if process.status() != psutil.STATUS_ZOMBIE
    ]:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=1.0)


def run(command: Sequence[str], folder: Path, limit_s: float) -> tuple[int | None, str]:
    """Run a command in `folder`, in a session of its own. Returns its exit status (None: killed)
    and its output.
    """
    with tempfile.TemporaryFile("w+b") as said:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder),
            stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(psutil.Error):
                end_session(process.pid)
            process.wait()
        said.seek(0)
        return code, said.read().decode(errors="replace")


def build(folder: Path) -> None:
    """Build the C core of a copy.

    Raises: Stale if it does not compile: that is not found by a test.
    """
    code, said = run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"], folder, BUILD_LIMIT_S
    )
    if code != 0:
        raise Stale(f"{folder.name} does not compile:\n{said[-2000:]}")


def run_tests(
    folder: Path, chosen: Sequence[str], limit_s: float, marked: str = CI
) -> tuple[bool, str]:
    """Run tests in a copy until one fails. Returns (all passed, the test that failed or hung)."""
    options = ["-m", marked, "-x", "-v", "-rfE", "--tb=short", "-p", "no:cacheprovider"]
    options.append(f"--basetemp={folder / TEMPORARY}")
    code, said = run([sys.executable, "-m", "pytest", *options, *chosen], folder, limit_s)
    if code is None:
        running = RUNNING.findall(said)
        return False, f"a hang in {running[-1]}" if running else "a hang before the first test"
    if code in NOTHING_RUN and (refused := REFUSED.findall(said)):
        return False, f"the import: {refused[-1]}"
    if marked == SLOW and code == NO_TESTS:
        return True, ""
    if code in NOTHING_RUN and not RED.search(said):
        raise Stale(f"{folder.name}: pytest ran nothing of {' '.join(chosen)}:\n{said[-2000:]}")
    red = RED.findall(said)
    if code == PASSED:
        return True, ""
    return False, red[0] if red else _last_words(code, said)


def _last_words(code: int, said: str) -> str:
    """Return how pytest itself ended: broken code may crash it."""
    if code < 0:
        running = RUNNING.findall(said)
        where = f" in {running[-1]}" if running else ""
        return f"{signal.Signals(-code).name}{where}"
    lines = said.strip().splitlines()
    return f"pytest ended with {code}: {lines[-1] if lines else 'it said nothing'}"


# ---- one breakage after another ------------------------------------------------------------------


def try_one(base: Path, sabotage: Sabotage, limit_s: float, wide: bool = False) -> Outcome:
    """Apply a breakage to a copy of `base`, which is built already, run its tests and remove the
    copy.

    Raises: Stale.
    """
    folder = base.parent / sabotage.name
    begin = time.monotonic()
    shutil.copytree(base, folder, symlinks=True)
    try:
        path = folder / sabotage.file
        path.write_text(sabotage.applied(path.read_text(encoding="utf-8")), encoding="utf-8")
        if sabotage.file.startswith("csrc/"):
            try:
                build(folder)
            except Stale:
                if not sabotage.room:
                    raise
                return Outcome(
                    sabotage.name,
                    sabotage.file,
                    False,
                    "it does not compile",
                    0.0,
                    sabotage.why,
                    valid=False,
                )
        green, by = run_tests(folder, sabotage.tests, limit_s)
        if green and (wide or (sabotage.room and sabotage.room != sabotage.tests)):
            green, by = run_tests(folder, WIDE if wide else sabotage.room, WIDE_LIMIT_S)
            by = f"only {by}" if not green else by
        if green and sabotage.room:
            green, by = run_tests(folder, sabotage.tests, WIDE_LIMIT_S, SLOW)
            by = f"only a slow one, {by}" if not green else by
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Outcome(
        sabotage.name,
        sabotage.file,
        not green,
        by,
        round(time.monotonic() - begin, 1),
        sabotage.why,
    )


def make_base(root: Path, folder: Path, chosen: Sequence[Sabotage], limit_s: float) -> None:
    """Copy and build the tree and check that all named tests pass in it.

    Raises: Stale if they do not.
    """
    copy_tree(root, folder)
    if (folder / "setup.py").exists():
        build(folder)
    named = sorted({test for sabotage in chosen for test in (*sabotage.tests, *sabotage.room)})
    files = {test for test in named if "::" not in test}
    green, by = run_tests(
        folder,
        [test for test in named if test in files or test.split("::")[0] not in files],
        limit_s,
    )
    shutil.rmtree(folder / TEMPORARY, ignore_errors=True)
    if not green:
        raise Stale(f"red without any breakage: {by}")


def run_all(
    root: Path, chosen: Sequence[Sabotage], jobs: int, limit_s: float, wide: bool = False
) -> list[Outcome]:
    """Try all breakages, `jobs` at a time, and print a line for each.

    Raises: Stale.
    """
    for sabotage in chosen:  # before anything is built
        sabotage.applied((root / sabotage.file).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="puffervec-sabotage-") as scratch:
        base = Path(scratch) / "base"
        print("the named tests without a breakage ...", flush=True)
        make_base(root, base, chosen, WIDE_LIMIT_S)

        def attempt(sabotage: Sabotage) -> Outcome:
            outcome = try_one(base, sabotage, limit_s, wide)
            print(line(outcome), flush=True)
            return outcome

        with ThreadPoolExecutor(jobs) as pool:
            try:
                return list(pool.map(attempt, chosen))
            except BaseException:  # Ctrl-C, or a stale entry: do not wait for the rest
                pool.shutdown(wait=False, cancel_futures=True)
                for leader in psutil.Process().children():
                    end_session(leader.pid)
                raise


def line(outcome: Outcome) -> str:
    """Return the report of one breakage."""
    found = (
        f"found by {outcome.by}"
        if outcome.found
        else f"STAYED GREEN: {outcome.why}"
        if outcome.valid
        else outcome.by
    )
    return f"{outcome.name:44} {outcome.file:34} {outcome.seconds:6.1f} s  {found}"


def choose(everything: Sequence[Sabotage], only: Sequence[str] | None) -> list[Sabotage]:
    """Return the breakages with these names, or all. "NAME*" matches all that begin with NAME.

    Raises: Stale for an unknown name.
    """
    if not only:
        return list(everything)
    chosen = []
    for name in only:
        fits = [
            s
            for s in everything
            if s.name == name or (name.endswith("*") and s.name.startswith(name[:-1]))
        ]
        if not fits:
            raise Stale(f"there is no breakage {name!r}: --list shows all")
        chosen += fits
    return chosen


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the outcomes and their counts for JSON."""
    tried = [outcome for outcome in outcomes if outcome.valid]
    green = [outcome.name for outcome in tried if not outcome.found]
    return {"tried": len(tried), "found": len(tried) - len(green), "green": green,
            "sabotages": [dataclasses.asdict(outcome) for outcome in outcomes]}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help='this one; may be repeated; "NAME*" matches by prefix',
    )
    flags.add_argument("--list", action="store_true", help="print the breakages and exit")
    flags.add_argument(
        "--wide", action="store_true", help="run the whole suite if the named tests pass"
    )
    flags.add_argument(
        "--random", type=int, metavar="N", help="N breakages drawn from the newer rooms"
    )
    flags.add_argument(
        "--seed",
        type=int,
        help="of --random; the same seed draws the same (default: a new one, printed)",
    )
    flags.add_argument(
        "--room",
        default="",
        metavar="PATH",
        help="of --random: draw from this folder or file alone",
    )
    flags.add_argument(
        "--jobs", type=int, default=common.usable_cores(), help="at a time (default: %(default)s)"
    )
    flags.add_argument(
        "--limit-s",
        type=float,
        default=90.0,
        help="time for the tests of one; longer counts as a hang",
    )
    flags.add_argument("--json", type=Path, help="where the results go (default: nowhere)")
    options = flags.parse_args(arguments)
    # A shell's "&" ignores SIGINT, and tests would inherit that; both signals clean up.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        chosen = drawn(options) if options.random else choose(read_list(), options.only)
        if options.list:
            for sabotage in chosen:
                print(f"{sabotage.name:44} {sabotage.file:34} {sabotage.why}")
            return 0
        begin = time.monotonic()
        outcomes = run_all(common.ROOT, chosen, options.jobs, options.limit_s, options.wide)
    except Stale as error:
        print(f"sabotage: {error}", file=sys.stderr)
        return 2
    found = summary(outcomes)
    print(
        f"{found['found']} of {found['tried']} found in {(time.monotonic() - begin) / 60:.1f} min",
        end="",
    )
    print(f"; stayed green: {', '.join(found['green'])}" if found["green"] else "")
    if options.json:
        settings = {name: value for name, value in vars(options).items() if name != "json"}
        common.write_json(
            options.json, common.report("sabotage", common.machine(), settings, found)
        )
    return 1 if len(found["green"]) > (1 - NOTICED) * found["tried"] * bool(options.random) else 0


def drawn(options: argparse.Namespace) -> list[Sabotage]:
    """Draw what `--random` asks for, and print the seed."""
    from scripts.mutations import draw

    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    options.seed = seed
    return [*draw(common.ROOT, options.random, seed, options.room)]


if __name__ == "__main__":
    sys.exit(main())

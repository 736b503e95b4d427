# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`make sabotage`: break the product on purpose, one line at a time, and check that a test fails.

    python scripts/sabotage.py                all of scripts/sabotages.toml
    python scripts/sabotage.py --only NAME    one of them
    python scripts/sabotage.py --list         their names
    python scripts/sabotage.py --random 100   new ones, drawn by scripts/mutations.py

Each breakage is applied to a copy of the tree, which is rebuilt if C has changed. Then the tests
that the breakage names run there. A hang counts as a failure, and its processes are killed. The
tests first run on an unbroken copy, since a test that always fails detects nothing.

Exit status: 0; 1 if a breakage was not detected (a test is missing), or more than 5 % of those
drawn at random; 2 if the list is stale or tests fail without a breakage.
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
CI = "not slow and not gpu"  # Breakages of the list must be detected by tests that always run.
SLOW = "slow and not gpu"  # Random ones may be detected by tests of which CI draws a share.
WIDE = ("tests",)
NOTICED = 0.95  # Share of random breakages that tests must detect.
BUILD = {"PUFFERVEC_OPT": "-O1"}  # Three seconds instead of half a minute.
BUILD_LIMIT_S = 600.0
WIDE_LIMIT_S, SLOW_LIMIT_S = 1200.0, 3600.0
RED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
REFUSED = re.compile(
    r"^E   ImportError: (csrc/.*)$", re.MULTILINE
)  # Puffervec compares its C core with the Python sources.
RUNNING = re.compile(
    r"^(tests/\S+::.+?) *$", re.MULTILINE
)  # -v prints a name, and later the outcome after it.
PASSED, FAILED, NO_TESTS = 0, 1, 5  # Exit statuses of pytest.
NOTHING_RUN = (4, NO_TESTS)


class Stale(Exception):
    """The error for a list that does not fit the tree."""


@dataclass(frozen=True)
class Sabotage:
    """One breakage: `old`, which occurs once in `file`, becomes `new`; one of `tests` must fail.

    Attributes:
        why: the effect of the breakage.
        room: tests that run if `tests` pass.
    """

    name: str
    file: str
    why: str
    old: str
    new: str
    tests: tuple[str, ...]
    room: tuple[str, ...] = ()

    def apply(self, text: str) -> str:
        """Return the text of the file with the breakage.

        Raises: Stale: `old` does not occur in it exactly once.
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

    Attributes:
        found: whether a test failed.
        by: the test, or another event.
        seconds: time of build and tests.
        why: the effect of the breakage.
        valid: whether it could be compiled.
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
    """Return environment variables for imports from `folder`, without files elsewhere."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PUFFERVEC_", "PYTEST_"))
    }
    return {
        **inherited,
        **BUILD,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PUFFERVEC_CACHE": str(folder / ".cache"),
    }


def in_session(session: int) -> Iterator[psutil.Process]:
    """Yield the processes of a session, including orphans and those with their own group."""
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session:
                yield process


def end_session(session: int) -> None:
    """Kill the processes of a session until none is left."""
    while processes := [
        process for process in in_session(session) if process.status() != psutil.STATUS_ZOMBIE
    ]:
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=1.0)


def run(command: Sequence[str], folder: Path, limit_s: float) -> tuple[int | None, str]:
    """Run a command in `folder`, in a separate session; return its exit status and output.

    The status is None if the command was killed.
    """
    with tempfile.TemporaryFile("w+b") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder),
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
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
        out.seek(0)
        return code, out.read().decode(errors="replace")


def build(folder: Path) -> None:
    """Build the C core of a copy.

    Raises: Stale: it does not compile, which no test detects.
    """
    code, output = run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"], folder, BUILD_LIMIT_S
    )
    if code != 0:
        raise Stale(f"{folder.name} does not compile:\n{output[-2000:]}")


def run_tests(
    folder: Path, chosen: Sequence[str], limit_s: float, marked: str = CI
) -> tuple[bool, str]:
    """Run tests in a copy until one fails; return whether all passed, and the test that did not."""
    options = ["-m", marked, "-x", "-v", "-rfE", "--tb=short", "-p", "no:cacheprovider"]
    options.append(f"--basetemp={folder / TEMPORARY}")
    code, output = run([sys.executable, "-m", "pytest", *options, *chosen], folder, limit_s)
    if code is None:
        running = RUNNING.findall(output)
        return False, f"a hang in {running[-1]}" if running else "a hang before the first test"
    if code in NOTHING_RUN and (refused := REFUSED.findall(output)):
        return False, f"the import: {refused[-1]}"
    if marked == SLOW and code == NO_TESTS:
        return True, ""
    if code in NOTHING_RUN and not RED.search(output):
        raise Stale(f"{folder.name}: pytest ran nothing of {' '.join(chosen)}:\n{output[-2000:]}")
    red = RED.findall(output)
    if code == PASSED:
        return True, ""
    return False, red[0] if red else _last_words(code, output)


def _last_words(code: int, output: str) -> str:
    """Describe the end of pytest itself, which broken code may crash."""
    if code < 0:
        running = RUNNING.findall(output)
        where = f" in {running[-1]}" if running else ""
        return f"{signal.Signals(-code).name}{where}"
    lines = output.strip().splitlines()
    return f"pytest ended with {code}: {lines[-1] if lines else 'it said nothing'}"


# ---- one breakage after another ------------------------------------------------------------------


def try_one(base: Path, sabotage: Sabotage, limit_s: float, wide: bool = False) -> Outcome:
    """Apply a breakage to a copy of the built tree `base`, run its tests and remove the copy.

    Raises: Stale.
    """
    folder = base.parent / sabotage.name
    begin = time.monotonic()
    shutil.copytree(base, folder, symlinks=True)
    try:
        path = folder / sabotage.file
        path.write_text(sabotage.apply(path.read_text(encoding="utf-8")), encoding="utf-8")
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
            green, by = run_tests(folder, sabotage.room, SLOW_LIMIT_S, SLOW)
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


def make_base(root: Path, folder: Path, sabotages: Sequence[Sabotage], limit_s: float) -> None:
    """Copy and build the tree and check that all named tests pass in it.

    Raises: Stale: they do not.
    """
    copy_tree(root, folder)
    if (folder / "setup.py").exists():
        build(folder)
    names = sorted({test for sabotage in sabotages for test in (*sabotage.tests, *sabotage.room)})
    files = {test for test in names if "::" not in test}
    green, by = run_tests(
        folder,
        [test for test in names if test in files or test.split("::")[0] not in files],
        limit_s,
    )
    shutil.rmtree(folder / TEMPORARY, ignore_errors=True)
    if not green:
        raise Stale(f"red without any breakage: {by}")


def run_all(
    root: Path, sabotages: Sequence[Sabotage], jobs: int, limit_s: float, wide: bool = False
) -> list[Outcome]:
    """Try all breakages, `jobs` at a time, and print a line for each.

    Raises: Stale.
    """
    for sabotage in sabotages:  # Stale entries are reported before the build.
        sabotage.apply((root / sabotage.file).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="puffervec-sabotage-") as scratch:
        base = Path(scratch) / "base"
        print("the named tests without a breakage ...", flush=True)
        make_base(root, base, sabotages, WIDE_LIMIT_S)

        def attempt(sabotage: Sabotage) -> Outcome:
            outcome = try_one(base, sabotage, limit_s, wide)
            print(line(outcome), flush=True)
            return outcome

        with ThreadPoolExecutor(jobs) as pool:
            try:
                return list(pool.map(attempt, sabotages))
            except BaseException:  # Ctrl-C or a stale entry: do not wait for the others.
                pool.shutdown(wait=False, cancel_futures=True)
                for leader in psutil.Process().children():
                    end_session(leader.pid)
                raise


def line(outcome: Outcome) -> str:
    """Return the line about one breakage."""
    verdict = (
        f"found by {outcome.by}"
        if outcome.found
        else f"STAYED GREEN: {outcome.why}"
        if outcome.valid
        else outcome.by
    )
    return f"{outcome.name:44} {outcome.file:34} {outcome.seconds:6.1f} s  {verdict}"


def choose(everything: Sequence[Sabotage], only: Sequence[str] | None) -> list[Sabotage]:
    """Return the breakages with these names, or all; "NAME*" matches names that begin with NAME.

    Raises: Stale: an unknown name.
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
    flags = common.parser(__doc__)
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
        help="seed of --random; the same seed draws the same mutations (default: a new one)",
    )
    flags.add_argument(
        "--room",
        default="",
        metavar="PATH",
        help="for --random: draw only from this folder or file",
    )
    flags.add_argument(
        "--jobs",
        type=int,
        default=common.usable_cores(),
        help="simultaneous runs (default: %(default)s)",
    )
    flags.add_argument(
        "--limit-s",
        type=float,
        default=90.0,
        help="time for the tests of one; longer counts as a hang",
    )
    flags.add_argument("--json", type=Path, help="path of the results (default: not written)")
    options = flags.parse_args(arguments)
    # A shell's "&" ignores SIGINT, and tests would inherit that; both signals clean up.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        everything = draw_mutations(options) if options.random else read_list()
        sabotages = choose(everything, options.only)
        if options.list:
            for sabotage in sabotages:
                print(f"{sabotage.name:44} {sabotage.file:34} {sabotage.why}")
            return 0
        begin = time.monotonic()
        outcomes = run_all(common.ROOT, sabotages, options.jobs, options.limit_s, options.wide)
    except Stale as error:
        print(f"sabotage: {error}", file=sys.stderr)
        return 2
    report = summary(outcomes)
    minutes = (time.monotonic() - begin) / 60
    print(f"{report['found']} of {report['tried']} found in {minutes:.1f} min", end="")
    print(f"; stayed green: {', '.join(report['green'])}" if report["green"] else "")
    if options.json:
        settings = {name: value for name, value in vars(options).items() if name != "json"}
        common.write_json(
            options.json, common.report("sabotage", common.machine(), settings, report)
        )
    return 1 if len(report["green"]) > (1 - NOTICED) * report["tried"] * bool(options.random) else 0


def draw_mutations(options: argparse.Namespace) -> list[Sabotage]:
    """Draw the mutations of `--random`, and print the seed."""
    from scripts.mutations import draw

    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    options.seed = seed
    return [*draw(common.ROOT, options.random, seed, options.room)]


if __name__ == "__main__":
    sys.exit(main())

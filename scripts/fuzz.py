# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Fuzz every reader of outside data, and the vec env, with a number of inputs (`make fuzz`).

    python scripts/fuzz.py --count 1000000 --jobs 2 --json bench/results/MACHINE/DATE-fuzz.json

Compiled scenes, saved and readable states, config structs and actions are read by a C program under
AddressSanitizer and UBSan (tests/fuzz/fuzz_main.c); JSON and binary scenes, scene sets, checkpoints
and run configs by their readers in Python (tests/fuzz/readers.py); random sequences of calls run in
tests/fuzz/test_vector_machine.py. Input i of a target depends only on (PV_SEED, i). The first input
that breaks a reader ends the run: its bytes are saved, and the command that repeats it is printed.
Exit codes: 0: nothing broke; 1: an input broke a reader.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from tests.fuzz import program
from tests.fuzz.program import Broken, Report

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 20_000
TIMEOUT_S = 3600.0
# Numbers of inputs of the targets per mutated scene.
C_SHARES = {"scenes": 1.0, "states": 0.5, "pokes": 0.5, "configs": 0.2, "actions": 1.0}
PYTHON_SHARES = {"json": 1.0, "bins": 0.5, "sets": 0.1, "checkpoints": 0.1, "runconfigs": 0.1}


@dataclass(frozen=True)
class Chunk:
    """A range of the inputs of one target."""

    target: str
    first: int
    count: int


@dataclass(frozen=True)
class Work:
    """The data that all chunks share: seed, scratch folder, compiled program and its corpus."""

    seed: int
    folder: Path
    compiled: Path
    sets: tuple[Path, ...]
    cases: tuple[str, ...]


def chunks(count: int, targets: Sequence[str]) -> Iterator[Chunk]:
    """Divide the inputs of all targets into chunks, target by target."""
    for target in targets:
        inputs = max(1, int(count * {**C_SHARES, **PYTHON_SHARES}[target]))
        for first in range(0, inputs, CHUNK):
            yield Chunk(target, first, min(CHUNK, inputs - first))


def prepare(folder: Path, seed: int) -> Work:
    """Compile the program, and write the corpus, in the scratch folder."""
    sets = program.compile_corpus(folder)
    cases = program.write_cases(folder, sets[0])
    return Work(
        seed, folder, program.build(folder / "fuzz_main", "-O1"), tuple(sets[:-1]), tuple(cases)
    )


def run_chunk(work: Work, chunk: Chunk) -> Report:
    """Run one chunk in a separate process.

    Raises: Broken: an input broke the reader.
    """
    own = work.folder / f"{chunk.target}-{chunk.first}"
    own.mkdir()
    if chunk.target in C_SHARES:
        arguments = {"scenes": work.sets, "actions": ()}.get(chunk.target, work.cases)
        trace = own / "trace"
        return program.run(
            work.compiled,
            chunk.target,
            arguments,
            work.seed,
            chunk.first,
            chunk.count,
            trace,
            timeout_s=TIMEOUT_S,
        )
    words = [chunk.target, work.seed, chunk.first, chunk.count, own]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.loop", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode == 0:
        return Report(**json.loads(done.stdout))
    data = (own / "broken").read_bytes() if (own / "broken").exists() else b""
    raise Broken("\n".join(done.stderr.strip().splitlines()[-12:]), chunk.first, data)


def merge(reports: Sequence[Report]) -> Report:
    """Return the sums and the worst values of several reports."""
    slow = max(reports, key=lambda report: report.slowest_us)
    return Report(
        inputs=sum(report.inputs for report in reports),
        accepted=sum(report.accepted for report in reports),
        refused=sum(report.refused for report in reports),
        too_large=sum(report.too_large for report in reports),
        slowest_us=slow.slowest_us,
        slowest=slow.slowest,
        peak_rss_bytes=max(report.peak_rss_bytes for report in reports),
    )


def run_all(work: Work, count: int, targets: Sequence[str], jobs: int) -> dict[str, Report]:
    """Run all chunks, `jobs` at a time; print a line per finished target.

    Raises: Broken: an input broke a reader.
    """
    results: dict[str, Report] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for target in targets:
            reports = list(pool.map(lambda chunk: run_chunk(work, chunk), chunks(count, [target])))
            results[target] = merge(reports)
            print(line(target, results[target]), flush=True)
    return results


def line(target: str, report: Report) -> str:
    """Return the summary of one target."""
    return (
        f"{target:12} {report.inputs:>9,} inputs: {report.accepted:,} accepted, "
        f"{report.refused:,} refused, {report.too_large:,} too large; 0 crashes; slowest "
        f"{report.slowest_us / 1000:.0f} ms (input {report.slowest}); peak "
        f"{report.peak_rss_bytes / 2**20:.0f} MiB"
    )


def run_sequences(sequences: int) -> int:
    """Run the state machine of the vec env; return pytest's exit code."""
    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "many",
        "tests/fuzz/test_vector_machine.py",
    ]
    environment = {**os.environ, "PV_FUZZ_SEQUENCES": str(sequences)}
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=environment).returncode


def culprit(error: Broken) -> tuple[str, int]:
    """Return the target and the number of the input that an error names."""
    match = re.search(r"(\w+): inputs? (\d+)", str(error))
    return (match[1], int(match[2])) if match else ("?", error.input)


def replay_command(seed: int, target: str, number: int) -> str:
    """Return the command that repeats one input."""
    return (
        f"PV_SEED={seed} python scripts/fuzz.py --targets {target} --first {number} --count 1 "
        "--sequences 0"
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    everything = [*C_SHARES, *PYTHON_SHARES]
    parser.add_argument(
        "--count",
        type=int,
        default=1_000_000,
        help="mutated scenes, in C and in Python; the rest by share",
    )
    parser.add_argument(
        "--first", type=int, help="run only inputs FIRST to FIRST + COUNT of one target"
    )
    parser.add_argument("--targets", nargs="+", choices=everything, default=everything)
    parser.add_argument(
        "--sequences", type=int, default=10_000, help="sequences of calls of a vec env; 0: none"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    options, seed = parse(arguments), int(os.environ.get("PV_SEED", "1"))
    begun = time.monotonic()
    room = (
        "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    )  # Inputs of readers in Python are files.
    with tempfile.TemporaryDirectory(prefix="puffervec-fuzz-", dir=room) as scratch:
        work = prepare(Path(scratch), seed)
        try:
            if options.first is not None:
                results = {
                    name: run_chunk(work, Chunk(name, options.first, options.count))
                    for name in options.targets
                }
                print("\n".join(line(name, report) for name, report in results.items()))
            else:
                results = run_all(work, options.count, options.targets, options.jobs)
        except Broken as error:
            path = Path(tempfile.gettempdir()) / "puffervec-broken-input"
            path.write_bytes(error.data)
            print(
                f"{error}\nits bytes: {path}\nagain: {replay_command(seed, *culprit(error))}",
                file=sys.stderr,
            )
            return 1
    broken = run_sequences(options.sequences) if options.sequences else 0
    seconds = time.monotonic() - begun
    total = sum(report.inputs for report in results.values())
    outcome = "FAILED" if broken else "ok"
    print(
        f"{total:,} inputs, {options.sequences:,} sequences of calls, {seconds:.0f} s, seed "
        f"{seed}: {outcome}"
    )
    if options.json:
        result = {
            "targets": {name: asdict(report) for name, report in results.items()},
            "sequences": options.sequences,
            "seed": seed,
            "seconds": seconds,
            "crashes": 0,
            "sequences_failed": bool(broken),
        }
        settings = {"count": options.count, "jobs": options.jobs, "targets": options.targets}
        common.write_json(options.json, common.report("fuzz", common.machine(), settings, result))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

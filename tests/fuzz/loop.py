# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The fuzzing loop over a reader written in Python. Run in a process of its own by scripts/fuzz.py,
and by tests/fuzz.

    python -m tests.fuzz.loop READER SEED FIRST COUNT FOLDER

Input i depends on (reader, SEED, i) alone: FIRST = i and COUNT = 1 replay it. Prints one line of
JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.program import MEMORY_MIB, Broken, Report
from tests.fuzz.readers import READERS, Reader

LONGEST_S = 1.0


def rng_of(seed: int, number: int) -> random.Random:
    """The random numbers of one input."""
    return random.Random(seed << 40 | number)


def peak_rss_bytes() -> int:
    """The largest resident memory that this process has had."""
    status = Path("/proc/self/status").read_text()  # getrusage tells of the parent before exec too
    return 1024 * next(
        int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")
    )


def read_one(name: str, reader: Reader, data: bytes, number: int, seed: int) -> bool:
    """Read one input. Raises Broken where the reader raises something else than its own errors."""
    try:
        return reader.read(data)
    except reader.errors as error:
        if not str(error).strip():
            raise Broken(
                f"{name}: input {number} of seed {seed} is refused without a word", number, data
            ) from error
        return False
    except (Exception, RecursionError) as error:
        raise Broken(
            f"{name}: input {number} of seed {seed}: {type(error).__name__}: {error}", number, data
        ) from error


def run(name: str, seed: int, first: int, count: int, folder: Path) -> Report:
    """Run inputs [first, first + count) of a reader.

    Raises: Broken where one of them breaks it, or takes more than LONGEST_S of CPU time; or where
    the memory that was in use before has grown by more than MEMORY_MIB.
    """
    reader = READERS[name](folder)
    before = peak_rss_bytes()
    accepted, slowest_s, slowest = 0, 0.0, first
    for number in range(first, first + count):
        data = reader.make(rng_of(seed, number))
        begun = time.process_time()
        accepted += read_one(name, reader, data, number, seed)
        took = time.process_time() - begun
        if took > slowest_s:
            slowest_s, slowest = took, number
        if took > LONGEST_S:
            raise Broken(f"{name}: input {number} of seed {seed} takes {took:.1f} s", number, data)
    reader.finish()
    peak = peak_rss_bytes()
    if peak - before > MEMORY_MIB << 20:
        raise Broken(
            f"{name}: inputs {first} to {first + count}: memory grew by {(peak - before) >> 20} "
            "MiB",
            first,
            b"",
        )
    return Report(count, accepted, count - accepted, 0, int(1e6 * slowest_s), slowest, peak)


def main(arguments: list[str]) -> int:
    """Run as a program; returns the exit code."""
    name, seed, first, count, folder = arguments
    try:
        print(json.dumps(asdict(run(name, int(seed), int(first), int(count), Path(folder)))))
    except Broken as error:
        import traceback

        traceback.print_exc()
        (Path(folder) / "broken").write_bytes(error.data)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checks the golden hashes with the core that this process imports: `python -m tests.golden.check
--build "gcc -O0"`.

Run by scripts/golden.py and the tests, in copies of the sources that were built with other
compilers and flags.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.golden import record
from tests.golden.cases import BY_NAME, CASES, FIVE

SERIAL: dict[str, Any] = {"backend": "serial"}
WORKERS: list[dict[str, Any]] = [
    {"backend": "multiprocessing", "num_workers": workers} for workers in (1, 2, 3, 4)
]
HALVES: list[dict[str, Any]] = [
    {"backend": "serial", "num_buffers": 2, "split": "workers"},
    {"backend": "serial", "num_buffers": 2, "split": "envs"},
    {"backend": "threading", "num_workers": 2},
    {"backend": "threading", "num_workers": 2, "num_buffers": 2, "split": "envs"},
    {"backend": "multiprocessing", "num_workers": 2, "num_buffers": 2, "split": "workers"},
    {"backend": "multiprocessing", "num_workers": 3, "num_buffers": 2, "split": "envs"},
]
PLANS = {"serial": [SERIAL], "workers": [SERIAL, *WORKERS], "all": [SERIAL, *WORKERS, *HALVES]}


def in_words(way: Mapping[str, Any]) -> str:
    """Return how the envs were run, for messages."""
    return " ".join(str(value) for value in way.values())


def differences(
    ways: Sequence[Mapping[str, Any]],
    steps: int,
    build: str,
    names: Iterable[str] = BY_NAME,
    every_seed: bool = False,
) -> Iterator[str | None]:
    """Run the named cases in each way and yield, per combination, what differs first, or None."""
    expected = record.load()["runs"]
    for name in names:
        case = BY_NAME[name]
        for seed in case.seeds if every_seed else case.seeds[:1]:
            for way in ways:
                if case.autoreset == "disabled" and way.get("num_buffers", 1) > 1:
                    continue  # the learner resets with a mask, which needs one batch
                with case.make(**way) as vec:
                    found = record.run(vec, case, seed, steps)
                key = record.run_name(case, seed)
                yield record.difference(key, expected[key], found, build, in_words(way))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check, print each difference and a count, and return 1 if there was one."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument(
        "--build", default="the installed build", help="what the messages call this build"
    )
    flags.add_argument("--steps", type=int, default=400, help=f"one of {record.CHECKPOINTS}")
    flags.add_argument("--plan", choices=PLANS, default="serial")
    flags.add_argument(
        "--five-seeds", action="store_true", help="only the cases with five seeds, and all of these"
    )
    options = flags.parse_args(arguments)
    if options.steps not in record.CHECKPOINTS:
        flags.error(f"--steps is {options.steps}: use one of {record.CHECKPOINTS}")
    names = [case.name for case in CASES if case.seeds == FIVE or not options.five_seeds]
    found = list(
        differences(PLANS[options.plan], options.steps, options.build, names, options.five_seeds)
    )
    wrong = [text for text in found if text is not None]
    for text in wrong:
        print(text)
    print(
        f"{options.build}: {len(found)} combinations of {options.steps} steps, {len(wrong)} differ"
    )
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())

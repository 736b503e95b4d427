# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compare our sampler of actions on a CPU, with noise and log-probabilities, with `Categorical`.

    python bench/sampling.py                         5, 20 and 91 choices, 256 to 2,048 rows, as in a rollout of drive
    python bench/sampling.py --actions 91 --rows 10000

Both run on one thread, as in the trainer's pool, and alternate call by call. Figures are CPU time;
a sample is the median over many calls. "Categorical" is `Categorical(logits=...)` and `sample()`,
without the log-probabilities that ours returns as well.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch.distributions import Categorical

from bench import common
from bench.common import Figure
from bench.compile import medians_ms
from puffervec.errors import ConfigError, PuffervecError
from puffervec.train.device.device import one_torch_thread
from puffervec.train.policies.distributions import ActionSpec, draw_noise, sample

WANTED, FROM_ACTIONS = (
    3.0,
    20,
)  # The wanted speed-up, and the least number of choices that it applies to.
COLUMNS = ("choices", "rows", "Categorical, us", "ours, us", "x as fast", "wanted")
CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class Result:
    """One line of the table. gain: Categorical's time / ours, of the same repeat; met: None without
    a target.
    """

    actions: int
    rows: int
    categorical_us: Figure
    ours_us: Figure
    gain: Figure
    met: bool | None


def works(actions: int, rows: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return two functions that draw from the same logits (rows, actions): `Categorical`'s and
    ours.
    """
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(rows, actions, generator=generator)
    spec = ActionSpec(kind="discrete", sizes=(actions,), low=(), high=())
    return (
        lambda: Categorical(logits=logits).sample(),  # type: ignore[no-untyped-call]
        lambda: sample(spec, (logits,), draw_noise(spec, rows, CPU, generator)),
    )


def measure(
    actions: int, rows: int, seconds: float, repeats: int, note: Callable[[str], None]
) -> tuple[Result, float]:
    """Return a line, and the share of the machine that others took."""
    both = works(actions, rows)
    for work in both:
        work()
    name = f"{actions} choices, {rows} rows"
    runs = common.interleave({name: lambda: medians_ms(both, seconds)}, repeats, note)
    theirs, ours = zip(*runs.results[name], strict=True)
    gain = common.ratio(theirs, ours)
    met = gain.median >= WANTED if actions >= FROM_ACTIONS else None
    theirs_us, ours_us = (common.figure(1e3 * one for one in found) for found in (theirs, ours))
    return Result(actions, rows, theirs_us, ours_us, gain, met), runs.foreign


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; returns the exit code: 0, or 2 for bad input."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common.add_flags(flags, "sampling", seconds=0.3)
    flags.add_argument(
        "--actions", default="5,20,91", help="numbers of choices (default: %(default)s)"
    )
    flags.add_argument(
        "--rows", default="256,512,1024,2048", help="rows per call (default: %(default)s)"
    )
    options = flags.parse_args(arguments)
    facts, note = common.machine(), common.Progress()
    try:
        cases = [
            (a, r)
            for a in _numbers("--actions", options.actions)
            for r in _numbers("--rows", options.rows)
        ]
        with one_torch_thread():
            found = [measure(*case, options.seconds, options.repeats, note) for case in cases]
    except PuffervecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    note.clear()
    results = [result for result, _ in found]
    common.print_table(
        "One action per row, one thread", COLUMNS, [_row(result) for result in results]
    )
    common.finish(
        "sampling",
        options,
        facts,
        max(foreign for _, foreign in found),
        [dataclasses.asdict(r) for r in results],
    )
    return 0


def _numbers(flag: str, text: str) -> list[int]:
    """Return the numbers of a comma-separated flag. Raises: ConfigError for anything but whole
    numbers of at least 1.
    """
    words = text.split(",")
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ConfigError(
            f"{flag} is {text!r}: give whole numbers of at least 1, separated by commas"
        )
    return [int(word) for word in words]


def _row(result: Result) -> list[str]:
    word = "-" if result.met is None else f"{WANTED:g}x: {'met' if result.met else 'MISSED'}"
    figures = (str(figure) for figure in (result.categorical_us, result.ours_us, result.gain))
    return [str(result.actions), f"{result.rows:,}", *figures, word]


if __name__ == "__main__":
    sys.exit(main())

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compare two commands, or one command on two git revisions, run alternately: is B faster than A?

    python bench/compare.py --a "python one.py" --b "python other.py"    wall time
    python bench/compare.py --a "..." --b "..." --metric results.0.step_us.median
    python bench/compare.py --revisions HEAD~1 WORK --metric results.rows.2.iteration_us.median --
        \\ python bench/sps.py --envs tag_grid --modes multiprocess --repeats 1 --json {json}

A revision is unpacked (git archive) and built in a temporary folder; WORK is the working tree with
its changes. {json} in a command becomes the name of a file, another one for each run. The ratio B/A
of a pair cancels slow minutes of the machine. A difference counts as a change only if the median
ratio is further from 1 than twice the spread of the ratios.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import common
from puffervec.errors import ConfigError

WORKING_TREE = "WORK"
MAD_TO_SIGMA = 1.4826  # Standard deviation / median absolute deviation of a normal distribution.


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison of B with A.

    Attributes:
        ratio: median of B/A over the pairs.
        spread: standard deviation of the ratios, estimated from their median absolute deviation.
        changed: whether the ratio differs from 1 by more than twice the spread.
    """

    ratio: float
    spread: float
    changed: bool
    ratios: tuple[float, ...]

    def __str__(self) -> str:
        change = f"{100 * (self.ratio - 1):+.1f}% (spread of a pair {100 * self.spread:.1f}%)"
        return f"B/A = {self.ratio:.4f}, {change}: " + (
            "a change" if self.changed else "no change that exceeds twice the spread"
        )


def judge(a: Sequence[float], b: Sequence[float]) -> Verdict:
    """Compare measurements pair by pair.

    >>> judge([1.0, 2.0, 1.5], [2.0, 4.0, 3.0]).changed
    True
    """
    ratios = tuple(after / before for before, after in zip(a, b, strict=True))
    middle = statistics.median(ratios)
    spread = MAD_TO_SIGMA * statistics.median(abs(ratio - middle) for ratio in ratios)
    return Verdict(middle, spread, abs(middle - 1) > 2 * spread, ratios)


def pick(document: Any, path: str) -> float:
    """Return the number at a dotted path in a JSON document; list entries go by index.

    Raises:
        ConfigError: the path does not exist, or is not that of a number.
    """
    value = document
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            inside = (
                list(value)
                if isinstance(value, dict)
                else f"{len(value)} entries"
                if isinstance(value, list)
                else repr(value)
            )
            raise ConfigError(f"--metric {path}: there is no {part!r}; found {inside}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"--metric {path} is {value!r}: give the path of a number")
    return float(value)


def run_once(command: Sequence[str], folder: Path, metric: str | None) -> float:
    """Run a command in a folder and return its metric, or its wall time in seconds.

    Raises:
        ConfigError: the command failed; the message ends with its output.
    """
    with tempfile.TemporaryDirectory(prefix="puffervec-compare-") as place:
        output = Path(place) / "out.json"
        words = [word.replace("{json}", str(output)) for word in command]
        begin = time.monotonic()
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        seconds = time.monotonic() - begin
        if done.returncode:
            raise ConfigError(
                f"{shlex.join(words)} ended with status {done.returncode}: "
                f"{(done.stderr or done.stdout).strip()[-1000:]}"
            )
        if metric is None:
            return seconds
        if not output.exists():
            raise ConfigError(
                f"{shlex.join(words)} wrote no JSON: put {{json}} where it takes the file's name"
            )
        return pick(json.loads(output.read_text()), metric)


def unpack(revision: str, folder: Path, repository: Path) -> None:
    """Unpack a git revision into a folder and build its C core there.

    Raises:
        ConfigError: the revision does not exist, or does not build.
    """
    folder.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "-C", str(repository), "archive", "--format=tar", revision], capture_output=True
    )
    if archive.returncode:
        raise ConfigError(
            f"revision {revision!r}: {archive.stderr.decode(errors='replace').strip()}"
        )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    if (folder / "setup.py").exists():
        build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        done = subprocess.run(build, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise ConfigError(
                f"revision {revision!r} does not build: {done.stderr.strip()[-1000:]}"
            )


def alternate(
    a: Callable[[], float], b: Callable[[], float], pairs: int, note: Callable[[str], None]
) -> tuple[list[float], list[float]]:
    """Run A and B `pairs` times each, A first in even pairs and B first in odd ones."""
    results = common.interleave({"A": a, "B": b}, pairs, note).results
    return results["A"], results["B"]


def _places(options: argparse.Namespace, scratch: Path) -> list[Path]:
    places = []
    for letter, revision in zip(
        "ab", options.revisions or (WORKING_TREE, WORKING_TREE), strict=True
    ):
        if revision == WORKING_TREE:
            places.append(options.repository)
        else:
            places.append(scratch / letter)
            unpack(revision, places[-1], options.repository)
    return places


def _commands(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    if options.revisions:
        if not options.command or options.a or options.b:
            raise ConfigError(
                "--revisions compares one command: give it after --, and neither --a nor --b"
            )
        command = [sys.executable if word == "python" else word for word in options.command]
        return command, command
    if not (options.a and options.b) or options.command:
        raise ConfigError("give two commands as --a and --b, or --revisions A B -- COMMAND")
    return shlex.split(options.a), shlex.split(options.b)


def compare(options: argparse.Namespace, progress: common.Progress) -> dict[str, Any]:
    """Run both commands and return the results for JSON."""
    first, second = _commands(options)
    with tempfile.TemporaryDirectory(prefix="puffervec-compare-") as scratch:
        place_a, place_b = _places(options, Path(scratch))
        a, b = alternate(
            lambda: run_once(first, place_a, options.metric),
            lambda: run_once(second, place_b, options.metric),
            options.pairs,
            progress,
        )
    progress.clear()
    verdict = judge(a, b)
    what = options.metric or "wall time (s)"
    rows = [
        (
            name,
            str(common.figure(samples)),
            common.number(min(samples)),
            common.number(max(samples)),
        )
        for name, samples in (("A", a), ("B", b))
    ]
    common.print_table(
        f"{what}: {options.pairs} pairs",
        ("", "median ± spread", "min", "max"),
        rows,
        [str(verdict)],
    )
    return {"a": a, "b": b, "verdict": asdict(verdict)}


@common.command
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    flags = common.parser(__doc__)
    flags.add_argument("--a", help="command A, as one string")
    flags.add_argument("--b", help="command B")
    flags.add_argument(
        "--revisions",
        nargs=2,
        metavar=("A", "B"),
        help=f"two git revisions; {WORKING_TREE} is the working tree",
    )
    flags.add_argument(
        "--metric",
        help="dotted path of a number in the JSON that the command writes to {json} (default: wall "
        "time)",
    )
    flags.add_argument("--pairs", type=int, default=7, help="runs of each command")
    flags.add_argument("--repository", type=Path, default=common.ROOT, help=argparse.SUPPRESS)
    flags.add_argument("--json", type=Path, help="also write the results to this file")
    words = list(sys.argv[1:] if arguments is None else arguments)
    split = words.index("--") if "--" in words else len(words)
    options = flags.parse_args(words[:split])
    options.command = words[split + 1 :]
    progress = common.Progress()
    if options.pairs < 1:
        raise ConfigError(f"--pairs is {options.pairs}: use at least 1, better 5 or more")
    results, foreign = common.foreign_load(lambda: compare(options, progress))
    if options.json:
        facts = {**common.machine(), "foreign_load": foreign}
        common.write_json(options.json, common.report("compare", facts, vars(options), results))


if __name__ == "__main__":
    sys.exit(main())

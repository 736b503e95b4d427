# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What the tests of documentation pages share: a page's code blocks, run in one interpreter in the
page's order.

A ```text block right after a ```python block is what that one prints. Numbers of such blocks are
measurements, so tests compare the words only; `python -m tests.docs.pages docs/PAGE.md` measures
again and puts the medians of several
runs into the page, and where it says `<!-- measured -->`, on which machine and commit, beside what
load and with what spread.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from bench import common
from bench.foreign import foreign_load

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^```(?P<info>\w+[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
END = "\x1e"  # printed after each block, to tell what each has printed
NUMBER = re.compile(r"(?<![\w.,])-?\d+(?:,\d{3})*(?:\.\d+)?")
PADDED = re.compile(rf" *{NUMBER.pattern}")  # with the blanks before it, which keep columns in line


@dataclass(frozen=True)
class Block:
    """A fenced block. info: what stands after the fence ("python", "text", ...). begin, end: where
    `text` lies in the page.
    """

    info: str
    text: str
    begin: int
    end: int


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page's text, in order."""
    return [
        Block(found["info"], found["text"], found.start("text"), found.end("text"))
        for found in FENCED.finditer(page)
    ]


def commands(page: str, *infos: str) -> list[str]:
    """Return the commands of a page's blocks with these infos, or of all its blocks, a line each,
    without lines that are comments.
    """
    found = [block.text for block in blocks(page) if not infos or block.info in infos]
    lines = [line for text in found for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in lines if not line.startswith("#")]


def examples(page: str) -> list[tuple[Block, Block | None]]:
    """Return the Python blocks, each with the text block that says what it prints, or None where
    none follows at once.
    """
    found = blocks(page)
    following: list[Block | None] = [*found[1:], None]
    pairs = []
    for block, after in zip(found, following, strict=True):
        shown = (
            after is not None
            and after.info == "text"
            and page[block.end : after.begin].split() == ["```", "```text"]
        )
        if block.info == "python":
            pairs.append((block, after if shown else None))
    return pairs


def as_script(page: str) -> str:
    """Return the Python blocks as one script whose line numbers are the page's, so that a traceback
    leads to the page.
    """
    lines = [""] * (page.count("\n") + 1)
    for block, _ in examples(page):
        first = page.count("\n", 0, block.begin)
        text = block.text.splitlines()
        lines[first : first + len(text)] = text
        lines[first + len(text)] = f"print(end={END!r})"  # in place of the closing fence
    return "\n".join(lines) + "\n"


def run_script(script: Path, *arguments: str, folder: Path | None = None) -> str:
    """Run a script in this process, as `python SCRIPT ARGUMENTS` would in `folder`; return what it
    prints on stdout.

    It must print nothing on stderr. A process of its own would first import torch, which takes
    longer than most scripts.
    """
    out, err, argv, path = io.StringIO(), io.StringIO(), sys.argv, sys.path.copy()
    threads, drawn = torch.get_num_threads(), torch.get_rng_state()
    sys.argv, sys.path[:0] = [str(script), *arguments], [str(script.parent)]
    torch.set_num_threads(
        1
    )  # on a busy machine, threads that wait for each other take many times as long
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(folder or Path.cwd()),
        ):
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path
        torch.set_num_threads(threads)
        torch.set_rng_state(drawn)
    assert err.getvalue() == ""
    return out.getvalue()


def printed(page: str, folder: Path, timeout_s: float = 200.0) -> list[str]:
    """Run the Python blocks in one interpreter in `folder` and return what each printed. They must
    say nothing on stderr.
    """
    script = folder / "page.py"
    script.write_text(as_script(page))
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=timeout_s
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{done.stdout}\n{done.stderr}"
    return done.stdout.split(END)[:-1]


def words(text: str) -> list[list[str]]:
    """Return the words of each line, with # for numbers."""
    return [NUMBER.sub("#", line).split() for line in text.splitlines()]


def differing(page: str, folder: Path) -> list[tuple[str, str]]:
    """Run a page's examples in `folder` and return (shown, printed) of those that print something
    else than the page shows.
    """
    shown = [text.text if text is not None else "" for _, text in examples(page)]
    return [pair for pair in zip(shown, printed(page, folder), strict=True) if pair[0] != pair[1]]


def missing_links(page: Path) -> list[str]:
    """Return the targets of the page's links that lead nowhere."""
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    return [
        target for target in targets if "://" not in target and not (page.parent / target).exists()
    ]


def missing_tests(page: str) -> list[str]:
    """Return the tests that the page names (`tests/file.py` or `tests/file.py::test`) and that do
    not exist.
    """
    missing = []
    for name in re.findall(r"`(tests/[^`]+)`", page):
        file, _, test = name.partition("::")
        path = ROOT / file
        if path.is_dir() and not test:
            continue
        tree = ast.parse(path.read_text()) if path.exists() else None
        functions = (
            {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            if tree is not None
            else set()
        )
        if tree is None or (test and test not in functions):
            missing.append(name)
    return missing


def with_medians(page: str, runs: list[list[str]]) -> str:
    """Return the page with what its blocks printed in `runs`; where a number differs from run to
    run, with the median.
    """
    for number, (_, shown) in reversed(list(enumerate(examples(page)))):
        if shown is not None:
            page = page[: shown.begin] + _median([run[number] for run in runs]) + page[shown.end :]
    return page


def _median(texts: list[str]) -> str:
    columns = zip(*(NUMBER.findall(text) for text in texts), strict=True)
    medians = iter([_formatted(column) for column in columns])
    return PADDED.sub(lambda found: next(medians).rjust(len(found[0])), texts[0])


def with_origin(page: str, runs: list[list[str]], foreign: float) -> str:
    """Return the page with where its figures come from.

    Args: foreign: share of the machine that other programs took.
    """
    spreads = []
    for texts in zip(*runs, strict=True):
        for column in zip(*(NUMBER.findall(text) for text in texts), strict=True):
            if len(set(column)) > 1:
                spreads.append(common.figure(map(_value, column)).spread)
    middle, most = (
        f"{100 * spread:.0f} %" for spread in (statistics.median(spreads), max(spreads))
    )
    text = (
        f"*Medians of {len(runs)} runs: {common.origin(common.machine())};\n"
        f"other programs took {100 * foreign:.0f} %; half the distance of the quartiles is {middle}"
        f" in the median of the figures, {most} at most.*\n"
    )
    return common.filled(page, "measured", text) or page


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _formatted(numbers: tuple[str, ...]) -> str:
    """Return the median, as exact as the first of the numbers."""
    if len(set(numbers)) == 1:
        return numbers[0]
    digits = len(numbers[0].partition(".")[2])
    median = statistics.median(map(_value, numbers))
    return f"{median:{',' if any(',' in number for number in numbers) else ''}.{digits}f}"


def main() -> None:
    """Measure a page again."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    page = args.page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        runs, foreign = foreign_load(lambda: [printed(page, place) for _ in range(args.runs)])
    measured = with_origin(with_medians(page, runs), runs, foreign)
    args.page.write_text(measured, encoding="utf-8")


if __name__ == "__main__":
    main()

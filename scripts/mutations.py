# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draw random mutations of the sources of the newer rooms, for `scripts/sabotage.py --random`.

A mutation changes one place: a comparison, the sign of a term, a dropped term, a condition, minimum
and maximum, or a number. Comments, strings, imports, assertions and error messages are not changed.
The tests that mirror the changed file run first; if they pass, those of the whole room run, then
the room's slow ones. Some mutations have no observable effect (a limit that only affects speed, a
tie that cannot occur), so a share of 100 % is not expected.
"""

from __future__ import annotations

import ast
import io
import random
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.sabotage import Sabotage, Stale
from tests.test_source_rules import TESTED_TOGETHER

EVERY_C_ENV = ("tests/test_save_load.py", "tests/test_contract.py", "tests/golden")
# The tests of a room, by its folder of sources.
ROOMS: dict[str, tuple[str, ...]] = {
    "drive_env": ("tests/drive_env",),
    "csrc/drive": ("tests/drive_env", "tests/c/test_drive_*.py", *EVERY_C_ENV),
    "csrc/covid": ("tests/envs/test_covid*.py", "tests/c/test_covid_curves.py", *EVERY_C_ENV),
    "csrc/tag": ("tests/envs/test_tag_*.py", *EVERY_C_ENV),
    "puffervec/viewing/web": ("tests/viewing/web",),
    "puffervec/wings/watch": ("tests/wings/watch",),
    "puffervec/wings/plan": ("tests/wings/plan",),
    "puffervec/wings/sharded": ("tests/wings/sharded",),
    "puffervec/wings/ray": ("tests/wings/ray",),
    "puffervec/wings/ocean": ("tests/wings/ocean",),
    "puffervec/wings/reference": ("tests/wings/reference",),
    "puffervec/wings/evaluations": ("tests/wings/evaluations",),
}
C_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
# Lines whose changes no test needs to detect: includes, checks, messages, and prefetches.
LEFT_ALONE = re.compile(
    r"^\s*(#\s*(include|pragma|error)|import |from |raise |assert |@|PV_ASSERT|_Static_assert"
    r"|__builtin_prefetch|__all__)"
)
MASK = "\0"


@dataclass(frozen=True)
class Mutation(Sabotage):
    """A breakage of one place.

    Attributes:
        at: position of `old` in the file, in characters.
    """

    at: int = 0

    def apply(self, text: str) -> str:
        """Return the text of the file with the breakage. Raises: Stale: the file has changed."""
        if not text.startswith(self.old, self.at):
            raise Stale(f"{self.name}: {self.old!r} is not at {self.at} in {self.file}")
        return text[: self.at] + self.new + text[self.at + len(self.old) :]


# ---- mutations -----------------------------------------------------------------------------------

Change = Callable[[re.Match[str]], str]
SWAPS = {
    "comparison": {"<=": "<", "<": "<=", ">=": ">", ">": ">=", "==": "!=", "!=": "=="},
    "operation": {"+": "-", "-": "+", "*": "/", "/": "*"},
    "connective": {"&&": "||", "||": "&&", "and": "or", "or": "and"},
    "extreme": {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum",
                "argmin": "argmax", "argmax": "argmin",
                "drive_min": "drive_max", "drive_max": "drive_min"},
}  # fmt: skip


def _number(match: re.Match[str]) -> str:
    digits, suffix = match.group(1), match.group(2)
    return (
        f"{float(digits) * 1.25 or 0.5!r}{suffix}"
        if "." in digits
        else f"{int(digits) + 1}{suffix}"
    )


OPERATORS: tuple[tuple[str, re.Pattern[str], Change], ...] = (
    ("comparison", re.compile(r"(?<= )(?:<=|>=|==|!=|<|>)(?= )"),
     lambda m: SWAPS["comparison"][m.group()]),
    ("operation", re.compile(r"(?<=[\w)\]] )[-+*/](?= )"), lambda m: SWAPS["operation"][m.group()]),
    ("connective", re.compile(r"(?<= )(?:&&|\|\||and|or)(?= )"),
     lambda m: SWAPS["connective"][m.group()]),
    ("extreme", re.compile(r"\b(?:drive_)?(?:min|max|minimum|maximum|argmin|argmax)\b(?=\()"),
     lambda m: SWAPS["extreme"].get(m.group(), m.group())),
    ("term", re.compile(r" [-+] [A-Za-z_][\w.]*(?:\[\w+\])?(?=[;,)\]])"), lambda m: ""),
    ("number", re.compile(r"(?<![\w.#])(\d+\.\d+|\d+)(f?)(?![\w.])"), _number),
    ("condition", re.compile(r"(?<=\bif )(?!not )[^\n:{}]+(?=:\n)"),
     lambda m: f"not ({m.group()})"),
    ("condition", re.compile(r"(?<=\bif )\((?:[^()\n]|\([^()\n]*\))+\)"),
     lambda m: f"(!{m.group()})"),
)  # fmt: skip


def mask_source(path: str, text: str) -> str:
    """Return a source in which comments, strings and excluded lines are masked.

    Positions do not change.
    """
    code = list(text)

    def mask(first: int, end: int) -> None:
        code[first:end] = [one if one == "\n" else MASK for one in code[first:end]]

    if path.endswith(".py"):
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                mask(
                    starts[token.start[0] - 1] + token.start[1],
                    starts[token.end[0] - 1] + token.end[1],
                )
    else:
        for match in C_TEXT.finditer(text):
            mask(*match.span())
    at = 0
    for line in "".join(code).splitlines(keepends=True):
        if LEFT_ALONE.match(line):
            mask(at, at + len(line))
        at += len(line)
    return "".join(code)


def mutations_of(path: str, text: str) -> Iterator[tuple[str, int, str, str]]:
    """Yield (operator, position, old, new) of each mutation of a source."""
    code, python = mask_source(path, text), path.endswith(".py")
    for name, pattern, change in OPERATORS:
        if name == "condition" and pattern.pattern.startswith(r"(?<=\bif )\(") == python:
            continue
        for match in pattern.finditer(code):
            new = change(match)
            if MASK in match.group() or new == match.group():
                continue
            yield name, match.start(), match.group(), new


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


# ---- the draw ------------------------------------------------------------------------------------


def sources_of(root: Path, folder: str) -> list[str]:
    """Return the sources of a room, by their paths from the root."""
    paths = [path for path in sorted((root / folder).rglob("*")) if path.suffix in (".py", ".c")]
    return [
        path.relative_to(root).as_posix()
        for path in paths
        if path.name not in ("__init__.py", "__main__.py")
    ]


def room_of(root: Path, folder: str) -> tuple[str, ...]:
    """Return the tests of a room, with resolved patterns."""
    files = []
    for pattern in ROOMS[folder]:
        files += sorted(path.relative_to(root).as_posix() for path in root.glob(pattern))
    return tuple(files)


def mirrors_of(root: Path, path: str, room: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tests that mirror a source, or those of the room if there are none.

    They are named after it, listed as its tests, or mention it.
    """
    tests = [
        file
        for place in room
        for file in ([root / place] if place.endswith(".py") else (root / place).rglob("test_*.py"))
    ]
    stem = Path(path).stem
    mirrors = [
        file
        for file in tests
        if file.name in (f"test_{stem}.py", f"test_drive_{stem}.py") or path in file.read_text()
    ]
    names = {file.relative_to(root).as_posix() for file in mirrors}
    if (together := TESTED_TOGETHER.get(path)) is not None:
        names.add(together)
    return tuple(sorted(names)) or room


def draw(root: Path, count: int, seed: int, only: str = "") -> list[Mutation]:
    """Draw `count` mutations, with equal numbers from all rooms.

    They depend only on the seed and the sources.

    Args:
        only: a folder of ROOMS, or a file; "" for all.

    Raises:
        Stale: no mutation is possible there.
    """
    chance = random.Random(seed)
    folders = [folder for folder in ROOMS if not only or only.startswith(folder)]
    places: dict[str, list[tuple[str, tuple[str, int, str, str]]]] = {}
    for folder in folders:
        files = [path for path in sources_of(root, folder) if not only or path.startswith(only)]
        candidates = [
            (path, one)
            for path in files
            for one in mutations_of(path, (root / path).read_text(encoding="utf-8"))
        ]
        if candidates:
            places[folder] = chance.sample(candidates, len(candidates))
    if not places:
        raise Stale(f"--room {only}: nothing to break there; rooms are {', '.join(ROOMS)}")
    mutations: list[Mutation] = []
    while len(mutations) < count and any(places.values()):
        for folder, remaining in places.items():
            while remaining and len(mutations) < count:
                path, (operator, at, old, new) = remaining.pop()
                text = (root / path).read_text(encoding="utf-8")
                line = text.count("\n", 0, at) + 1
                room = room_of(root, folder)
                name = f"{len(mutations):03d}-{Path(path).stem}-{line}-{operator}".lower()
                why = f"line {line}: {old.strip()} -> {new.strip() or 'nothing'}"
                one = Mutation(name, path, why, old, new, mirrors_of(root, path, room), room, at)
                if path.endswith(".c") or _parses(one.apply(text)):
                    mutations.append(one)
                    break
    return mutations

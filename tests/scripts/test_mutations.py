# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Breakages that are drawn at random (scripts/mutations.py), and how scripts/sabotage.py tries
them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scripts import sabotage
from scripts.mutations import ROOMS, Mutation, draw, mirrors_of, mutations_of, room_of
from scripts.sabotage import Outcome, Stale

PYTHON = '''"""Add 1 < 2 words."""
import os  # 3 < 4

def clip(x: int) -> int:
    """Return 5 < 6."""
    if x < 7 and x != 8:
        raise ValueError(f"{x} > 9")
    return min(x, 10) - x + y
'''
C = """// 1 < 2
#include "a.h" // 3
static int clip(int x) {
    PV_ASSERT(x < 4);
    if (x >= 5) return 0x10;
    float y = 0.5f * x; /* 6
    < 7 */
    return drive_max(x, y - z);
}
"""


def changes(path: str, text: str) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for operator, at, old, new in mutations_of(path, text):
        assert text.startswith(old, at) and old != new
        found[operator, old, new] += 1
    return found


def test_code_is_changed_and_words_are_not() -> None:
    """Nothing of comments, strings, imports, assertions and errors; of the rest each operator where
    it fits.
    """
    assert changes("a.py", PYTHON) == Counter({
        ("comparison", "<", "<="): 1, ("comparison", "!=", "=="): 1, ("connective", "and", "or"): 1,
        ("extreme", "min", "max"): 1, ("operation", "-", "+"): 1, ("operation", "+", "-"): 1,
        ("number", "7", "8"): 1, ("number", "8", "9"): 1, ("number", "10", "11"): 1,
        ("condition", "x < 7 and x != 8", "not (x < 7 and x != 8)"): 1,
    })  # fmt: skip
    assert changes("a.c", C) == Counter({
        ("comparison", ">=", ">"): 1, ("operation", "*", "/"): 1, ("operation", "-", "+"): 1,
        ("term", " - z", ""): 1, ("number", "5", "6"): 1, ("number", "0.5f", "0.625f"): 1,
        ("extreme", "drive_max", "drive_min"): 1, ("condition", "(x >= 5)", "(!(x >= 5))"): 1,
    })  # fmt: skip


@pytest.mark.slow
def test_a_draw_is_reproducible_and_of_all_rooms() -> None:
    count = 2 * len(ROOMS)
    drawn = draw(sabotage.common.ROOT, count, seed=3)
    assert drawn == draw(sabotage.common.ROOT, count, seed=3)
    assert drawn != draw(sabotage.common.ROOT, count, seed=4)
    folders = Counter(
        folder for one in drawn for folder in ROOMS if one.file.startswith(f"{folder}/")
    )
    assert folders == Counter(dict.fromkeys(ROOMS, 2))
    assert len({one.name for one in drawn}) == count
    for one in drawn:
        text = (sabotage.common.ROOT / one.file).read_text(encoding="utf-8")
        assert one.apply(text) != text
        assert all((sabotage.common.ROOT / test).exists() for test in (*one.tests, *one.room))
    assert {
        one.file for one in draw(sabotage.common.ROOT, 5, 0, "puffervec/wings/watch/jobs.py")
    } == {"puffervec/wings/watch/jobs.py"}
    with pytest.raises(
        Stale, match="--room docs: nothing to break there; rooms are drive_env, csrc/drive"
    ):
        draw(sabotage.common.ROOT, 5, 0, "docs")


@pytest.mark.parametrize(
    ("source", "tests"),
    [
        ("puffervec/wings/watch/jobs.py", ("tests/wings/watch/test_jobs.py",)),
        ("csrc/covid/model.c", ("tests/envs/test_covid.py",)),
        ("puffervec/viewing/web/nowhere.py", ("tests/viewing/web",)),
    ],
)
def test_a_source_is_mirrored_by_its_tests_or_by_the_room(
    source: str, tests: tuple[str, ...]
) -> None:
    folder = next(folder for folder in ROOMS if source.startswith(folder))
    assert mirrors_of(sabotage.common.ROOT, source, room_of(sabotage.common.ROOT, folder)) == tests


def test_a_draw_of_an_older_tree_is_stale() -> None:
    one = Mutation("000", "product.py", "", "2", "3", (), (), at=4)
    assert one.apply("x = 2 + 2") == "x = 3 + 2"
    with pytest.raises(Stale, match="'2' is not at 4 in product.py"):
        one.apply("xy = 2")


def test_what_does_not_compile_does_not_count() -> None:
    outcomes = [
        Outcome("a", "f", True, "t", 1.0),
        Outcome("b", "f", False, "", 1.0),
        Outcome("c", "f", False, "", 0.0, valid=False),
    ]
    assert {name: sabotage.summary(outcomes)[name] for name in ("tried", "found", "green")} == {
        "tried": 2, "found": 1, "green": ["b"],
    }  # fmt: skip


@pytest.mark.slow
def test_the_room_is_asked_where_the_mirror_is_green(tmp_path: Path) -> None:
    base = tmp_path / "work" / "base"
    (base / "tests").mkdir(parents=True)
    (base / "product.py").write_text("def double(x):\n    return 2 * x\n")
    (base / "tests" / "test_product.py").write_text("def test_nothing():\n    pass\n")
    (base / "tests" / "test_other.py").write_text(
        "from product import double\ndef test_it():\n    assert double(1) == 2\n"
    )
    one = Mutation(
        "000",
        "product.py",
        "line 2: 2 -> 3",
        "2",
        "3",
        ("tests/test_product.py",),
        ("tests",),
        at=26,
    )
    found = sabotage.try_one(base, one, 60)
    assert (found.found, found.by, found.why) == (
        True,
        "only tests/test_other.py::test_it",
        "line 2: 2 -> 3",
    )

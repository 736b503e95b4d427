# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The fuzzing program (fuzz_main.c) under sanitizers, for a moment: corpus, regressions, cuts,
seeded mutations.

`make fuzz` runs the same targets for longer. Compiling it takes most of the time, so that all tests
but one are slow.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.fuzz.program import (
    MEMORY_MIB,
    REGRESSIONS,
    Broken,
    Report,
    build,
    compile_corpus,
    run,
    write_cases,
)

SEED = int(os.environ.get("PV_SEED", "1"))
FEW = 400
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc and its sanitizers")
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def program(folder: Path) -> Path:
    return build(folder / "fuzz_main")


@pytest.fixture(scope="module")
def sets(folder: Path) -> list[Path]:
    return compile_corpus(folder)


def go(program: Path, target: str, arguments: list[str] | list[Path], count: int) -> Report:
    report = run(
        program, target, arguments, SEED, 0, count, program.with_name("trace"), timeout_s=100
    )
    assert report.inputs == count and report.peak_rss_bytes < MEMORY_MIB << 20
    return report


@pytest.mark.slow
def test_it_compiles(folder: Path) -> None:
    build(folder / "nothing", "-fsyntax-only", sanitize=())


@slow
def test_the_corpus_is_driven(program: Path, sets: list[Path]) -> None:
    assert go(program, "replay", sets, len(sets)).accepted == len(sets)


@slow
def test_what_once_broke_it_is_refused(program: Path) -> None:
    files = sorted((REGRESSIONS / "sets").glob("*.pvset"))
    assert files and go(program, "replay", files, len(files)).refused == len(files)


@slow
def test_every_cut_is_refused(program: Path, sets: list[Path]) -> None:
    smallest = min(sets, key=lambda path: path.stat().st_size)
    report = go(program, "cuts", [smallest], 2 * smallest.stat().st_size)
    assert report.accepted <= 64  # nothing but the padding behind the last array is missing


@slow
def test_mutated_sets_are_refused_or_driven(program: Path, sets: list[Path]) -> None:
    report = go(program, "scenes", sets[:-1], FEW)
    assert report.accepted > FEW // 20 and report.refused > FEW // 4


@slow
@pytest.mark.parametrize("target", ["states", "pokes", "configs"])
def test_mutated_states_and_configs_are_refused_or_played(
    program: Path, sets: list[Path], folder: Path, target: str
) -> None:
    report = go(program, target, write_cases(folder, sets[0]), FEW)
    assert report.accepted > FEW // 20 and report.refused > FEW // 20


@slow
def test_actions_of_any_bytes_are_in_range_or_replaced(program: Path) -> None:
    assert go(program, "actions", [], 10 * FEW).refused > FEW


@slow
def test_a_broken_invariant_is_told_with_the_input(
    program: Path, folder: Path, sets: list[Path]
) -> None:
    """The trace holds number and bytes of the input at hand when the program died."""
    data = sets[0].read_bytes()
    (folder / "text").write_bytes(data)
    with pytest.raises(Broken, match="input 0 of seed 1.*\n.*no target nothing") as caught:
        run(program, "nothing", [folder / "text"], 1, 0, 5, folder / "trace", timeout_s=100)
    assert caught.value.input == 0

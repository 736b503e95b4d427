# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""envs_main.c, drive_main.c: every C env through the worker's functions without Python, plain and
in memcheck.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.builds import source_folder
from tests.c import memcheck, stress
from tests.c.memcheck import CASES, Case

pytestmark = pytest.mark.slow
IDS = [f"{case.name} {case.autoreset}" for case in CASES]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    source_folder()
    return str(memcheck.compile_envs(tmp_path_factory.mktemp("envs") / "envs_main"))


def run(program: str, case: Case, folder: Path, seed: int) -> str:
    done = subprocess.run(
        [program, *memcheck.arguments(case, folder, seed)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_seed_gives_its_bytes_and_a_loaded_env_goes_on(
    program: str, tmp_path: Path, case: Case
) -> None:
    """The program compares what follows a save with what follows its load."""
    first = run(program, case, tmp_path, 1)
    assert first.startswith(f"{case.name} ")
    assert first == run(program, case, tmp_path, 1) != run(program, case, tmp_path, 2)


@pytest.mark.needs("valgrind")
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_memcheck_has_nothing_to_say_about_envs(program: str, tmp_path: Path, case: Case) -> None:
    done = memcheck.check([program, *memcheck.arguments(case, tmp_path, stress.seed())])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs("valgrind")
def test_memcheck_has_nothing_to_say_about_drive_main(tmp_path: Path) -> None:
    program = str(memcheck.compile_drive(tmp_path / "drive_main"))
    done = memcheck.check([program, *memcheck.drive_arguments(tmp_path)])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs("valgrind")
def test_memcheck_has_nothing_to_say_about_the_channel(tmp_path: Path) -> None:
    program = str(
        stress.compile_program("channel_stress", tmp_path / "program", "-O1", "-DPV_NO_CLONES")
    )
    for setup in stress.THREADS:
        done = memcheck.check([program, "threads", *setup.arguments(50, stress.seed())])
        assert (done.returncode, done.stderr) == (0, "")


# What is wrong: (file, text, its replacement, a word of memcheck's report).
BREAKS = {
    "observation bytes that are never written": (
        "csrc/envs/probe.c",
        "    clear_observations(block, env); // nothing else",
        "    (void)clear_observations; // nothing else",
        "uninitialised",
    ),
    "memory that is never freed": (
        "csrc/core/worker.c",
        "    free(worker->scratch);\n    worker->widened = NULL;",
        "    worker->widened = NULL;",
        "lost",
    ),
    "a read behind the saved bytes": (
        "csrc/envs/probe.c",
        "memcpy(out, env_at(block, env), env_bytes(config_of(block->context)));",
        "memcpy(out, env_at(block, env), 8 + env_bytes(config_of(block->context)));",
        "Invalid read",
    ),
}


@pytest.mark.needs("valgrind")
@pytest.mark.parametrize("name", BREAKS)
def test_memcheck_finds(tmp_path: Path, name: str) -> None:
    file, old, new, said = BREAKS[name]
    root = stress.copy_sources(tmp_path / "broken", {file: (old, new)})
    program = str(memcheck.compile_envs(tmp_path / "program", root))
    done = memcheck.check([program, *memcheck.arguments(CASES[0], tmp_path, stress.seed())])
    assert done.returncode == memcheck.ERROR_EXIT, done.stderr
    assert said in done.stderr

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The vector operations of drive's searches (csrc/drive/search/vectors.h) equal their plain forms
(vectors_plain.h) in every byte, with and without the variants for this CPU.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.c import stress

BUILDS = {"clones": ("-O2",), "plain": ("-O2", "-DPV_NO_CLONES"), "O0": ("-O0", "-DPV_NO_CLONES")}
ROUNDS = "2000"


def run(folder: Path, *flags: str, root: Path = stress.ROOT) -> subprocess.CompletedProcess[str]:
    """Compile the comparison and run it."""
    program = folder / "vectors_main"
    sources = [root / "tests/c/vectors_main.c", root / "csrc/contract/rng.c"]
    command = [*stress.compiler(), *stress.FLAGS, "-Wno-psabi", f"-I{root / 'csrc'}", *flags]
    subprocess.run(
        [*command, *map(str, sources), "-o", str(program), "-lm"], check=True, timeout=300
    )
    return subprocess.run(
        [program, str(stress.seed()), ROUNDS], capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS)
def test_vector_operations_equal_their_plain_forms(tmp_path: Path, build: str) -> None:
    done = run(tmp_path, *BUILDS[build])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("list_up_to", "* PV_LANES; int32_t", "* PV_LANES + 1; int32_t"),
        ("append_places", "base + 8 * half + bits[i]", "base + 4 * half + bits[i]"),
        ("transpose_half", "rows[i + 4], (const float*)&row[i] + 4", "rows[i + 4], &row[i]"),
        ("write_row_entries", "count < most ? count : most - 1;", "count;"),
    ],
)
def test_a_wrong_operation_is_found(tmp_path: Path, name: str, old: str, new: str) -> None:
    edit = {"csrc/drive/search/vectors.h": (old, new)}
    root = stress.copy_sources(tmp_path / "broken", edit)
    done = run(tmp_path, *BUILDS["plain"], root=root)
    assert done.returncode == 1
    assert "differs from its plain form" in done.stderr, name

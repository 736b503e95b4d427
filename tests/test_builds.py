# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Other builds of the core (csrc/build_ffi.py): the golden bytes without optimization; the fallback
without a futex works.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from puffervec import _ffi
from tests.builds import BUILD_PRODUCTS, Build, build_script, source_folder

STEPS = 400
# What runs again without a futex: waiting, waking, and all ends of a worker.
WITHOUT_FUTEX = [
    "tests/c/test_channel.py",
    "tests/test_backends.py::test_threads_run_the_loop",
    "tests/test_backends.py::test_one_process_may_hold_many_vec_envs_of_all_kinds",
    "tests/test_byte_equality.py::test_same_seed_same_bytes[probe, two groups-threading 4 2 envs]",
    "tests/test_byte_equality.py::test_same_seed_same_bytes[probe, two groups-multiprocessing "
    "forkserver 2 2 workers]",
    "tests/test_vector_env.py::test_close_works_in_every_state_and_twice[half pending-threading]",
    "tests/test_vector_env.py::test_close_works_in_every_state_and_twice[pending-multiprocessing]",
    "tests/test_faults.py::test_a_worker_that_dies_is_named[kill-in step]",
    "tests/test_faults.py::test_a_hang_is_a_timeout_and_close_ends_it[hang]",
    "tests/test_faults.py::test_an_interrupted_wait_can_be_gone_on_with",
    "tests/test_faults.py::test_a_killed_learner_leaves_no_worker[none-spawn]",
]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Another build, without the futex and the optimization of the build under test."""
    made = Build(
        tmp_path_factory.mktemp("other") / "copy", PUFFERVEC_NO_FUTEX="1", PUFFERVEC_OPT="-O0"
    )
    made.wait()
    return made


@pytest.mark.slow
def test_another_build_shows_the_committed_bytes(build: Build) -> None:
    """The golden hashes of all C envs (tests/golden), which the build under test (-O3) shows too;
    see `make golden-check`.
    """
    build.environment["PV_GOLDEN_CFLAGS"] = "-O0"
    done = build.python(
        "-m", "tests.golden.check", "--steps", str(STEPS), "--build", "another build"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "combinations" in done.stdout


@pytest.mark.slow
def test_without_a_futex(build: Build) -> None:
    # Which build is under test is checked inside: the copy's tests import the copy's package.
    done = build.python("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *WITHOUT_FUTEX)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
    assert b"FUTEX" not in _switches(build)


def _switches(build: Build) -> bytes:
    """The module's own undefined symbols: without a futex it has no use for `syscall`."""
    (library,) = (build.folder / "puffervec").glob("_native*.so")
    return b"FUTEX" if b"\0syscall\0" in library.read_bytes() else b""


@pytest.mark.slow
def test_the_copy_is_what_a_copys_tests_import(build: Build) -> None:
    done = build.python(
        "-c", "import puffervec._native, tests; print(puffervec._native.__file__, tests.__file__)"
    )
    assert all(path.startswith(str(build.folder)) for path in done.stdout.split()), (
        done.stdout + done.stderr
    )


def test_a_source_tree_that_was_never_built_says_so(tmp_path: Path) -> None:
    """puffervec/_ffi.py, imported from a copy without the compiled module."""
    shutil.copytree(source_folder() / "puffervec", tmp_path / "puffervec", ignore=BUILD_PRODUCTS)
    # Without site-packages, where an editable install would answer for the missing module.
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import puffervec._ffi"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    last = done.stderr.strip().splitlines()[-1]
    command = _ffi.BUILDS[os.environ.get("PUFFERVEC_BUILD", "")]
    assert (
        last == f"ImportError: puffervec's C core is not built: run {command} in the source folder"
    )


# ---- the build script ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def build_ffi() -> ModuleType:
    return build_script()


def test_every_c_file_is_compiled_and_every_marked_header_is_read(build_ffi: ModuleType) -> None:
    root = source_folder()
    assert sorted(build_ffi.sources()) == sorted(
        str(path.relative_to(root)) for path in (root / "csrc").rglob("*.c")
    )
    marked = {
        str(path.relative_to(root / "csrc"))
        for path in (root / "csrc").rglob("*.h")
        if "[cffi]" in path.read_text()
    }
    assert marked == {name for name in build_ffi.HEADERS if (root / "csrc" / name).exists()}

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Which compiled core is imported (puffervec/_ffi.py): one that is missing, broken or of other
sources is an ImportError.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import puffervec
from puffervec import _ffi
from puffervec._ffi import ffi, lib
from puffervec.errors import WorkerDied
from puffervec.vec import workers
from tests.builds import BUILD_PRODUCTS, source_folder

# What env types of other packages are compiled against. A checksum of the layout of these structs,
# for each PV_ABI.
PUBLIC_STRUCTS = (
    "pv_field", "pv_group_spec", "pv_spec", "pv_param", "pv_params", "pv_context", "pv_record",
    "pv_rows", "pv_block", "pv_config_field", "pv_env_type",
)  # fmt: skip
LAYOUT_OF_ABI = {
    2: 0xD9818D1E,
    3: 0x33A64C6E,
    4: 0x5C74E9EF,
    5: 0x6AEA2A86,
    6: 0x6DDAEF02,
    7: 0xD168351F,
    8: 0x432BC0FC,
}
REMEDY = "run `pip install .` (or `python setup.py build_ext --inplace`)"


def imported(folder: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Import the core of the package in `folder` in a fresh interpreter with these flags."""
    script = "from puffervec import _ffi; print(_ffi._native.__file__, _ffi.lib.PV_ABI)"
    environment = {**os.environ, **variables, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *flags, "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


def refusal(folder: Path, *flags: str, **variables: str) -> str:
    """Return the message of the ImportError that importing the core ends with."""
    done = imported(folder, *flags, **variables)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith("ImportError: "), done
    return last.removeprefix("ImportError: ")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree with the core that is under test here."""
    root = source_folder()
    shutil.copytree(root / "csrc", tmp_path / "csrc", ignore=BUILD_PRODUCTS)
    (tmp_path / "puffervec").mkdir()
    for file in (
        root / "puffervec/__init__.py",
        root / "puffervec/_ffi.py",
        Path(_ffi._native.__file__),
    ):
        shutil.copy2(file, tmp_path / "puffervec" / file.name)
    return tmp_path


def core(tree: Path) -> Path:
    return tree / "puffervec" / Path(_ffi._native.__file__).name


def test_a_core_of_these_sources_is_imported(tree: Path) -> None:
    assert imported(tree).stdout == f"{core(tree)} {lib.PV_ABI}\n"


@pytest.mark.parametrize("change", ["edited", "added", "gone", "renamed"])
def test_a_core_of_other_sources_is_refused(tree: Path, change: str) -> None:
    """An edited header is the dangerous one: a struct that Python and C see differently."""
    header = tree / "csrc/core/slab.h"
    if change == "edited":
        header.write_text(header.read_text().replace("uint32_t lanes;", "uint64_t lanes;"))
    elif change == "added":
        (tree / "csrc/new.c").write_text("")
    elif change == "gone":
        (tree / "csrc/core/bench.c").unlink()
    else:
        header.rename(header.with_name("slap.h"))
    message = refusal(tree)
    assert str(core(tree)) in message and "was built from other sources" in message
    assert (
        f"{lib.PV_SOURCE_CHECK:#010x}" in message
        and _ffi.BUILDS[os.environ.get("PUFFERVEC_BUILD", "")] in message
    )


@pytest.mark.parametrize("keep", [0, 100])
def test_a_core_that_is_no_library_is_refused(tree: Path, keep: int) -> None:
    core(tree).write_bytes(core(tree).read_bytes()[:keep])
    message = refusal(tree)
    assert "cannot be loaded" in message and str(core(tree)) in message and "run `" in message


def test_a_wheel_knows_its_sources(tree: Path) -> None:
    """Without a source tree setup.py's note counts; without that, there is nothing to compare."""
    shutil.rmtree(tree / "csrc")
    assert imported(tree).returncode == 0
    note = tree / "puffervec/include/sources.crc32"
    note.parent.mkdir()
    note.write_text(f"{lib.PV_SOURCE_CHECK:#010x}\n")
    assert imported(tree).returncode == 0
    note.write_text("0x00000001\n")
    assert "(0x00000001)" in refusal(tree)


def test_other_builds_are_asked_for_by_name(tree: Path) -> None:
    """Without site-packages (-S), where an editable install would answer for the missing module."""
    core(tree).unlink()
    assert f"not built: {REMEDY} in the source folder" in refusal(tree, "-S", PUFFERVEC_BUILD="")
    assert "not built: run `make debug`" in refusal(tree, "-S", PUFFERVEC_BUILD="debug")
    assert "not built: run `make asan`" in refusal(tree, "-S", PUFFERVEC_BUILD="sanitize")
    assert "PUFFERVEC_BUILD is 'fast': use 'debug' or 'sanitize'" in refusal(
        tree, "-S", PUFFERVEC_BUILD="fast"
    )


def test_a_worker_with_another_core_ends_before_it_touches_the_slab(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As where the core is built anew while the learner runs."""
    real = workers.WorkerTask
    monkeypatch.setattr(
        workers, "WorkerTask", lambda *given, **other: real(*given, **other, core_check=1)
    )
    with pytest.raises(WorkerDied, match="worker 0 ended with exit status 1"):
        puffervec.make("probe", num_workers=1)
    assert "than the learner's (0x00000001): it was rebuilt" in capfd.readouterr().err


def layout_check() -> int:
    """Return a checksum of names, offsets and sizes of all public structs' members."""
    text = []
    for name in PUBLIC_STRUCTS:
        struct = ffi.typeof(name)
        text.append(f"{name} {ffi.sizeof(struct)}")
        text += [f"{member} {field.offset} {field.type.cname}" for member, field in struct.fields]
    return zlib.crc32("\n".join(text).encode())


def test_the_abi_number_stands_for_a_layout() -> None:
    """An env type of another package is refused by its PV_ABI alone
    (puffervec/contract/env_types.py).
    """
    assert LAYOUT_OF_ABI.get(lib.PV_ABI) == layout_check(), (
        "the structs of env.h have changed: raise PV_ABI in base.h and add it here with "
        f"{layout_check():#X}"
    )

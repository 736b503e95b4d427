# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The list of breakages (scripts/sabotages.toml) fits the tree, and scripts/sabotage.py tells which
ones are found.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import psutil
import pytest

from scripts import sabotage
from scripts.sabotage import Sabotage, Stale
from tests.builds import source_folder

LIST = sabotage.read_list()
PYTHON_HEADERS = ("-isystem", sysconfig.get_path("include"))
AREAS = (
    "csrc/contract", "csrc/core", "csrc/learner", "csrc/envs", "csrc/tag",
    "csrc/drive", "puffervec/vec/", "puffervec/workers/process/", "puffervec/train/collect/",
    "puffervec/train/learn/", "puffervec/train/run/",
)  # fmt: skip


# ---- the list ------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", LIST, ids=lambda entry: entry.name)
def test_each_applies_to_one_place(entry: Sabotage) -> None:
    text = (source_folder() / entry.file).read_text()
    broken = entry.apply(text)
    assert broken != text
    if entry.file.endswith(".py"):
        ast.parse(broken)  # a mistake that one could make, not one that no import survives


@pytest.mark.slow
def test_broken_c_compiles(tmp_path: Path) -> None:
    """`make sabotage` ends where a breakage does not compile."""
    root = tmp_path / "csrc"
    shutil.copytree(source_folder() / "csrc", root)
    sources = {path: path.read_text() for path in root.rglob("*.[ch]")}
    for entry in LIST:
        if not entry.file.startswith("csrc/"):
            continue
        path = tmp_path / entry.file
        path.write_text(entry.apply(sources[path]))
        name = f'#include "{path.relative_to(root)}"'
        including = (c for c in sources if c.suffix == ".c" and name in sources[c])
        unit = next(including, path) if path.suffix == ".h" else path
        command = ["gcc", "-std=c11", "-D_GNU_SOURCE", f"-I{root}", *PYTHON_HEADERS]
        done = subprocess.run(
            [*command, "-fsyntax-only", "-w", unit], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{entry.name}: {done.stderr}"
        path.write_text(sources[path])


def test_names_differ_and_every_area_has_some() -> None:
    names = [entry.name for entry in LIST]
    assert len(set(names)) == len(names) >= 25
    assert all(
        name and name == name.lower() and " " not in name for name in names
    )  # they are folders, too
    assert [area for area in AREAS if not any(entry.file.startswith(area) for entry in LIST)] == []


def test_the_named_tests_always_run() -> None:
    root = source_folder()
    for test in sorted({test for entry in LIST for test in entry.tests}):
        path, _, name = test.partition("::")
        assert (root / path).exists(), test
        if name:
            function, text = f"def {name.partition('[')[0]}(", (root / path).read_text()
            assert function in text, test
            assert f"@pytest.mark.slow\n{function}" not in text, test


# ---- the script ----------------------------------------------------------------------------------

PRODUCT = "def double(x):\n    return 2 * x\n"
TESTS = """
import os, subprocess, sys
from product import double

def test_double():
    assert double(1) == 2

def test_hang():
    if double(2) == 5:
        code = "import os, time; os.setpgid(0, 0); time.sleep(1000)"
        child = subprocess.Popen([sys.executable, "-c", code])
        open(os.environ["PV_NOTE"], "w").write(str(child.pid))
        child.wait()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    base = tmp_path / "work" / "base"
    (base / "tests").mkdir(parents=True)
    (base / "product.py").write_text(PRODUCT)
    (base / "tests" / "test_product.py").write_text(TESTS)
    return base


def breakage(
    name: str, new: str, test: str = "tests/test_product.py", old: str = "2 * x"
) -> Sabotage:
    return Sabotage(name, "product.py", "", old, new, (test,))


@pytest.mark.slow
def test_found_and_not_found(tree: Path) -> None:
    found = sabotage.try_one(tree, breakage("three", "3 * x"), 60)
    assert (found.found, found.by) == (True, "tests/test_product.py::test_double")
    green = sabotage.try_one(tree, breakage("plus", "x + x"), 60)
    assert (green.found, green.by) == (False, "")
    assert "STAYED GREEN" in sabotage.line(green) and "found by tests/" in sabotage.line(found)
    assert sabotage.summary([found, green])["green"] == ["plus"]
    assert [path.name for path in tree.parent.iterdir()] == ["base"] and (
        tree / "product.py"
    ).read_text() == PRODUCT


@pytest.mark.slow
def test_a_hang_is_found_and_ended(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a child that made a process group of its own."""
    monkeypatch.setenv("PV_NOTE", str(tmp_path / "pid"))
    hanging = breakage("hang", "5 if x == 2 else 2", "tests/test_product.py::test_hang")
    outcome = sabotage.try_one(tree, hanging, 12)
    assert (outcome.found, outcome.by) == (True, "a hang in tests/test_product.py::test_hang")
    pid = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_a_product_that_refuses_to_be_imported_is_found(tree: Path) -> None:
    conftest = tree / "tests" / "conftest.py"
    conftest.write_text(
        "from product import double\n\nif double(1) != 2:\n    raise ImportError('csrc/x.c lays "
        "out 1 byte')\n"
    )
    outcome = sabotage.try_one(tree, breakage("layout", "3 * x"), 60)
    assert (outcome.found, outcome.by) == (True, "the import: csrc/x.c lays out 1 byte")


@pytest.mark.slow
def test_what_does_not_fit_is_said(tree: Path) -> None:
    with pytest.raises(Stale, match="'x' occurs 2 times in product.py, not once"):
        sabotage.try_one(tree, breakage("twice", "y", old="x"), 60)
    with pytest.raises(Stale, match="ran nothing of tests/nowhere.py"):
        sabotage.try_one(tree, breakage("nothing", "3 * x", "tests/nowhere.py"), 60)
    with pytest.raises(Stale, match="there is no breakage 'nobody'"):
        sabotage.choose(LIST, ["nobody"])
    assert {entry.name for entry in sabotage.choose(LIST, ["rng-*"])} == {
        "rng-episode-not-in-the-key",
        "rng-one-round-less",
    }


@pytest.mark.slow
def test_red_without_a_breakage_is_said(tree: Path, tmp_path: Path) -> None:
    (tree / "product.py").write_text(PRODUCT.replace("2", "3"))
    with pytest.raises(Stale, match="red without any breakage: tests/test_product.py::test_double"):
        sabotage.make_base(tree, tmp_path / "copy", [breakage("any", "4 * x", old="3 * x")], 60)


def test_a_copy_has_sources_only(tmp_path: Path) -> None:
    for name in (
        "a.py",
        "built.so",
        ".venv/b.py",
        "puffervec/_native.c",
        "__pycache__/c.pyc",
        ".git/d",
    ):
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).touch()
    sabotage.copy_tree(tmp_path / "tree", tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").rglob("*") if path.is_file()] == ["a.py"]
    assert sabotage.environment(tmp_path)["PYTHONPATH"] == str(tmp_path)
    assert os.environ.get("PYTHONPATH") != str(tmp_path)

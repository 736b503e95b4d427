# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/debugging-a-c-env.md: each bug is put into the env of docs/own-c-env.md, and the commands
show what the page shows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.builds import Build
from tests.docs import pages
from tests.docs.test_own_c_env import TITLE, user
from tests.docs.test_own_c_env import blocks as files_of_the_env

FILE = pages.ROOT / "docs" / "debugging-a-c-env.md"
PAGE = FILE.read_text(encoding="utf-8")
SECTIONS = {text.partition("\n")[0]: text for text in PAGE.split("\n## ")}
pytestmark = pytest.mark.normal_build("builds of its own")


def env_with(bug: str, folder: Path) -> None:
    """Write the files of the env, with a bug before step_env looks at the action."""
    for info, text in files_of_the_env():
        title = TITLE.search(info)
        if title is not None:
            (folder / title[1]).parent.mkdir(exist_ok=True)
            (folder / title[1]).write_text(text)
    (script,) = [block.text for block in pages.blocks(PAGE) if "break_it.py" in block.info]
    (folder / "break_it.py").write_text(script)
    source = folder / "line_walk" / "line_walk.c"
    before = "    const int32_t action ="
    assert source.read_text().count(before) == 1
    source.write_text(source.read_text().replace(before, bug + before))


def follow(
    titles: list[str], folder: Path, environ: dict[str, str], clone: Path | None = None
) -> None:
    """Put the last bug of the sections in, run their commands, and compare what each said with the
    lines that are shown.
    """
    folder.mkdir()
    said = ""
    for block in pages.blocks("\n".join(SECTIONS[title] for title in titles)):
        kind, *words = block.info.split()
        if kind == "c":
            env_with(block.text, folder)
        elif kind == "text":
            for line in block.text.splitlines():
                assert line in re.sub(r"_core\S*\.so", "_core", said), said
        elif kind == "bash":
            if 'needs="gdb"' in words and shutil.which("gdb") is None:
                return
            cwd = clone if "clone" in words else folder
            done = subprocess.run(
                ["bash", "-c", block.text],
                cwd=cwd,
                env=environ,
                capture_output=True,
                text=True,
                timeout=200,
            )
            said = done.stdout + done.stderr
            assert (done.returncode != 0) == ("fails" in words) or "needs" in block.info, said


def all_titles() -> list[str]:
    return [title for title in SECTIONS if "```bash" in SECTIONS[title]]


CRASHES = ["What a crash reports", "The same in one process", "A debug build, and gdb"]


@pytest.mark.slow
def test_crashes_and_gdb(tmp_path: Path) -> None:
    follow(CRASHES, tmp_path / "empty", user(tmp_path / "empty"))


@pytest.mark.slow
def test_sanitizer(tmp_path: Path) -> None:
    library = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True
    ).stdout.strip()
    if not os.path.isabs(library):
        pytest.skip("gcc has no libasan.so")
    follow(
        [title for title in all_titles() if title.startswith("AddressSanitizer")],
        tmp_path / "empty",
        user(tmp_path / "empty"),
    )


@pytest.mark.slow
def test_guard_zones(tmp_path: Path) -> None:
    """The clone is a copy, so that the debug build does not stay behind."""
    clone = tmp_path / "clone"
    clone.mkdir()
    Build(clone, PUFFERVEC_DEBUG="1").wait()
    environ = user(tmp_path / "empty")
    environ["PYTHONPATH"] = environ["PYTHONPATH"].replace(str(pages.ROOT), str(clone))
    title = next(title for title in all_titles() if title.startswith("Guard zones"))
    follow([title], tmp_path / "empty", environ, clone)


def test_every_section_with_commands_is_followed() -> None:
    assert len(all_titles()) == 5 and all_titles()[:3] == CRASHES

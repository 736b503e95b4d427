# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/own-c-env.md: its files are written and its commands run, in the page's order, in an empty
folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from puffervec.contract import env_types
from tests.builds import ROOT, source_folder
from tests.libraries import STRICT, environment

PAGE = ROOT / "docs" / "own-c-env.md"
BLOCK = re.compile(r"^```(?P<info>\w+[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')


def blocks() -> list[tuple[str, str]]:
    """Return (info string, text) of the page's fenced blocks."""
    return [(match["info"], match["text"]) for match in BLOCK.finditer(PAGE.read_text())]


def user(folder: Path) -> dict[str, str]:
    """Return the environment of a user whose `pip` installs into a folder of the test's own, from
    no index.

    Python reads no .pth files there, so that what an editable install puts into one is on the path
    from the start.
    """
    site = folder.parent / "site"
    found = environment(site, folder)
    found["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), found["PATH"]])
    settings = {
        "TARGET": str(site),
        "UPGRADE": "1",
        "NO_DEPS": "1",
        "NO_INDEX": "1",
        "DISABLE_PIP_VERSION_CHECK": "1",
    }
    return found | {f"PIP_{name}": value for name, value in settings.items()}


# Pip and a training; tests/examples/test_out_of_tree.py builds and trains such a package at every
# push
@pytest.mark.slow
def test_the_page_from_an_empty_folder_to_a_trained_policy(tmp_path: Path) -> None:
    source_folder()
    folder = tmp_path / "empty"
    folder.mkdir()
    said = {}
    for info, text in blocks():
        title = TITLE.search(info)
        if title is not None:
            (folder / title[1]).write_text(text)
            continue
        assert info.split()[0] == "bash", f"a block that is neither a file nor a command: {info}"
        for command in text.strip().replace("\\\n", " ").splitlines():
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=user(folder),
                capture_output=True,
                text=True,
                timeout=200,
            )
            said[command] = done.stdout + done.stderr
            assert (done.returncode != 0) == ("fails" in info), f"{command}\n{said[command]}"
    commands = list(said)
    stepped = next(said[command] for command in commands if "try_it" in command)
    assert "Discrete(3)" in stepped and stepped.count("return 1.0") > 10
    registered = next(said[command] for command in commands if "try_gym" in command)
    assert registered.splitlines() == [
        "puffervec/line_walk-v0 4 (4,)",
        "NativeEnvView (2,) Discrete(3)",
    ]
    refused = next(said[command] for command in commands if "'length': 1" in command)
    assert "ConfigError: line_walk: length is 1" in refused
    trained, evaluated, rendered = (
        said[command] for command in commands if command.startswith("puffer-train")
    )
    assert "reached" in trained
    reference = folder / "line_walk" / "reference.py"  # off the line, as the page says
    reference.write_text(
        reference.read_text().replace(", 0), self.length - 1)", ", 0), self.length)")
    )
    command = [
        sys.executable,
        "-c",
        "import test_line_walk; test_line_walk.test_the_game_is_the_same_in_c_and_python()",
    ]
    found = subprocess.run(
        command, cwd=folder, env=user(folder), capture_output=True, text=True, timeout=200
    ).stderr
    shown = re.search(
        r"^    line_walk has .*?^    other differences[^\n]*$",
        PAGE.read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert shown is not None and textwrap.dedent(shown[0]) in found, found
    mean_return = re.search(r"^ +0 +\d+ +([\d.]+) ", evaluated, re.MULTILINE)
    assert mean_return is not None and float(mean_return[1]) > 0.9, evaluated
    assert re.search(r"replay\.html: [1-5] episodes?\b", rendered), rendered


@pytest.mark.parametrize(("include", "header"), [("csrc/contract", ""), ("csrc", "contract/")])
def test_the_games_c_has_no_warnings(include: str, header: str, tmp_path: Path) -> None:
    """Neither in a package of its own nor in the core."""
    (text,) = [text for info, text in blocks() if info.startswith("c ")]
    file = tmp_path / "line_walk.c"
    file.write_text(text.replace('#include "pv_env.h"', f'#include "{header}pv_env.h"'))
    command = [
        os.environ.get("CC", "cc"),
        "-std=gnu11",
        "-fsyntax-only",
        *STRICT,
        f"-I{ROOT / include}",
        str(file),
    ]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stderr == ""


SHOWN = """
import ctypes, sys, puffervec
from line_walk import ENV
with puffervec.make(ENV, num_envs=8, backend="serial") as vec:
    vec.reset(seed=3)
    print([vec.step([1] * 8)[0].tobytes().hex() for _ in range(30)])
"""


@pytest.mark.slow
def test_the_same_file_is_cpp(tmp_path: Path) -> None:
    """Compiled with the flags for C++, it shows the same bytes as in C."""
    (c_text,) = [text for info, text in blocks() if info.startswith("c ")]
    python_text = next(text for info, text in blocks() if 'title="line_walk/__init__.py"' in info)
    shown = []
    for language, compiler in (
        ("c", os.environ.get("CC", "cc")),
        ("c++", os.environ.get("CXX", "c++")),
    ):
        if shutil.which(compiler) is None:
            pytest.skip(f"no compiler {compiler}")
        package = tmp_path / language / "line_walk"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(python_text)
        source = package / ("game.c" if language == "c" else "game.cpp")
        source.write_text(c_text)
        flags = [
            *env_types.compile_args(language),
            "-Wall",
            "-Werror",
            f"-I{env_types.get_include()}",
        ]
        command = [
            compiler,
            "-shared",
            "-fPIC",
            *flags,
            str(source),
            "-o",
            str(package / "_core.so"),
        ]
        subprocess.run(command, check=True, timeout=60)
        done = subprocess.run(
            [sys.executable, "-c", SHOWN],
            env=environment(package.parent),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        shown.append(done.stdout)
    assert shown[0] == shown[1] != ""

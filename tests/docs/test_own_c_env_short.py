# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/own-c-env-short.md: its files are written and its commands run, in the page's order, in an
empty folder.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.builds import source_folder
from tests.docs import pages
from tests.docs.test_own_c_env import TITLE, user

FILE = pages.ROOT / "docs" / "own-c-env-short.md"


# Pip, a compiler and a training; tests/examples/test_ocean.py is the quick test of pv_ocean.h
@pytest.mark.slow
def test_the_page_from_an_empty_folder_to_a_trained_policy(tmp_path: Path) -> None:
    source_folder()
    folder = tmp_path / "empty"
    folder.mkdir()
    said = {}
    for block in pages.blocks(FILE.read_text(encoding="utf-8")):
        title = TITLE.search(block.info)
        if title is not None:
            (folder / title[1]).write_text(block.text)
            continue
        assert block.info == "bash", f"a block that is neither a file nor a command: {block.info}"
        done = subprocess.run(
            ["bash", "-c", block.text],
            cwd=folder,
            env=user(folder),
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said[block.text.split()[0]] = done.stdout
    assert (
        re.fullmatch(r"640 episodes, mean return [01]\.\d+\n", said["python"])
        and float(said["python"].split()[-1]) > 0.9
    )
    assert re.search(r"caught", said["puffer-train"])
    metrics = folder / "runs" / "catch" / "metrics.jsonl"
    caught = [float(value) for value in re.findall(r'"env/caught": ([\d.]+)', metrics.read_text())]
    assert caught[-1] > 1.3 * caught[0]

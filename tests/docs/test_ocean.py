# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/ocean.md: its files are written and its commands run, in the page's order, in an empty
folder; its table of settings is that of puffervec/wings/ocean/mapping.py.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from puffervec.wings.ocean.mapping import IGNORED, SETTINGS
from tests.builds import source_folder
from tests.docs import pages
from tests.docs.test_own_c_env import TITLE, user

PAGE = (pages.ROOT / "docs" / "ocean.md").read_text(encoding="utf-8")


@pytest.mark.slow  # A training in a process of its own.
def test_the_page_from_an_empty_folder_to_a_trained_policy(tmp_path: Path) -> None:
    source_folder()
    folder = tmp_path / "empty"
    folder.mkdir()
    said = {}
    for block in pages.blocks(PAGE):
        title = TITLE.search(block.info)
        if title is not None:
            (folder / title[1]).write_text(block.text)
        elif block.info == "bash":
            done = subprocess.run(
                ["bash", "-c", block.text],
                cwd=folder,
                env={**user(folder), "PUFFERVEC_CACHE": str(tmp_path / "cache")},
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            said[block.text.split()[0]] = done.stdout
        else:  # shown only: they need PufferLib's repository, or a clone
            assert block.info in ("sh", "py"), block.info
    assert said["python"] == "(2,) Discrete(3) 1.0\n"
    metrics = (folder / "runs" / "hop" / "metrics.jsonl").read_text()
    scores = [float(value) for value in re.findall(r'"env/score": ([\d.]+)', metrics)]
    assert scores[-1] > scores[0]


def test_the_settings_in_the_table_are_those_of_the_mapping() -> None:
    (text,) = re.findall(
        r"^## The settings of a run\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL
    )
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    named = 0
    for keys, settings in rows:
        here = re.findall(r"`(\w+\.\w+)`", settings)
        for position, key in enumerate(re.findall(r"`(\w+\.\w+)`", keys)):
            if key == "sweep.metric":
                continue
            named += 1
            assert SETTINGS[key] in here, key
            if len(here) == len(re.findall(r"`(\w+\.\w+)`", keys)):
                assert here[position] == SETTINGS[key]
    assert named > 20
    for key in re.findall(r"`((?:train|vec)\.\w+)`", text.split("All other keys")[1]):
        assert key in IGNORED, key

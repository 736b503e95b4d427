# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/from-warpdrive.md: its code runs and prints what it shows, and its tables are those of the
converter and the log.
"""

from __future__ import annotations

import re
from pathlib import Path

import puffervec
from puffervec.train.metrics.keys import METRICS
from puffervec.vec.vector_env import VectorEnv
from puffervec.wings.warpdrive import door as warpdrive
from tests.docs import pages

PAGE = (pages.ROOT / "docs/from-warpdrive.md").read_text(encoding="utf-8")


def first_cells(section: str) -> list[str]:
    """The names in the first column of a section's tables."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_the_code_runs_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    ((block, shown),) = pages.examples(PAGE)
    script = tmp_path / "script.py"
    script.write_text(block.text)
    assert shown is not None and pages.run_script(script, folder=tmp_path) == shown.text


def test_the_table_has_the_keys_that_the_converter_knows() -> None:
    policy = [f"policy.NAME.{key}" for key in warpdrive.POLICY] + [
        f"policy.NAME.model.{key}" for key in warpdrive.MODEL
    ]
    inner = {"policy.model_ckpt_filepath", "policy.init_method"}
    ignored = [
        key.replace("policy.", "policy.NAME.model." if key in inner else "policy.NAME.")
        for key in warpdrive.IGNORED
    ]
    known = {
        "name",
        "env",
        "trainer.seed",
        "policy.NAME",
        *(f"trainer.{key}" for key in warpdrive.TRAINER),
        *policy,
        *ignored,
    }
    assert sorted(first_cells("The run config")) == sorted(known)


def test_its_names_are_there() -> None:
    for call in re.findall(r"`vec\.(\w+)", PAGE):
        assert call in {"num_envs", "num_workers"} or hasattr(VectorEnv, call), call
    assert hasattr(puffervec, "check_env_equal")
    for key in re.findall(r"`((?:losses|charts|episode)/\w+)`", PAGE):
        assert key in METRICS, key

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/tag.md: its code runs and prints what it shows; the names it uses are those of the envs."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from puffervec.envs.tag_continuous import TagContinuousConfig
from puffervec.envs.tag_grid import TagGridConfig
from tests.docs import pages
from tests.helpers import serial

PAGE = (pages.ROOT / "docs/tag.md").read_text(encoding="utf-8")


def test_the_code_runs_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    ((_, shown),) = pages.examples(PAGE)
    assert shown is not None and pages.printed(PAGE, tmp_path) == [shown.text]


def test_names_are_those_of_the_envs() -> None:
    known = {
        f.name
        for config in (TagContinuousConfig, TagGridConfig)
        for f in dataclasses.fields(config)
    }
    with serial("tag_continuous") as vec:
        known |= {*vec.spec.record_names, *(f.name for f in vec.spec.state_fields)}
    used = set(re.findall(r"`([a-z]+_[a-z_]+)(?:=\w+)?`", PAGE)) - {"tag_grid", "tag_continuous"}
    assert used and used <= known

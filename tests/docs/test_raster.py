# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/raster.md: its tables are those of the code. Its code runs in test_pages.py."""

from __future__ import annotations

import re

from drive_env.config import DriveConfig
from drive_env.evaluate.observation import columns
from puffervec.train.config.flags import known_flags
from puffervec.train.config.sections import TrainConfig
from tests.docs import pages

PATH = pages.ROOT / "docs" / "raster.md"
PAGE = PATH.read_text(encoding="utf-8")


def test_settings_and_channels_are_those_of_the_code() -> None:
    defaults = dict(re.findall(r"^\| `(raster\w*)` \| ([\w.]+) \|", PAGE, re.MULTILINE))
    of_code = {
        name: getattr(DriveConfig, name) for name in vars(DriveConfig) if name.startswith("raster")
    }
    assert defaults == {name: str(value) for name, value in of_code.items()}
    channels = re.findall(r"^\| (\d+) `(\w+)` \|", PAGE, re.MULTILINE)
    assert channels == [
        (str(number), column.name) for number, column in enumerate(columns()["raster"])
    ]
    known = known_flags(TrainConfig.bare("drive"))
    named = re.findall(r"(--\w+\.[\w-]+)", PAGE)
    assert len(named) > 8 and set(named) <= set(known)
    assert pages.missing_links(PATH) == [] and pages.missing_tests(PAGE) == []

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/from-gymnasium.md: its tables are complete. Its code runs in test_pages.py."""

from __future__ import annotations

import re

from puffervec.gym.make_vec import NAMESPACE, REGISTERED
from tests.docs import pages
from tests.gym.test_wrappers import WRAPPERS

FILE = pages.ROOT / "docs" / "from-gymnasium.md"
PAGE = FILE.read_text(encoding="utf-8")
PART = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def test_the_wrappers_are_those_that_are_tested() -> None:
    listed = re.findall(r"`([A-Z]\w+)`", PART["Wrappers"].partition("```")[0])
    assert listed[: len(WRAPPERS)] == list(WRAPPERS)
    assert set(listed[len(WRAPPERS) :]) == {"NumpyToTorch", "HumanRendering", "RecordVideo"}


def test_the_ids_are_those_that_are_registered() -> None:
    listed = re.findall(rf"^\| `{NAMESPACE}/([\w-]+)` \|", PART["C envs"], re.MULTILINE)
    assert listed == ["CartPole-v1", "TagGridWorld-v0", "TagContinuous-v0", "Drive-v0", "Probe-v0"]
    assert set(listed) == set(REGISTERED)

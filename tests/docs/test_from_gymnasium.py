# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/from-gymnasium.md: its tables are complete. Its code runs in test_pages.py."""

from __future__ import annotations

import re

import gymnasium

import puffervec.gym
from puffervec.gym.make_vec import NAMESPACE, REGISTERED
from tests.docs import pages
from tests.gym.test_wrappers import WRAPPERS

FILE = pages.ROOT / "docs" / "from-gymnasium.md"
PAGE = FILE.read_text(encoding="utf-8")
DIFFERENCES = (pages.ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
PART = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def test_the_wrappers_are_those_that_are_tested() -> None:
    listed = re.findall(r"`([A-Z]\w+)`", PART["Wrappers"].partition("```")[0])
    assert listed[: len(WRAPPERS)] == list(WRAPPERS)
    assert set(listed[len(WRAPPERS) :]) == {"NumpyToTorch", "HumanRendering", "RecordVideo"}


def test_the_ids_are_those_that_are_registered() -> None:
    listed = re.findall(rf"^\| `{NAMESPACE}/([\w-]+)` \|", PART["C envs"], re.MULTILINE)
    assert listed == ["CartPole-v1", "TagGridWorld-v0", "Drive-v0", "Probe-v0"]
    assert set(listed) == set(REGISTERED)


def test_what_does_not_exist_does_not_exist() -> None:
    envs = puffervec.gym.AsyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 4, num_workers=1, context="fork")
    try:
        assert len(envs.processes) == 1
        for name in ("parent_pipes", "error_queue"):
            assert f"`{name}`" in DIFFERENCES
            assert not hasattr(envs, name)
    finally:
        envs.close()

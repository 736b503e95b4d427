# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/from-gymnasium.md: its code runs and prints what it shows, its tables are complete, its claims have tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import puffervec.gym
from puffervec.gym.registration import NAMESPACE, REGISTERED
from tests.docs import pages
from tests.gym.test_wrappers import WRAPPERS

FILE = pages.ROOT / "docs" / "from-gymnasium.md"
PAGE = FILE.read_text(encoding="utf-8")
DIFFERENCES = (pages.ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
PART = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def test_the_code_prints_what_the_page_shows(tmp_path: Path) -> None:
    found = pages.printed(PAGE, tmp_path)
    assert len(found) == 10
    for (_, shown), output in zip(pages.examples(PAGE), found, strict=True):
        assert output == (shown.text if shown is not None else "")


def test_links_and_tests_exist() -> None:
    assert pages.missing_links(FILE) == []
    assert pages.missing_tests(PAGE) == []


def test_every_improvement_has_its_test() -> None:
    rows = [line for line in PART["What is better"].splitlines() if line.startswith("| ") and line != "| here | test |"]
    assert len(rows) >= 9
    assert all(re.search(r"\| `tests/[\w/]+\.py::test_\w+` \|$", row) for row in rows)


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


class Breaking(gymnasium.Env[Any, Any]):
    """Raises in its first step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        raise ZeroDivisionError("told to")


@pytest.mark.parametrize("asynchronous", [True, False])
def test_what_can_be_done_after_an_env_raised(asynchronous: bool) -> None:
    envs: Any = (
        puffervec.gym.AsyncVectorEnv([Breaking], context="fork") if asynchronous else puffervec.gym.SyncVectorEnv([Breaking])
    )
    envs.reset()
    with pytest.raises(ZeroDivisionError, match="told to"):
        envs.step([0])
    if asynchronous:
        with pytest.raises((ZeroDivisionError, puffervec.PuffervecError)):
            envs.reset()
    else:
        assert envs.reset()[0].shape == (1, 2)
    envs.close()


@pytest.mark.parametrize("argument", ["wrappers", "vector_kwargs"])
def test_what_c_envs_refuse(argument: str) -> None:
    given = {"wrappers": [gymnasium.wrappers.TimeAwareObservation], "vector_kwargs": {"copy": False}}[argument]
    with pytest.raises(gymnasium.error.Error, match=argument):
        puffervec.make_vec("puffervec/CartPole-v1", **{argument: given})

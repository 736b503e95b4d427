# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The registry (puffervec/envs/__init__.py): built-in envs, envs of other packages, and packages
that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import puffervec
from puffervec import envs
from puffervec.errors import ConfigError
from tests import cases, test_autoreset
from tests.golden import cases as golden

MODULE = """
import dataclasses
from puffervec.envs.probe import ENV as PROBE
ENV = dataclasses.replace(PROBE, evaluation=lambda: "no evaluation")
NOT_AN_ENV = 3
"""


def install(folder: Path, distribution: str, **entries: str) -> None:
    """Write what pip leaves behind for a package with these entry points, and its module."""
    info = folder / f"{distribution}-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("[puffervec.envs]\n" + "\n".join(lines) + "\n")
    (folder / f"{distribution}_module.py").write_text(MODULE)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_names_begin_with_the_built_in_ones(site: Path) -> None:
    assert envs.names()[: len(envs.BUILT_IN)] == list(envs.BUILT_IN)
    install(site, "elsewhere", far="elsewhere_module:ENV")
    assert envs.names().count("far") == 1


@pytest.mark.parametrize("all_cases", [cases.CASES, golden.CASES, test_autoreset.CASES.values()])
def test_tests_of_all_envs_cover_the_built_in_ones(all_cases: Iterable[Any]) -> None:
    assert {*envs.BUILT_IN} <= {case.env for case in all_cases if isinstance(case.env, str)}


def test_an_env_of_another_package_is_found_and_made(site: Path) -> None:
    with pytest.raises(ConfigError, match="no env is called 'far'"):
        envs.get("far")
    install(site, "elsewhere", far="elsewhere_module:ENV")  # while the program runs
    with pytest.raises(
        ConfigError,
        match="probe: its evaluation is 'no evaluation': .* must return a puffervec.Evaluation",
    ):
        envs.get("far").own_evaluation()
    with puffervec.make("far", env_kwargs={"num_agents": 2}, backend="serial", num_envs=3) as vec:
        assert vec.reset(seed=0)[0].shape == (6, 8)


def test_it_is_imported_when_it_is_asked_for(site: Path) -> None:
    install(site, "sleeping", far="no_such_module_at_all:ENV")
    assert "far" in envs.names()
    assert envs.get("probe").name == "probe"
    with pytest.raises(ConfigError) as caught:
        envs.get("far")
    for word in (
        "'far'",
        "sleeping 1.5",
        "no_such_module_at_all:ENV",
        "ModuleNotFoundError",
        "uninstall",
    ):
        assert word in str(caught.value)


@pytest.mark.parametrize(("value", "words"), [
    ("broken_module:MISSING", ["AttributeError", "MISSING"]),
    ("broken_module:NOT_AN_ENV", ["is 3", "NativeEnv"]),
])  # fmt: skip
def test_a_package_that_hands_over_no_env_is_named(
    site: Path, value: str, words: list[str]
) -> None:
    install(site, "broken", far=value)
    with pytest.raises(ConfigError) as caught:
        envs.get("far")
    for word in ("'far'", "broken 1.5", *words):
        assert word in str(caught.value)


def test_a_name_of_a_built_in_env_is_refused_with_both(site: Path) -> None:
    install(site, "imitator", cartpole="imitator_module:ENV")
    with pytest.raises(ConfigError) as caught:
        envs.get("cartpole")
    for word in (
        "'cartpole'",
        "puffervec.envs.cartpole:ENV of puffervec",
        "imitator_module:ENV of imitator 1.5",
        "uninstall",
    ):
        assert word in str(caught.value)
    assert envs.names().count("cartpole") == 1
    assert envs.get("probe").name == "probe"


def test_a_name_that_two_packages_claim_is_refused_with_both(site: Path) -> None:
    install(site, "one", far="one_module:ENV")
    install(site, "two", far="two_module:ENV")
    with pytest.raises(ConfigError) as caught:
        envs.get("far")
    for word in ("one_module:ENV of one 1.5", "two_module:ENV of two 1.5"):
        assert word in str(caught.value)


def test_an_unknown_name_is_refused_with_all_known_ones(site: Path) -> None:
    install(site, "elsewhere", far="elsewhere_module:ENV")
    with pytest.raises(ConfigError) as caught:
        envs.get("zzz")
    for name in (*envs.BUILT_IN, "far"):
        assert name in str(caught.value)
    with pytest.raises(ConfigError, match="did you mean 'far'"):
        envs.get("farr")

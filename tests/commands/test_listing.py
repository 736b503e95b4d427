# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import typing

import pytest

import puffervec.envs
from puffervec.commands import list as listing
from puffervec.commands.settings_help import choices_of
from puffervec.errors import ConfigError
from puffervec.train.config import algorithms
from puffervec.train.config.sections import PolicySection, TrainSection
from puffervec.train.policies.registry import kinds


def test_all_that_there_is() -> None:
    found = listing.everything()
    named = {title: [next(iter(row.values())) for row in rows] for title, rows in found.items()}
    assert named["envs"][:-1] == puffervec.envs.names()
    assert named["policies"] == ["auto", *kinds(), "module:Class"]
    assert named["algorithms"] == [*algorithms.names(), "module:NAME"]
    assert tuple(named["memories"]) == choices_of(typing.get_type_hints(PolicySection)["memory"])
    assert tuple(named["optimizers"]) == choices_of(
        typing.get_type_hints(TrainSection)["optimizer"]
    )
    preset = [env for env in puffervec.envs.names() if puffervec.envs.get(env).training.preset]
    assert "drive" in preset and named["presets"][:-1] == preset
    assert all(row["what"].strip(".") for rows in found.values() for row in rows)
    for rows in found.values():
        assert len({row["what"] for row in rows}) == len(rows)  # each says what it is itself
    assert [row["env"] for row in found["envs"] if row["preset"] == "own"] == preset


def test_an_env_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(name: str) -> object:
        raise ConfigError(f"env {name!r} cannot be loaded")

    monkeypatch.setattr(puffervec.envs, "get", get)
    assert "cannot be loaded" in listing.envs()[0]["what"]


def test_an_env_without_docstring_is_no_empty_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its config's docstring tells, if it has one; a dataclass without has one that only repeats
    the fields.
    """
    from puffervec.envs import probe

    monkeypatch.setattr(probe, "__doc__", None)
    monkeypatch.setattr(probe.ENV.config, "__doc__", "What to probe. More.")
    assert {row["env"]: row["what"] for row in listing.envs()}["probe"] == "What to probe."
    monkeypatch.setattr(
        probe.ENV.config, "__doc__", f"{probe.ENV.config.__name__}(length: int = 1)"
    )
    assert {row["env"]: row["what"] for row in listing.envs()}["probe"] == listing.NO_DOCSTRING

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from puffervec.errors import ConfigError
from puffervec.train.verbs.eval import EvalRequest, parse


def test_what_is_asked_for() -> None:
    args = (
        "runs/one --episodes 3 --env my:make --env.size 4 --scenes=here --env.hard --json a.json --png out --draw all --sample"
    )
    assert parse(args.split()) == EvalRequest(
        target="runs/one",
        episodes=3,
        png=Path("out"),
        draw="all",
        json=Path("a.json"),
        deterministic=False,
        code=("my:make", None),
        env_flags=("--env.size", "4", "--scenes=here", "--env.hard"),
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("--seed 1", "which run"),
        ("one --train.lr 1", "unknown argument --train.lr"),
        ("one --draw all", "--draw all needs --png"),
        ("one --episodes none", "--episodes is 'none'"),
        ("one --json", "--json needs a value"),
    ],
)
def test_bad_flags(args: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(args.split())

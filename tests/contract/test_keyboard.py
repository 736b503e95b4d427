# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How keys become actions: puffervec/contract/keyboard.py, cartpole."""

from __future__ import annotations

import pytest

from puffervec.contract.keyboard import Keys
from puffervec.envs import get
from puffervec.errors import ConfigError


def test_keys_must_be_named() -> None:
    for names in ({}, {str(n): "x" for n in range(13)}):
        with pytest.raises(ConfigError, match="name 1 to 12 keys"):
            Keys(names, lambda held: 0)


def test_cartpole() -> None:
    env = get("cartpole")
    assert env.keys is not None
    act = env.keys(env.configure(None)).action
    assert [act({"ArrowLeft": 1}), act({"ArrowRight": 1})] == [0, 1]
    assert sorted(act({}) for _ in range(4)) == [0, 0, 1, 1]  # Nothing is held: in turn.

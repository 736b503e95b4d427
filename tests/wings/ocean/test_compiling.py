# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/compiling.py and puffervec/wings/ocean/probing.py: compilers and inits that
take too long or end; test_generations.py compiles and asks envs.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from puffervec.errors import ConfigError
from puffervec.wings.ocean import compiling, door
from puffervec.wings.ocean.probing import probe


def test_a_compilation_may_take_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(words: list[str], timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    source: Any = SimpleNamespace(main=Path("game.h"))
    with pytest.raises(ConfigError, match=r"game\.h: the compiler takes longer than 300 s"):
        compiling._compile(source, "", [], [])


def test_the_version_of_a_compiler_is_its_first_line() -> None:
    assert compiling._compiler_version(sys.executable) == f"Python {platform.python_version()}"


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (signal.SIGALRM, "its init takes longer than 60 s"),
        (signal.SIGHUP, "its init crashes with SIGHUP"),
        (signal.SIGSEGV, "its init crashes with SIGSEGV"),
        (-1, "its init ended the process"),
    ],
)
def test_how_an_init_may_end(monkeypatch: pytest.MonkeyPatch, ended: int, words: str) -> None:
    def run(params: Any, facts: Any, seconds: ctypes.c_uint) -> int:
        assert (params.value, seconds.value) == (b"params", 60)
        return ended

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(pv_ocean_probe=run))
    with pytest.raises(ConfigError, match=f"game: {words}"):
        probe("game", Path("game.so"), b"params")


def test_the_door_imports_nothing_of_the_wing_before_it_is_called() -> None:
    assert "Tools" not in vars(door)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Other projects' suites over our classes (scripts/upstream_suites.py): imports there find ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

GYMNASIUM = """
import gymnasium, puffervec, puffervec.gym
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

def test_these_are_ours():
    assert AsyncVectorEnv is puffervec.gym.AsyncVectorEnv
    assert SyncVectorEnv is puffervec.gym.SyncVectorEnv
    assert gymnasium.make_vec is puffervec.make_vec
    with open("reached", "w"):
        pass
"""
SB3 = """
import gymnasium, puffervec.sb3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

def test_these_are_ours():
    assert issubclass(SubprocVecEnv, puffervec.sb3.VecEnv)
    assert make_vec_env is puffervec.sb3.make_vec_env
    envs = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])
    assert isinstance(envs, puffervec.sb3.VecEnv) and type(envs.vec).__name__ == "Serial"
    envs.close()
    with open("reached", "w"):
        pass
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "scripts" / "upstream_suites.py")
    return subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, timeout=120
    )


@pytest.mark.slow  # whole pytest runs in processes of their own
@pytest.mark.parametrize(
    ("suite", "text"), [("gymnasium", GYMNASIUM), ("sb3", SB3)], ids=["gymnasium", "sb3"]
)
def test_a_suite_finds_our_classes(suite: str, text: str, tmp_path: Path) -> None:
    if suite == "sb3":
        pytest.importorskip("stable_baselines3")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text(text)
    done = run(suite, str(tmp_path), "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "reached").exists()

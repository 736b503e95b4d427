# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Ids of the C envs (puffervec/gym/make_vec.py): made by Gymnasium itself, one by one and as vector
envs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import puffervec.gym
from puffervec.gym.make_vec import REGISTERED, register_envs
from tests.drive_env.conftest import make_tree

# Gymnasium says this of its own CartPole too.
INFINITE = "ignore:.*Box observation space m(in|ax)imum value is -?infinity"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Settings by name: drive gets a scene with two cars."""
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    scene = tmp_path / "tiny.json"
    scene.write_text(json.dumps(make_tree()))
    return {"Drive-v0": {"scenes": str(scene), "num_agents": 4, "resample_steps": 50}}


@pytest.mark.filterwarnings(INFINITE)
@pytest.mark.parametrize("name", REGISTERED)
def test_single_envs_pass_gymnasiums_checker(
    name: str, settings: dict[str, dict[str, Any]]
) -> None:
    env = gymnasium.make(f"puffervec/{name}", **settings.get(name, {}))
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", REGISTERED)
def test_vector_envs_are_made_by_gymnasium(name: str, settings: dict[str, dict[str, Any]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a vector env without the right metadata would bring one
        envs: Any = gymnasium.make_vec(
            f"puffervec/{name}", num_envs=2, backend="serial", **settings.get(name, {})
        )
    assert isinstance(envs, puffervec.gym.NativeVectorEnv)
    assert envs.spec.id == f"puffervec/{name}" and envs.num_envs == 2 * envs.agents
    assert repr(envs) == f"NativeVectorEnv(puffervec/{name}, num_envs={envs.num_envs})"
    observations, _ = envs.reset(seed=0)
    assert observations in envs.observation_space
    for _ in range(3):
        observations, *_ = envs.step(envs.action_space.sample())
        assert np.isfinite(observations).all()
    envs.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasiums_own_vector_envs_take_the_single_envs(mode: str) -> None:
    envs = gymnasium.make_vec("puffervec/CartPole-v1", num_envs=2, vectorization_mode=mode)
    direct = gymnasium.make_vec("puffervec/CartPole-v1", num_envs=2, backend="serial")
    assert np.array_equal(envs.reset(seed=4)[0], direct.reset(seed=4)[0])
    assert np.array_equal(envs.step([0, 1])[0], direct.step([0, 1])[0])
    envs.close()
    direct.close()


def test_registering_again_changes_nothing() -> None:
    before = dict(gymnasium.registry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_envs()
    assert gymnasium.registry == before
    assert all(f"puffervec/{name}" in before for name in REGISTERED)


@pytest.mark.slow
def test_an_id_can_name_the_module_to_import(tmp_path: Path) -> None:
    script = (
        "import gymnasium\n"
        "name = 'puffervec.gym:puffervec/Probe-v0'\n"
        "env = gymnasium.make(name)\n"
        "envs = gymnasium.make_vec(name, num_envs=2, backend='serial')\n"
        "print(env.reset(seed=0)[0].shape, envs.reset(seed=0)[0].shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100
    )
    assert (done.stdout, done.stderr) == ("(8,) (2, 8)\n", "")

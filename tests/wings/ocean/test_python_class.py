# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/python_class.py: what only the Python class of an env of 3.0 knows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from puffervec.errors import ConfigError
from puffervec.wings.ocean.python_class import PythonClass, _installed

CLASS = """
import gymnasium
import numpy as np
import nobody_has_this
import pufferlib
from pufferlib.ocean.maze import binding

class Maze(pufferlib.PufferEnv):
    def __init__(self, num_envs=16, size=9, agents=2, speed=0.5, buf=None, seed=0):
        if size < 3:
            raise pufferlib.APIUsageError("size must be at least 3")
        self.single_observation_space = gymnasium.spaces.Box(0, 2, (size, size), np.uint8)
        self.single_action_space = gymnasium.spaces.MultiDiscrete([3, 2])
        self.num_agents = num_envs * agents
        super().__init__(buf)
        self.actions = self.actions.astype(np.float32)
        self.state = binding.shared(maps=4)
        self.c_envs = binding.vectorize(*[
            binding.env_init(self.observations[:agents], self.actions[:agents],
                self.rewards[:agents], self.terminals[:agents], self.truncations[:agents], seed + i,
                area=size * size, copies=num_envs, first=seed, state=self.state, speed=speed)
            for i in range(num_envs)])

    def reset(self, seed=0):
        binding.vec_reset(self.c_envs, seed)
        return self.observations, []

    def step(self, actions):
        STEP
        binding.vec_step(self.c_envs)
        return self.observations, self.rewards, self.terminals, self.truncations, []
"""
SCALED = "self.rewards.fill(0); self.actions[:] = (actions - 1) / 4"


def asked(folder: Path, step: str = SCALED, *changes: tuple[str, str]) -> PythonClass:
    """Return the class with this statement in its step, and other changes."""
    code = CLASS.replace("STEP", step)
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    path = folder / "maze.py"
    path.write_text(code)
    return PythonClass(path)


def test_settings_rows_and_what_a_step_does_to_actions(tmp_path: Path) -> None:
    python = asked(tmp_path)
    assert python.defaults == {"size": 9, "agents": 2, "speed": 0.5}
    facts = python.ask({"size": 5, "agents": 3, "speed": 0.25})
    assert facts.kwargs == {"area": 25, "copies": 1, "first": 0, "speed": 0.25}
    assert (facts.shared_as, facts.shared_kwargs, facts.agents) == ("state", {"maps": 4}, 3)
    assert facts.observation == ((5, 5), np.dtype(np.uint8), 0.0, 2.0)
    assert facts.table == (-0.25, 0.0, 0.25, -0.25, 0.0)
    assert not facts.keeps
    assert not {"pufferlib", "nobody_has_this", "binding"} & set(sys.modules)


def test_actions_that_are_written_as_they_are_and_rows_that_are_kept(tmp_path: Path) -> None:
    facts = asked(tmp_path, "self.actions[:] = actions").ask({"size": 5, "agents": 1, "speed": 1.0})
    assert facts.table == () and facts.keeps


def test_a_single_action_and_an_observation_of_one_number(tmp_path: Path) -> None:
    changes = [("MultiDiscrete([3, 2])", "Discrete(3)"), ("(size, size)", "()")]
    facts = asked(tmp_path, SCALED, *changes).ask({"size": 5, "agents": 1, "speed": 1.0})
    assert facts.table == (-0.25, 0.0, 0.25) and facts.observation[0] == (1,)


def test_bounds_that_differ_from_number_to_number(tmp_path: Path) -> None:
    """The widest ones hold for all numbers."""
    change = ("Box(0, 2, (size, size), np.uint8)", "Box(-np.eye(size), np.eye(size), None, float)")
    facts = asked(tmp_path, SCALED, change).ask({"size": 5})
    assert facts.observation == ((5, 5), np.dtype(float), -1.0, 1.0)


def test_a_class_that_counts_steps_from_its_reset(tmp_path: Path) -> None:
    changes = [("def reset(self, seed=0):", "def reset(self, seed):\n        self.seed = seed")]
    facts = asked(tmp_path, "self.actions[:] = actions + self.tick + self.seed", *changes).ask({})
    assert facts.table == () and facts.keeps


def test_packages_that_are_installed_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imported or not."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert _installed("colorsys") and _installed("sys") and not _installed("nobody_has_this")


def test_what_the_class_refuses_and_needs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="size must be at least 3"):
        asked(tmp_path).ask({"size": 2})
    with pytest.raises(ConfigError, match="makes no env"):
        asked(tmp_path, SCALED, ("in range(num_envs)", "in range(0)")).ask({})
    path = tmp_path / "maze.py"
    path.write_text(CLASS.replace("binding.shared(maps=4)", "binding.get_consts(2)"))
    with pytest.raises(ConfigError, match=r"binding\.get_consts"):
        PythonClass(path).ask({})

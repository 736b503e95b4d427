# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/rivals: what is stepped, and that every library's rows are counted alike. No figure is
judged.
"""

from __future__ import annotations

import importlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.common import ROOT
from bench.rivals import envs, sample
from bench.rivals.runner import Job, Runner
from bench.rivals.scenarios import FIRST_COME, OURS, scenarios

EPISODE = 5


class Short(envs.DoNothing):
    """Episodes of five steps."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._left = EPISODE
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self._left > 0, "stepped after its end"
        self._left -= 1
        observation, reward, _, _, info = super().step(action)
        return observation, reward, self._left == 0, False, info


NEEDS = {
    "pong": [pytest.mark.needs("ALE")],
    "minigrid": [pytest.mark.needs("MiniGrid")],
    "mujoco": [pytest.mark.needs("MuJoCo")],
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDS.get(name, [])) for name in envs.MAKERS]
)
def test_the_envs_do_what_their_spaces_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves a log where it runs
    env = envs.MAKERS[name]()
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    actions = envs.draw_actions(env.action_space, 3)
    assert len(actions) == envs.BATCHES and all(
        env.action_space.contains(action) for action in actions[0]
    )
    assert env.observation_space.contains(env.step(actions[0][0])[0])
    env.close()


def test_a_reset_row_is_no_step() -> None:
    flags = itertools.cycle([np.array([True, False]), np.array([False, False])])
    count = Runner(lambda actions: next(flags), [None], 2).run(4)
    assert (count.rows, count.resets) == (8, 2)
    count = Runner(lambda actions: next(flags), [None], 2, next_step=False).run(4)
    assert (count.rows, count.resets) == (8, 0)


def _open(
    monkeypatch: pytest.MonkeyPatch, library: str, num_envs: int = 2, **settings: Any
) -> Runner:
    monkeypatch.setitem(envs.MAKERS, "short", Short)
    opened: Runner = importlib.import_module(f"bench.rivals.{library}").open_runner(
        Job(library, "short", num_envs, settings)
    )
    return opened


@pytest.mark.parametrize(
    ("library", "settings", "next_step"),
    [
        ("gymnasium_vec", {"mode": "sync"}, True),
        ("sb3_vec", {"mode": "dummy"}, False),
        (OURS, {"backend": "serial"}, True),
        (OURS, {"mode": "sync"}, True),
    ],
    ids=lambda value: str(value),
)
def test_libraries_are_counted_alike(
    monkeypatch: pytest.MonkeyPatch, library: str, settings: dict[str, Any], next_step: bool
) -> None:
    """Five of six rows are steps where the reset takes a row, and all where it does not."""
    if library == "sb3_vec":
        pytest.importorskip("stable_baselines3")
    runner = _open(monkeypatch, library, **settings)
    period = EPISODE + 1 if next_step else EPISODE
    runner.run(1)
    count = runner.run(4 * period)
    runner.close()
    assert count.rows == 2 * 4 * period and count.rows - count.resets == 2 * 4 * EPISODE


@pytest.mark.slow
def test_first_come_takes_half_of_the_envs(no_leaks: None) -> None:
    variant = next(
        v for v in scenarios(2)[0].variants if v.job.rival == OURS and v.kind == FIRST_COME
    )
    runner = importlib.import_module(f"bench.rivals.{OURS}").open_runner(variant.job)
    try:
        assert runner.run(3).rows == 3 * variant.job.num_envs // 2
    finally:
        runner.close()


@pytest.mark.needs("EnvPool")
@pytest.mark.normal_build("envpool's own C++ library does not load under AddressSanitizer")
def test_envpool_in_both_modes() -> None:
    """In a process of its own, as the benchmark does: its threads stay for good."""
    for settings, rows in (({}, 8), ({"batch_size": 4}, 4)):
        job = Job(
            "envpool_vec", "cartpole", 8, {"num_threads": 1, **settings}, seconds=0.01, warmup_s=0.0
        )
        command = [sys.executable, *sample.arguments_of(job)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
        )
        result = json.loads(done.stdout.splitlines()[-1])
        assert result["rows"] == rows * result["turns"] and 0 < result["env_steps"] < result["rows"]
    assert "not noop" in sample.take(Job("envpool_vec", "noop", 8))["missing"]

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What stands around an env in a worker of the SB3 adapter (puffervec/sb3/worker_env.py): the
monitor does what SB3's does.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium import spaces

from puffervec.errors import ConfigError
from puffervec.sb3.worker_env import EnvMaker, IndexedEnv, IndexedEnvMaker, Monitor
from tests.sb3_envs import Counter


def run(env: Any, steps: int, **reset: Any) -> list[dict[str, Any]]:
    """Step with resets in between; return the infos of the steps, without times."""
    env.reset(**reset)
    infos = []
    for _ in range(steps):
        _, _, terminated, truncated, info = env.step(0)
        if "episode" in info:
            assert info["episode"].pop("t") >= 0
        infos.append(info)
        if terminated or truncated:
            env.reset(**reset)
    return infos


# ---- the monitor ---------------------------------------------------------------------------------


def rows_of(path: Path) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Head and rows of a monitor file, without times."""
    with path.open() as file:
        head = json.loads(file.readline().removeprefix("#"))
        rows = list(csv.DictReader(file))
    assert head.pop("t_start") > 1.7e9 and all(float(row.pop("t")) >= 0 for row in rows)
    return head, rows


def test_the_monitor_reports_and_writes_what_sb3s_does(tmp_path: Path) -> None:
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    found = []
    for kind, name in ((Monitor, "ours"), (monitor.Monitor, "theirs")):
        env = kind(
            Counter(),
            str(tmp_path / name / "0"),
            reset_keywords=("level",),
            info_keywords=("depth",),
        )
        infos = run(env, 8, level=4)
        found.append(
            (
                infos,
                rows_of(tmp_path / name / "0.monitor.csv"),
                env.get_episode_rewards(),
                env.get_episode_lengths(),
                env.get_total_steps(),
                len(env.get_episode_times()),
            )
        )
        env.close()
    assert found[0] == found[1]
    assert found[0][0][2]["episode"] == {"r": 0.6, "l": 3, "depth": 30, "level": 4}


@pytest.mark.parametrize("override", [True, False])
def test_monitor_files_are_replaced_or_added_to(tmp_path: Path, override: bool) -> None:
    for _ in range(2):
        env = Monitor(Counter(), str(tmp_path / "a.monitor.csv"))
        run(env, 6)
        env.close()
    env = Monitor(Counter(), str(tmp_path / "a"), override_existing=override)
    run(env, 3)
    env.close()
    assert len(rows_of(tmp_path / "a.monitor.csv")[1]) == (1 if override else 3)


def test_a_monitor_that_is_never_reset_writes_nothing(tmp_path: Path) -> None:
    Monitor(Counter(), str(tmp_path / "0")).close()
    assert list(tmp_path.iterdir()) == []


def test_the_monitor_insists_on_resets() -> None:
    env = Monitor(Counter(), allow_early_resets=False, reset_keywords=("level",))
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(0)
    with pytest.raises(ValueError, match="'level'"):
        env.reset()
    env.reset(level=1)
    env.step(0)
    with pytest.raises(RuntimeError, match="allow_early_resets"):
        env.reset(level=1)


# ---- IndexedEnv ----------------------------------------------------------------------------------


def test_only_gymnasium_envs_sit_down() -> None:
    assert isinstance(IndexedEnvMaker(Counter, 0)(), IndexedEnv)
    with pytest.raises(ConfigError, match="builtins.dict"):
        IndexedEnvMaker(dict, 0)()


# ---- making an env -------------------------------------------------------------------------------


def test_envs_are_monitored_then_wrapped_and_their_actions_seeded(tmp_path: Path) -> None:
    maker = EnvMaker(
        Counter, 3, 10, str(tmp_path), gymnasium.wrappers.TimeLimit, {"length": 4},
        {"info_keywords": ("depth",)}, {"max_episode_steps": 2},
    )  # fmt: skip
    env = maker()
    assert isinstance(env, gymnasium.wrappers.TimeLimit) and isinstance(env.env, Monitor)
    assert env.get_wrapper_attr("length") == 4
    expected = spaces.Discrete(2, seed=13)
    assert [env.action_space.sample() for _ in range(20)] == [expected.sample() for _ in range(20)]
    run(env, 4)
    env.close()
    assert (tmp_path / "3.monitor.csv").exists()

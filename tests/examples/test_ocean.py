# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""examples/ocean: an env in Ocean's convention, made an env type by a few lines of glue; equal to
its twin, and it trains.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import puffervec
import puffervec.gym
from puffervec.errors import CallOrderError, ConfigError
from tests.env_contract import EnvContract
from tests.helpers import action_table, serial
from tests.libraries import environment, install_example
from tests.twins.lantern import LanternTwin


@pytest.fixture(scope="module", autouse=True)
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Install the package and put it on sys.path for this module's tests."""
    folder = install_example("ocean", tmp_path_factory.mktemp("ocean"))
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(folder)
    yield folder
    patch.undo()
    sys.modules.pop("lantern", None)


class TestLantern(EnvContract):
    env = "lantern"
    settings = {"size": 5, "max_ticks": 9}
    settable = False

    @pytest.mark.skip("an Ocean env cannot be saved; tests/c/test_ocean.py checks the refusal")
    def test_save_and_load_equal_never_saved(self) -> None:  # type: ignore[override]
        pass

    @pytest.mark.skip("looks at saved states too")
    def test_peek_shows_the_declared_state_and_changes_nothing(self) -> None:  # type: ignore[override]
        pass

    @pytest.mark.skip("saves too")
    def test_a_worker_writes_only_what_is_its_own(self) -> None:  # type: ignore[override]
        pass


@pytest.mark.parametrize(
    "settings", [{}, {"size": 2, "max_ticks": 3, "step_cost": 0.25}, {"size": 1, "max_ticks": 1}]
)
def test_equals_the_twin(settings: dict[str, Any]) -> None:
    seeds = [3, 2**33 + 1]
    rng = np.random.default_rng(0)
    with serial("lantern", settings, num_envs=2) as vec:
        twins = [LanternTwin(seed, **settings) for seed in seeds]
        observations, _ = vec.reset(seed=seeds)
        np.testing.assert_array_equal(observations, [twin.show().observation for twin in twins])
        found = []
        for _ in range(400):
            actions = rng.choice(4, 2, p=[0.1, 0.4, 0.4, 0.1])
            observations, rewards, terminals, truncations, infos = vec.step(actions)
            found += [record.copy() for record in infos.episodes if record["env"] == 0]
            for env, twin in enumerate(twins):
                row = twin.step(int(actions[env]))
                np.testing.assert_array_equal(observations[env], row.observation)
                assert (rewards[env], terminals[env], truncations[env]) == (
                    row.reward,
                    row.terminal,
                    False,
                )
    assert len(found) > 10
    assert [(float(r["values"][0]), int(r["length"])) for r in found] == twins[0].episodes


def test_returns_are_those_of_the_rewards_shown() -> None:
    """The env's own log agrees with what a learner sums up: the turn that is held adds nothing."""
    with serial("lantern", {"size": 4, "max_ticks": 6}, num_envs=3) as vec:
        vec.reset(seed=0)
        sums, table = np.zeros(3), action_table(vec, 300)["agents"][..., 0]
        for actions in table:
            _, rewards, terminals, _, infos = vec.step(actions)
            sums += rewards
            for record in infos.episodes:
                assert float(record["return"]) == pytest.approx(sums[record["env"]], abs=1e-6)
            sums[terminals] = 0.0


def test_one_env_is_made_by_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    """It resets itself within its last step; the user sees an end and begins the next episode by
    hand.
    """
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    puffervec.gym.register_envs()
    env = gymnasium.make("puffervec/lantern-v0", size=4, max_ticks=6).unwrapped
    twin = LanternTwin(5, size=4, max_ticks=6)
    observation, _ = env.reset(seed=5)
    assert np.array_equal(observation, twin.show().observation)
    rng = np.random.default_rng(0)
    while True:
        action = int(rng.integers(4))
        row = twin.step(action)
        observation, reward, terminated, truncated, info = env.step(action)
        assert np.array_equal(observation, row.observation) and (reward, terminated) == (
            row.reward,
            row.terminal,
        )
        assert not truncated
        if terminated:
            break
    assert info["record"]["l"] <= 6
    with pytest.raises(CallOrderError, match="the episode is over: call reset first"):
        env.step(0)
    env.reset()
    assert not env.step(0)[2]
    env.close()
    with pytest.raises(ConfigError, match="'sizes'"):
        gymnasium.make("puffervec/lantern-v0", sizes=4)
    checked = gymnasium.make("puffervec/lantern-v0").unwrapped
    check_env(checked, skip_render_check=True)
    checked.close()


@pytest.mark.slow  # tests/examples/test_out_of_tree.py starts such a command at every push
def test_it_trains_from_the_command_line(site: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "puffervec.commands.cli",
        "lantern",
        "--vec.num-envs",
        "64",
        "--vec.num-workers",
        "2",
    ]
    command += ["--train.total-timesteps", "20000", "--log.folder", str(tmp_path)]
    done = subprocess.run(
        command, env=environment(site), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "score" in done.stdout

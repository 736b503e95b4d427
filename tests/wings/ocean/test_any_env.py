# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/wings/ocean/door.py: an env of PufferLib is then an env like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import puffervec
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from tests.builds import source_folder
from tests.fixtures.training import torch_state  # noqa: F401 (autouse)
from tests.wings.ocean.samples import ENVS, SAMPLES, Sample, lay_out

by_name = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All samples in one repository."""
    source_folder()
    root = tmp_path_factory.mktemp("repository")
    for sample in SAMPLES:
        lay_out(sample.name, root)
    return root


@pytest.mark.slow
@by_name
def test_spaces_and_agents(sample: Sample, repository: Path) -> None:
    with puffervec.make(
        f"ocean:{repository / 'ocean' / sample.name}", num_envs=2, backend="serial"
    ) as vec:
        kind, count = sample.observation
        space = vec.single_observation_space
        assert space.shape == (count,)
        assert space.dtype == np.dtype("f4" if kind == "u2" else kind)
        assert vec.num_agents == 2 * sample.agents
        action = vec.single_action_space
        if min(sample.actions) == 1:
            assert isinstance(action, gymnasium.spaces.Box)
            assert action.shape == (len(sample.actions),)
        elif len(sample.actions) == 1:
            assert isinstance(action, gymnasium.spaces.Discrete)
            assert action.n == sample.actions[0]
        else:
            assert isinstance(action, gymnasium.spaces.MultiDiscrete)
            assert action.nvec.tolist() == list(sample.actions)


@pytest.mark.slow
@by_name
def test_a_folder_that_has_all_that_belongs_to_it(sample: Sample, tmp_path: Path) -> None:
    """The .ini file next to the sources, the assets below them, the sources read-only."""
    import shutil

    folder = tmp_path / sample.name
    shutil.copytree(ENVS / sample.name, folder)
    assets = folder / "resources"
    if assets.exists():
        (folder / "moved").mkdir()
        assets.rename(folder / "moved" / sample.name)
        (folder / "moved").rename(assets)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with puffervec.make(f"ocean:{folder}", num_envs=2, backend="serial") as vec:
        vec.reset(seed=0)
        defaults = {name: str(value) for name, value in sample.settings.items()}
        assert defaults
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_settings_change_what_is_shown(repository: Path) -> None:
    folder = repository / "ocean" / "five_garden"
    kwargs: dict[str, Any] = {"gardeners": 2, "rain": False, "worth": [3.0, 2.0]}
    with puffervec.make(f"ocean:{folder}", backend="serial", env_kwargs=kwargs) as vec:
        assert vec.num_agents == 2
        vec.reset(seed=0)
        seen = set()
        moves = np.random.default_rng(0).integers(0, 5, (39, 2))
        for first, second in moves:
            _, rewards, _, _, _ = vec.step([[first, 1], [second, 2]])
            seen |= set(rewards.tolist())
        assert seen == {0.0, 2.0, 3.0}
    with pytest.raises(ConfigError, match=r"garden: \S+nowhere\.txt is missing|exit\(1\)"):
        puffervec.make(f"ocean:{folder}", backend="serial", env_kwargs={"layout": "nowhere.txt"})


def test_a_setting_of_the_python_class_comes_under_the_ini_file(repository: Path) -> None:
    folder = repository / "ocean" / "three_catch"
    config = puffervec.ocean(folder).config()
    assert (config.width, config.height, config.catch_reward) == (9, 10, 1.0)
    config = puffervec.ocean(folder, width=5).config()
    assert (config.width, config.height) == (5, 10)


def test_agents_of_several_policies_have_types(repository: Path) -> None:
    with puffervec.make(
        f"ocean:{repository / 'ocean' / 'five_duel'}", num_envs=3, backend="serial"
    ) as vec:
        vec.reset(seed=0)
        (group,) = vec.halves[0].groups.values()
        assert group.agent_types.tolist() == [0, 1] * 3


def test_state_that_cannot_be_saved_and_other_autoresets_are_refused(repository: Path) -> None:
    name = f"ocean:{repository / 'ocean' / 'five_pole'}"
    with puffervec.make(name, num_envs=2, backend="serial") as vec:
        vec.reset(seed=0)
        with pytest.raises(puffervec.PuffervecError):
            vec.save()
    with pytest.raises(ConfigError, match="next_step"):
        puffervec.make(name, backend="serial", autoreset_mode="same_step")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["three_catch", "four_cards", "five_duel", "five_pole"])
def test_training_runs_and_logs_what_the_env_logs(
    name: str, repository: Path, tmp_path: Path
) -> None:
    config = TrainConfig.of(
        f"ocean:{repository / 'ocean' / name}",
        vec={"num_envs": 8, "backend": "serial", "num_buffers": 1},
        train={"total_timesteps": 2000, "horizon": 32, "minibatch_size": 0},
        policy={"hidden": (8,), "memory": "none"},
        log={"folder": str(tmp_path)},
    )
    with Trainer(config) as trainer:
        seen: dict[str, Any] = {}
        while not trainer.finished():
            trainer.collect()
            seen |= trainer.report(trainer.update()) or {}
    text = "".join(path.read_text() for path in tmp_path.rglob("metrics.jsonl"))
    assert '"env/' in text

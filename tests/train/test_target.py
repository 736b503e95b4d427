# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import puffervec.envs
from drive_env.config import DriveConfig
from drive_env.generate.generate import generate_scene
from drive_env.prepare import settings_of
from drive_env.scenes import write_scenes
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig
from puffervec.train.config import target
from tests.drive_env.sparse import with_hole
from tests.train import envs

Small = Callable[..., TrainConfig]
HERE = "tests.train.envs"


def test_env_spec_needs_no_worker(small: Small) -> None:
    spec = target.env_spec(small(env={"num_agents": 7}))
    assert spec.agents == 7
    with pytest.raises(ConfigError, match="num_agents"):
        target.env_spec(small(env={"num_agents": 0}))


def test_shared_data_is_not_copied(tmp_path: Path) -> None:
    write_scenes(tmp_path / "one.pvs", [generate_scene(0, 0)], settings_of(DriveConfig()))
    path = with_hole(tmp_path / "one.pvs", tmp_path / "large.pvs", 2**29)
    tracemalloc.start()
    try:
        assert target.env_spec(TrainConfig.of("drive", env={"scenes": str(path)})).agents > 0
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_names_of_c_envs_and_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = target.native_env("probe")
    assert found is not None and found.name == "probe"
    assert (
        target.native_env("CartPole-v1") is None
        and target.native_env("some.module:factory") is None
    )
    with pytest.raises(ConfigError, match="'nothere'.*drive.*CartPole-v1.*module:factory"):
        target.native_env("nothere")

    def broken(name: str) -> Any:
        raise ConfigError("env 'mine' cannot be loaded")

    monkeypatch.setattr(puffervec.envs, "get", broken)
    monkeypatch.setattr(puffervec.envs, "names", lambda: ["mine"])
    with pytest.raises(ConfigError, match=r"^env 'mine' cannot be loaded$"):
        target.native_env("mine")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{HERE}:nothing", "no 'nothing'"),
        (f"{HERE}:NOT_CALLABLE", "int"),
        ("no_module_of_this_name:x", "no_module_of_this_name"),
        ("CartPol-v1", "Did you mean: `CartPole`"),
        ("__main__:make", r"TrainConfig\.of"),
        (f"{HERE}:make.<locals>.inner", r"TrainConfig\.of"),
    ],
)
def test_names_that_lead_nowhere(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TrainConfig.of(name)


def test_a_module_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_written.py").write_text("def make(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        ConfigError,
        match=r"half_written:make cannot be imported: SyntaxError: invalid syntax .*line 1",
    ):
        TrainConfig.of("half_written:make")


@pytest.mark.parametrize(
    ("name", "env", "words"),
    [
        ("Guess", {"numbrs": 3}, "numbrs"),
        ("fails", {}, "fails cannot be made: RuntimeError: no engine"),
        ("no_env", {}, "int"),
        ("Turns", {}, "AEC.*aec_to_parallel"),
        ("Odd", {"kind": "mixed"}, "mixes Boxes"),
        ("Odd", {"kind": "integers"}, "Box of int32"),
        ("Odd", {"kind": "nothing"}, "empty"),
        ("Odd", {"kind": "blind"}, "observation space.*empty"),
        ("Odd", {"kind": "many"}, "1,000,000 choices"),
        ("Odd", {"kind": "text"}, "Text"),
    ],
)
def test_envs_that_cannot_be_trained(name: str, env: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        target.env_spec(TrainConfig.of(f"{HERE}:{name}", env=env))


def test_puffer_envs_are_refused() -> None:
    import numpy as np
    from gymnasium import spaces

    from puffervec.workers.python.puffer_env import PufferEnv

    class Native(PufferEnv):
        def __init__(self, buf: Any = None, seed: int = 0) -> None:
            self.single_observation_space = spaces.Box(-1, 1, (2,), np.float32)
            self.single_action_space = spaces.Discrete(2)
            self.num_agents = 2
            super().__init__(buf)

    with pytest.raises(ConfigError, match="PufferEnv.*ParallelEnv"):
        target.env_spec(TrainConfig.of(Native))


def test_callables_have_names_that_lead_to_them_or_are_kept() -> None:
    config = TrainConfig.of(envs.Guess, env={"numbers": 3})
    assert (config.target, config.creator, config.env) == (f"{HERE}:Guess", None, {"numbers": 3})

    def inner() -> Any:
        return envs.Aim()

    for creator in (inner, lambda: envs.Aim(), functools.partial(envs.Aim, dtype="float64")):
        config = TrainConfig.of(creator)
        assert config.creator is creator and ":" in config.target
        assert target.env_spec(config).agents == 1


def test_spec_of_a_parallel_env() -> None:
    spec = target.env_spec(TrainConfig.of(envs.Leavers))
    assert spec.agents == 3 and spec.groups[0].action_sizes == (2,)


def test_envs_without_a_preset_share_one_in_c_and_in_python() -> None:
    for name in ("probe", "CartPole-v1"):
        assert TrainConfig.of(name) == TrainConfig.bare(name).merged(target.GENERIC)

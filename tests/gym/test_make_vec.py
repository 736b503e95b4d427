# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`make_vec` in all its forms (puffervec/gym/make_vec.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import VectorizeMode
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from puffervec.errors import ConfigError
from puffervec.gym import AsyncVectorEnv, NativeVectorEnv, SyncVectorEnv, make_vec
from tests.gym.envs import Count
from tests.gym.kinds import quick_start

QUICK = {"context": quick_start(), "num_workers": 1}


@pytest.fixture
def made() -> Iterator[Any]:
    """`make_vec` whose results are closed at the end."""
    envs: list[Any] = []

    def make(*args: Any, **kwargs: Any) -> Any:
        envs.append(make_vec(*args, **kwargs))
        return envs[-1]

    yield make
    for each in envs:
        each.close()


@pytest.fixture
def counting() -> Iterator[str]:
    gymnasium.register(
        "tests/Counting-v3", entry_point=Count, max_episode_steps=9, disable_env_checker=True
    )
    yield "tests/Counting-v3"
    del gymnasium.registry["tests/Counting-v3"]


def test_python_envs_go_to_worker_processes(made: Any) -> None:
    envs = made("CartPole-v1", num_envs=3, vector_kwargs=QUICK)
    assert (
        isinstance(envs, AsyncVectorEnv) and repr(envs) == "AsyncVectorEnv(CartPole-v1, num_envs=3)"
    )
    theirs = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    assert np.array_equal(envs.reset(seed=1)[0], theirs.reset(seed=1)[0])
    assert np.array_equal(envs.step([0, 1, 0])[0], theirs.step([0, 1, 0])[0])


@pytest.mark.parametrize("kind", [AsyncVectorEnv, NativeVectorEnv, SyncVectorEnv])
def test_a_vector_env_of_gymnasium_is_a_direct_base(kind: type) -> None:
    """`wrap_env` of skrl looks at direct bases alone."""
    assert gymnasium.vector.VectorEnv in kind.__bases__


@pytest.mark.parametrize("mode", ["sync", VectorizeMode.SYNC, "async", VectorizeMode.ASYNC])
def test_the_mode_can_be_chosen(made: Any, mode: Any) -> None:
    wanted = VectorizeMode(mode)
    sync = wanted is VectorizeMode.SYNC
    envs = made(
        "CartPole-v1", num_envs=2, vectorization_mode=mode, vector_kwargs={} if sync else QUICK
    )
    assert type(envs) is (SyncVectorEnv if sync else AsyncVectorEnv)
    assert envs.spec.kwargs["vectorization_mode"] == wanted.value


def test_an_envs_own_vector_env(made: Any) -> None:
    envs = made("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    assert type(envs) is type(
        gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point")
    )
    assert envs.reset(seed=0)[0].shape == (2, 4)


class OwnVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A user's vector env: `mode` goes into its metadata."""

    def __init__(self, num_envs: int, mode: Any) -> None:
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": mode}


@pytest.fixture
def vector_only() -> Iterator[str]:
    gymnasium.register("tests/VectorOnly-v0", vector_entry_point=OwnVectorEnv)
    yield "tests/VectorOnly-v0"
    del gymnasium.registry["tests/VectorOnly-v0"]


def test_an_env_that_has_only_a_vector_env_needs_no_mode(made: Any, vector_only: str) -> None:
    envs = made(vector_only, num_envs=2, mode=AutoresetMode.SAME_STEP)
    assert isinstance(envs, OwnVectorEnv) and envs.num_envs == 2
    assert (
        envs.spec == gymnasium.make_vec(vector_only, num_envs=2, mode=AutoresetMode.SAME_STEP).spec
    )


@pytest.mark.parametrize("mode", [None, "SameStep"])
def test_a_vector_env_that_hides_its_autoreset_mode(made: Any, vector_only: str, mode: Any) -> None:
    with pytest.warns(
        UserWarning, match=r"OwnVectorEnv\(tests/VectorOnly-v0, num_envs=1\).*AutoresetMode"
    ):
        made(vector_only, mode=mode)


@pytest.mark.parametrize(
    "id", ["puffervec/CartPole-v1", "puffervec.gym:puffervec/CartPole-v1", "puffervec/CartPole"]
)
def test_c_envs_go_to_the_c_backend(made: Any, id: str) -> None:
    envs = made(id, num_envs=2, backend="serial", max_episode_steps=7)
    assert isinstance(envs, NativeVectorEnv) and envs.core.config.max_episode_steps == 7
    assert envs.spec.id == "puffervec/CartPole-v1"


def test_wrappers_and_arguments_reach_every_env(made: Any, counting: str) -> None:
    wrappers = [
        lambda env: gymnasium.wrappers.TimeLimit(env, 2),
        gymnasium.wrappers.RecordEpisodeStatistics,
    ]
    envs = made(counting, 2, wrappers=wrappers, vectorization_mode="sync", length=50)
    assert envs.get_attr("length") == (50, 50) and envs.get_attr("_max_episode_steps") == (2, 2)
    assert isinstance(envs.envs[0], gymnasium.wrappers.RecordEpisodeStatistics)
    envs.reset()
    envs.step([1, 1])
    *_, truncations, infos = envs.step([1, 1])
    assert truncations.all() and infos["episode"]["r"].tolist() == [2.0, 2.0]


def test_the_spec_makes_the_same_again(made: Any, counting: str) -> None:
    wrappers = (gymnasium.wrappers.TimeAwareObservation,)
    envs = made(counting, 3, "sync", {"copy": False}, wrappers, length=4)
    spec = envs.spec
    assert spec.id == counting and spec.kwargs == {
        "length": 4, "num_envs": 3, "vectorization_mode": "sync", "vector_kwargs": {"copy": False},
        "wrappers": wrappers
    }  # fmt: skip
    again = made(spec)
    assert (again.num_envs, again.copy, again.observation_space) == (
        3,
        False,
        envs.observation_space,
    )
    assert again.get_attr("length") == (4, 4, 4) and spec == again.spec
    theirs = gymnasium.make_vec(counting, 3, "sync", {"copy": False}, wrappers, length=4)
    assert theirs.spec == spec


def test_an_id_without_version_is_the_newest(made: Any, counting: str) -> None:
    gymnasium.register("tests/Counting-v1", entry_point=Count)
    try:
        assert made("tests/Counting", vectorization_mode="sync").spec.id == counting
    finally:
        del gymnasium.registry["tests/Counting-v1"]


def test_what_a_mode_cannot_use_is_refused(counting: str) -> None:
    error = gymnasium.error.Error
    for kwargs in ({"vector_kwargs": {"copy": False}}, {"wrappers": [lambda env: env]}):
        with pytest.raises(error, match="vector_entry_point"):
            make_vec("puffervec/CartPole-v1", 2, **kwargs)
    with pytest.raises(error, match="no vector entry point"):
        make_vec(counting, 2, vectorization_mode="vector_entry_point")
    with pytest.raises(
        ValueError, match="Invalid vectorization mode: 'puffer', valid modes: .*async"
    ):
        make_vec(counting, 2, vectorization_mode="puffer")
    with pytest.raises(error, match="Nowhere"):
        make_vec("Nowhere-v0")
    with pytest.raises(ConfigError, match="id is 3"):
        make_vec(3)  # type: ignore[arg-type]
    spec = EnvSpec(
        "tests/VectorOnly-v0",
        entry_point=None,
        vector_entry_point="puffervec.gym.native:NativeVectorEnv",
    )
    with pytest.raises(error, match="no entry point for one env"):
        make_vec(spec, 2, vectorization_mode="sync")

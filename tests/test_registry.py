# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Env ids that the script has registered are known in its workers
(puffervec/workers/python/registry.py).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import WrapperSpec, namespace

import puffervec
import puffervec.compat.pufferlib as pufferlib
import puffervec.gym
from puffervec.errors import ConfigError, WorkerError
from tests.helpers import slow_but
from tests.python_envs import Counting

pytestmark = pytest.mark.usefixtures("no_leaks")

HERE = "tests.python_envs:Counting"


class Label(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds to the label of its env."""

    def __init__(self, env: Any, more: Any) -> None:
        super().__init__(env)
        env.unwrapped.label += more() if callable(more) else more


@pytest.fixture(autouse=True)
def ids() -> Iterator[None]:
    """Register ids in this process only."""
    before = dict(gymnasium.registry)
    lock, prefix = threading.Lock(), "by "
    label = f"{__name__}:Label"
    with namespace("here"):
        gymnasium.register(
            "Text-v0", entry_point=HERE, kwargs={"label": "text"}, max_episode_steps=9
        )
        gymnasium.register("Class-v0", entry_point=Counting, kwargs={"label": "class"})
        gymnasium.register(
            "Function-v0", entry_point=lambda **given: Counting(label=prefix + "function", **given)
        )
        gymnasium.register("Locked-v0", entry_point=lambda **given: (lock, Counting(**given))[1])
        wrappers = (
            WrapperSpec("one", label, {"more": "+1"}),
            WrapperSpec("two", label, {"more": lambda: prefix}),
        )
        gymnasium.register("Wrapped-v0", entry_point=HERE, additional_wrappers=wrappers)
    gymnasium.registry["CartPole-v1"] = gymnasium.envs.registration.EnvSpec(
        "CartPole-v1", entry_point=HERE
    )
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


FINDS: dict[str, Callable[[str], Any]] = {
    "by id": lambda env_id: puffervec.make(env_id, num_envs=2, num_workers=1),
    "a factory": lambda env_id: puffervec.make(
        [lambda: gymnasium.make(env_id)] * 2, num_envs=2, num_workers=1
    ),
    "make_vec": lambda env_id: puffervec.make_vec(env_id, 2, vector_kwargs={"num_workers": 1}),
    "AsyncVectorEnv": lambda env_id: puffervec.gym.AsyncVectorEnv(
        [functools.partial(gymnasium.make, env_id)] * 2
    ),
    "PufferLib": lambda env_id: pufferlib.vector.make(
        env_id, backend="Multiprocessing", num_envs=2, num_workers=1
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", slow_but(["by id", "AsyncVectorEnv", "PufferLib"], FINDS))
def test_every_entry_finds_ids_of_this_process(way: str) -> None:
    vec = FINDS[way]("here/Text-v0")
    assert vec.get_attr("label") == ("text", "text")
    vec.close()


@pytest.mark.slow
def test_entry_points_of_all_kinds() -> None:
    labels = {"Text": "text", "Class": "class", "Function": "by function", "Wrapped": "+1by "}
    creators = [lambda name=name: gymnasium.make(f"here/{name}-v0") for name in labels]
    with puffervec.make(creators, num_envs=len(labels), num_workers=1) as vec:
        assert vec.get_attr("label") == tuple(labels.values())


@pytest.mark.slow
def test_the_script_has_the_last_word_on_ids_that_gymnasium_has_too() -> None:
    with FINDS["a factory"]("CartPole-v1") as vec:
        assert vec.single_observation_space == Counting.observation_space


@pytest.mark.slow
def test_what_cannot_be_sent_is_said_when_it_is_asked_for() -> None:
    words = r"cannot pickle '_thread.lock' object"
    with pytest.raises(
        ConfigError, match=f"'here/Locked-v0' cannot be sent to worker processes .*{words}"
    ):
        FINDS["by id"]("here/Locked-v0")
    with pytest.raises(
        WorkerError,
        match=f"ConfigError: the env 'here/Locked-v0' cannot be made in a worker.*{words}",
    ):
        FINDS["a factory"]("here/Locked-v0")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*render_mode='rgb_array' that is not in the possible")
def test_stable_baselines3() -> None:
    pytest.importorskip("stable_baselines3", reason="needs stable-baselines3")
    import puffervec.sb3

    envs = puffervec.sb3.make_vec_env("here/Class-v0", 2, vec_env_kwargs={"num_workers": 1})
    assert envs.get_attr("label") == ["class", "class"]
    envs.close()

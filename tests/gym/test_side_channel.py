# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Observations and actions without a fixed size (puffervec/gym/side_channel.py)."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from puffervec.gym.side_channel import KEY, SideChannelNeeds, SideChannelWrapper
from tests.gym.envs import Spaced
from tests.gym.kinds import ASYNC, DISABLED, MODES, SAME, Kind, kind_fixture, param

kind = kind_fixture()


class Words(gymnasium.Space[str]):
    """A space of a user's own kind."""

    def __init__(self) -> None:
        super().__init__(shape=(), dtype=str)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "word"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Words)


class Echo(gymnasium.Env[Any, Any]):
    """Observes its last action as text, a growing list, and a number; three steps per episode."""

    observation_space = spaces.Dict(
        text=spaces.Text(20),
        grows=spaces.Sequence(spaces.Discrete(9)),
        n=spaces.Box(0, 9, (2,), np.float32),
    )
    action_space = Words()

    def observe(self, text: str) -> Any:
        return {
            "text": text,
            "grows": tuple(range(self.steps)),
            "n": np.full(2, self.steps, np.float32),
        }

    def look(self, name: str) -> Any:
        """Return an attribute of the env itself."""
        return getattr(self, name)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe("reset"), {"fresh": 1, "why": "reset"}

    def step(self, action: Any) -> Any:
        assert action in self.action_space
        self.steps += 1
        return self.observe(action), 1.0, self.steps == 3, False, {"at": self.steps}


def settings(kind: Kind) -> dict[str, Any]:
    """Gymnasium's processes and ours pickle such observations on request only."""
    return {"shared_memory": False} if kind.asynchronous else {}


@pytest.mark.parametrize("mode", MODES)
def test_they_arrive_as_gymnasium_batches_them(kind: Kind, mode: Any) -> None:
    envs = kind([Echo] * 2, autoreset_mode=mode, **settings(kind))
    assert envs.observation_space == batch_space(Echo.observation_space, 2)
    assert envs.single_action_space == Words() and isinstance(envs.action_space, spaces.Tuple)
    observations, infos = envs.reset(seed=0)
    assert observations["text"] == ("reset", "reset")
    assert (infos["fresh"].tolist(), infos["why"].tolist()) == ([1, 1], ["reset", "reset"])
    for step in range(1, 4):
        observations, rewards, terminations, _, infos = envs.step((f"a{step}", f"b{step}"))
        assert (rewards.tolist(), terminations.tolist()) == ([1, 1], [step == 3] * 2)
        if step < 3 or mode is not SAME:
            assert observations["text"] == (f"a{step}", f"b{step}") and infos["at"].tolist() == [
                step,
                step,
            ]
            assert observations["n"].tolist() == [[step, step]] * 2 and observations["grows"][
                1
            ] == tuple(range(step))
            assert set(infos) == {"at", "_at"}
    if mode is SAME:
        assert observations["text"] == ("reset", "reset")
        assert [entry["text"] for entry in infos["final_obs"]] == ["a3", "b3"]
        assert infos["final_info"]["at"].tolist() == [3, 3] and set(infos["final_info"]) == {
            "at",
            "_at",
        }
    elif mode is DISABLED:
        observations, infos = envs.reset(options={"reset_mask": np.array([False, True])})
        assert observations["text"] == ("a3", "reset")
        assert infos["_fresh"].tolist() == [False, True]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Box(0, 1, (2,))),
        spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3)),
        spaces.OneOf([spaces.Discrete(3), spaces.Box(0, 1, (2,))]),
        spaces.Tuple([spaces.Text(3), spaces.Discrete(2)]),
    ],
    ids=str,
)
def test_any_space_as_observation_and_action(kind: Kind, space: Any) -> None:
    envs = kind([functools.partial(Spaced, space, space)] * 2, **settings(kind))
    observations, _ = envs.reset(seed=0)
    for _ in range(2):
        assert observations in envs.observation_space
        observations, *_ = envs.step(
            envs.action_space.sample()
        )  # the env asserts that its action is in the space
    assert len(list(iterate(envs.observation_space, observations))) == 2
    assert [len(actions) for actions in envs.get_attr("actions")] == [2, 2]
    assert envs.get_attr("observation_space") == (space, space)


@pytest.mark.parametrize("name", [param(name) for name in ASYNC])
def test_shared_memory_holds_none_of_them(name: str) -> None:
    made = Kind(name)
    with pytest.raises(ValueError, match="shared_memory=False"):
        made([functools.partial(Spaced, Words(), spaces.Discrete(2))])


GRAPH = spaces.Graph(spaces.Box(0, 1, (2,)), None)


@pytest.mark.parametrize("name", [param(name) for name in ASYNC])
@pytest.mark.parametrize(
    "space",
    [
        GRAPH,
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Dict(a=spaces.Tuple([GRAPH])),
        spaces.OneOf([GRAPH]),
    ],
    ids=str,
)
def test_shared_memory_holds_no_dynamic_shapes(name: str, space: Any) -> None:
    made = Kind(name)
    with pytest.raises(
        TypeError, match="has a dynamic shape so its not possible to make a static shared memory"
    ):
        made([functools.partial(Spaced, space, spaces.Discrete(2))])


@pytest.mark.parametrize("name", [param(name) for name in ASYNC])
@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(4),
        spaces.OneOf([spaces.Discrete(3), spaces.Box(0, 1, (2,))]),
        spaces.Dict(
            word=spaces.Text(4),
            either=spaces.Tuple([spaces.OneOf([spaces.Text(3), spaces.MultiBinary(2)])]),
        ),
    ],
    ids=str,
)
def test_text_and_choices_of_spaces_need_no_setting(name: str, space: Any) -> None:
    made = Kind(name)
    envs = made([functools.partial(Spaced, space, space)] * 2)
    observations, _ = envs.reset(seed=0)
    for _ in range(2):
        assert observations in envs.observation_space
        observations, *_ = envs.step(envs.action_space.sample())
    made.close()


def test_attributes_are_set_on_the_env(kind: Kind) -> None:
    """As if the wrapper that carries its observations were not there."""
    envs = kind([Echo] * 2, **settings(kind))
    envs.set_attr("never_seen_before", [1, 2])
    assert envs.call("look", "never_seen_before") == (1, 2)


def test_too_few_actions_are_refused() -> None:
    made = Kind("sync")
    envs = made([Echo] * 2)
    envs.reset()
    with pytest.raises(ValueError, match="actions: 1 for 2 envs"):
        envs.step(("one",))
    assert envs.step(("one", "two"))[0]["text"] == ("one", "two")
    made.close()


def test_what_the_env_reuses_is_copied() -> None:
    class Reusing(Echo):
        kept = np.zeros(2, np.float32)

        def observe(self, text: str) -> Any:
            self.kept[:] = self.steps
            return {"text": text, "grows": (), "n": self.kept}

    env = SideChannelWrapper(Reusing(), SideChannelNeeds(observations=True, actions=False))
    _, first = env.reset()
    env.step("a")
    assert first[KEY][0]["n"].tolist() == [0, 0]

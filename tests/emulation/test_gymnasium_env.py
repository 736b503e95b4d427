# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Gymnasium envs in PufferLib's wrapper (puffervec/compat/pufferlib/emulation.py) against envs
stepped by hand.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from puffervec.compat.pufferlib.emulation import GymnasiumPufferEnv, nativize
from puffervec.errors import APIUsageError, ConfigError
from puffervec.workers.python.puffer_env import NAMES
from tests.mock_envs import SINGLE, MockEnv, make_single, same_bits, sample


def mock(name: str = "mixed", action: str = "dict", **kwargs: Any) -> GymnasiumPufferEnv:
    return GymnasiumPufferEnv(env_creator=make_single, env_args=(name, action), **kwargs)


def flat(env: GymnasiumPufferEnv, action: Any) -> np.ndarray:
    """Return a native action as the row that the wrapper takes."""
    row = np.zeros(env.action_plan.row_shape, env.action_plan.row_dtype)
    env.action_plan.encode(action, row)
    return row


@pytest.mark.parametrize("name", SINGLE)
def test_the_trajectory_is_the_one_stepped_by_hand(name: str) -> None:
    """Three episodes bit by bit: native observations, rewards, flags, infos."""
    wrapped, by_hand = GymnasiumPufferEnv(env=SINGLE[name]()), SINGLE[name]()
    rng = np.random.default_rng(7)
    for seed in (11, None, None):
        rows, info = wrapped.reset(seed=seed)
        observation, expected_info = by_hand.reset(seed=seed)
        assert same_bits(
            nativize(rows[0, ...], by_hand.observation_space, wrapped.obs_dtype), observation
        )
        assert info == expected_info and wrapped.masks.all() and not wrapped.terminals.any()
        while not wrapped.done:
            action = sample(by_hand.action_space, rng)
            rows, *rest = wrapped.step(flat(wrapped, action)[None])
            observation, *expected = by_hand.step(action)
            assert same_bits(wrapped.observation_plan.nativize(rows[0, ...]), observation)
            assert rest == expected
            written = (
                wrapped.rewards[0],
                wrapped.terminals[0],
                wrapped.truncations[0],
                wrapped.masks[0],
            )
            assert written == (*expected[:3], True)


def test_attributes() -> None:
    wrapped = mock(env_kwargs={"render_mode": "rgb_array"})
    assert isinstance(wrapped, gymnasium.Env) and isinstance(wrapped.env, MockEnv)
    assert (
        wrapped.num_agents == 1
        and wrapped.agent_ids.tolist() == [0]
        and wrapped.driver_env is wrapped
    )
    assert wrapped.is_obs_emulated and wrapped.is_atn_emulated
    assert wrapped.single_observation_space is wrapped.observation_space
    assert (
        wrapped.single_action_space is wrapped.action_space == spaces.MultiDiscrete([5, 3, 3, 2, 2])
    )
    assert wrapped.emulated == {
        "observation_dtype": np.uint8,
        "emulated_observation_dtype": wrapped.obs_dtype,
    }
    assert wrapped.render_mode == "rgb_array" and wrapped.metadata is wrapped.env.metadata
    wrapped.reset(seed=0)
    assert wrapped.render().shape == (4, 4, 3)
    plain = mock("box", "choice")
    assert not plain.is_obs_emulated and not plain.is_atn_emulated and plain.atn_dtype == np.int64


def test_rows_are_adopted_and_written_in_place() -> None:
    donor = mock()
    given = {name: np.concatenate([getattr(donor, name)] * 3)[1:2] for name in NAMES}
    given["masks"][...], given["terminals"][...] = False, True
    wrapped = mock(buf=given)
    rows, _ = wrapped.reset(seed=3)
    assert given["masks"].all() and not given["terminals"].any()
    assert rows is given["observations"] and rows.any()
    before = rows.copy()
    wrapped.step(np.zeros(5, int))
    assert wrapped.rewards is given["rewards"] and not np.array_equal(before, rows)


def test_the_order_of_calls() -> None:
    wrapped = mock("box", "one")
    assert wrapped.done
    with pytest.raises(APIUsageError, match=r"step\(\) was called before reset\(\)"):
        wrapped.step(0)
    wrapped.reset(seed=1)
    for _ in range(9):
        wrapped.step(0)
        if wrapped.done:
            break
    with pytest.raises(APIUsageError, match=r"step\(\) was called after the episode ended"):
        wrapped.step(0)


def test_the_seed_of_the_constructor_serves_the_first_reset() -> None:
    first = mock(seed=5).reset()[0].copy()
    assert np.array_equal(first, mock().reset(seed=5)[0]) and not np.array_equal(
        first, mock(seed=6).reset()[0]
    )
    wrapped = mock(seed=5)
    wrapped.reset()
    wrapped.reset()
    assert wrapped.env.history.episode == 1


@pytest.mark.parametrize(
    "action", [2, np.int32(2), np.array(2), np.array([2]), np.array([[2]], np.uint8), [2]]
)
def test_a_choice_may_come_as_a_number_or_a_batch_of_one(action: Any) -> None:
    wrapped, by_hand = mock("box", "choice"), make_single("box", "choice")
    wrapped.reset(seed=1), by_hand.reset(seed=1)
    assert wrapped.step(action)[1] == by_hand.step(np.int64(2))[1]


@pytest.mark.parametrize(
    ("space", "action", "message"),
    [
        ("choice", 1.0, "actions have dtype float64"),
        ("choice", 3, "action np.int64.3. is not in Discrete"),
        ("choice", [0, 1], r"an action of shape \(2,\) does not fit Discrete"),
        ("continuous", np.zeros(2), r"an action of shape \(2,\) does not fit Box"),
        ("continuous", np.full(3, 7.0), "is not in Box"),
        ("dict", [0, 0, 0, 0, 2], "is not in Dict"),
    ],
)
def test_a_wrong_first_action_is_named(space: str, action: Any, message: str) -> None:
    wrapped = mock("box", space)
    wrapped.reset(seed=1)
    with pytest.raises(APIUsageError, match=message):
        wrapped.step(action)


class Bare(gymnasium.Env[Any, Any]):
    """A user's first env: its reset takes nothing."""

    observation_space = spaces.Dict(foo=spaces.Box(-1, 1, (2,)), bar=spaces.Box(2, 3, (3,)))
    action_space = spaces.MultiDiscrete([2, 5])

    def reset(self) -> Any:  # type: ignore[override]
        self.last = self.observation_space.sample()
        return self.last, {}

    def step(self, action: Any) -> Any:
        self.action, self.last = action, self.observation_space.sample()
        return self.last, 0.0, False, False, {}


def test_an_env_whose_reset_takes_nothing_goes_flat_and_back() -> None:
    env = GymnasiumPufferEnv(Bare())
    rows, _ = env.reset()
    assert rows.shape == (1, 5) and rows.dtype == np.float32
    rows, *_ = env.step(env.action_space.sample())
    assert env.env.action in env.env.action_space
    back = rows.view(env.obs_dtype)
    assert (back["foo"][0, 0] == env.env.last["foo"]).all() and (
        back["bar"][0, 0] == env.env.last["bar"]
    ).all()
    assert np.shares_memory(env.obs_struct, rows) and env.obs_struct.shape == (1, 1)
    assert (env.obs_struct["bar"] == back["bar"]).all()
    with pytest.raises(ConfigError, match="the reset of Bare takes none"):
        env.reset(options={"x": 1})


def test_obs_struct_of_one_leaf_is_an_array() -> None:
    class Box(Bare):
        observation_space = spaces.Box(0, 1, (3,))

    class Choices(Bare):
        observation_space = spaces.MultiDiscrete([3, 4])

    box, choices = GymnasiumPufferEnv(Box()), GymnasiumPufferEnv(Choices())
    assert box.obs_struct is box.observations
    choices.reset()
    assert choices.obs_struct.tolist() == [choices.env.last.tolist()]


def test_seed_is_for_the_next_reset() -> None:
    env, twin = mock(), mock()
    env.seed(5)
    for seed, kept in ((None, 5), (None, None)):
        rows, _ = env.reset(seed=seed)
        assert same_bits(rows, twin.reset(seed=kept)[0])

    class OldGym(Bare):
        def seed(self, seed: int | None) -> None:
            self.seeds = [*getattr(self, "seeds", []), seed]

    old = GymnasiumPufferEnv(OldGym())
    old.seed(7)
    assert old.env.seeds == [7]
    old.reset()
    old.reset()
    old.reset(seed=9)
    assert old.env.seeds == [7, 7, 9]

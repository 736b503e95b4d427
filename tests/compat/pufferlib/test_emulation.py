# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/emulation.py: each of PufferLib's names does its work."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.compat.pufferlib import emulation
from puffervec.compat.pufferlib.exceptions import APIUsageError
from tests.compat.pufferlib.envs import Counter, NestedCounter, TwoAgents

SPACE = NestedCounter.observation_space


def test_gymnasiumpufferenv_writes_one_flat_row() -> None:
    env = emulation.GymnasiumPufferEnv(env_creator=NestedCounter, env_kwargs={"length": 2})
    observations, _ = env.reset(seed=0)
    assert observations.shape == (1, *env.single_observation_space.shape)
    env.step(np.array([[2, 1]]))
    native = emulation.nativize(observations[0], SPACE, emulation.dtype_from_space(SPACE))
    np.testing.assert_array_equal(native["image"], [1, 1, 1])
    assert (env.rewards[0], env.terminals[0], env.num_agents) == (3.0, False, 1)
    assert env.emulated
    env.close()


def test_pettingzoopufferenv_has_a_row_per_possible_agent() -> None:
    env = emulation.PettingZooPufferEnv(env=TwoAgents())
    env.reset(seed=0)
    assert (env.num_agents, env.observations.shape) == (2, (2, 1))
    for _ in range(2):
        env.step({agent: 0 for agent in env.agents})
    np.testing.assert_array_equal(env.rewards, [2, 20])
    np.testing.assert_array_equal(env.terminals, [False, True])
    env.step({"a": 0})
    np.testing.assert_array_equal(env.masks, [True, False])
    np.testing.assert_array_equal(env.observations, [[3], [0]])


def test_dtype_from_space_is_aligned_and_named_by_key() -> None:
    dtype = emulation.dtype_from_space(SPACE)
    assert dtype.names == ("image", "inner")
    assert dtype["inner"].names == ("f0", "f1")
    assert dtype.isalignedstruct


def test_nativize_gives_back_what_was_written() -> None:
    dtype = emulation.dtype_from_space(SPACE)
    row = np.zeros(1, dtype)
    row["image"], row["inner"]["f0"] = 7, 42
    native = emulation.nativize(row.view(np.uint8), SPACE, dtype)
    np.testing.assert_array_equal(native["image"], [7, 7, 7])
    assert native["inner"][0] == 42
    assert isinstance(native["inner"], tuple)


def test_emulate_observation_space_flattens_to_a_box() -> None:
    flat, dtype = emulation.emulate_observation_space(SPACE)
    assert flat == spaces.Box(0, 255, (dtype.itemsize,), np.uint8)
    box = Counter().observation_space
    assert emulation.emulate_observation_space(box)[0] is box


def test_emulate_action_space_flattens_to_choices() -> None:
    flat, _ = emulation.emulate_action_space(
        spaces.Dict(a=spaces.Discrete(3), b=spaces.Discrete(2))
    )
    assert flat == spaces.MultiDiscrete([3, 2])
    assert emulation.emulate_action_space(spaces.Discrete(3))[0] == spaces.Discrete(3)


def test_flatten_space_lists_the_leaves() -> None:
    leaves = emulation.flatten_space(SPACE)
    assert [type(leaf).__name__ for leaf in leaves] == ["Box", "Discrete", "Box"]


def test_get_dtype_bounds_of_integers_and_flags() -> None:
    assert emulation.get_dtype_bounds(np.dtype(np.uint8)) == (0, 255)
    assert tuple(emulation.get_dtype_bounds(np.dtype(bool))) == (0, 1)


def test_emulate_writes_a_nested_value_into_an_array_of_one() -> None:
    struct = np.zeros(1, emulation.dtype_from_space(SPACE))
    emulation.emulate(
        struct,
        {"image": np.array([1, 2, 3], np.uint8), "inner": (5, np.array([0.5, 2], np.float32))},
    )
    np.testing.assert_array_equal(struct["image"][0], [1, 2, 3])
    assert struct["inner"]["f0"] == 5


def test_check_space_is_true_or_an_error() -> None:
    assert emulation.check_space(2, spaces.Discrete(3)) is True
    with pytest.raises(APIUsageError, match=r"5 is not in Discrete\(3\)"):
        emulation.check_space(5, spaces.Discrete(3))


def test_make_object_takes_an_instance_or_a_creator() -> None:
    env = Counter(2)
    assert emulation.make_object(object_instance=env) is env
    made = emulation.make_object(object_creator=Counter, creator_args=[4])
    assert (type(made), made.length) == (Counter, 4)
    with pytest.raises(ValueError, match="exactly one"):
        emulation.make_object(env, Counter)
    with pytest.raises(ValueError, match="exactly one"):
        emulation.make_object()
    with pytest.raises(TypeError, match="must be an instance"):
        emulation.make_object(Counter)
    with pytest.raises(TypeError, match="env_creator is 3"):
        emulation.make_object(object_creator=3)  # type: ignore[arg-type]


def test_make_buffer_shows_structured_rows_flat() -> None:
    dtype = emulation.dtype_from_space(SPACE)
    rows = np.zeros(2, dtype)
    flat = emulation.make_buffer(np.uint8, dtype, rows, n=2)
    rows["image"][1] = 7
    assert (
        flat.shape == (2, dtype.itemsize)
        and (flat[1] == 7).sum() == rows["image"][1].size
        and not flat[0].any()
    )
    assert emulation.make_buffer(np.uint8, dtype, rows[:1]).shape == (dtype.itemsize,)
    with pytest.raises(APIUsageError, match="struct has 2 rows"):
        emulation.make_buffer(np.uint8, dtype, rows)


def test_pad_agent_data_has_an_entry_for_each_agent() -> None:
    assert emulation.pad_agent_data({"b": 1, "x": 2}, ["a", "b"], True) == {"a": True, "b": 1}

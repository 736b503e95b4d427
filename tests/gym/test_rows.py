# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rules of Gymnasium's vector API: batches of actions (puffervec/gym/rows.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate

from puffervec.errors import ActionError
from puffervec.gym.rows import ActionWriter
from puffervec.workers.python.emulation import ActionPlan
from tests.gym.envs import Spaced, counts
from tests.gym.kinds import OURS, Kind, kind_fixture
from tests.gym.test_base import same

kind = kind_fixture()
ours = kind_fixture(OURS, "ours")
OBSERVATION = spaces.Box(0, 1, (2,), np.float32)
SPACES = [
    spaces.Discrete(4),
    spaces.Discrete(3, start=5),
    spaces.MultiDiscrete([2, 7]),
    spaces.MultiDiscrete([[2, 7], [3, 3]], start=[[1, 0], [0, -1]]),
    spaces.MultiBinary(3),
    spaces.Box(-1, 1, (2,), np.float32),
    spaces.Box(-1, 1, (2, 3), np.float64),
    spaces.Box(0, 255, (2,), np.uint8),
    spaces.Dict(
        a=spaces.Discrete(3), b=spaces.Tuple([spaces.MultiBinary(2), spaces.Discrete(2, start=4)])
    ),
    spaces.Tuple([spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_each_env_gets_its_own_action(kind: Kind, space: Any) -> None:
    """The env asserts that what it gets is in its space; the batch comes from the batched space."""
    envs = kind([lambda: Spaced(OBSERVATION, space, length=50)] * 3)
    envs.reset(seed=0)
    envs.action_space.seed(1)
    sent = [envs.action_space.sample() for _ in range(3)]
    for actions in sent:
        assert actions in envs.action_space
        envs.step(actions)
    for i, got in enumerate(envs.get_attr("actions")):
        expected = [list(iterate(envs.action_space, actions))[i] for actions in sent]
        assert len(got) == 3 and all(map(same, got, expected))


def test_lists_tuples_and_other_widths(kind: Kind) -> None:
    envs = kind(counts((50, 50, 50)))
    envs.reset()
    for actions in (
        [1, 2, 3],
        (1, 2, 3),
        np.array([1, 2, 3], np.int32),
        np.array([1, 2, 3], np.uint8),
    ):
        assert envs.step(actions)[1].tolist() == [1, 2, 3]


class Keeping(Spaced):
    """Keeps whatever actions it gets."""

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        return self.observation_space.sample(), 1.0, False, False, {}


def exactly(a: Any, b: Any) -> bool:
    """Equality of types, dtypes and values."""
    if isinstance(a, dict):
        return (
            isinstance(b, dict)
            and a.keys() == b.keys()
            and all(exactly(a[key], b[key]) for key in a)
        )
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(exactly, a, b))
    return (
        type(a) is type(b)
        and getattr(a, "dtype", None) == getattr(b, "dtype", None)
        and np.array_equal(a, b)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (spaces.Box(-1, 1, (2,), np.float32), np.array([[0.1, -1 / 3], [1e300, np.inf]])),
        (spaces.Box(-1, 1, (2,), np.float32), np.array([[1, 2], [3, 4]])),
        (spaces.Box(-1, 1, (2,), np.float64), np.array([[0.1, 2], [3, 4]], np.float32)),
        (spaces.Box(-1, 1, (), np.float32), np.array([0.1, 0.2], np.float32)),
        (spaces.Box(-1, 1, (), np.float32), np.array([0.1, 0.2])),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([[300, -1], [1, 2]])),
        (spaces.Discrete(3), np.array([2, 77])),
        (spaces.Discrete(3), np.array([2, 1], np.int32)),
        (spaces.Discrete(3), np.array([True, False])),
        (spaces.Discrete(3), np.array([0.5, 1.0])),
        (spaces.MultiDiscrete([3, 4]), np.array([[2, 1], [9, -9]], np.int16)),
        (spaces.MultiDiscrete([[2, 7], [3, 3]]), np.array([[[0, 1], [2, 2]]] * 2)),
        (spaces.MultiBinary(3), np.array([[True, False, True]] * 2)),
        (
            spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Discrete(2)),
            {"a": np.array([[0.1, 0.2]] * 2), "b": np.array([0, 7])},
        ),
    ],
    ids=lambda value: (
        str(value) if isinstance(value, spaces.Space) else getattr(value, "dtype", "dict")
    ),
)
def test_they_arrive_as_gymnasium_hands_them_over(kind: Kind, space: Any, actions: Any) -> None:
    envs = kind([lambda: Keeping(OBSERVATION, space)] * 2)
    envs.reset(seed=0)
    for _ in range(2):
        envs.step(actions)
    expected = list(iterate(envs.action_space, actions))
    for got, wanted in zip(envs.get_attr("actions"), expected, strict=True):
        assert len(got) == 2 and exactly(got[0], wanted) and exactly(got[1], wanted), (got, wanted)


def test_native_actions_are_those_of_their_turn_only(ours: Kind) -> None:
    """Rows after native actions, a call and a reset in between: nothing of a turn before is taken
    again.
    """
    envs = ours([lambda: Keeping(OBSERVATION, spaces.Box(-1, 1, (1,), np.float32))] * 3)
    envs.reset(seed=0)
    envs.step(np.array([[0.1], [0.2], [0.3]]))
    assert envs.call("render_mode") == (None,) * 3
    envs.step(np.array([[1], [2], [3]], np.float32))
    envs.step(np.array([[0.4], [0.5], [0.6]]))
    envs.reset(seed=1, options={"a": 1})
    envs.step(np.array([[4], [5], [6]], np.float32))
    first, second, third = envs.get_attr("actions")
    assert [float(x[0]) for x in first] == [0.1, 1, 0.4, 4]
    assert [float(x[0]) for x in second] == [0.2, 2, 0.5, 5]
    assert [float(x[0]) for x in third] == [0.3, 3, 0.6, 6]


def test_an_env_may_keep_its_action(ours: Kind) -> None:
    for actions in (np.zeros((2, 3), np.float32), np.zeros((2, 3))):
        envs = ours([lambda: Keeping(OBSERVATION, spaces.Box(-1, 1, (3,), np.float32))] * 2)
        envs.reset(seed=0)
        for step in range(3):
            actions[:] = step
            envs.step(actions)
        assert [got[0] for got in envs.get_attr("actions")[1]] == [0, 1, 2]


def test_a_list_of_single_actions(kind: Kind) -> None:
    envs = kind([lambda: Spaced(OBSERVATION, spaces.Box(-1, 1, (2,), np.float32))] * 2)
    envs.reset()
    envs.step([np.array([0.5, 1.0], np.float32), np.array([0.25, 0.0], np.float32)])
    assert [got[0].tolist() for got in envs.get_attr("actions")] == [[0.5, 1.0], [0.25, 0.0]]


def test_a_generator_and_a_view_of_a_dict_are_batches(kind: Kind) -> None:
    envs = kind([lambda: Spaced(OBSERVATION, spaces.Discrete(4))] * 3)
    envs.reset()
    envs.step(action for action in [1, 2, 3])
    envs.step(dict.fromkeys([3, 0, 2]).keys())
    assert [list(map(int, got)) for got in envs.get_attr("actions")] == [[1, 3], [2, 0], [3, 2]]
    with pytest.raises(ValueError):
        envs.step(action for action in [1, 2])


@pytest.mark.parametrize("count", [2, 4])
def test_too_few_or_too_many_are_refused(kind: Kind, count: int) -> None:
    envs = kind(counts())
    envs.reset()
    for actions in ([0] * count, np.zeros(count, int)):
        with pytest.raises(ValueError):
            envs.step(actions)


def test_a_single_number_is_refused(kind: Kind) -> None:
    envs = kind(counts())
    envs.reset()
    for actions in (1, np.int64(1), np.array(1)):
        with pytest.raises(TypeError):
            envs.step(actions)


def test_refused_actions_change_nothing(ours: Kind) -> None:
    envs = ours(counts())
    envs.reset()
    for actions in ([0, 0], 1, ["a", "b", "c"], np.zeros((3, 2)), [0, None, 2], {"a": 1}):
        with pytest.raises((ValueError, TypeError)):
            envs.step(actions)
    assert envs.step([1, 2, 3])[0][:, 0].tolist() == [1, 1, 1]


def test_flat_batches_of_a_one_dimensional_box_are_reshaped() -> None:
    writer = writer_of(spaces.Box(-1, 1, (1,)), 3)
    assert writer.rows(np.array([0.1, 0.2, 0.3], np.float32)).shape == (3, 1)
    assert writer.rows([0.1, 0.2, 0.3]).entries.shape == (3, 1)
    with pytest.raises(ValueError, match="actions: 2 for 3 envs"):
        writer.rows([0.1, 0.2])


def writer_of(space: Any, num_envs: int) -> ActionWriter:
    """Return the writer of a vector env of these."""
    return ActionWriter(ActionPlan(space), space, batch_space(space, num_envs), num_envs)


TUPLE = spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)])
DICT = spaces.Dict(a=spaces.Discrete(3), b=TUPLE)
FLOATS = np.zeros((2, 2), np.float32)


def test_parts_may_be_lists_and_tuples() -> None:
    expected = writer_of(TUPLE, 2).rows((np.array([1, 2]), FLOATS + 1)).entries
    assert len(expected) == 2
    found = writer_of(TUPLE, 2).rows([[1, 2], [FLOATS[0] + 1, FLOATS[1] + 1]]).entries
    assert all(
        a == b and np.array_equal(c, d) for (a, c), (b, d) in zip(expected, found, strict=True)
    )


@pytest.mark.parametrize(
    ("space", "actions", "text"),
    [
        (
            TUPLE,
            (np.array([1, 2]), np.zeros((3, 2), np.float32)),
            r"actions\[1\]: 3 for 2 envs: must have one per env",
        ),
        (TUPLE, (np.array([1, 2, 0]), np.zeros((3, 2), np.float32)), r"actions\[0\]: 3 for 2 envs"),
        (TUPLE, [(0, FLOATS[0])], "actions: 1 for the 2 parts of Tuple"),
        (TUPLE, {"a": 1, "b": 2}, "actions: 2 for the 2 parts of Tuple"),
        (TUPLE, 5, "actions: 5 for the 2 parts of Tuple"),
        (DICT, {"a": [1, 2], "b": ([0, 1], FLOATS[:1])}, r"actions\['b'\]\[1\]: 1 for 2 envs"),
        (DICT, {"a": [1, 2]}, r"actions have no 'b': must be a dict of \['a', 'b'\]"),
        (DICT, [{"a": 1}, {"a": 2}], "actions have no 'a'"),
    ],
)
def test_nested_actions_are_counted(space: Any, actions: Any, text: str) -> None:
    with pytest.raises(ActionError, match=text):
        writer_of(space, 2).rows(actions)


@pytest.mark.parametrize("part", [1, np.array(1), None])
def test_a_part_without_entries_is_refused(part: Any) -> None:
    with pytest.raises(TypeError, match=r"Unable to iterate over actions\[0\]"):
        writer_of(TUPLE, 2).rows((part, FLOATS))


def test_wrong_counts_of_parts_change_nothing(ours: Kind) -> None:
    envs = ours([lambda: Spaced(OBSERVATION, TUPLE)] * 2)
    envs.reset()
    with pytest.raises(ValueError, match=r"actions\[1\]: 3 for 2 envs"):
        envs.step((np.array([0, 1]), np.zeros((3, 2), np.float32)))
    envs.step((np.array([0, 1]), FLOATS))
    assert [len(got) for got in envs.get_attr("actions")] == [1, 1]

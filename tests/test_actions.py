# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The border that actions cross (puffervec/core/actions.py, csrc/core/action.c): what is taken,
refused, or becomes the no-op.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import puffervec
from puffervec.core.actions import Native
from puffervec.errors import ActionError
from puffervec.vec.vector_env import VectorEnv
from tests.gym.envs import Spaced
from tests.helpers import serial

INTEGERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")


@pytest.fixture
def vec() -> Iterator[VectorEnv]:
    """Three rows, Discrete(5)."""
    with serial("probe", {"episode_length": 1000}, num_envs=3) as made:
        made.reset(seed=0)
        yield made


@pytest.fixture
def pairs() -> Iterator[VectorEnv]:
    """Two groups: four rows of Discrete(3), two of MultiDiscrete(2, 4)."""
    with serial("probe", {"mode": 1, "num_agents": 2, "episode_length": 1000}, num_envs=2) as made:
        made.reset(seed=0)
        yield made


def taken(vec: VectorEnv) -> list[int]:
    """What the env took: the probe shows each row's last action."""
    return [int(action) for action in vec.halves[0].groups["agents"].observations[:, 4]]


@pytest.mark.parametrize(("choices", "dtype"), [(255, np.uint8), (256, np.int32)])
def test_indices_are_bytes_in_the_rows_where_all_choices_fit(choices: int, dtype: type) -> None:
    """-1 that is written into the rows stays out of range; tests/envs/test_tag_twins.py has every
    choice taken.
    """
    settings = {"num_taggers": 1, "num_runners": 9, "num_turn_levels": choices - 1}
    with serial("tag_continuous", settings) as vec:
        rows = vec.halves[0].groups["agents"]
        assert (rows.actions.dtype, rows.spec.action_dtype, rows.actions.shape) == (
            dtype,
            np.int32,
            (10, 2),
        )
        vec.reset(seed=0)
        rows.actions[:] = np.full((10, 2), -1).astype(dtype)
        vec.step(None)
        assert vec.counters()["invalid_actions"] == 20 and not rows.actions.any()


class Torchlike:
    """Something that is no array but can be read as one, as a tensor is."""

    dtype, shape = "float tensor", "three"

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array([2, 1, 4], dtype)


@pytest.mark.parametrize(
    "given",
    [
        *(np.array([2, 1, 4], dtype) for dtype in INTEGERS),
        [2, 1, 4],
        (2, 1, 4),
        [np.int64(2), 1, np.uint8(4)],
        np.array([[2], [1], [4]]),  # (rows, D)
        np.array([2, 9, 1, 9, 4, 9])[::2],  # not contiguous
        np.array([4, 1, 2])[::-1],
        np.asfortranarray([[2], [1], [4]]),
        np.array([2, 1, 4]).view(np.ndarray),
        memoryview(np.array([2, 1, 4], np.int32)),
        Torchlike(),
    ],
    ids=lambda given: (
        f"{type(given).__name__} {getattr(given, 'dtype', '')} {getattr(given, 'shape', '')}"
    ),
)
def test_these_are_taken(vec: VectorEnv, given: Any) -> None:
    vec.step(given)
    assert taken(vec) == [2, 1, 4]
    assert vec.counters()["invalid_actions"] == 0


def test_arrays_are_read_by_rows_whatever_their_order_in_memory() -> None:
    with serial("tag_continuous", {"num_taggers": 1, "num_runners": 9}) as vec:
        rows = vec.halves[0].groups["agents"]
        given = np.arange(20, dtype=np.int32).reshape(10, 2) % 4
        vec.reset(seed=0)
        for array in (given, np.asfortranarray(given), np.repeat(given, 2, axis=1)[:, ::2]):
            rows.actions[:] = 0
            vec.step(array)
            assert rows.actions.tolist() == given.tolist()


def test_read_only_arrays_are_taken_and_inputs_are_copied(vec: VectorEnv) -> None:
    actions = np.array([2, 1, 4], np.int32)
    actions.flags.writeable = False
    vec.step(actions)
    assert taken(vec) == [2, 1, 4]
    mine = np.array([1, 2, 3], np.int64)
    vec.send(mine)
    mine[:] = 0
    vec.recv()
    assert taken(vec) == [1, 2, 3]


def test_none_takes_what_stands_in_the_slab(vec: VectorEnv) -> None:
    vec.halves[0].groups["agents"].actions[:] = [3, 0, 77]
    vec.step(None)
    assert taken(vec) == [3, 0, 0]  # checked all the same
    assert vec.counters()["invalid_actions"] == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.array([2.0, 1.0, 4.0]), ["float64", "integers", "(3,)"]),
        (np.array([2, 1, 4], np.float32), ["float32", "integers"]),
        (np.array([2, 1, 4], np.float16), ["float", "integers"]),
        ([2, 1, 4.0], ["float64", "integers"]),
        (np.array([True, False, True]), ["bool", "integers"]),
        (np.array([2, 1, 4], complex), ["complex128", "integers"]),
        (np.array(["2", "1", "4"]), ["<U1", "integers"]),
        (np.array([2, 1, 4], object), ["object", "integers"]),
        (np.array([2, 1, 4], ">i4"), [">i4", "integers"]),
        (np.array([2, 1, 4], "m8[s]"), ["timedelta64", "integers"]),
        ([2, 1, 2**70], ["object", "integers"]),
        ("abc", ["<U3"]),
        ([2, 1], ["(2,)", "(3,)"]),
        ([2, 1, 4, 0], ["(4,)", "(3,)"]),
        ([], ["(3,)"]),
        (2, ["()", "(3,)"]),
        (np.int64(2), ["()", "(3,)"]),
        (np.array(2), ["()", "(3,)"]),
        (np.zeros((1, 3), int), ["(1, 3)", "(3,)"]),
        (np.zeros((3, 2), int), ["(3, 2)", "(3,)"]),
        (np.zeros((3, 1, 1), int), ["(3, 1, 1)", "(3,)"]),
        ([[1, 2], [3]], ["integers", "(3,)"]),
        ({"agents": [2, 1, 4]}, ["(3,)"]),
        ({1, 2, 4}, ["(3,)"]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("strict", [False, True])
def test_these_are_refused_and_nothing_is_sent(given: Any, words: list[str], strict: bool) -> None:
    with serial("probe", {"episode_length": 1000}, num_envs=3, strict=strict) as vec:
        vec.reset(seed=0)
        vec.step([1, 2, 3])
        before = vec.halves[0].block.copy()
        with pytest.raises(ActionError) as caught:
            vec.send(given)
        for word in ["'agents'", *words]:
            assert word in str(caught.value)
        assert (vec.halves[0].block == before).all()
        vec.step([3, 2, 1])  # still in order
        assert taken(vec) == [3, 2, 1]


OUT_OF_RANGE = [-1, 5, 2**31 - 1, -(2**31), 2**31, 2**32, 2**32 + 1, 2**40 + 3, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("value", OUT_OF_RANGE)
def test_an_index_out_of_range_becomes_the_no_op(vec: VectorEnv, value: int) -> None:
    vec.step([2, value, 4])
    assert taken(vec) == [2, 0, 4]
    assert vec.counters()["invalid_actions"] == 1


@pytest.mark.parametrize("value", OUT_OF_RANGE)
def test_strict_raises_and_sends_nothing(value: int) -> None:
    with serial("probe", {"episode_length": 1000}, num_envs=3, strict=True) as vec:
        vec.reset(seed=0)
        for given in ([2, value, 4], np.array([2, value, 4], np.int64)):
            with pytest.raises(ActionError) as caught:
                vec.send(given)
            for word in ("'agents'", "row 1", str(value), "0 to 4", "nothing was sent"):
                assert word in str(caught.value)
        vec.step([2, 1, 4])
        assert taken(vec) == [2, 1, 4]
        assert vec.counters()["invalid_actions"] == 0


# ---- several groups ------------------------------------------------------------------------------


def test_each_dim_has_its_own_range(pairs: VectorEnv) -> None:
    observations = pairs.step({"scouts": [3, -1, 2, 0], "towers": [[2, 3], [1, 4]]})[0]
    assert observations["scouts"][:, 4].tolist() == [0, 0, 2, 0]
    assert observations["towers"]["gauges"][:, 0].tolist() == [3, 4]
    assert pairs.counters()["invalid_actions"] == 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([0, 0, 0, 0], ["list", "scouts", "towers"]),
        (np.zeros(4, int), ["ndarray", "scouts", "towers"]),
        ({"scouts": [0] * 4}, ["['scouts']", "towers"]),
        ({"scouts": [0] * 4, "towers": [[0, 0]] * 2, "kings": []}, ["kings"]),
        ({"scouts": [0] * 4, "towers": [0, 0]}, ["'towers'", "(2,)", "(2, 2)"]),
        ({"scouts": [0] * 3, "towers": [[0, 0]] * 2}, ["'scouts'", "(3,)", "(4,)"]),
        ({"scouts": [0] * 4, "towers": [[0.0, 0]] * 2}, ["'towers'", "float64"]),
    ],
    ids=repr,
)
def test_a_batch_that_misses_a_group_or_has_one_too_many_is_refused(
    pairs: VectorEnv, given: Any, words: list[str]
) -> None:
    before = pairs.halves[0].block.copy()
    with pytest.raises(ActionError) as caught:
        pairs.send(given)
    for word in words:
        assert word in str(caught.value)
    assert (pairs.halves[0].block == before).all()


def test_strict_looks_at_all_groups_before_it_writes_one() -> None:
    with serial("probe", {"mode": 1, "num_agents": 2}, num_envs=2, strict=True) as vec:
        vec.reset(seed=0)
        before = vec.halves[0].block.copy()
        with pytest.raises(ActionError, match=r"'towers'.*row 1: 9.*0 to 3"):
            vec.send({"scouts": [1, 1, 1, 1], "towers": [[0, 0], [1, 9]]})
        assert (vec.halves[0].block == before).all()


# ---- Python envs ---------------------------------------------------------------------------------


class Keeping(Spaced):
    """Keeps whatever actions it gets."""

    def __init__(self, action_space: Any) -> None:
        super().__init__(spaces.Discrete(2), action_space)

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        return 0, 0.0, False, False, {}


def keeping(space: Any, **settings: Any) -> VectorEnv:
    """Three Keepings, reset."""
    vec = puffervec.make(lambda: Keeping(space), num_envs=3, **settings)
    vec.reset(seed=0)
    return vec


WORKERS: list[dict[str, Any]] = [
    {"backend": "serial"},
    {"num_workers": 2, "start_method": "fork"},
    {"num_workers": 3, "num_buffers": 3, "start_method": "fork"},
]


@pytest.mark.parametrize("settings", WORKERS, ids=str)
def test_floats_are_not_rounded_on_their_way_to_a_python_env(settings: dict[str, Any]) -> None:
    exact = np.array([[0.1, 1e300], [-1 / 3, 0.2], [np.inf, 0.3]])
    with puffervec.make(lambda: Keeping(spaces.Box(-1, 1, (2,))), num_envs=3, **settings) as vec:
        vec.async_reset(seed=0)
        for _ in range(vec.num_buffers):
            vec.recv()
        for given in (exact, np.ones((3, 2), np.float32), exact.tolist(), [[1, 2], [3, 4], [5, 6]]):
            for batch in np.split(np.asarray(given), vec.num_buffers):
                vec.send(batch)
            for _ in range(vec.num_buffers):
                vec.recv()
        for env, got in enumerate(vec.get_attr("actions")):
            assert [a.dtype for a in got] == [np.float64, np.float32, np.float64, np.float32]
            assert got[0].tolist() == exact[env].tolist() == got[2].tolist()
            assert got[3].tolist() == [2 * env + 1, 2 * env + 2]


def test_wide_floats_that_fit_stay_in_the_rows() -> None:
    with keeping(spaces.Box(-1, 1, (1,)), backend="serial") as vec:
        vec.step(np.array([[0.5], [0.25], [2.0]]))
        assert vec.halves[0].groups["agents"].actions.tolist() == [[0.5], [0.25], [2.0]]
        assert [got[0].dtype for got in vec.get_attr("actions")] == [np.float32] * 3


def test_strict_looks_at_exact_floats_too() -> None:
    with keeping(spaces.Box(-1, 1, (1,)), backend="serial", strict=True) as vec:
        with pytest.raises(ActionError, match=r"row 1: \[?1\.0000001.*use -1.0 to 1.0"):
            vec.step([[0.1], [1.0000001], [0.1]])
        assert vec.get_attr("actions") == ([], [], [])


@pytest.mark.parametrize("settings", WORKERS[:2], ids=str)
def test_native_actions_may_be_anything(settings: dict[str, Any]) -> None:
    with keeping(spaces.Discrete(2), **settings) as vec:
        vec.step(Native(["a", {"b": 1}, None]))
        vec.step([1, 0, 1])
        assert vec.get_attr("actions") == (["a", 1], [{"b": 1}, 0], [None, 1])
        with pytest.raises(ActionError, match="2 entries for 3 rows"):
            vec.step(Native(["a", "b"]))

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Action plans (puffervec/workers/python/emulation/actions.py)."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.errors import ConfigError, SpaceMismatchError
from puffervec.workers.python.emulation import ActionPlan, actions
from tests.mock_envs import ACTIONS, OBSERVATIONS, same_bits, sample

SPACES = {**{f"observation {name}": make for name, make in OBSERVATIONS.items()}, **ACTIONS}


def test_documented_examples() -> None:
    assert doctest.testmod(actions).failed == 0


@pytest.mark.parametrize(
    ("name", "kind", "sizes", "shape", "dtype"),
    [
        ("choice", "discrete", (3,), (), np.int64),
        ("many", "multi_discrete", (3, 4, 5), (3,), np.int64),
        ("board", "multi_discrete", (2, 3, 4, 2), (4,), np.int64),
        ("binary", "multi_discrete", (2, 2, 2, 2), (4,), np.int64),
        ("continuous", "continuous", (), (3,), np.float32),
        ("scalar", "continuous", (), (), np.float64),
        ("bytes", "continuous", (), (2, 2), np.uint8),
        ("dict", "multi_discrete", (5, 3, 3, 2, 2), (5,), np.int64),
        ("tuple", "multi_discrete", (3, 2, 2, 2), (4,), np.int64),
        ("boxes", "continuous", (), (5,), np.float32),
        ("hybrid", "bytes", (), (24,), np.uint8),
    ],
)
def test_kinds(
    name: str, kind: str, sizes: tuple[int, ...], shape: tuple[int, ...], dtype: type
) -> None:
    plan = ActionPlan(ACTIONS[name]())
    assert (plan.kind, plan.sizes, plan.row_shape, plan.row_dtype) == (kind, sizes, shape, dtype)
    assert plan.low.shape == plan.high.shape == shape and plan.low.dtype == plan.high.dtype == dtype


def test_spaces_that_are_flat_already_stay_the_same_object() -> None:
    for name in ("choice", "shifted", "many", "continuous", "scalar", "bytes"):
        space = ACTIONS[name]()
        assert ActionPlan(space).emulated_space is space


@pytest.mark.parametrize("name", SPACES)
def test_encode_decode_and_readers_agree_bit_by_bit(name: str) -> None:
    plan = ActionPlan(SPACES[name]())
    rng = np.random.default_rng(2)
    rows = np.zeros((4, *plan.row_shape), plan.row_dtype)
    readers = plan.readers(rows)
    for _ in range(3):
        given = [sample(plan.space, rng) for _ in readers]
        for i, action in enumerate(given):
            plan.encode(action, rows[i, ...])
        for i, (read, action) in enumerate(zip(readers, given, strict=True)):
            native = read()
            assert same_bits(native, action) and same_bits(plan.decode(rows[i]), action)
            assert type(native) is type(action) and plan.space.contains(native)


@pytest.mark.parametrize("name", ACTIONS)
def test_every_member_of_the_emulated_space_is_an_action(name: str) -> None:
    plan = ActionPlan(ACTIONS[name]())
    plan.emulated_space.seed(0)
    for _ in range(20):
        row = np.asarray(plan.emulated_space.sample())
        assert row.shape == plan.row_shape
        if plan.kind == "bytes":
            continue
        assert plan.space.contains(plan.decode(row))
        assert (row >= plan.low).all() and (row <= plan.high).all()


def test_values_include_the_start() -> None:
    plan = ActionPlan(
        spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiDiscrete([2, 2], start=[5, 6])])
    )
    row = np.zeros(plan.row_shape, plan.row_dtype)
    plan.encode((-1, np.array([6, 6])), row)
    assert row.tolist() == [-1, 6, 6]
    assert (plan.low.tolist(), plan.high.tolist()) == ([-1, 5, 6], [1, 6, 7])


def test_a_single_choice_reads_as_a_numpy_integer() -> None:
    rows = np.array([4, 2])
    plan = ActionPlan(spaces.Discrete(5))
    read = plan.readers(rows)[1]
    rows[1] = 3
    assert type(read()) is np.int64 and read() == 3


def test_arrays_that_are_read_belong_to_the_env() -> None:
    for name in ("continuous", "many", "boxes"):
        plan = ActionPlan(ACTIONS[name]())
        rows = np.zeros((1, *plan.row_shape), plan.row_dtype)
        kept = plan.readers(rows)[0]()
        before = repr(kept)
        rows[...] = 1
        assert repr(kept) == before


def test_a_wrong_action_is_refused_before_it_is_written() -> None:
    plan = ActionPlan(ACTIONS["dict"]())
    row = np.ones(plan.row_shape, plan.row_dtype)
    with pytest.raises(SpaceMismatchError, match=r"action\['look'\] has shape \(3,\)"):
        plan.encode({"move": 1, "look": np.zeros(3, int), "jump": np.zeros(2, int)}, row)
    assert row.all()
    with pytest.raises(ConfigError, match="cannot hold actions"):
        plan.readers(np.zeros((2, 5), np.int32))


def test_no_choices_at_all() -> None:
    plan = ActionPlan(spaces.Dict({}))
    assert (plan.kind, plan.sizes, plan.row_shape) == ("multi_discrete", (), (0,))
    assert plan.readers(np.zeros((1, 0), np.int64))[0]() == {}

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Numbers of infos in the slab (puffervec/core/info_area.py): what goes as a column, what does not,
and what is touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from puffervec.core.info_area import InfoArea, InfoReader, InfoWriter, gather, info_bytes

ENVS, OFFSET = 3, 128


class Ends:
    """A writer and a reader of one area, with guard bytes around it."""

    def __init__(self, envs: int = ENVS) -> None:
        self.memory = np.full(OFFSET + info_bytes(envs) + 64, 0, np.uint8)
        self.memory[:OFFSET] = self.memory[OFFSET + info_bytes(envs) :] = 0xA5
        self.writer = InfoWriter(InfoArea(self.memory, OFFSET, envs))
        self.reader = InfoReader(InfoArea(self.memory, OFFSET, envs))
        self.envs = envs

    def turn(
        self, infos: dict[int, Any]
    ) -> tuple[dict[tuple[str, ...], tuple[list[Any], list[bool]]], list[Any]]:
        """Write one turn's infos; return the columns as lists, and the rest."""
        self.writer.begin()
        for env, info in infos.items():
            self.writer.put_list(env, info) if isinstance(info, list) else self.writer.put(
                env, info
            )
        found = gather([(0, self.reader)], self.envs)
        assert (self.memory[:OFFSET] == 0xA5).all() and (self.memory[-64:] == 0xA5).all()
        assert self.reader.others == bool(self.writer.others)
        return {
            path: (values.tolist(), present.tolist()) for path, (values, present) in found.items()
        }, self.writer.others


@pytest.fixture
def ends() -> Ends:
    return Ends()


def test_numbers_of_all_kinds_become_columns(ends: Ends) -> None:
    columns, others = ends.turn(
        {
            0: {"i": 3, "f": 0.5, "b": True, "n8": np.int8(-4), "u": np.uint64(2**63 - 1)},
            2: {"i": -(2**63), "f": np.float32(0.1), "b": np.bool_(False), "h": np.float16(2.0)},
        }
    )
    assert columns == {
        ("i",): ([3, 0, -(2**63)], [True, False, True]),
        ("f",): ([0.5, 0.0, float(np.float32(0.1))], [True, False, True]),
        ("b",): ([True, False, False], [True, False, True]),
        ("n8",): ([-4, 0, 0], [True, False, False]),
        ("u",): ([2**63 - 1, 0, 0], [True, False, False]),
        ("h",): ([0.0, 0.0, 2.0], [False, False, True]),
    }
    assert others == []


def test_special_floats_keep_their_bits(ends: Ends) -> None:
    columns, _ = ends.turn({0: {"x": float("nan")}, 1: {"x": -0.0}, 2: {"x": float("-inf")}})
    values = columns["x",][0]
    assert np.isnan(values[0]) and np.signbit(values[1]) and values[2] == -np.inf


@pytest.mark.parametrize("large", [2**63, np.uint64(2**63)], ids=repr)
def test_a_key_whose_integers_fitted_may_get_one_that_does_not(ends: Ends, large: Any) -> None:
    for value in (3, np.uint64(4)):
        assert ends.turn({0: {"n": value}})[0]["n",][0][0] == value
    columns, others = ends.turn({0: {"n": large}, 1: {"n": 5}})
    assert columns == {("n",): ([0, 5, 0], [False, True, False])}
    assert others == [(0, {"n": large})]


@pytest.mark.parametrize(
    "value",
    [
        "text", None, [1], (1, 2), np.ones(2), np.array(1), 1j, 2**63, -(2**63) - 1,
        np.uint64(2**63), b"raw", {}, {1: 2}, np.longdouble(1), np.datetime64(0, "s"),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_number_is_left_for_the_mailbox(ends: Ends, value: Any) -> None:
    columns, others = ends.turn({1: {"odd": value, "even": 2}})
    assert columns == {("even",): ([0, 2, 0], [False, True, False])}
    assert len(others) == 1 and others[0][0] == 1
    assert (
        list(others[0][1]) == ["odd"] and others[0][1]["odd"] is value
        if not isinstance(value, dict)
        else True
    )


def test_nested_dicts_are_paths_and_their_rest_stays_nested(ends: Ends) -> None:
    info = {"a": {"b": {"c": 1.5, "s": "x"}, "d": 2}, "e": {"only": {"text": "y"}}, "": {"": 3}}
    columns, others = ends.turn({0: info})
    assert {path: values[0] for path, (values, _) in columns.items()} == {
        ("a", "b", "c"): 1.5,
        ("a", "d"): 2,
        ("", ""): 3,
    }
    assert others == [(0, {"a": {"b": {"s": "x"}}, "e": {"only": {"text": "y"}}})]
    assert info["a"]["b"] == {"c": 1.5, "s": "x"}  # the env's own dict is as it was


@pytest.mark.parametrize("key", [7, None, ("a",), np.str_("n")], ids=repr)
def test_a_key_that_is_no_text_goes_the_slow_way(ends: Ends, key: Any) -> None:
    columns, others = ends.turn({0: {key: 1, "k": 2}})
    assert list(columns) == [("k",)] and others == [(0, {key: 1})]


@pytest.mark.parametrize(
    "key",
    ["x" * 121, "é" * 61, "a\x1fb", "ends\0"],
    ids=["long", "long in bytes", "separator", "null"],
)
def test_a_name_that_does_not_fit_goes_the_slow_way_each_time(ends: Ends, key: str) -> None:
    for turn in range(3):
        columns, others = ends.turn({0: {key: turn, "k": 2}})
        assert list(columns) == [("k",)] and others == [(0, {key: turn})]


@pytest.mark.parametrize(
    "key", ["x" * 120, "é" * 60, "", "a.b/c d", "\0in front", "\ud800"], ids=ascii
)
def test_odd_names_that_fit_are_columns(ends: Ends, key: str) -> None:
    columns, others = ends.turn({0: {key: 1}})
    assert list(columns) == [(key,)] and others == []


def test_a_turn_without_infos_touches_nothing(ends: Ends) -> None:
    ends.turn({0: {"a": 1}})
    assert ends.turn({}) == ({}, [])
    before = ends.memory.copy()
    ends.memory.flags.writeable = False  # a second view of the same memory cannot be written either
    for area in (ends.writer.area,):
        for array in (area.head, area.names, area.present, area.integers, area.floats):
            array.flags.writeable = False
    for _ in range(3):
        ends.writer.begin()
        assert list(ends.reader.columns()) == []
    assert (ends.memory == before).all()


def test_a_kind_that_changes_becomes_the_wider_one() -> None:
    """An int here and a float there, in one turn and from turn to turn."""
    ends = Ends()
    assert ends.turn({0: {"x": 1}, 1: {"x": 0.5}, 2: {"x": True}})[0] == {
        ("x",): ([1.0, 0.5, 1.0], [True] * 3)
    }
    assert ends.turn({0: {"x": 0.25}, 2: {"x": 3}})[0] == {
        ("x",): ([0.25, 0.0, 3.0], [True, False, True])
    }
    columns, _ = ends.turn({0: {"x": 7}})
    assert (
        columns == {("x",): ([7, 0, 0], [True, False, False])} and type(columns["x",][0][0]) is int
    )
    assert ends.turn({0: {"x": True}, 1: {"x": 2}})[0] == {("x",): ([1, 2, 0], [True, True, False])}

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Lists of numbers in JSON (csrc/drive/compile/columns.c, drive_env/scenes/columns.py) are what the
module json reads, in every bit.
"""

from __future__ import annotations

import json
import locale
import random
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

from drive_env.scenes.columns import LISTS, Column, as_list, tree_with_columns
from tests.drive_env.conftest import make_tree

EDGES = """0 -0 0.0 -0.0 0e5 1e22 1e23 9007199254740993 9007199254740993.0
    111111111111111111111111111111 1E5 1e+3 1e-30 1e-999 0.00012345678901234567 4.9e-324
    2.2250738585072011e-308 1.7976931348623157e308""".split()


def numbers(seed: int, count: int) -> list[str]:
    """Numbers of all lengths and sizes, many of them half-way between two doubles."""
    rng = random.Random(seed)
    found = list(EDGES)
    with localcontext() as context:
        context.prec = 60
        while len(found) < count:
            half_way = Decimal(2 * (rng.getrandbits(53) | 1 << 52) + 1) / Decimal(2) ** rng.randint(
                0, 60
            )
            found += [
                repr(rng.uniform(-1e5, 1e5)),
                repr(rng.gauss(0, 1) * 10.0 ** rng.randint(-30, 20)),
                str(rng.randint(-(10**18), 10**18)),
                f"{rng.uniform(-100, 100):.{rng.randint(0, 25)}f}",
                f"{rng.uniform(-9, 9) * 10.0 ** rng.randint(-40, 40):.{rng.randint(0, 22)}e}",
                format(half_way, "f"),
                repr(float(np.float32(rng.uniform(-500, 500)))),
            ]
    return found


def scene_text(heading: str, name: str = "heading") -> bytes:
    return f'{{"objects": [{{"id": 7, "{name}": {heading} , "type": "x"}}], "roads": []}}'.encode()


def read(heading: str, name: str = "heading") -> Any:
    return tree_with_columns(scene_text(heading, name))["objects"][0][name]


def test_numbers_have_the_same_bits() -> None:
    given = numbers(0, 50_000)
    column = read(f"[{', '.join(given)}]")
    expected = [float(number) for number in json.loads(f"[{','.join(given)}]")]
    assert isinstance(column, Column) and column.largest == max(map(abs, expected))
    assert [number.hex() for number in column.values.tolist()] == [
        number.hex() for number in expected
    ]


def test_a_scene_is_the_same_tree() -> None:
    tree = make_tree()
    read = tree_with_columns(json.dumps(tree, indent=1).encode())
    columns = 0
    for item in [*read["objects"], *read["roads"]]:
        for name in LISTS:
            columns += isinstance(item.get(name), Column)
            if name in item:
                item[name] = as_list(item[name])
    assert columns > 10 and read == tree
    assert tree_with_columns(json.dumps({"tl_states": tree, "metadata": tree}).encode()) == {
        "tl_states": tree,
        "metadata": tree,
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"metadata": [{"heading": [%s]}]}',
        '{"objects": [{"later": {"heading": [%s]}}]}',
        '{"objects": {"heading": [%s]}}',
    ],
)
def test_lists_of_other_places_stay_lists(text: str) -> None:
    text %= ", ".join(["0.123456789"] * 9)
    assert tree_with_columns(text.encode()) == json.loads(text)


PAD = ", 0.123456789" * 3


@pytest.mark.parametrize(
    "odd",
    [
        "NaN",
        "-Infinity",
        "1e400",
        "null",
        "true",
        '"7"',
        "[1]",
        "{}",
        '{"x": 1}',
        "1" * 400,
        "-1" + "0" * 400 + ".0",
    ],
)
def test_an_odd_list_stays_a_list(odd: str) -> None:
    text = f"[0.5{PAD}, {odd}]"
    assert repr(read(text)) == repr(json.loads(text))


@pytest.mark.parametrize(
    "wrong",
    [
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "1e+",
        "0x1",
        "1_0",
        "--1",
        "1 2",
        ",",
        "1,",
        "tru",
        "inf",
        "1e9999",
    ],
)
@pytest.mark.parametrize("name", ["heading", "valid"])
def test_what_is_no_json_is_refused_as_json_does(wrong: str, name: str) -> None:
    text = scene_text(f"[{'true, ' * 9 if name == 'valid' else '1.5, ' * 9}{wrong}]", name)
    for parse in (tree_with_columns, json.loads):
        if wrong == "1e9999":
            parse(text)
            continue
        with pytest.raises(ValueError, match="line 1"):
            parse(text)


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_a_text_may_end_anywhere(cut: int) -> None:
    text = json.dumps(make_tree()).encode()[: -cut * cut]
    with pytest.raises(ValueError, match="line 1"):
        tree_with_columns(text)


def test_points_and_flags() -> None:
    points = [{"y": 2.5, "x": -1, "z": 0}, {"x": 3, "z": 4, "y": 1e5}]
    column = read(json.dumps(points), "position")
    np.testing.assert_array_equal(column.values, [[-1, 2.5, 0], [3, 1e5, 4]])
    assert column.largest == 1e5 and column.has_z and column.points(2).shape == (2, 2)
    flat = read(json.dumps([{"x": 1.25, "y": 2.25}] * 2), "geometry")
    assert not flat.has_z and flat.points(3).tolist() == [[1.25, 2.25, 0.0]] * 2
    flags = read("[true, false, 0, 1, 1, 0, true, false]", "valid")
    assert flags.values.dtype == np.bool_ and flags.values.tolist() == [
        True,
        False,
        False,
        True,
        True,
        False,
        True,
        False,
    ]
    for name, odd in (
        ("position", [*points, {"x": 1, "y": 2}]),
        ("position", [{"x": 1.125, "z": 1.125, "w": 1.125}]),
        ("position", [{"y": 1.125, "z": 1.1}]),
        ("valid", [True] * 9 + [2]),
        ("valid", [1.0] * 9),
    ):
        assert read(json.dumps(odd), name) == odd
    twice = '[{"x": 1.5, "x": 2.5, "y": 3.5, "z": 0}]'
    assert read(twice, "position") == json.loads(twice)


@pytest.mark.parametrize("mark", ["\x7f0", "\\u007f0", "a\\u007f"])
def test_no_string_is_taken_for_a_list(mark: str) -> None:
    with pytest.raises(ValueError, match="taken for a mark"):
        read(f'"{mark}", "valid": [true, true, true, true, true, true]')


def test_a_locale_with_a_comma_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """strtod reads what the locale writes: the whole text is left to others then."""
    try:
        locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
    except locale.Error:
        pytest.skip("this machine has no locale de_DE.UTF-8")
    try:
        with pytest.raises(ValueError, match="taken for a mark"):
            read("[1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5]")
    finally:
        locale.setlocale(locale.LC_NUMERIC, "C")

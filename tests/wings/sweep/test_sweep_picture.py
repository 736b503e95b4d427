# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("matplotlib")

from puffervec.train.config.ranges import Choices, Range  # noqa: E402
from puffervec.wings.sweep.door import draw_parallel, draw_pareto  # noqa: E402

SPACE = {"train.lr": Range(1e-4, 1e-2, True, False), "policy.hidden": Choices(("8", "16"))}
FOUND = [
    SimpleNamespace(number=0, params={"train.lr": 1e-3, "policy.hidden": "8"}, values=[1.0, 10.0]),
    SimpleNamespace(number=1, params={"train.lr": 1e-2, "policy.hidden": "16"}, values=[3.0, 20.0]),
    SimpleNamespace(number=2, params={"train.lr": 1e-4, "policy.hidden": "16"}, values=None),
    SimpleNamespace(number=3, params={"train.lr": 1e-4, "policy.hidden": "8"}, values=[2.0, 30.0]),
]


def test_pareto() -> None:
    figure = draw_pareto(FOUND, FOUND[:2], "episode/return", "a title")
    (axis,) = figure.axes
    points, front = axis.get_lines()[:2]
    assert points.get_xydata().tolist() == [
        [10, 1],
        [20, 3],
        [30, 2],
    ] and front.get_xydata().tolist() == [[10, 1], [20, 3]]
    assert [text.get_text() for text in axis.texts] == [
        "0",
        "1",
    ] and axis.get_ylabel() == "episode/return"
    assert any(found.get_label() == "1 failed" for found in axis.get_lines())


def test_equal_scores() -> None:
    """Their axes still have a length: a line of one value stands in the middle of them, and is no
    NaN.
    """
    figure = draw_parallel(FOUND[:1] * 2, SPACE, "episode/return", "a title")
    lines = [
        found.get_ydata().tolist()
        for found in figure.axes[0].get_lines()
        if len(found.get_xdata()) == 4
    ]
    assert lines == [pytest.approx([0.5, 0, 0.5, 0.5])] * 2

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from typing import Any

import pytest

from puffervec.contract.drawing import Circle, Drawing
from puffervec.errors import ConfigError

VIEW = (0.0, 0.0, 4.0, 2.0)


def drawing(**changes: Any) -> Drawing:
    """A drawing of the state {"x": number}: one circle, which leaves a trail of two steps."""

    def shapes(state: Any, before: Any) -> list[Circle]:
        return [Circle(state["x"], 1.0, 0.5, role="dot", name="dot", trail=2)]

    return Drawing(**{"view": VIEW, "shapes": shapes, "colours": {"dot": "#0072B2"}, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"view": (0, 0, 0, 1)}, "left < right"),
        ({"view": (0, 0, float("inf"), 1)}, "view is"),
        ({"colours": {"dot": "red"}}, "colour of 'dot' is 'red': use #rrggbb"),
        ({"wholes": {"left": 0.0}}, "whole of 'left' is 0.0"),
        ({"fps": 0}, "fps is 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        drawing(**changes)

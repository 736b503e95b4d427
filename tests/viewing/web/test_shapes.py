# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Shapes as numbers (puffervec/viewing/web/shapes.py); test_replay.py reads whole replays."""

from __future__ import annotations

import itertools

from puffervec.contract.drawing import Box, Circle
from puffervec.viewing.web.shapes import FADED, FRONT, OUTLINE, Looks


def test_styles_say_how_a_shape_looks() -> None:
    """Each combination has flags of its own, of which the page tests one bit each; shapes that look
    alike share a style.
    """
    looks, wanted = Looks({"agent": "#123456"}), []
    for filled, faded, front in itertools.product((True, False), repeat=3):
        box = Box(0, 0, 1, 2, role="agent", filled=filled, faded=faded, front=front)
        assert looks.style(box) == looks.style(
            Box(5, 6, 3, 4, role="agent", filled=filled, faded=faded, front=front)
        )
        wanted.append(("box", 0, OUTLINE * (not filled) | FADED * faded | FRONT * front))
    assert list(looks.styles) == wanted and sorted(flags for *_, flags in wanted) == list(range(8))
    assert looks.style(Circle(0, 0, 1, role="goal")) == 8
    assert list(looks.styles)[8] == ("circle", 1, 0) and looks.roles == ["agent", "goal"]

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plan as a picture (puffervec/wings/plan/draw.py)."""

from __future__ import annotations

from xml.etree import ElementTree

import torch

from puffervec.wings.plan.draw import svg
from tests.wings.plan.graphs import planned

NAMESPACE = "{http://www.w3.org/2000/svg}"


def test_a_bar_for_each_block_where_it_lies() -> None:
    graph, arena = planned(lambda x: ((x @ x.t()).relu() @ x, x > 0), torch.randn(40, 40))
    picture = ElementTree.fromstring(svg(graph, arena, "A <plan>"))
    bars = {
        bar.findtext(f"{NAMESPACE}title"): bar
        for bar in picture.iter(f"{NAMESPACE}rect")
        if len(bar)
    }
    blocks = [block for blocks in arena.blocks.values() for block in blocks]
    assert len(bars) == len(blocks)
    for block in blocks:
        (bar,) = [
            bar
            for title, bar in bars.items()
            if title is not None and title.startswith(", ".join(block.tensors) + ":")
        ]
        assert float(bar.attrib["width"]) > 0 and float(bar.attrib["height"]) > 0
    words = [text.text for text in picture.iter(f"{NAMESPACE}text")]
    assert {"A <plan>", "inputs", "outputs", "float32: 18.8 KiB", "input", "output"} <= set(words)
    assert len(list(picture.iter(f"{NAMESPACE}circle"))) == len(graph.nodes) + 2
    # The bars of a buffer do not overlap.
    inside = [
        [float(bar.attrib[key]) for key in ("x", "y", "width", "height")] for bar in bars.values()
    ]
    for i, (x, y, w, h) in enumerate(inside):
        for x2, y2, w2, h2 in inside[:i]:
            assert (
                x + w <= x2 + 0.2 or x2 + w2 <= x + 0.2 or y + h <= y2 + 0.2 or y2 + h2 <= y + 0.2
            )

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plan as a picture (puffervec/wings/plan/draw.py)."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import torch

from puffervec.wings.plan.arena import ALIGNMENT, Arena, Block
from puffervec.wings.plan.draw import svg
from puffervec.wings.plan.ir import Graph, Node, Ref, TensorDesc
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


# Sizes of blocks in lines of 64 bytes. The map of the first buffer is 260 pixels high, as many as
# its lines, so these are pixels too.
BLOCKS = {
    "float32": [
        ("x", "input", 100, 0, 2),
        ("kept", "saved", 28, 1, 1),  # Room for two lines, to the pixel.
        ("almost", "saved", 27, 4, 4),
        ("empty", "temporary", 0, 4, 4),
        ("y", "temporary", 13, 2, 2),  # Room for one.
        ("space", "workspace", 12, 2, 2),  # For none.
        ("a long name that fits nowhere", "temporary", 107, 3, 3),
        ("state", "state", 40, 0, 5),
        ("out", "output", 60, 3, 5),
    ],
    "bool": [("mask", "temporary", 1, 2, 3), ("part", "temporary", 3, 3, 4)],
    "int64": [("none", "temporary", 0, 1, 1)],
}
PICTURE = Path(__file__).parent / "picture.svg"


def drawn(count: int = 4) -> str:
    """A picture of a plan that no other code has made."""
    names = ["turned", "a name of 20 letters", "a name of some more letters", "mul"]
    nodes = [
        Node(name, None, ((), {}), reads, writes, view=name == "turned")
        for name, reads, writes in zip(
            names,
            [("w",), ("x", "turned"), ("kept", "w", "y"), ("out", "state")],
            [("turned",), ("kept", "y"), ("out", "mask"), ("state",)],
            strict=True,
        )
    ]
    nodes += [Node(f"n{i}", None, ((), {}), (), ()) for i in range(4, count)]
    device, tensors = torch.device("cpu"), {}
    for name, kind, base in [
        *((name, kind, name) for rows in BLOCKS.values() for name, kind, *_ in rows),
        ("w", "parameter", "w"),
        ("turned", "parameter", "w"),
    ]:
        tensors[name] = TensorDesc(name, (), (), torch.float32, device, kind, base)
    blocks, offsets = {}, {"space": 150, "out": 200, "state": 160, "kept": 101, "y": 130, "part": 1}
    for buffer, rows in BLOCKS.items():
        blocks[buffer] = [
            Block(name, [name], buffer, size * ALIGNMENT, first, last, offset * ALIGNMENT)
            for name, _, size, first, last in rows
            for offset in [offsets.get(name, 0)]
        ]
    sizes = {"float32": 260 * ALIGNMENT, "bool": 4 * ALIGNMENT, "int64": 0}
    arena = Arena(blocks, sizes, sizes, 900_000, 40_000, {}, {})
    return svg(Graph(nodes, tensors, ["x"], [Ref("out"), 1.0]), arena, "A <plan> & more")


def test_the_picture_is_as_it_was() -> None:
    """After a change of draw.py look at the new picture, and keep it in place of the old one."""
    assert drawn() == PICTURE.read_text()


def test_many_steps_make_a_wider_picture_with_columns_of_one_width() -> None:
    wide = float(ElementTree.fromstring(drawn(30)).attrib["width"])
    assert wide == 96 + 32 * 26 + 24

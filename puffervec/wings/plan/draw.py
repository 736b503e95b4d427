# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plan as a picture (SVG): the graph, and below it the memory over the same steps.

arcs       from the node that writes a tensor to those that read it
nodes      one column each, in the order in which they run; views are hollow, as nothing runs
memory     one map per buffer: steps across, addresses up, and a bar for each tensor's memory
           from its first step to its last
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from puffervec.contract.drawing import (
    BLUE,
    EDGE,
    GREEN,
    INK,
    ORANGE,
    PAPER,
    PINK,
    SKY,
    SOFT,
    YELLOW,
)
from puffervec.wings.plan.arena import Arena, Block
from puffervec.wings.plan.ir import INPUT, OUTPUT, PARAMETER, SAVED, STATE, WORKSPACE, Graph
from puffervec.wings.plan.report import size

COLUMN, LEFT, RIGHT, TOP = 26.0, 96.0, 24.0, 64.0  # pixels
ARCS, MAP, GAP = 90.0, 260.0, 46.0
LEAST_WIDTH = 560.0
COLOURS = {
    INPUT: BLUE,
    STATE: GREEN,
    OUTPUT: ORANGE,
    SAVED: PINK,
    WORKSPACE: SKY,
    "temporary": YELLOW,
}
OPACITY = 0.6  # Opacity of bars, which have names on them.
LETTER = 6.6  # Width of a letter at 11 pixels.
LONGEST = 20  # Largest number of letters in a node's label.


def svg(graph: Graph, arena: Arena, title: str) -> str:
    """Return the picture as SVG text."""
    return _Picture(graph, arena, title).text()


class _Picture:
    def __init__(self, graph: Graph, arena: Arena, title: str) -> None:
        self.graph, self.arena, self.title = graph, arena, title
        steps = graph.end + 1
        self.column = max(COLUMN, (LEAST_WIDTH - LEFT - RIGHT) / steps)
        self.width = LEFT + steps * self.column + RIGHT
        self.maps = [name for name, total in arena.buffers.items() if total]
        self.base = TOP + ARCS  # y of the nodes
        longest = max([len("outputs"), *(len(node.name) for node in graph.nodes)])
        self.below = self.base + 44 + LETTER * min(longest, LONGEST)  # y of the first map
        self.height = self.below + sum(self._map_height(name) + GAP for name in self.maps) + 30

    def _map_height(self, buffer: str) -> float:
        """Return the height of a buffer's map, in proportion to its size, at least 36 pixels."""
        return max(36.0, MAP * self.arena.buffers[buffer] / max(self.arena.buffers.values()))

    def x(self, step: float) -> float:
        """Return the left edge of a step's column."""
        return LEFT + step * self.column

    def text(self) -> str:
        """Return the picture."""
        body = [*self._head(), *self._arcs(), *self._nodes()]
        top = self.below
        for name in self.maps:
            body += self._map(name, top)
            top += self._map_height(name) + GAP
        body += self._legend(top)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" '
            f'height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}" '
            'font-family="DejaVu Sans, Arial, sans-serif" font-size="11">\n'
            f'<rect width="100%" height="100%" fill="{PAPER}"/>\n' + "\n".join(body) + "\n</svg>\n"
        )

    def _head(self) -> Iterator[str]:
        arena = self.arena
        yield _text(16, 26, self.title, font_size=16, font_weight="bold")
        figures = (
            f"{size(arena.bytes)} with reuse; one buffer per tensor {size(arena.separate)}, "
            f"aliases only {size(arena.aliased)}, bound {size(arena.bound)}"
        )
        yield _text(16, 44, figures, fill=SOFT)

    def _arcs(self) -> Iterator[str]:
        births = {
            name: step
            for step, node in enumerate(self.graph.nodes, start=1)
            for name in node.outputs
        }
        readers = [(step, node.inputs) for step, node in enumerate(self.graph.nodes, start=1)]
        for step, names in [*readers, (self.graph.end, tuple(self.graph.output_names()))]:
            for name in names:
                if self.graph.root(name).kind != PARAMETER or name in births:
                    begin, end = self.x(births.get(name, 0) + 0.5), self.x(step + 0.5)
                    rise = min(ARCS - 8, 10 + (end - begin) / 2)
                    peak = f"{(begin + end) / 2:.1f} {self.base - 2 * rise + 8:.1f}"
                    path = f"M{begin:.1f} {self.base:.1f} Q{peak} {end:.1f} {self.base:.1f}"
                    yield f'<path d="{path}" fill="none" stroke="{SOFT}" stroke-width="1"/>'

    def _nodes(self) -> Iterator[str]:
        names = ["inputs", *(node.name for node in self.graph.nodes), "outputs"]
        hollow = [False, *(node.view for node in self.graph.nodes), False]
        for step, (name, empty) in enumerate(zip(names, hollow, strict=True)):
            x, y = self.x(step + 0.5), self.base + 12
            label = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
            fill = PAPER if empty else INK
            yield (
                f'<circle cx="{x:.1f}" cy="{self.base:.1f}" r="4.5" fill="{fill}" stroke="{INK}"/>'
            )
            yield _text(x - 4, y, label, transform=f"rotate(90 {x - 4:.1f} {y:.1f})")

    def _map(self, buffer: str, top: float) -> Iterator[str]:
        height, total = self._map_height(buffer), self.arena.buffers[buffer]
        bottom = top + height
        yield _text(16, top - 6, f"{buffer}: {size(total)}", font_weight="bold")
        width = self.x(self.graph.end + 1) - LEFT
        yield (
            f'<rect x="{LEFT}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="white" stroke="{EDGE}"/>'
        )
        yield _text(LEFT - 6, bottom, "0", text_anchor="end", fill=SOFT)
        yield _text(LEFT - 6, top + 9, size(total), text_anchor="end", fill=SOFT)
        for block in self.arena.blocks[buffer]:
            yield from self._bar(block, bottom, height / total)

    def _bar(self, block: Block, bottom: float, scale: float) -> Iterator[str]:
        kind = self._kind(block)
        x, y = self.x(block.first), bottom - (block.offset + block.size) * scale
        width, height = self.x(block.last + 1) - x, block.size * scale
        names = ", ".join(block.tensors)
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0.8):.2f}" '
            f'fill="{COLOURS[kind]}" fill-opacity="{OPACITY}" stroke="white" stroke-width="0.6">'
            f"<title>{escape(names)}: {size(block.size)} at {block.offset:,}, steps {block.first} "
            f"to {block.last}</title></rect>"
        )
        lines = [f"{block.name} {size(block.size)}"]
        if len(lines[0]) * LETTER > width - 6:
            lines = [block.name, size(block.size)] if height >= 28 else [block.name]
        if height >= 13 * len(lines) and all(len(line) * LETTER < width - 6 for line in lines):
            for number, line in enumerate(lines):
                yield _text(x + 4, y + height / 2 + 4 + 13 * (number - (len(lines) - 1) / 2), line)

    def _kind(self, block: Block) -> str:
        """Return the kind that colours a block: the first of this list that its tensors have."""
        kinds = [self.graph.tensors[name].kind for name in block.tensors]
        return next(
            kind for kind in (STATE, INPUT, OUTPUT, SAVED, WORKSPACE, "temporary") if kind in kinds
        )

    def _legend(self, y: float) -> Iterator[str]:
        used = {self._kind(block) for blocks in self.arena.blocks.values() for block in blocks}
        x = 16.0
        for kind, colour in COLOURS.items():
            if kind in used:
                yield (
                    f'<rect x="{x:.0f}" y="{y - 10:.0f}" width="12" height="12" fill="{colour}" '
                    f'fill-opacity="{OPACITY}"/>'
                )
                yield _text(x + 17, y, kind)
                x += 17 + LETTER * len(kind) + 22


def _text(x: float, y: float, text: str, **attributes: object) -> str:
    named = " ".join(
        f'{key.replace("_", "-")}="{value}"' for key, value in ({"fill": INK} | attributes).items()
    )
    return f'<text x="{x:.1f}" y="{y:.1f}" {named}>{escape(text)}</text>'

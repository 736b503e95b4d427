# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Shapes of puffervec.contract.drawing as numbers: a style for the look, a row for the place.

static/scene.js turns them back into shapes. Runs in the learner.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from puffervec.contract.drawing import Box, Circle, Line, Polygon, Shape, Text
from puffervec.viewing.render.episode import Moment
from puffervec.viewing.web.columns import Floats, Stream, exponent_of, fill_gaps, runs_of, whole

OUTLINE, FADED, FRONT = 1, 2, 4  # Flags of a style.
ANGLE = -3  # Angles are stored in thousandths of a radian.

Style = tuple[str, int, int]  # Kind, number of the role, flags.


def numbers_of(shape: Shape) -> tuple[float, ...]:
    """Return all numbers of a shape; the width of a line is the last one."""
    match shape:
        case Circle():
            return float(shape.x), float(shape.y), float(shape.radius)
        case Box():
            return (
                float(shape.x),
                float(shape.y),
                float(shape.width),
                float(shape.height),
                float(shape.angle_rad),
            )
        case Line():
            return (*map(float, itertools.chain.from_iterable(shape.points)), float(shape.width))
        case Polygon():
            return tuple(map(float, itertools.chain.from_iterable(shape.points)))
        case Text():
            return float(shape.x), float(shape.y), float(shape.height)
    raise TypeError(f"{shape!r} cannot be drawn")


def exponents_of(kind: str, count: int, place: int) -> list[int]:
    """Return the decimal exponent of each number of a shape; `place` is for places and sizes."""
    return [ANGLE if kind == "box" and number == 4 else place for number in range(count)]


@dataclass
class Looks:
    """Numbers of the roles and styles of an episode.

    Attributes:
        colours: colours by role, in the order of the legend.
        roles, styles: roles and styles in the order of their numbers.
    """

    colours: dict[str, str]
    roles: list[str] = field(default_factory=list)
    styles: dict[Style, int] = field(default_factory=dict)
    _known: dict[tuple[type[Shape], str, bool, bool, bool], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.roles += self.colours

    def role(self, name: str) -> int:
        """Return the number of a role."""
        if name not in self.roles:
            self.roles.append(name)
        return self.roles.index(name)

    def style(self, shape: Shape) -> int:
        """Return the number of a shape's style."""
        key = (
            type(shape),
            shape.role,
            shape.filled,
            shape.faded,
            isinstance(shape, Box) and shape.front,
        )
        number = self._known.get(key)
        if number is None:
            flags = OUTLINE * (not shape.filled) + FADED * shape.faded + FRONT * key[-1]
            style = type(shape).__name__.lower(), self.role(shape.role), flags
            number = self._known[key] = self.styles.setdefault(style, len(self.styles))
        return number


def place_exponent(view: Sequence[float]) -> int:
    """Return the exponent of the power of ten to which an episode's places are rounded.

    For a view that is 200 m to 2 km wide, places are stored in centimetres.
    """
    left, bottom, right, top = view
    return exponent_of(max(right - left, top - bottom))


def put_still(
    stream: Stream, looks: Looks, shapes: Sequence[Shape], place: int
) -> list[dict[str, Any]]:
    """Add shapes that never move; return what a reader needs to know about each."""
    listed = []
    for shape in shapes:
        numbers = numbers_of(shape)
        exponents = exponents_of(type(shape).__name__.lower(), len(numbers), place)
        stream.add_differences(
            [int(whole(n, e)) for n, e in zip(numbers, exponents, strict=True)], stride=2
        )
        listed.append({"s": looks.style(shape), "n": len(numbers), **_words(shape)})
    return listed


def _words(shape: Shape) -> dict[str, Any]:
    """Return those of name, owner and text that a shape has."""
    text = shape.text if isinstance(shape, Text) else ""
    return {
        key: word for key, word in (("name", shape.name), ("of", shape.of), ("text", text)) if word
    }


class Thing:
    """A shape over the moments of an episode."""

    def __init__(self, first: Shape) -> None:
        self.first = first
        self.steps: list[int] = []
        self.styles: list[int] = []
        self.numbers: list[tuple[float, ...]] = []

    def put(self, stream: Stream, count: int, place: int) -> dict[str, Any]:
        """Add the shape's numbers over `count` moments to a stream; return what a reader needs."""
        present = np.zeros(count, np.bool_)
        present[self.steps] = True
        table: Floats = np.zeros((count, len(self.numbers[0])))
        table[self.steps] = self.numbers
        looks = np.full(count, -1)
        looks[self.steps] = self.styles
        values: list[int | None] = []
        kind = type(self.first).__name__.lower()
        for column, exponent in zip(
            table.T, exponents_of(kind, table.shape[1], place), strict=True
        ):
            numbers = fill_gaps(whole(column, exponent), present)
            constant = bool((numbers == numbers[0]).all())
            values.append(int(numbers[0]) if constant else None)
            if not constant:
                stream.add_differences(numbers)
        runs = [
            [start, end, style]
            for style in sorted(set(self.styles))
            for start, end in runs_of(looks == style)
        ]
        return {"in": runs, "v": values, "trail": self.first.trail, **_words(self.first)}


def things_of(moments: Sequence[Moment], looks: Looks) -> list[Thing]:
    """Match the shapes of all moments.

    Shapes are matched by name; those without a name by owner, kind, and number among such shapes.
    """
    things: dict[Any, Thing] = {}
    order: list[Any] = []
    for step, moment in enumerate(moments):
        last = -1  # Place in `order` of the previous shape.
        counts: defaultdict[Any, Iterator[int]] = defaultdict(itertools.count)
        for shape in moment.shapes:
            numbers = numbers_of(shape)
            kind = (
                type(shape),
                len(numbers),
                shape.name or (shape.of, shape.role),
                getattr(shape, "text", ""),
            )
            key = *kind, next(counts[kind])
            if key not in things:
                things[key] = Thing(shape)
                order.insert(last + 1, key)
            if step == 0 or order[last + 1 : last + 2] == [key]:
                last += 1
            else:
                last = max(last, order.index(key))
            thing = things[key]
            thing.steps.append(step)
            thing.styles.append(looks.style(shape))
            thing.numbers.append(numbers)
    return [things[key] for key in order]

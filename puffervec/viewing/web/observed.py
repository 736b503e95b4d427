# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Shapes that agents observe. Equal shapes share one entry.

If agents observe more than MOST_SEEN shapes in an episode, those of some agents are left out.
Runs in the learner.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import Any

from puffervec.contract.drawing import Shape
from puffervec.viewing.web.columns import Stream
from puffervec.viewing.web.shapes import Looks, exponents_of, numbers_of

MOST_SEEN = 1_000_000  # Limit of shapes, which are counted again for each agent and step.
COARSER = 5  # How much more coarsely observed places are rounded than other places.

Key = tuple[int, tuple[int, ...]]  # Style, whole numbers.


class ObservedShapes:
    """The observations of an episode. Args: place: see `shapes.place_exponent`."""

    def __init__(self, looks: Looks, place: int) -> None:
        self._looks = looks
        self._place = place
        self._numbers: dict[Key, int] = {}  # Indices of shapes, in the order of first observation.
        # By kind of shape and count of numbers: the factor that turns each number into units.
        self._per_unit: dict[tuple[type[Shape], int], list[float]] = {}
        self._rows: dict[int, dict[int, list[int]]] = {}  # By row and step.

    def add(self, step: int, seen: Mapping[int, Iterable[Shape]]) -> None:
        """Add what the agents of some rows observe at a moment."""
        for row, shapes in seen.items():
            keys = [self._key(shape) for shape in shapes]
            indices = sorted({self._numbers.setdefault(key, len(self._numbers)) for key in keys})
            self._rows.setdefault(row, {})[step] = indices

    def at(self, row: int, step: int) -> int:
        """Return how many shapes the agent of a row observes at a moment."""
        return len(self._rows.get(row, {}).get(step, ()))

    def _key(self, shape: Shape) -> Key:
        """Return a shape's key. Called half a million times for crowded scenes, so it is fast."""
        numbers = numbers_of(shape)
        kind = type(shape), len(numbers)
        steps = self._per_unit.get(kind)
        if steps is None:
            exponents = exponents_of(kind[0].__name__.lower(), kind[1], self._place)
            steps = self._per_unit[kind] = [10.0**-exponent / COARSER for exponent in exponents]
        return self._looks.style(shape), tuple(map(round, map(mul, numbers, steps)))

    def put(self, stream: Stream, count: int, rows: Sequence[int]) -> dict[str, Any] | None:
        """Add the shapes to a stream; return what a reader needs, or None if there are none.

        Args:
            stream: stream to add to.
            count: number of moments.
            rows: rows of the agents, the most interesting ones first.
        """
        kept: list[int] = []
        left = MOST_SEEN
        for row in (row for row in rows if row in self._rows):
            left -= sum(map(len, self._rows[row].values()))
            if left < 0 and kept:
                break
            kept.append(row)
        if not kept:
            return None
        used = sorted(
            {thing for row in kept for things in self._rows[row].values() for thing in things}
        )
        keys = list(self._numbers)
        by_kind = sorted(used, key=lambda thing: (keys[thing][0], len(keys[thing][1])))
        place_of = {thing: place for place, thing in enumerate(by_kind)}
        kinds = []
        for (style, size), alike in itertools.groupby(
            by_kind, key=lambda thing: (keys[thing][0], len(keys[thing][1]))
        ):
            table = [keys[thing][1] for thing in alike]
            kinds.append({"s": style, "n": size, "count": len(table)})
            for column in zip(*table, strict=True):
                stream.add_differences(column)
        for row in kept:
            lists = [
                sorted(place_of[thing] for thing in self._rows[row].get(step, ()))
                for step in range(count)
            ]
            stream.add([len(things) for things in lists])
            for things in lists:
                stream.add_differences(things)
        return {
            "kinds": kinds,
            "rows": kept,
            "coarser": COARSER,
            "all": len(kept) == len(self._rows),
        }

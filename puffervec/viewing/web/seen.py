# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What agents observe, as shapes, each kept once: two agents that see the same thing, or one that
sees it for long, share it.

Runs in the learner. Where agents see more than MOST_SEEN things in an episode, only what some of
them see is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from operator import mul
from typing import Any

from puffervec.contract.drawing import Shape
from puffervec.viewing.web.columns import Stream
from puffervec.viewing.web.shapes import Looks, exponents_of, numbers_of

MOST_SEEN = 1_000_000  # things, counted anew for each agent and step
COARSER = 5  # of other places, a step of the places of what is observed

Key = tuple[int, tuple[int, ...]]  # style, whole numbers


class Seen:
    """The observations of an episode. Args: place: see `shapes.place_exponent`."""

    def __init__(self, looks: Looks, place: int) -> None:
        self._looks = looks
        self._place = place
        self._numbers: dict[Key, int] = {}  # of a thing, in the order in which they are seen first
        self._per_unit: dict[
            tuple[type[Shape], int], list[float]
        ] = {}  # steps of each number of a kind of shape
        self._rows: dict[int, dict[int, list[int]]] = {}  # by row and step

    def add(self, step: int, seen: Mapping[int, Iterable[Shape]]) -> None:
        """Add what the agents of some rows see at a moment."""
        for row, shapes in seen.items():
            keys = [self._key(shape) for shape in shapes]
            found = sorted({self._numbers.setdefault(key, len(self._numbers)) for key in keys})
            self._rows.setdefault(row, {})[step] = found

    def at(self, row: int, step: int) -> int:
        """How many things the agent of a row sees at a moment."""
        return len(self._rows.get(row, {}).get(step, ()))

    def _key(self, shape: Shape) -> Key:
        """Half a million of these are asked for in a crowded scene."""
        numbers = numbers_of(shape)
        kind = type(shape), len(numbers)
        steps = self._per_unit.get(kind)
        if steps is None:
            exponents = exponents_of(kind[0].__name__.lower(), kind[1], self._place)
            steps = self._per_unit[kind] = [10.0**-exponent / COARSER for exponent in exponents]
        return self._looks.style(shape), tuple(map(round, map(mul, numbers, steps)))

    def put(self, stream: Stream, count: int, rows: Sequence[int]) -> dict[str, Any] | None:
        """Add it to a stream; return what a reader has to know, None where nothing is seen.

        Args: count: of moments. rows: the most interesting ones first.
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

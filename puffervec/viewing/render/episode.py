# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""An episode of an env as its drawing describes it, step by step: shapes, trails, events, numbers.

Runs in the learner. It paints nothing itself (see painter.py).

vec.peek(0)  --Episode.add-->  Moment  --painter.picture_of-->  picture
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from puffervec.contract.drawing import Box, Circle, Drawing, Event, Line, Polygon, Shape, State
from puffervec.errors import ConfigError, PuffervecError

Result = TypeVar("Result")
Point = tuple[float, float]


@dataclass(frozen=True)
class Moment:
    """Everything that one picture shows.

    Attributes:
        trails: the shapes that leave a trail, each with its past positions, the newest last.
        events: all events of the episode so far, each with its step.
    """

    step: int
    shapes: tuple[Shape, ...]
    trails: tuple[tuple[Shape, tuple[Point, ...]], ...] = ()
    events: tuple[tuple[int, Event], ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)


class Episode:
    """One episode of an env as its drawing describes it."""

    def __init__(
        self, name: str, make: Callable[[Any, State], Drawing], config: Any, state: State
    ) -> None:
        """Start the episode.

        Args:
            name: name of the env, for errors.
            make: `NativeEnv.drawing`.
            config: settings of the env.
            state: state after the reset.

        Raises:
            ConfigError: the drawing failed, or returned something that cannot be drawn.
        """
        self._name = name
        self.drawing = self.call_drawing(lambda: make(config, state))
        if not isinstance(self.drawing, Drawing):
            raise ConfigError(
                f"{name}: its drawing is {self.drawing!r}: `drawing` must return a "
                "puffervec.contract.drawing.Drawing"
            )
        self.check_shapes(self.drawing.still)
        self._trails: dict[str, deque[Point]] = {}
        self._events: list[tuple[int, Event]] = []
        self.moment = self._make_moment(0, state, None)
        self._state = state

    def add(self, state: State) -> Moment:
        """Add the state after one more step and return its moment.

        Raises:
            ConfigError: the drawing failed, or returned something that cannot be drawn.
        """
        self.moment = self._make_moment(self.moment.step + 1, state, self._state)
        self._state = state
        return self.moment

    def numbers(self, state: State) -> dict[str, float]:
        """Return the numbers that the drawing shows of a state."""
        numbers = self.drawing.numbers
        return (
            {}
            if numbers is None
            else self.call_drawing(lambda: {name: float(x) for name, x in numbers(state).items()})
        )

    def _make_moment(self, step: int, state: State, before: State | None) -> Moment:
        shapes = self.check_shapes(
            self.call_drawing(lambda: tuple(self.drawing.shapes(state, before)))
        )
        self._events += [(step, shape) for shape in shapes if isinstance(shape, Event)]
        shapes = tuple(shape for shape in shapes if not isinstance(shape, Event))
        trailing = {
            s.name: s for s in shapes if s.name and s.trail > 0 and isinstance(s, (Circle, Box))
        }
        self._trails = {
            name: self._trails.get(name) or deque(maxlen=shape.trail + 1)
            for name, shape in trailing.items()
        }
        for name, shape in trailing.items():
            self._trails[name].append((float(shape.x), float(shape.y)))
        trails = tuple((shape, tuple(self._trails[name])) for name, shape in trailing.items())
        return Moment(step, shapes, trails, tuple(self._events), self.numbers(state))

    def call_drawing(self, work: Callable[[], Result]) -> Result:
        """Run code of the env's drawing and turn whatever it raises into a ConfigError."""
        try:
            return work()
        except PuffervecError as error:
            raise ConfigError(f"{self._name}: its drawing failed: {error}") from error
        except Exception as error:
            raise ConfigError(
                f"{self._name}: its drawing failed: {type(error).__name__}: {error}"
            ) from error

    def check_shapes(self, shapes: Iterable[Shape]) -> tuple[Shape, ...]:
        """Return the shapes as a tuple.

        Raises:
            ConfigError: one of them is not a shape, or has a number that is not finite.
        """
        for shape in shapes:
            if not isinstance(shape, Shape):
                raise ConfigError(
                    f"{self._name}: its drawing returned {shape!r}: return shapes of "
                    "puffervec.contract.drawing"
                )
            if not all(map(math.isfinite, _numbers(shape))):
                raise ConfigError(
                    f"{self._name}: its drawing returned {shape!r}: all numbers must be finite"
                )
        return tuple(shapes)


def _numbers(shape: Shape) -> Iterable[float]:
    """Return all coordinates and sizes of a shape."""
    if isinstance(shape, Line):
        return [shape.width, *chain.from_iterable(shape.points)]
    if isinstance(shape, Polygon):
        return chain.from_iterable(shape.points)
    named = (getattr(shape, part.name) for part in dataclasses.fields(shape) if not part.kw_only)
    return [value for value in named if not isinstance(value, str)]

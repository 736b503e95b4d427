# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What an env's drawing shows, step by step: shapes, trails, events, numbers. Runs in the learner;
draws nothing itself.

vec.peek(0)  --Episode.add-->  Moment  --painter.picture_of-->  a picture
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
    """All that a picture shows.

    trails: shapes that have one, each with the places where it was, the newest last. events: those
    of the episode so far, each with its step.
    """

    step: int
    shapes: tuple[Shape, ...]
    trails: tuple[tuple[Shape, tuple[Point, ...]], ...] = ()
    events: tuple[tuple[int, Event], ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)


class Episode:
    """One episode of an env as its drawing shows it. name: of the env, for errors."""

    def __init__(
        self, name: str, make: Callable[[Any, State], Drawing], config: Any, state: State
    ) -> None:
        """Args: make: `NativeEnv.drawing`. state: after the reset.

        Raises: ConfigError: the drawing failed, or gave something that cannot be drawn.
        """
        self._name = name
        self.drawing = self.guarded(lambda: make(config, state))
        if not isinstance(self.drawing, Drawing):
            raise ConfigError(
                f"{name}: its drawing is {self.drawing!r}: `drawing` must return a "
                "puffervec.contract.drawing.Drawing"
            )
        self.checked(self.drawing.still)
        self._ways: dict[str, deque[Point]] = {}
        self._events: list[tuple[int, Event]] = []
        self.moment = self._seen(0, state, None)
        self._state = state

    def add(self, state: State) -> Moment:
        """Go on by one step. Returns what there is to see now. Raises: ConfigError: as above."""
        self.moment = self._seen(self.moment.step + 1, state, self._state)
        self._state = state
        return self.moment

    def numbers(self, state: State) -> dict[str, float]:
        """The numbers of any state of such an episode."""
        numbers = self.drawing.numbers
        return (
            {}
            if numbers is None
            else self.guarded(lambda: {name: float(x) for name, x in numbers(state).items()})
        )

    def _seen(self, step: int, state: State, before: State | None) -> Moment:
        shapes = self.checked(self.guarded(lambda: tuple(self.drawing.shapes(state, before))))
        self._events += [(step, shape) for shape in shapes if isinstance(shape, Event)]
        shapes = tuple(shape for shape in shapes if not isinstance(shape, Event))
        trailing = {
            s.name: s for s in shapes if s.name and s.trail > 0 and isinstance(s, (Circle, Box))
        }
        self._ways = {
            name: self._ways.get(name) or deque(maxlen=shape.trail + 1)
            for name, shape in trailing.items()
        }
        for name, shape in trailing.items():
            self._ways[name].append((float(shape.x), float(shape.y)))
        trails = tuple((shape, tuple(self._ways[name])) for name, shape in trailing.items())
        return Moment(step, shapes, trails, tuple(self._events), self.numbers(state))

    def guarded(self, work: Callable[[], Result]) -> Result:
        """Run code of the env's drawing. Whatever it raises becomes a ConfigError with its own
        words.
        """
        try:
            return work()
        except PuffervecError as error:
            raise ConfigError(f"{self._name}: its drawing failed: {error}") from error
        except Exception as error:
            raise ConfigError(
                f"{self._name}: its drawing failed: {type(error).__name__}: {error}"
            ) from error

    def checked(self, shapes: Iterable[Shape]) -> tuple[Shape, ...]:
        """Return what the drawing gave. Raises: ConfigError: it is no shape, or has a number that
        is not finite.
        """
        for shape in shapes:
            if not isinstance(shape, Shape):
                raise ConfigError(
                    f"{self._name}: its drawing gave {shape!r}: give shapes of "
                    "puffervec.contract.drawing"
                )
            if not all(map(math.isfinite, _numbers(shape))):
                raise ConfigError(
                    f"{self._name}: its drawing gave {shape!r}: all numbers must be finite"
                )
        return tuple(shapes)


def _numbers(shape: Shape) -> Iterable[float]:
    """All places and sizes of a shape."""
    if isinstance(shape, Line):
        return [shape.width, *chain.from_iterable(shape.points)]
    if isinstance(shape, Polygon):
        return chain.from_iterable(shape.points)
    named = (getattr(shape, part.name) for part in dataclasses.fields(shape) if not part.kw_only)
    return [value for value in named if not isinstance(value, str)]

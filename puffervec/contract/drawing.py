# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The drawing of an env: shapes in world units, per step, computed from its readable state.

    def drawing(config, state):  # at the start of each episode; state: as `vec.peek` returns it
        return Drawing(view=(0, 0, config.size, config.size), colours={"agent": "#0072B2"},
        shapes=shapes)

    # after the reset and after each step; before: the state one step earlier, None at the start
    def shapes(state, before):
        yield Circle(*state["agent"], radius=0.4, role="agent", name="agent", trail=20)

    ENV = NativeEnv(..., drawing=drawing)

`puffer-train render` makes replays, films and snapshots from it, and `render_mode="rgb_array"`
shows it (puffervec/viewing/render/). The y axis points up. Later shapes are drawn over earlier
ones, but faded shapes lie below all others. `agents`, `facts`, `actions`, `words`, `observed` and
`pictures` are for the replay only (puffervec/viewing/web/): they add details of the selected agent.
Imports no NumPy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from puffervec.errors import ConfigError

State = Mapping[str, Any]
# Colours that colour-blind people can tell apart (Okabe and Ito 2008).
BLUE, ORANGE, GREEN, PINK, YELLOW = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
SKY = "#56B4E9"
# Text and roles without a colour, captions, rules, the background.
INK, SOFT, EDGE, PAPER = "#2B2E33", "#61666F", "#DDDBD4", "#FBFAF7"
PALETTE = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, INK)  # of curves and bars, in this order


@dataclass(frozen=True)
class Shape:
    """The attributes that all shapes share.

    Attributes:
        role: what the shape stands for; it has that role's colour.
        name: identifies the same thing in every step.
        trail: number of steps for which the path of a named circle or box stays visible.
        filled: False to draw only the outline.
        faded: True for a thing that is out of the game: it is drawn pale.
        of: name of the shape that it belongs to, as a goal to its car. A replay can show what
            belongs to the selected shape.
    """

    role: str = field(default="", kw_only=True)
    name: str = field(default="", kw_only=True)
    trail: int = field(default=0, kw_only=True)
    filled: bool = field(default=True, kw_only=True)
    faded: bool = field(default=False, kw_only=True)
    of: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Circle(Shape):
    """A circle around (x, y)."""

    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Box(Shape):
    """A rectangle around (x, y), rotated counter-clockwise by angle_rad.

    Attributes:
        front: whether to mark the front, which is at +x when unrotated.
    """

    x: float
    y: float
    width: float
    height: float
    angle_rad: float = 0.0
    front: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Line(Shape):
    """A line through points (x, y).

    Attributes:
        width: in world units; 0 draws a thin line.
    """

    points: Sequence[tuple[float, float]]
    width: float = 0.0


@dataclass(frozen=True)
class Polygon(Shape):
    """The area inside points (x, y); the first point is not repeated at the end."""

    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Text(Shape):
    """A text centred at (x, y).

    Attributes:
        height: height of the letters in world units; 0 picks a readable size.
    """

    x: float
    y: float
    text: str
    height: float = field(default=0.0, kw_only=True)


@dataclass(frozen=True)
class Event(Shape):
    """An event in this step at (x, y): a cross, which stays until the episode ends.

    Attributes:
        role: kind of event; `of` names the agent that did it, or that it happened to.
        did: the event as a verb, such as "arrived" or "hit".
        other: name of the second party.
        how: further description.
    """

    x: float
    y: float
    did: str = field(default="", kw_only=True)
    other: str = field(default="", kw_only=True)
    how: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Drawing:
    """The drawing of one episode of an env.

    Attributes:
        view: the part of the world that a picture shows: (left, bottom, right, top).
        shapes: shapes(state, before) -> the visible shapes after a step, from back to front.
        colours: "#rrggbb" by role; they and their roles are the legend.
        still: shapes that never move, behind all other shapes.
        numbers: numbers(state) -> numbers to follow, by name, always the same ones, such as a
            score. None: there are none.
        wholes: for some numbers, the total that they are a part of, as the 10 in 7 of 10.
            `puffer-train render` plots these as shares.
        fps: steps per second of a film.
        step_s: seconds of the env's own time per step; 0: it has no clock, and steps are counted.
        unit: unit of lengths, such as "m"; pictures then have a scale bar.
        close: width of the visible area in world units where a replay or a film follows one agent;
            0: the whole view.
        title: subject of the episode, such as the name of a scene.
        agents: for each row of the env the name of its shape, "" for a row without one.
        facts: facts(state) -> {agent: {name: number}}: facts about agents, by the agents' names.
        actions: actions(rows) -> {name: (rows,) numbers}: the meaning of the actions of all rows,
            in the form that `send` takes them. None: they are shown unchanged.
        words: for some of these actions and facts, by name, the labels of the values 0, 1, 2, ...
        observed: observed(rows, state) -> {agent: shapes}: what agents observe, at its place in the
            world. rows: the rows of all agents, by field name, (rows, ...) each; "group/field" if
            there are several groups of rows.
        pictures: pictures(rows, state) -> {agent: uint8 (height, width) or (height, width, 3)}: the
            pictures that agents get, all of one size; rows as above. None: fields of bytes with one
            or three channels are shown unchanged.
    """

    view: tuple[float, float, float, float]
    shapes: Callable[[State, State | None], Iterable[Shape]]
    colours: Mapping[str, str] = field(default_factory=dict)
    still: Sequence[Shape] = ()
    numbers: Callable[[State], Mapping[str, float]] | None = None
    wholes: Mapping[str, float] = field(default_factory=dict)
    fps: float = 15.0
    step_s: float = 0.0
    unit: str = ""
    close: float = 0.0
    title: str = ""
    agents: Sequence[str] = ()
    facts: Callable[[State], Mapping[str, Mapping[str, float]]] | None = None
    actions: Callable[[Any], Mapping[str, Any]] | None = None
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    observed: Callable[[Mapping[str, Any], State], Mapping[str, Iterable[Shape]]] | None = None
    pictures: Callable[[Mapping[str, Any], State], Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        """Check the view, the colours and the numbers.

        Raises:
            ConfigError: a view without an area, a colour in another notation, or a number out of
                range.
        """
        left, bottom, right, top = self.view
        if not (all(map(math.isfinite, self.view)) and left < right and bottom < top):
            raise ConfigError(
                f"view is {self.view}: give (left, bottom, right, top) with left < right and "
                "bottom < top"
            )
        for role, colour in self.colours.items():
            if not re.fullmatch("#[0-9a-fA-F]{6}", colour):
                raise ConfigError(f"the colour of {role!r} is {colour!r}: use #rrggbb")
        for name, whole in self.wholes.items():
            if not 0 < whole < math.inf:
                raise ConfigError(f"the whole of {name!r} is {whole}: use a finite number above 0")
        if not 0 < self.fps <= 120:
            raise ConfigError(f"fps is {self.fps}: use a number above 0 and at most 120")
        for name in ("step_s", "close"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}: use a finite number, 0 or more"
                )

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How an env says what it looks like: shapes in world units, step by step, made from its readable
state. Imports no NumPy.

    def drawing(config, state):  # at the start of each episode; state: as `vec.peek` returns it
        return Drawing(view=(0, 0, config.size, config.size), colours={"agent": "#0072B2"},
        shapes=shapes)

    def shapes(state, before):  # after the reset and after each step; before: the state one step earlier, None at the start
        yield Circle(*state["agent"], radius=0.4, role="agent", name="agent", trail=20)

    ENV = NativeEnv(..., drawing=drawing)

`puffer-train render` makes replays, films and snapshots of that, and `render_mode="rgb_array"`
shows it (puffervec/viewing/render/). The y axis points up. What comes later is drawn over what came
before, but what is faded lies under all else. `agents`, `facts`, `actions`, `words`, `observed` and
`pictures` are for the replay alone (puffervec/viewing/web/): they say more of the chosen agent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from puffervec.errors import ConfigError

State = Mapping[str, Any]
# Colours that keep apart for the colour-blind (Okabe and Ito 2008).
BLUE, ORANGE, GREEN, PINK, YELLOW = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
INK = "#2B2E33"  # Of roles without a colour.


@dataclass(frozen=True)
class Shape:
    """What all shapes have.

    Attributes:
        role: what it stands for; it has that role's colour.
        name: the same in every step for one and the same thing.
        trail: steps for which the way of a named circle or box stays to be seen.
        filled: False for its outline.
        faded: True for a thing that is out of the game: it is drawn pale.
        of: the name of the shape that it belongs to, as a goal to its car. A replay can show what
            belongs to the chosen one.
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
    """A rectangle around (x, y), turned counter-clockwise by angle_rad. front: it shows where its
    front is: at +x unturned.
    """

    x: float
    y: float
    width: float
    height: float
    angle_rad: float = 0.0
    front: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Line(Shape):
    """A line through points (x, y). width: in world units; 0: a thin line."""

    points: Sequence[tuple[float, float]]
    width: float = 0.0


@dataclass(frozen=True)
class Polygon(Shape):
    """An area inside of points (x, y), without the first one again at the end."""

    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Text(Shape):
    """Words, with their middle at (x, y). height: of the letters, in world units; 0: a size that
    can be read.
    """

    x: float
    y: float
    text: str
    height: float = field(default=0.0, kw_only=True)


@dataclass(frozen=True)
class Event(Shape):
    """Something happened in this step at (x, y): a cross, which stays until the episode ends.

    Attributes:
        role: what happened; `of`: the name of who did it, or to whom it happened.
        did: the same as a verb, "arrived" or "hit". other: the name of the second party. how: more
            words on it.
    """

    x: float
    y: float
    did: str = field(default="", kw_only=True)
    other: str = field(default="", kw_only=True)
    how: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Drawing:
    """How one episode of an env is drawn.

    Attributes:
        view: what a picture shows of the world: (left, bottom, right, top).
        shapes: shapes(state, before) -> what there is to see after a step, from back to front.
        colours: "#rrggbb" by role; they and their roles are the legend.
        still: what never moves, behind all other shapes.
        numbers: numbers(state) -> numbers to follow, by name, always the same ones: what is left,
            who leads. None: there are none.
        wholes: of some numbers, what they are a part of: 7 of 10. `puffer-train render` plots these
        as shares.
        fps: steps per second of a film.
        step_s: seconds of the env's own time in a step; 0: it has no clock, and steps are counted.
        unit: of lengths, as "m": pictures have a scale bar then.
        close: how far one sees across, in world units, where a replay or a film looks at one agent;
        0: the whole view.
        title: what the episode is of, as the name of a scene.
        agents: for each row of the env the name of its shape, "" for a row without one.
        facts: facts(state) -> {agent: {name: number}}: what there is to say of agents, by their
        names.
        actions: actions(rows) -> {name: (rows,) numbers}: what the actions of all rows mean, as
            `send` takes them. None: they are shown as they are.
        words: for some of these actions and facts, by name, what the values 0, 1, 2, ... are
        called.
        observed: observed(rows, state) -> {agent: shapes}: what agents see, where it is in the
            world. rows: of all agents, by the name of the field, (rows, ...) each; "group/field"
            where there are several groups of rows.
        pictures: pictures(rows, state) -> {agent: uint8 (height, width) or (height, width, 3)}:
            what agents are given as a picture, all of one size; rows as above. None: fields of
            bytes with one or three channels are shown as they are.
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
        """Raises: ConfigError: a view without an area, a colour in another notation, or a number
        out of range.
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
            raise ConfigError(f"fps is {self.fps}: use more than 0 and at most 120")
        for name in ("step_s", "close"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}: use a finite number, 0 or more"
                )

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The drawings of the Tag games: taggers, runners, their trails, and tags."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from puffervec.contract.drawing import (
    BLUE,
    INK,
    ORANGE,
    Box,
    Circle,
    Drawing,
    Event,
    Line,
    Shape,
    State,
)

COLOURS = {"tagger": ORANGE, "runner": BLUE, "tag": INK}
LEFT, STILL_IN = "runners left", "still in the game"
TRAIL, CROWDED_TRAIL = 20, 3  # Steps.
# Radius of an agent, in widths of the field; it shrinks if there are more agents than CROWDED.
RADIUS, CROWDED = 1 / 80, 400
MOST_CELLS_DRAWN = 25  # Cells along a side.
# The actions of csrc/tag/grid.c; the y axis of a drawing points up.
MOVES = ("stay", "right", "left", "up", "down")


def drawing_of_grid(config: Any, state: State) -> Drawing:
    """Return the drawing of tag_grid: agents on cells; several on one cell surround its middle."""
    length = config.grid_length
    inner = [cell - 0.5 for cell in range(1, length + 1)] if length < MOST_CELLS_DRAWN else []
    lines = [Line(((at, -0.5), (at, length + 0.5)), faded=True) for at in inner]
    lines += [Line(((-0.5, at), (length + 0.5, at)), faded=True) for at in inner]
    radius = max(0.4, _radius(length, config.num_taggers + 1))

    def shapes(state: State, before: State | None) -> Iterator[Shape]:
        caught = _tagged(state)
        *taggers, runner = _spread(
            list(zip(state["x"].tolist(), state["y"].tolist(), strict=True)), radius / 2
        )
        yield Circle(*runner, radius, role="runner", name="runner_0", trail=TRAIL, faded=caught)
        for number, place in enumerate(taggers):
            yield Circle(*place, radius, role="tagger", name=f"tagger_{number}", trail=TRAIL)
        if caught:
            yield Event(*runner, role="tag", of="runner_0", did="was tagged")

    return Drawing(
        view=_around(-0.5, length + 0.5),
        shapes=shapes,
        colours=COLOURS,
        still=[*lines, Box(length / 2, length / 2, length + 1, length + 1, filled=False)],
        numbers=lambda state: {LEFT: float(not _tagged(state))},
        wholes={LEFT: 1.0},
        fps=10,
        agents=[*(f"tagger_{number}" for number in range(config.num_taggers)), "runner_0"],
        actions=lambda rows: {"move": rows},
        words={"move": MOVES},
    )


def _tagged(state: State) -> bool:
    x, y = state["x"], state["y"]
    return bool(state["time"][0] > 0 and ((x[:-1] == x[-1]) & (y[:-1] == y[-1])).any())


def _spread(cells: list[tuple[int, int]], away: float) -> list[tuple[float, float]]:
    """Return where to draw agents: in the middle of a cell, or around it if it has several."""
    count, seen, places = Counter(cells), Counter[tuple[int, int]](), []
    for x, y in cells:
        angle = 2 * math.pi * seen[x, y] / count[x, y]
        seen[x, y] += 1
        far = away if count[x, y] > 1 else 0.0
        places.append((x + far * math.cos(angle), y + far * math.sin(angle)))
    return places


def drawing_of_plane(config: Any, types: np.ndarray, changes: Mapping[str, np.ndarray]) -> Drawing:
    """Return the drawing of tag_continuous: agents in the plane, with a line in their heading.

    The ring around a tagger shows its reach.

    Args:
        config: config of the env.
        types: (N,) 1 for taggers.
        changes: for each of the two parts of an action, by name, the change that each choice makes.
    """
    length, margin = (
        config.grid_length,
        float(np.float32(config.tagging_distance * config.grid_length)),
    )
    taggers, runners = np.flatnonzero(types == 1), np.flatnonzero(types == 0)
    roles = ["tagger" if tags else "runner" for tags in types]
    names = [f"{role}_{agent}" for agent, role in enumerate(roles)]
    radius, trail = _radius(length, len(types)), TRAIL if len(types) <= CROWDED else CROWDED_TRAIL

    def tagged(state: State, before: State | None) -> np.ndarray:
        """Return the runners that were tagged in this step.

        They left the game in this step, or, if tagged runners stay in it, are near a tagger.
        """
        if before is None:
            return runners[:0]
        if config.runner_exits_game_after_tagged:
            return np.asarray(
                runners[(before["still_in_the_game"] > state["still_in_the_game"])[runners]]
            )
        away = [
            np.hypot(state["x"][runners] - state["x"][t], state["y"][runners] - state["y"][t])
            for t in taggers
        ]
        return np.asarray(runners[np.min(away, axis=0) < margin])

    def shapes(state: State, before: State | None) -> Iterator[Shape]:
        x, y, direction = (state[name].tolist() for name in ("x", "y", "direction"))
        for agent in (*runners.tolist(), *taggers.tolist()):
            role, name, gone = roles[agent], names[agent], not state["still_in_the_game"][agent]
            if not gone:
                ahead = (
                    x[agent] + 2 * radius * math.cos(direction[agent]),
                    y[agent] + 2 * radius * math.sin(direction[agent]),
                )
                yield Line(((x[agent], y[agent]), ahead), role=role, name=f"nose of {name}")
            if role == "tagger" and margin > radius:
                yield Circle(
                    x[agent],
                    y[agent],
                    margin,
                    role=role,
                    filled=False,
                    faded=True,
                    name=f"reach of {name}",
                )
            yield Circle(x[agent], y[agent], radius, role=role, name=name, trail=trail, faded=gone)
        for agent in tagged(state, before).tolist():
            yield Event(x[agent], y[agent], role="tag", of=names[agent], did="was tagged")

    return Drawing(
        view=_around(0.0, length),
        shapes=shapes,
        colours=COLOURS,
        still=[Box(length / 2, length / 2, length, length, filled=False)],
        numbers=lambda state: {LEFT: float(state["still_in_the_game"][runners].sum())},
        wholes={LEFT: float(len(runners))},
        fps=20,
        agents=names,
        facts=lambda state: {name: _motion(state, agent) for agent, name in enumerate(names)},
        actions=lambda rows: {
            name: table[rows[:, part]] for part, (name, table) in enumerate(changes.items())
        },
        words={STILL_IN: ("no", "yes")},
    )


def _motion(state: State, agent: int) -> dict[str, float]:
    """Return an agent's motion in tag_continuous, and whether it is still in the game."""
    return {
        "speed": float(state["speed"][agent]),
        "direction rad": float(state["direction"][agent]),
        STILL_IN: float(state["still_in_the_game"][agent]),
    }


def _radius(length: float, agents: int) -> float:
    return length * RADIUS * min(1.0, math.sqrt(CROWDED / agents))


def _around(low: float, high: float) -> tuple[float, float, float, float]:
    """Return a view of a square field with a margin."""
    room = 0.02 * (high - low)
    return low - room, low - room, high + room, high + room

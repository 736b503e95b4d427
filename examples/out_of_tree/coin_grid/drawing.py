# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How coin_grid is drawn, for `puffer-train render` and `render_mode="rgb_array"`; and pictures for
`eval --png`.

`agents`, `facts`, `actions` and `observed` are what a replay shows of the agent that is looked at.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import puffervec
from puffervec.contract.drawing import (
    BLUE,
    GREEN,
    INK,
    PINK,
    YELLOW,
    Box,
    Circle,
    Drawing,
    Event,
    Shape,
    State,
)
from puffervec.contract.evaluation import Actor
from puffervec.viewing.render.frames import Frames

COLOURS = {"agent": BLUE, "coin": YELLOW, "pit": INK, "taken": PINK, "seen": GREEN}
MOVES = ((0, 0), (1, 0), (-1, 0), (0, -1), (0, 1))  # by action, in drawings


def drawing(config: Any, state: State) -> Drawing:
    """A grid in which one cell is one unit. In the game y points down, in drawings up."""
    size = config.size

    def at(cell: Any) -> tuple[float, float]:
        return float(cell[0]), size - 1.0 - float(cell[1])

    def shapes(state: State, before: State | None) -> Iterator[Shape]:
        yield Box(*at(state["pit"]), 0.9, 0.9, role="pit")
        yield Circle(*at(state["coin"]), 0.25, role="coin")
        yield Circle(*at(state["agent"]), 0.35, role="agent", name="agent", trail=12)
        if before is not None and (state["agent"] == before["coin"]).all():
            yield Event(*at(before["coin"]), role="taken")

    def observed(rows: Mapping[str, Any], state: State) -> dict[str, list[Shape]]:
        """Where the agent sees coin and pit: its observation has them in shares of the size."""
        places = (at(size * rows[name][0]) for name in ("coin", "pit"))
        return {"agent": [Box(x, y, 1, 1, role="seen", filled=False) for x, y in places]}

    def facts(state: State) -> dict[str, dict[str, float]]:
        """Steps from the coin."""
        return {"agent": {"to the coin": float(abs(state["agent"] - state["coin"]).sum())}}

    middle = (size - 1) / 2
    return Drawing(
        view=(-0.5, -0.5, size - 0.5, size - 0.5),
        shapes=shapes,
        colours=COLOURS,
        still=[Box(middle, middle, size, size, filled=False)],
        fps=8,
        agents=("agent",),
        facts=facts,
        actions=lambda rows: {
            name: [MOVES[row][axis] for row in rows] for axis, name in enumerate(("right", "up"))
        },
        observed=observed,
    )


def draw(
    actor: Actor, config: Any, names: Sequence[str], *, seed: int
) -> Iterator[tuple[str, bytes]]:
    """Yield a PNG for each of the report's parts: where 64 steps lead."""
    from matplotlib.image import imsave

    for name in names:
        with puffervec.make("coin_grid", env_kwargs=config, backend="serial", seed=seed) as vec:
            observations, _ = vec.reset(seed)
            actor.reset(vec)
            frames = Frames(vec)
            frames.begin()
            for _ in range(64):
                observations = vec.step(actor.act(observations, vec))[0]
                frames.add()
            file = io.BytesIO()
            imsave(file, frames.picture(), format="png")
        yield name, file.getvalue()

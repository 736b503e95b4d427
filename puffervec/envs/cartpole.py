# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`cartpole`: Gymnasium's CartPole-v1 in C (csrc/envs/cartpole.c).

It serves as the example of an env that uses structures of arrays and vector loops.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from puffervec.contract.drawing import BLUE, ORANGE, Box, Circle, Drawing, Line, Shape, State
from puffervec.contract.keyboard import Keys
from puffervec.contract.native import EnvData, NativeEnv

MOST_X_M, MOST_ANGLE_RAD, POLE_M = 2.4, math.radians(12), 1.0  # As in csrc/envs/cartpole.c.


@dataclass(frozen=True)
class CartpoleConfig:
    """Settings of cartpole, with the names and defaults of CartPole-v1."""

    max_episode_steps: int = 500
    """Steps until the episode is truncated."""
    sutton_barto_reward: bool = False
    """Reward 0 per step and -1 for the fall, instead of 1 per step."""


def drawing(config: CartpoleConfig, state: State) -> Drawing:
    """Return the drawing: a cart on its track, between the places where an episode ends."""
    ends = [Line(((x, -0.12), (x, 0.12)), faded=True) for x in (-MOST_X_M, MOST_X_M)]
    return Drawing(
        view=(-2.8, -0.35, 2.8, 1.3),
        shapes=shapes,
        colours={"cart": BLUE, "pole": ORANGE},
        still=[Line(((-2.8, 0.0), (2.8, 0.0))), *ends],
        numbers=lambda state: {
            "poles up": float(abs(state["theta"]) <= MOST_ANGLE_RAD and abs(state["x"]) <= MOST_X_M)
        },
        wholes={"poles up": 1.0},
        fps=50,
        step_s=0.02,
        unit="m",
        agents=("cart",),
        facts=lambda state: {
            "cart": {name: float(state[name]) for name in ("x", "x_dot", "theta", "theta_dot")}
        },
        actions=lambda rows: {"push": rows},
        words={"push": ("left", "right")},
    )


def shapes(state: State, before: State | None) -> Iterator[Shape]:
    """Yield the cart and the pole, which turns about the middle of the cart."""
    x, angle = float(state["x"]), float(state["theta"])
    yield Box(x, 0.0, 0.5, 0.24, role="cart", name="cart")
    tip = x + POLE_M * math.sin(angle), POLE_M * math.cos(angle)
    yield Line(((x, 0.0), tip), width=0.08, role="pole", name="pole")
    yield Circle(x, 0.0, 0.05, name="axle")


def keys(config: CartpoleConfig) -> Keys:
    """Return the keys: push left, push right.

    If no key is pressed, left and right pushes alternate, since every action is a push.
    """
    turns = itertools.cycle((0, 1))

    def action(held: Mapping[str, int]) -> int:
        if ("ArrowLeft" in held) == ("ArrowRight" in held):
            return next(turns)
        return 1 if "ArrowRight" in held else 0

    return Keys({"ArrowLeft": "push left", "ArrowRight": "push right"}, action)


ENV = NativeEnv(
    name="cartpole",
    config=CartpoleConfig,
    build=lambda config: EnvData(),
    drawing=drawing,
    keys=keys,
)

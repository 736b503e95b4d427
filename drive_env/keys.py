# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train play drive`: how keys drive a car, under each model whose actions are accelerations
and steering.

Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drive_env.actions import axes_of, parse_action_values
from drive_env.config import UNLIMITED, DriveConfig
from puffervec.contract.keyboard import Keys
from puffervec.errors import ConfigError

AHEAD, BACK, LEFT, RIGHT = "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"
NAMES = {AHEAD: "accelerate", BACK: "brake, back", LEFT: "left", RIGHT: "right"}
ALONE = ("replay_log", "expert_actions", "idm_agents")
WAYS = 5  # of a continuous action to either side: it gets there in so many steps


def keys(config: DriveConfig) -> Keys:
    """Return how keys drive a car. The longer one is held, the farther it goes from the value next
    to 0.

    Raises: ConfigError: the actions of this model are places, which no keys choose, or a setting
        moves agents without actions.
    """
    if alone := [name for name in ALONE if getattr(config, name)]:
        raise ConfigError(
            f"drive: with {alone[0]}=1, which some baselines set, agents move without actions: no "
            "keys"
        )
    if config.dynamics in UNLIMITED:
        raise ConfigError(
            f"drive: dynamics={config.dynamics} cannot be driven by keys: use any but "
            f"{', '.join(UNLIMITED)}"
        )
    along, across = values_of(config)

    def action(held: Mapping[str, int]) -> float | Sequence[float]:
        first, second = (
            _chosen(along, held.get(AHEAD, 0), held.get(BACK, 0)),
            _chosen(across, held.get(LEFT, 0), held.get(RIGHT, 0)),
        )
        if config.actions == "continuous":
            return along[first], across[second]
        return first * len(across) + second if config.actions == "discrete" else (first, second)

    return Keys(NAMES, action)


def values_of(config: DriveConfig) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return what the two axes of an action choose from, as the action space numbers them."""
    given = parse_action_values(config.action_values, config.dynamics)
    found = []
    for axis in axes_of(config.dynamics):
        values = given.get(axis.name, axis.values)
        if config.actions == "continuous":
            low, high = (min(values), max(values)) if axis.name in given else (axis.low, axis.high)
            values = (
                *(low * (WAYS - n) / WAYS for n in range(WAYS)),
                0.0,
                *(high * (n + 1) / WAYS for n in range(WAYS)),
            )
        found.append(values)
    along, across = found
    return along, across


def _chosen(values: Sequence[float], up: int, down: int) -> int:
    """Return the place of the value that is `up` or `down` steps from the one next to 0."""
    rising = sorted(range(len(values)), key=lambda place: values[place])
    middle = min(range(len(rising)), key=lambda place: abs(values[rising[place]]))
    steps = 0 if up and down else up - down
    return rising[min(max(middle + steps, 0), len(rising) - 1)]

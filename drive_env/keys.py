# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Maps the keyboard to a car's actions for `puffer-train play drive`.

This works for each model whose actions are accelerations and steering. Runs in the learner.
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
WAYS = 5  # steps from 0 to either bound of a continuous action while a key is held


def keys(config: DriveConfig) -> Keys:
    """Return how the keyboard drives a car.

    The longer a key is held, the farther its value moves away from the one closest to 0.

    Raises:
        ConfigError: the actions of this model are poses, which keys cannot choose, or a setting
            moves agents without actions.
    """
    if alone := [name for name in ALONE if getattr(config, name)]:
        raise ConfigError(
            f"drive: {alone[0]} is 1, which some baselines set: agents move without actions, so "
            "keys cannot drive them"
        )
    if config.dynamics in UNLIMITED:
        raise ConfigError(
            f"drive: dynamics={config.dynamics} cannot be driven by keys: use any model except "
            f"{', '.join(UNLIMITED)}"
        )
    along, across = values_of(config)

    def action(held: Mapping[str, int]) -> float | Sequence[float]:
        first, second = (
            _step_from_middle(along, held.get(AHEAD, 0), held.get(BACK, 0)),
            _step_from_middle(across, held.get(LEFT, 0), held.get(RIGHT, 0)),
        )
        if config.actions == "continuous":
            return along[first], across[second]
        return first * len(across) + second if config.actions == "discrete" else (first, second)

    return Keys(NAMES, action)


def values_of(config: DriveConfig) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the values of an action's two axes, in the order of the action space."""
    own = parse_action_values(config.action_values, config.dynamics)
    axes = []
    for axis in axes_of(config.dynamics):
        values = own.get(axis.name, axis.values)
        if config.actions == "continuous":
            low, high = (min(values), max(values)) if axis.name in own else (axis.low, axis.high)
            values = (
                *(low * (WAYS - n) / WAYS for n in range(WAYS)),
                0.0,
                *(high * (n + 1) / WAYS for n in range(WAYS)),
            )
        axes.append(values)
    along, across = axes
    return along, across


def _step_from_middle(values: Sequence[float], up: int, down: int) -> int:
    """Return the index of the value that is `up` or `down` steps from the one closest to 0."""
    rising = sorted(range(len(values)), key=lambda index: values[index])
    middle = min(range(len(rising)), key=lambda index: abs(values[rising[index]]))
    steps = 0 if up and down else up - down
    return rising[min(max(middle + steps, 0), len(rising) - 1)]

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The interface for playing one agent of an env with a keyboard. Imports no NumPy.

    def keys(config):
        return Keys(names={"ArrowUp": "forward"}, action=lambda held: 1 if "ArrowUp" in held else 0)

    ENV = NativeEnv(..., drawing=drawing, keys=keys)

`puffer-train play` shows the env in a browser and steps it at the drawing's own rate
(`Drawing.fps`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from puffervec.errors import ConfigError

MOST_KEYS = 12


@dataclass(frozen=True)
class Keys:
    """The mapping from keys to the actions of the agent that a person plays.

    Attributes:
        names: a short description of each key, by its name in browsers (KeyboardEvent.key:
            "ArrowUp", "a", " "). Devices without a keyboard show a button for each.
        action: action(held) -> the agent's action, as a row of `send`: a number, or several. held:
            the number of steps for which each key has been held, by name: 1 in the first one; keys
            that are not held are missing. Called once per step.
    """

    names: Mapping[str, str]
    action: Callable[[Mapping[str, int]], float | Sequence[float]]

    def __post_init__(self) -> None:
        """Check the number of keys.

        Raises:
            ConfigError: there are no keys, or too many.
        """
        if not 1 <= len(self.names) <= MOST_KEYS:
            raise ConfigError(f"keys are {list(self.names)}: name 1 to {MOST_KEYS} keys")

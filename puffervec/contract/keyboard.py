# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How somebody at a keyboard plays one agent of an env. Imports no NumPy.

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
    """What keys do to the agent that somebody plays.

    Attributes:
        names: what each key does, in a few words, by its name in browsers (KeyboardEvent.key:
            "ArrowUp", "a", " "). There is a button for each on screens without keys.
        action: action(held) -> the agent's action, as a row of `send`: a number, or several. held:
            for how many steps each key has been held, by name: 1 in the first one; keys that are
            not held are missing. Called once for each step.
    """

    names: Mapping[str, str]
    action: Callable[[Mapping[str, int]], float | Sequence[float]]

    def __post_init__(self) -> None:
        """Raises: ConfigError: no keys, or too many."""
        if not 1 <= len(self.names) <= MOST_KEYS:
            raise ConfigError(f"keys are {list(self.names)}: name 1 to {MOST_KEYS} keys")

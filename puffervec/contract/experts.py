# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The interface through which an env shows an expert's actions, to be cloned. Imports no NumPy.

    def experts(config):
        return Experts(replace(config, expert=1), lambda state: (state["played"], state["known"]))

    ENV = NativeEnv(..., experts=experts)

The env itself plays its expert, such as the drivers of recorded logs, and ignores the actions that
it receives. `puffer-train ENV --train.algorithm clone` learns from what was played.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puffervec.contract.drawing import State

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Experts:
    """Settings with which an env plays its expert, and a function that reads the expert's actions.

    Attributes:
        settings: the config with which the env plays the expert's actions. Its observations and
            actions are those of the run's config.
        played: played(state) -> (actions, known). state: state of an env after a step, as
            `vec.peek` returns it. actions: the actions of that step, as rows of `send`, (A,) or
            (A, D). known: (A,) bool, False for rows whose action is not an expert's, for instance
            in a gap of a log. Rows without an agent may have any value.
    """

    settings: Any
    played: Callable[[State], tuple[np.ndarray, np.ndarray]]

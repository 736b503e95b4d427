# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/collect/bounds.py: observations outside of the bounds by which they are scaled
are told, others are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from puffervec.train import TrainConfig, Trainer

Small = Callable[..., TrainConfig]


class Wide(gymnasium.Env[Any, Any]):
    """Its second number reaches from 0 to `reach`, whatever its Box says."""

    action_space = spaces.Discrete(2)

    def __init__(self, reach: float, parts: bool = False) -> None:
        box = spaces.Box(np.float32([-1, 0]), np.float32([1, 2]))
        self.observation_space = (
            spaces.Dict({"a": spaces.Discrete(3), "far": box}) if parts else box
        )
        self.reach, self.parts, self.steps = reach, parts, 0

    def _observation(self) -> Any:
        row = np.array([0.5, self.reach * (self.steps % 2)], np.float32)
        return {"a": 1, "far": row} if self.parts else row

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self._observation(), 1.0, False, self.steps == 5, {}


@pytest.mark.slow
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("reach", [2.0, 7.0, -3.0])
def test_observations_outside_of_their_box_are_told_once(
    small: Small, reach: float, parts: bool
) -> None:
    notes: list[str] = []

    class Notes:
        def show(self, metrics: Any, progress: float) -> None:
            pass

        def note(self, text: str) -> None:
            notes.append(text)

        def close(self) -> None:
            pass

    config = TrainConfig.of(Wide, env={"reach": reach, "parts": parts}).merged(
        {name: table for name, table in small().tables().items() if name in ("vec", "train", "log")}
    )
    with Trainer(config, dashboard=Notes()) as trainer:
        trainer.train()
    told = [note for note in notes if "outside their Box" in note]
    assert len(told) == (reach != 2.0)
    if told:
        ends = f"ranges from {min(reach, 0):g} to {max(reach, 0):g}, its bounds are 0 and 2"
        assert ends in told[0] and "element 1" in told[0] and ("'far'" in told[0]) == parts

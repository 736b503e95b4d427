# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/tasks.py: the best return is what its sentence says, and guessing gets less."""

from __future__ import annotations

import pytest

from bench import tasks


def returns(env: tasks.Task, choose: object) -> float:
    total, over = 0.0, False
    env.reset(seed=3)
    while not over:
        _, reward, over, _, _ = env.step(choose())  # type: ignore[operator]
        total += reward
    return total


@pytest.mark.parametrize(
    ("env", "best", "right"),
    [
        (tasks.Parts(), 8, lambda env: env.shown),
        (tasks.Recall(), 2, lambda env: env.shown),
        (tasks.Spot(), 8, lambda env: env.quarter),
    ],
)
def test_best_returns(env: tasks.Task, best: float, right: object) -> None:
    assert env.reset(seed=1)[0] in env.observation_space
    assert returns(env, lambda: right(env)) == pytest.approx(best)  # type: ignore[operator]
    assert returns(env, lambda: env.action_space.sample() * 0) < best

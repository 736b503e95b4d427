# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/score.py: when policies are copied, what they are evaluated on, and what is said of it. Scores are not judged here."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench import score


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"at": None, "minutes": 30.0, **given})


@pytest.mark.parametrize(
    ("at", "minutes", "times"),
    [(None, 30.0, [5, 30]), (None, 5.0, [5]), (None, 60.0, [5, 30, 60]), ("2,1", 3.0, [1, 2, 3]), ("0.5", 0.5, [0.5])],
)
def test_times_are_those_asked_for_and_the_end(at: str | None, minutes: float, times: list[float]) -> None:
    assert score.times_of(options(at=at, minutes=minutes)) == times


def test_policies_are_copied_at_the_last_update_that_ends_in_time() -> None:
    clock = iter([100.0, 120.0, 140.0, 159.0, 185.0, 250.0])
    stops: list[float] = []
    policy = torch.nn.Linear(1, 1)
    watch = score.Watch([2.0, 1.0], "env/score", lambda: next(clock))
    watch.trainer = SimpleNamespace(policies={"default": policy}, request_stop=lambda: stops.append(watch.before_s or 0.0))  # type: ignore[assignment]
    for step in range(1, 5):  # updates end after 20, 40, 59 and 85 seconds
        with torch.no_grad():
            policy.weight.fill_(step)
        watch.show({"step": step, **({"env/score": 0.5} if step > 1 else {})}, 0.0)
    assert [(m.minutes, m.seconds, m.agent_steps) for m in watch.moments] == [(1.0, 59.0, 3)] and not stops
    watch.show({"step": 5}, 0.0)  # 150 s: 120 s were over before it
    assert [m.minutes for m in watch.moments] == [1.0, 2.0] and stops == [150.0]
    assert watch.moments[0].policies["default"].weight.item() == 3.0  # a copy
    assert [point["score"] for point in watch.curve] == [None, 0.5, 0.5, 0.5, None]

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A turn on a device (puffervec/train/collect/device_turn.py) byte by byte: unsigned observations,
actions in one copy, its wait.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import puffervec
from puffervec.train.collect import device_turn
from puffervec.train.collect.device_turn import LOOKS, YIELDS, DeviceTurn
from tests.train.streams import Event
from tests.train.test_device_turn import make_rollout


class Large(gymnasium.Env[Any, Any]):
    """Shows numbers of which an int of the same width would be negative."""

    def __init__(self, dtype: str = "uint16") -> None:
        top = np.iinfo(dtype).max
        self.observation_space = spaces.Box(0, top, (3,), np.dtype(dtype).type)
        self.action_space = spaces.Discrete(4)
        self._shown = np.array([top, top - 1, 7], dtype)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self._shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._shown, 0.0, False, False, {}


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_observations_arrive(dtype: str) -> None:
    with puffervec.make(
        Large, env_kwargs={"dtype": dtype}, backend="serial", num_envs=2, num_buffers=2
    ) as vec:
        rollout = make_rollout("large", "none", True, vec)
        rollout.begin(5)
        assert rollout.collect()
        (slot,) = rollout.slots.values()
        (obs,) = slot.storage.obs.values()
        assert obs.dtype == getattr(torch, dtype)
        top = np.iinfo(dtype).max
        np.testing.assert_array_equal(obs.numpy()[1, 0], np.array([top, top - 1, 7], dtype))


def test_the_actions_of_all_groups_go_out_in_one_copy() -> None:
    kwargs = {"mode": 1, "num_agents": 2, "episode_length": 4}
    with puffervec.make(
        "probe", env_kwargs=kwargs, backend="serial", num_envs=4, num_buffers=2
    ) as vec:
        turn = make_rollout("two groups", "none", True, vec).turns[1]
        assert isinstance(turn, DeviceTurn) and len(turn.actions) == 2
        for number, actions in enumerate(turn.actions.values(), 1):
            actions.fill_(number)
        before = turn.block.clone()
        turn._copy_out()
        for number, rows in enumerate(turn.groups.values(), 1):
            assert (rows.actions == number).all()
        ends = max(rows.actions_at + rows.actions.nbytes for rows in turn.groups.values())
        begins = min(rows.actions_at for rows in turn.groups.values())
        assert torch.equal(turn.block[:begins], before[:begins]) and torch.equal(
            turn.block[ends:], before[ends:]
        )


@pytest.mark.parametrize(
    ("looks", "yields", "sleeps"), [(3, 0, 0), (LOOKS + 5, 5, 0), (LOOKS + YIELDS + 2, YIELDS, 2)]
)
def test_the_actions_are_waited_for_without_a_sleep_at_first(
    looks: int, yields: int, sleeps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(device_turn.os, "sched_yield", lambda: done.append("yield"))
    monkeypatch.setattr(device_turn.time, "sleep", lambda seconds: done.append("sleep"))
    with puffervec.make("tag_grid", backend="serial", num_envs=2, num_buffers=1) as vec:
        turn = make_rollout("tag", "none", True, vec).turns[0]
    assert isinstance(turn, DeviceTurn)
    event = Event(after=looks)
    monkeypatch.setattr(turn.stream, "done", event.query)
    turn.wait()
    assert event.looks == looks + 1
    assert (done.count("yield"), done.count("sleep")) == (yields, sleeps)

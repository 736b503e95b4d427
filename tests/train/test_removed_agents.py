# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""An agent that has left its episode enters no loss and no average: whatever its rows hold, the run
is the same to the byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from puffervec.train import TrainConfig, Trainer
from puffervec.train.collect.turn import HostTurn

Small = Callable[..., TrainConfig]
CLOCKS = (
    "charts/agent_steps_per_s",
    "charts/env_steps_per_s",
    "charts/seconds_left",
    "charts/overlap",
    "elapsed_s",
    "span_s",
)


class Dying:
    """A parallel env of four agents; one of them leaves at each step after the first, and the last
    one is cut off.
    """

    metadata: dict[str, Any] = {"name": "dying"}
    possible_agents = ["a", "b", "c", "d"]
    render_mode = None

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(3)

    def _seen(self) -> dict[str, Any]:
        return {agent: self.numbers.normal(5.0, 2.0, 3).astype(np.float32) for agent in self.agents}

    def reset(
        self, seed: int | None = None, options: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is not None:
            self.numbers = np.random.default_rng(seed)
        self.agents, self.clock = list(self.possible_agents), 0
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        self.clock += 1
        seen, here = self._seen(), list(self.agents)
        gone = {agent: self.clock > 1 and agent == here[-1] and len(here) > 1 for agent in here}
        cut = {agent: self.clock == 6 for agent in here}
        rewards = {agent: float(actions[agent]) for agent in here}
        self.agents = [] if self.clock == 6 else [agent for agent in here if not gone[agent]]
        return seen, rewards, gone, cut, {agent: {"level": float(self.clock)} for agent in here}

    def close(self) -> None:
        pass


class Vanishing(Dying):
    """Agents leave without a flag: they are no longer among the agents."""

    metadata: dict[str, Any] = {"name": "vanishing"}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        seen, rewards, gone, cut, infos = super().step(actions)
        return seen, rewards, dict.fromkeys(gone, False), cut, infos


def run(
    config: TrainConfig, poison: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], list[torch.Tensor], int]:
    """Return the last metrics but for clocks, the policy's bytes, and how many rows of removed
    agents were overwritten.
    """
    launch, found = HostTurn.launch, 0

    def poisoned(self: HostTurn) -> None:
        nonlocal found
        for rows in self.groups.values():
            gone = rows.masks == 0
            found += int(gone.sum())
            for part in rows.obs.values():
                part[gone] = poison if part.is_floating_point() else 77
            rows.rewards[gone] = poison
        launch(self)

    monkeypatch.setattr(HostTurn, "launch", poisoned)
    with Trainer(config) as trainer:
        metrics = trainer.train()
        weights = [
            tensor.clone()
            for policy in trainer.policies.values()
            for tensor in policy.state_dict().values()
        ]
    monkeypatch.setattr(HostTurn, "launch", launch)
    return (
        {key: metrics[key] for key in metrics if not key.startswith(("time/", "usage/", *CLOCKS))},
        weights,
        found,
    )


TAG = {
    "num_taggers": 2,
    "num_runners": 4,
    "grid_length": 2.0,
    "episode_length": 20,
    "tagging_distance": 0.1,
}


@pytest.mark.parametrize(
    ("target", "memory", "train"),
    [
        (Dying, "none", {"algorithm": "a2c"}),
        (Vanishing, "none", {"algorithm": "ppo", "update_epochs": 1}),
        (Dying, "mingru", {"algorithm": "ppo", "update_epochs": 2}),
        ("tag_continuous", "none", {"vtrace": True, "update_epochs": 2}),
        ("tag_continuous", "mingru", {"algorithm": "a2c"}),
    ],
)
def test_what_rows_of_removed_agents_hold_changes_nothing(
    target: Any, memory: str, train: dict[str, Any], small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of sequences all steps go through the network and its memory: NaN would stay there, and no env
    # of this package writes one.
    garbage = 1e6 if memory != "none" else float("nan")
    config = small(
        target,
        env={} if isinstance(target, type) else TAG,
        train={"scale_rewards": True, "total_timesteps": 250, "horizon": 16, **train},
        policy={"memory": memory, "hidden": (8,), "normalize": True},
    )
    (clean, weights, rows), (dirty, same, _) = (
        run(config, poison, monkeypatch) for poison in (0.0, garbage)
    )
    assert rows > 20 and clean == dirty
    assert all(torch.equal(one, other) for one, other in zip(weights, same, strict=True))


@pytest.mark.parametrize("env", [Dying, Vanishing])
def test_steps_and_returns_are_those_of_agents_in_the_game(env: Any, small: Small) -> None:
    """Of 6 steps the agents take 6, 4, 3 and 2; an episode and the row of its reset take 7 rows of
    time.
    """
    config = small(env, train={"horizon": 14, "total_timesteps": 1, "algorithm": "a2c", "lr": 1e-9})
    with Trainer(config) as trainer:
        assert trainer.collect()
        trainer.update()
        assert trainer.counters.agent_steps == 4 * 2 * (6 + 4 + 3 + 2)
        assert trainer.counters.env_steps == 4 * 14
        storage = trainer.slots["default"].storage
        alive = storage.valid()
        taken = storage.actions[:-1].squeeze(-1)[alive].float()
        means = trainer.collector.means()
    # One action is worth itself, and an agent lives through (6 + 4 + 3 + 2) / 4 steps of an
    # episode.
    assert means["episode/length"] == pytest.approx(15 / 4) and means[
        "episode/return"
    ] == pytest.approx(float(taken.mean()) * 15 / 4)

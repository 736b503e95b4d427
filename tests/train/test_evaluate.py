# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.contract.evaluation import Interval
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.act import evaluate as ev
from puffervec.train.run.learner import Learner
from tests.train import envs
from tests.train.fakes import Counting

Small = Callable[..., TrainConfig]
CPU = torch.device("cpu")


def test_policy_round_trip(small: Small) -> None:
    config = small(env={"mode": 1, "num_agents": 2, "episode_length": 4})
    with Trainer(config) as trainer:
        trainer.collect()
        trainer.update()
        path = trainer.save()
        weights = {name: policy.state_dict() for name, policy in trainer.policies.items()}
    found, policies = ev.load_policies(path, CPU)
    assert found.config.env == config.env and set(policies) == {"scouts", "towers"}
    for name, policy in policies.items():
        for key, value in policy.state_dict().items():
            torch.testing.assert_close(value, weights[name][key], rtol=0, atol=0)


@pytest.mark.parametrize(
    "width", ["9", "1048576,\n        1048576"], ids=["other", "more than any memory"]
)
def test_policy_of_other_settings_is_refused(small: Small, width: str) -> None:
    with Trainer(small()) as trainer:
        path = trainer.save()
    manifest = path / "manifest.json"
    manifest.write_text(
        manifest.read_text().replace(
            '"hidden": [\n        8\n      ]',
            '"hidden": [\n        WIDTH\n      ]'.replace("WIDTH", width),
        )
    )
    with pytest.raises(CheckpointError, match="do not fit"):
        ev.load_policies(path, CPU)


def test_weights_that_are_not_finite_are_refused(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer saves none, but others may."""
    monkeypatch.setattr(Learner, "not_finite", lambda learner: [])
    with Trainer(small()) as trainer:
        name, policy = next(iter(trainer.policies.items()))
        next(policy.parameters()).data.view(-1)[3] = float("nan")
        path = trainer.save()
    with pytest.raises(
        CheckpointError, match=f"weight of '{name}' is not finite: use an older checkpoint"
    ):
        ev.load_policies(path, CPU)


def test_returns_of_the_probe_are_exact(small: Small) -> None:
    """A policy that always takes action 4: one agent's return is 1 + 2 + 3 + 3 * 4/16."""

    class Always4:
        def reset(self, vec: object) -> None:
            pass

        def act(self, obs: np.ndarray, vec: object) -> np.ndarray:
            return np.full(len(obs), 4)

    (rates,) = ev.evaluate_generic("probe", small().env, Always4(), episodes=10, seed=0, num_envs=4)
    assert rates.episodes == 10  # two of the four envs run three
    assert rates.episode_return == (6.75, 0.0) and rates.length == (3.0, 0.0)


@pytest.mark.parametrize("env", ["tag_grid", "CartPole-v1"])
def test_many_times_the_same_episode_is_one_without_an_interval(env: str) -> None:
    """tag_grid has one start: an actor that draws nothing plays one episode. CartPole's starts are
    drawn.
    """

    class Idle:
        def reset(self, vec: object) -> None:
            pass

        def act(self, obs: np.ndarray, vec: Any) -> np.ndarray:
            return np.zeros(len(obs), np.int64)

    for actor, drawn in ((Idle(), env != "tag_grid"), (ev.RandomActor(0), True)):
        report = ev.evaluate_any(TrainConfig.of(env), actor, 5, 0)
        lengths = [row["length"] for row in report.rows]
        assert all(isinstance(cell, Interval) and math.isnan(cell.low) != drawn for cell in lengths)
        assert ("95 %" in report.remarks[0]) == drawn
        assert all(row["episodes"] == 5 for row in report.rows)


@pytest.mark.parametrize("deterministic", [True, False])
def test_idle_rows_are_skipped(small: Small, deterministic: bool) -> None:
    """The actor's actions for live rows are those of the policy on these rows; idle rows get 0."""
    env = {"num_agents": 3, "episode_length": 6, "leave": 1}
    with Trainer(small(env=env)) as trainer:
        path = trainer.save()
    _, policies = ev.load_policies(path, CPU)
    actor = ev.PolicyActor(policies, CPU, deterministic, seed=1)
    idle_seen = 0
    with puffervec.make("probe", env_kwargs=env, backend="serial", num_envs=4) as vec:
        vec.async_reset(0)
        actor.reset(vec)
        for _ in range(8):
            obs, _, terminals, truncations, _, _, masks = vec.recv()
            actions = actor.act(obs, vec)
            idle = ~masks | terminals | truncations
            idle_seen += int(idle.sum())
            assert actions.shape == (12,) and (actions[idle] == 0).all()
            if deterministic:
                expected = (
                    policies["default"](torch.tensor(obs), (), None, None)[0][0].argmax(-1).numpy()
                )
                np.testing.assert_array_equal(actions[~idle], expected[~idle])
            vec.send(actions)
    assert idle_seen > 0


@pytest.mark.parametrize("buffers", [1, 2])
def test_memory_is_carried_and_ends_with_the_episode(buffers: int) -> None:
    """Each row's action is the env's own count of its steps, over several episodes and from the
    first step after a reset.
    """
    actor = ev.PolicyActor({"default": Counting()}, CPU, deterministic=True)
    env = {"num_agents": 3, "episode_length": 4, "end_kind": 2, "leave": 1}
    with puffervec.make(
        "probe", env_kwargs=env, backend="serial", num_envs=4, num_buffers=buffers
    ) as vec:
        for _ in range(2):
            vec.async_reset(0)
            actor.reset(vec)
            seen = 0
            for _ in range(12 * buffers):
                obs, _, terminals, truncations, _, _, masks = vec.recv()
                actions = actor.act(obs, vec)
                alive = masks & ~(terminals | truncations)
                np.testing.assert_array_equal(actions[alive], obs[alive, 2])
                seen += int((alive & (obs[:, 1] >= 1)).sum())
                vec.send(actions)
            assert seen > 0
            for _ in range(buffers):
                vec.recv()


def test_a_joint_policy_acts_in_parts(small: Small) -> None:
    """Evaluated as it is trained: the manifest's config says how the weights are to be read."""
    config = small(envs.Guess, policy={"joint": True})
    with Trainer(config) as trainer:
        path = trainer.save()
    found, policies = ev.load_policies(path, CPU, [config.target])
    assert found.config.policy.joint
    bias = policies["default"].output.heads[0].bias
    assert bias.shape == (9,)
    with torch.no_grad():
        bias[5] = 100.0  # 1 x 3 + 2
    for deterministic in (True, False):
        actor = ev.PolicyActor(policies, CPU, deterministic)
        with puffervec.make(envs.Guess, backend="serial", num_envs=2) as vec:
            vec.async_reset(0)
            assert actor.act(vec.recv()[0], vec).tolist() == [[2, 3]] * 2  # the choices begin at 1


def test_two_groups_act(small: Small) -> None:
    config = small(env={"mode": 1, "num_agents": 2, "episode_length": 4})
    with Trainer(config) as trainer:
        path = trainer.save()
    _, policies = ev.load_policies(path, CPU)
    for actor in (ev.PolicyActor(policies, CPU, False), ev.RandomActor(0)):
        rates = ev.evaluate_generic("probe", config.env, actor, episodes=4, seed=0, num_envs=2)
        assert sum(r.episodes for r in rates) >= 4


def test_random_actions_cover_all_choices() -> None:
    with puffervec.make("probe", env_kwargs={"num_agents": 50}, backend="serial") as vec:
        vec.async_reset(0)
        obs = vec.recv()[0]
        assert set(ev.RandomActor(0).act(obs, vec)) == {0, 1, 2, 3, 4}


def test_policies_are_used_with_an_adapted_config(small: Small) -> None:
    """Only the env that they are used with is looked at: that of the training may be gone."""
    with Trainer(small(env={"episode_length": 5})) as trainer:
        path = trainer.save()
    found, _ = ev.load_policies(
        path, CPU, adapt=lambda config: config.merged({"env": {"episode_length": 9}})
    )
    assert found.config.env.episode_length == 9


def test_an_env_in_c_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A C env is given the same patience as a Python env."""
    monkeypatch.setattr(ev, "MOST_STEPS", 20)
    env = {"num_agents": 1, "episode_length": 30}
    with pytest.raises(
        ConfigError, match="probe: 2 of 2 envs did not end an episode within 20 steps"
    ):
        ev.evaluate_generic("probe", env, ev.RandomActor(0), episodes=2, seed=0, num_envs=2)
    (rates,) = ev.evaluate_generic(
        "probe", env | {"episode_length": 15}, ev.RandomActor(0), episodes=6, seed=0, num_envs=2
    )
    assert rates.episodes == 6 and rates.length == (15.0, 0.0)


class Shapes(torch.nn.Module):
    """Notes how many rows it is shown, and for how many of them it is given a reset."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[int, torch.Size]] = []

    def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
        return ()

    def forward(self, obs: torch.Tensor, state: Any, reset: torch.Tensor, mask: Any) -> Any:
        self.shown.append((len(obs), reset.shape))
        return (torch.zeros(len(obs), 5),), torch.zeros(len(obs)), ()


def test_resets_are_those_of_the_rows_that_are_shown() -> None:
    """One for each row, also when agents have left."""
    policy = Shapes()
    actor = ev.PolicyActor({"default": policy}, CPU, deterministic=True)
    env = {"num_agents": 3, "episode_length": 6, "leave": 1}
    (rates,) = ev.evaluate_generic("probe", env, actor, episodes=2, seed=0, num_envs=2)
    assert rates.episodes == 2 and len(policy.shown) >= 6
    assert [reset for _, reset in policy.shown] == [(rows,) for rows, _ in policy.shown]

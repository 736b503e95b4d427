# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Behaviour cloning (puffervec/train/learn/clone.py, puffervec/train/learn/clone_loss.py), and how
an expert's actions come into a rollout (puffervec/train/collect/experts.py,
puffervec/train/config/experts.py).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from puffervec.commands import cli
from puffervec.commands.eval import EvalRequest, run_evaluation
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.collect.device_turn import DeviceTurn
from puffervec.train.collect.experts import ExpertReader
from puffervec.train.collect.rollout import Rollout
from puffervec.train.config.experts import experts_of
from puffervec.train.device.device import ThreadPool
from puffervec.train.learn.clone import CloneSection
from puffervec.train.learn.clone_loss import clone_loss, hits_of
from puffervec.train.learn.samples import Batch
from puffervec.train.policies.distributions import ActionSpec
from tests.train.fakes import group

Small = Callable[..., TrainConfig]
CLONE = {"algorithm": "clone", "lr": 3e-3, "gamma": 0.9}


def cloning(small: Small, **tables: Any) -> TrainConfig:
    env = {"num_agents": 24, "dynamics": "car", "observation": "driver"}
    config = small("drive", env=env, vec={"num_envs": 2}, train={"minibatch_size": 0, **CLONE})
    return config.merged(tables)


def played_by(config: TrainConfig, steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return what the expert plays in each step, and which of it is known, for all rows."""
    experts = experts_of(config)
    assert experts is not None
    found = []
    with puffervec.make(
        "drive",
        env_kwargs=experts.settings,
        backend="serial",
        num_envs=config.vec.num_envs,
        num_buffers=1,
        seed=config.train.seed,
    ) as vec:
        vec.reset(seed=config.train.seed)
        for _ in range(steps):
            vec.step(np.zeros_like(vec.action_space.sample()))
            parts = [experts.played(vec.peek(env)) for env in range(vec.num_envs)]
            found.append(tuple(np.concatenate(part) for part in zip(*parts, strict=True)))
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize(
    ("actions", "joint"),
    [
        ("discrete", False),
        ("multi_discrete", False),
        ("multi_discrete", True),
        ("continuous", False),
    ],
)
def test_a_rollout_holds_what_the_expert_played(
    small: Small, actions: str, joint: bool, buffers: int
) -> None:
    """Also where one rollout continues the last one."""
    config = cloning(
        small, env={"actions": actions}, policy={"joint": joint}, vec={"num_buffers": buffers}
    )
    horizon = config.train.horizon
    wanted = played_by(config, 2 * horizon)
    invalid = 0
    with Trainer(config) as trainer:
        storage = trainer.slots["default"].storage
        for rollout in range(2):
            trainer.collect()
            live = storage.masks != 0
            for step, (played, known) in enumerate(wanted[rollout * horizon :][:horizon]):
                rows = live[step] & live[step + 1]
                found = storage.action_map(storage.actions[step]).numpy()[rows]
                np.testing.assert_allclose(
                    found, played.reshape(len(known), -1)[rows], rtol=1e-5, atol=1e-5
                )
                unknown = torch.from_numpy(~known) & rows
                assert bool((storage.truncations[step][unknown] == 1).all())
                invalid += int(unknown.sum())
            trainer.update()
    assert invalid < storage.valid().sum()


def test_a_device_takes_them_too(small: Small) -> None:
    """The turns of a device write the same rollout; see test_device_turn.py."""
    config, rollouts = cloning(small), []
    for device_turns in (False, True):
        with Trainer(config) as trainer:
            experts = experts_of(config)
            assert experts is not None
            reader = ExpertReader(trainer.vec, experts)
            generator = torch.Generator().manual_seed(0)
            rollout = Rollout(
                *(trainer.vec, trainer.slots, trainer.device, False, generator, ThreadPool(1)),
                device_turns,
                reader,
            )
            rollout.begin(3)
            assert rollout.collect()
            assert isinstance(rollout.turns[0], DeviceTurn) == device_turns
            storage = trainer.slots["default"].storage
            rollouts.append((storage.actions[:-1].clone(), storage.truncations.clone()))
    for one, other in zip(*rollouts, strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_it_learns_and_the_run_is_one_like_any_other(
    small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    config = cloning(small, train={"total_timesteps": 12_000}, policy={"hidden": (32,)})
    with Trainer(config) as trainer:
        assert isinstance(trainer.config.train, CloneSection)
        trainer.collect()
        first = trainer.report(trainer.update())
        last = trainer.train()
        folder = trainer.folder
        assert trainer.config.env.expert_actions == 0
    assert last["losses/cloning"] < 0.7 * first["losses/cloning"]
    assert last["losses/accuracy"] > max(0.3, first["losses/accuracy"] + 0.1)
    assert {"losses/value", "losses/entropy", "losses/explained_variance"} <= last.keys()
    assert last["env/ade_m"] < 3.0  # of the expert from its log
    run_evaluation(EvalRequest(str(folder), env_flags=("--scenes", "generated:2")))
    assert "total of 2 scenes" in capsys.readouterr().out


@pytest.mark.slow
def test_a_resumed_run_is_the_same(small: Small) -> None:
    config = cloning(small, train={"total_timesteps": 10**6, "time_limit_s": 0.0})
    weights = []
    for stop in (None, 1):
        checkpoint = None
        with Trainer(config) as trainer:
            for _ in range(stop or 3):
                trainer.collect()
                trainer.update()
            checkpoint = trainer.save()
        if stop is not None:
            with Trainer(config, checkpoint=checkpoint) as trainer:
                for _ in range(3 - stop):
                    trainer.collect()
                    trainer.update()
        weights.append([part.clone() for part in trainer.policies["default"].parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["mingru", "lstm"])
def test_policies_with_memory_clone(small: Small, memory: str) -> None:
    config = cloning(small, train={"total_timesteps": 12_000}, policy={"memory": memory})
    with Trainer(config) as trainer:
        trainer.collect()
        first = trainer.report(trainer.update())
        assert trainer.train()["losses/cloning"] < 0.8 * first["losses/cloning"]


def batch_of(actions: torch.Tensor, weights: torch.Tensor | None = None) -> Batch:
    zeros = torch.zeros(len(actions))
    return Batch(
        {"": torch.zeros(len(actions), 3)}, actions, zeros, zeros, zeros + 2.0, zeros, None, weights
    )


def test_the_loss_is_the_likelihood_of_the_experts_actions() -> None:
    spec = ActionSpec.of(group(("x", (3,)), sizes=(2, 3)))
    heads = (
        torch.tensor([[0.0, 1.0], [2.0, 0.0]]),
        torch.tensor([[0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]),
    )
    value = torch.tensor([1.0, 5.0])

    def policy(*_: Any) -> Any:
        return heads, value, ()

    actions = torch.tensor([[1, 2], [0, 1]], dtype=torch.int32)
    section = CloneSection(algorithm="clone", value_coef=0.5, entropy_coef=0.1)
    weights = torch.tensor([1.0, 0.0])
    loss, sums = clone_loss(policy, spec, batch_of(actions, weights), section, False)  # type: ignore[arg-type]
    logs = [head[0].log_softmax(-1) for head in heads]
    nll = -float(logs[0][1] + logs[1][2])
    entropy = -sum(float((log.exp() * log).sum()) for log in logs)
    assert sums.tolist() == pytest.approx([nll, 1.0, 0.5, entropy])
    assert float(loss) == pytest.approx(nll + 0.5 * 0.5 - 0.1 * entropy)
    assert hits_of(spec, heads, actions).tolist() == [True, False]
    both = clone_loss(policy, spec, batch_of(actions), section, False)[1]  # type: ignore[arg-type]
    assert both[1] == 1.0 and both[0] > sums[0]


def test_a_continuous_action_is_hit_within_a_twentieth_of_its_range() -> None:
    spec = ActionSpec("continuous", (), (-1.0, -1.0), (1.0, 1.0))
    heads = (torch.tensor([[0.5, 0.0, 0.0, 0.0]] * 3),)
    actions = torch.tensor([[0.55, -0.09], [0.55, 0.2], [-0.5, 0.0]])
    assert hits_of(spec, heads, actions).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"train": {"vtrace": True}}, "train.vtrace is true: cloning learns from an expert"),
        ({"train": {"asynchronous": True}}, "train.asynchronous is true: cloning"),
        ({"env": {"dynamics": "jerk"}}, "dynamics=jerk cannot be inverted"),
        (
            {"policy": {"map": ["a=0", "b=" + ",".join(map(str, range(1, 24)))]},
             "policies": {"b": {"algorithm": "ppo"}}},
            "either all policies learn from it or none",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_cloned_is_refused(small: Small, tables: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Trainer(cloning(small, **tables))


def test_an_env_without_an_expert_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cartpole", "--train.algorithm", "clone"]) == 2
    error = capsys.readouterr().err
    assert "cartpole has no expert" in error and error.count("\n") == 1


def test_several_policies_clone_one_expert(small: Small) -> None:
    policies = {"map": ["a=0,1", "b=" + ",".join(map(str, range(2, 24)))]}
    with Trainer(cloning(small, policy=policies)) as trainer:
        trainer.collect()
        losses = trainer.update()
    assert {"losses/a/accuracy", "losses/b/accuracy"} <= losses.keys()


def test_its_defaults_take_the_place_of_a_presets() -> None:
    section = TrainConfig.of("drive", train={"algorithm": "clone"}).train
    assert section.entropy_coef == 0.0 and section.gamma == TrainConfig.of("drive").train.gamma
    assert dataclasses.replace(section, entropy_coef=0.1).entropy_coef == 0.1


def test_hosts_do_not_clone(small: Small) -> None:
    with pytest.raises(ConfigError, match="clone"):
        cloning(small, ray={"address": "local"}).check()

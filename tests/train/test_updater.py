# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from puffervec.train import TrainConfig, Trainer
from puffervec.train.collect.storage import Storage
from puffervec.train.config.sections import PolicySection
from puffervec.train.device.device import ThreadPool
from puffervec.train.learn import samples
from puffervec.train.learn.ppo import PPOSection
from puffervec.train.learn.updater import Updater, reevaluate
from puffervec.train.policies.distributions import log_prob_entropy
from puffervec.train.policies.leaves import ROW, policy_input
from puffervec.train.policies.registry import build_policy
from puffervec.wings.profile.fake import fake_cuda
from tests.train.fakes import group

Small = Callable[..., TrainConfig]


SPEC = group(("x", (3,)))


def filled_storage(rows: int = 6, horizon: int = 5, invalid: float = 0.3) -> Storage:
    r = torch.Generator().manual_seed(0)
    storage = Storage(SPEC, horizon, rows, torch.device("cpu"), None)
    for tensor in (storage.obs[ROW], storage.rewards, storage.values):
        tensor.copy_(torch.randn(tensor.shape, generator=r))
    storage.log_probs.fill_(-1.6)
    storage.actions.copy_(torch.randint(0, 5, storage.actions.shape, generator=r))
    storage.masks.copy_(torch.rand(storage.masks.shape, generator=r) > invalid)
    return storage


def updater(storage: Storage, minibatches: int = 2, bf16: bool = False, **section: Any) -> Updater:
    torch.manual_seed(1)
    policy = build_policy(SPEC, PolicySection(hidden=(8,)))
    generator = torch.Generator().manual_seed(2)
    return Updater(
        policy, storage, PPOSection(**section), minibatches, bf16, generator, ThreadPool(1)
    )


def weights(u: Updater) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in u.policy.parameters()])


def test_invalid_rows_change_nothing() -> None:
    """NaN in the observations, log-probabilities and rewards that belong to no valid transition
    reaches no weight.
    """
    clean, dirty = filled_storage(), filled_storage()
    for storage in (clean, dirty):
        storage.masks[-1] = 1
    invalid = (dirty.masks == 0)[:-1]
    dirty.obs[ROW][:-1][invalid] = float("nan")
    dirty.log_probs[:-1][invalid] = float("nan")
    dirty.values[:-1][invalid] = float("nan")
    results = [updater(s) for s in (clean, dirty)]
    found = [u.update(1e-2) for u in results]
    assert found[0].valid == int(clean.valid().sum()) == found[1].valid
    assert found[0].losses == found[1].losses
    torch.testing.assert_close(weights(results[0]), weights(results[1]), rtol=0, atol=0)


def test_microbatches_add_up() -> None:
    whole, parts = (
        updater(filled_storage(), microbatch_size=1000),
        updater(filled_storage(), microbatch_size=3),
    )
    a, b = whole.update(1e-2), parts.update(1e-2)
    torch.testing.assert_close(weights(whole), weights(parts), rtol=1e-4, atol=1e-5)
    assert a.losses == pytest.approx(b.losses, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("envs", [1, 60, 64, 100])
def test_rows_that_are_added_for_bf16_count_for_nothing(
    envs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = []
    for padded in (samples.padded_rows, lambda count: count):
        monkeypatch.setattr(samples, "padded_rows", padded)
        u = updater(filled_storage(envs), bf16=True)
        losses = u.update(1e-2).losses
        changed.append((weights(u), losses))
    torch.testing.assert_close(changed[0][0], changed[1][0], rtol=2e-2, atol=2e-2)
    assert changed[0][1] == pytest.approx(changed[1][1], rel=2e-2, abs=2e-2)


def test_vtrace_differs_once_the_policy_has_changed() -> None:
    def after(epochs: int, vtrace: bool) -> torch.Tensor:
        u = updater(filled_storage(), update_epochs=epochs, vtrace=vtrace)
        u.update(1e-2)
        return weights(u)

    torch.testing.assert_close(after(1, True), after(1, False), rtol=0, atol=0)
    assert float((after(2, True) - after(2, False)).abs().max()) > 1e-5


def test_policies_are_shown_few_numbers_of_rows() -> None:
    assert len({samples.padded_rows(rows) for rows in range(1, 25_601)}) <= 8 + 16 * 5
    assert all(
        0 <= samples.padded_rows(rows) - rows <= max(127, rows / 16) for rows in range(1, 25_601)
    )


def test_threads_change_nothing() -> None:
    """The pieces and the order of their sum are the same for any number of threads."""
    alone, pool = (
        updater(filled_storage(), microbatch_size=3),
        updater(filled_storage(), microbatch_size=3),
    )
    pool.pool = ThreadPool(3)
    assert alone.update(1e-2).losses == pool.update(1e-2).losses
    torch.testing.assert_close(weights(alone), weights(pool), rtol=0, atol=0)
    pool.pool.close()


def test_nothing_valid_is_no_error() -> None:
    u = updater(filled_storage(invalid=2.0))
    before = weights(u)
    result = u.update(1e-2)
    assert result.valid == 0 and all(np.isfinite(v) for v in result.losses.values())
    torch.testing.assert_close(weights(u), before, rtol=0, atol=0)


def test_stop_is_heard_between_gradient_steps() -> None:
    u = updater(filled_storage(), update_epochs=5)
    asked = []
    result = u.update(1e-2, lambda: len(asked) >= 3 or asked.append(1) is not None)
    assert not result.finished
    assert int(next(iter(u.optimizer.state().values()))["step"]) == 3


def test_learning_rate_is_the_given_one() -> None:
    u = updater(filled_storage())
    before = weights(u)
    u.update(0.0)
    torch.testing.assert_close(weights(u), before, rtol=0, atol=0)


def test_rewards_are_cut_to_the_limit() -> None:
    """Compare an update with a limit to one from a storage with smaller rewards; 0 cuts nothing."""
    weights_of = {}
    for limit, rewards in ((0.0, 3.0), (0.5, 3.0), (0.0, 0.5)):
        storage = filled_storage()
        storage.rewards.copy_(storage.rewards.sign() * rewards)
        u = updater(storage)
        u.update(1e-2, reward_limit=limit)
        assert storage.rewards.abs().max() == (limit or rewards)
        weights_of[limit, rewards] = weights(u)
    assert torch.equal(weights_of[0.5, 3.0], weights_of[0.0, 0.5])
    assert not torch.equal(weights_of[0.0, 3.0], weights_of[0.0, 0.5])


@pytest.mark.slow
def test_bandit_is_learned(small: Small) -> None:
    """The probe pays action / 16: the best action is 4."""
    config = small(
        env={"num_agents": 4, "episode_length": 8},
        vec={"num_envs": 8},
        train={
            "horizon": 16,
            "lr": 0.02,
            "total_timesteps": 40_000,
            "gamma": 0.0,
            "entropy_coef": 0.0,
            "anneal_lr": False,
        },
        policy={"hidden": (16,)},
    )
    with Trainer(config, policies={"default": Unseeing()}) as trainer:
        trainer.train()
        actions = trainer.slots["default"].storage.actions
    assert float(actions.float().mean()) > 3.8  # 95 % of the optimum


class Unseeing(nn.Module):
    """A bandit's policy: one distribution for all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.logits, self.level = nn.Parameter(torch.zeros(5)), nn.Parameter(torch.zeros(()))

    def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
        return ()

    def forward(self, obs: torch.Tensor, state: Any, reset: Any, mask: Any) -> Any:
        lead = obs.shape[:-1]
        return (self.logits.expand(*lead, 5),), self.level.expand(lead), ()


@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_a_gpu_looks_again_at_a_whole_minibatch_at_once(memory: str) -> None:
    """Not at pieces that fit into the caches of a CPU."""
    spec, rows, horizon = group(("x", (3,))), 6, 5
    with torch.device("meta"):
        policy: Any = build_policy(spec, PolicySection(hidden=(8,), memory=memory))  # type: ignore[arg-type]
    section = PPOSection(microbatch_size=2)
    with fake_cuda() as device:
        storage = Storage(spec, horizon, rows, device, None)
        made = Updater(
            policy.to_empty(device=device),
            storage,
            section,
            2,
            False,
            torch.Generator(),
            ThreadPool(1),
        )
        assert made.device_step is not None
        assert (
            made.piece
            == (
                made.device_step.width
                if memory == "none"
                else made.device_step.width * (horizon + 1)
            )
            > 2
        )


Small = Callable[..., TrainConfig]


@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
@pytest.mark.parametrize("size", [7, 1000])
def test_ratios_are_1_for_the_policy_that_acted(small: Small, memory: str, size: int) -> None:
    config = small("probe", policy={"memory": memory}, env={"episode_length": 3})
    with Trainer(config) as trainer:
        for _ in range(2):
            trainer.collect()
            updater = trainer.learner.updaters["default"]
            before = updater.storage.values.clone()
            ratios = reevaluate(
                updater.policy, updater.storage, memory != "none", False, trainer.pool, size
            )
            assert ratios.shape == before[:-1].shape
            torch.testing.assert_close(ratios, torch.ones_like(ratios), rtol=0, atol=1e-5)
            torch.testing.assert_close(updater.storage.values, before, rtol=0, atol=1e-5)


def test_ratios_and_values_of_another_policy(small: Small) -> None:
    with Trainer(small("probe")) as trainer:
        trainer.collect()
        updater = trainer.learner.updaters["default"]
        storage = updater.storage
        with torch.no_grad():
            for parameter in updater.parameters:
                parameter.add_(
                    0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
                )
            heads, values, _ = updater.policy(policy_input(storage.obs), (), None, None)
            now, _ = log_prob_entropy(storage.spec, heads, storage.actions)
        ratios = reevaluate(updater.policy, storage, False, False, trainer.pool, 5)
        torch.testing.assert_close(
            ratios, (now - storage.log_probs)[:-1].exp(), rtol=1e-5, atol=1e-6
        )
        assert float((ratios - 1).abs().max()) > 1e-3
        torch.testing.assert_close(storage.values, values, rtol=1e-5, atol=1e-5)

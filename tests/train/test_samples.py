# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What minibatches are made of (puffervec/train/learn/samples.py)."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest
import torch

from puffervec.train import TrainConfig, Trainer
from puffervec.train.collect.storage import Storage
from puffervec.train.learn import samples as samples_module
from puffervec.train.learn.ppo import PPOSection
from puffervec.train.learn.ppo_loss import ppo_loss
from puffervec.train.learn.samples import FlatSamples, SequenceSamples, normalize, samples_of
from puffervec.train.policies.leaves import ROW
from tests.train.fakes import group

Small = Callable[..., TrainConfig]
SPEC = group(("x", (3,)))
ROWS, HORIZON = 6, 5


def filled() -> tuple[Storage, torch.Tensor, torch.Tensor]:
    """A storage whose observations are the sample's number, with some samples invalid."""
    r = torch.Generator().manual_seed(0)
    storage = Storage(SPEC, HORIZON, ROWS, torch.device("cpu"), None)
    number = torch.arange((HORIZON + 1) * ROWS).view(HORIZON + 1, ROWS)
    storage.obs[ROW].copy_(number.unsqueeze(-1).expand(-1, -1, 3))
    storage.values.copy_(torch.randn(storage.values.shape, generator=r))
    storage.first_states = {
        0: (torch.arange(3.0).unsqueeze(-1),),
        1: (torch.arange(3.0, 6.0).unsqueeze(-1),),
    }
    valid = (torch.rand(HORIZON, ROWS, generator=r) > 0.3).to(torch.uint8)
    valid[:, 2] = 0
    return storage, torch.randn(HORIZON, ROWS, generator=r) * valid, valid


@pytest.mark.parametrize("memory", [False, True])
def test_each_valid_sample_is_in_one_minibatch(memory: bool) -> None:
    storage, advantages, valid = filled()
    samples = samples_of(storage, advantages, valid, memory)
    seen = []
    minibatches = samples.shuffle(torch.Generator().manual_seed(1), 4)
    for minibatch, wanted in zip(minibatches, samples.counts, strict=True):
        count = 0
        for batch in samples.cut(minibatch, 5):
            made = batch()
            here = made.obs[..., 0] if made.weights is None else made.obs[..., 0][made.weights != 0]  # type: ignore[index]
            count += here.numel()
            seen += here.flatten().tolist()
        assert count == wanted > 0
    numbers = torch.arange(HORIZON * ROWS).view(HORIZON, ROWS)
    assert sorted(seen) == numbers[valid != 0].tolist()
    assert samples.count == len(seen)
    torch.testing.assert_close(samples.returns - samples.values, advantages[valid != 0])


def test_sequences_come_with_their_state_and_in_order() -> None:
    storage, advantages, valid = filled()
    storage.resets[2, 4] = 1
    samples = SequenceSamples(storage, advantages, valid)
    (make,) = samples.cut(torch.tensor([4, 1]), 1000)
    batch = make()
    assert batch.obs[:, 0, 0].tolist() == [4, 10, 16, 22, 28]  # type: ignore[index]
    assert batch.state[0].flatten().tolist() == [4, 1]
    assert batch.resets is not None and batch.resets.nonzero().tolist() == [[2, 0]]
    assert len(samples.cut(torch.arange(6), HORIZON * 2)) == 3


def test_advantages_are_normalised_over_valid_ones() -> None:
    x = normalize(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    assert float(x.mean()) == pytest.approx(0, abs=1e-6) and float(
        x.std(correction=0)
    ) == pytest.approx(1, rel=1e-5)
    assert normalize(torch.tensor([4.0])).tolist() == [0.0]
    masked = normalize(
        torch.tensor([1.0, 2.0, 3.0, 6.0, 99.0]), torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0])
    )
    torch.testing.assert_close(masked, torch.cat([x, torch.zeros(1)]))
    storage, advantages, valid = filled()
    samples = FlatSamples(storage, advantages, valid)
    parts = torch.cat(
        [make().advantages for make in samples.cut(samples.shuffle(torch.Generator(), 1)[0], 4)]
    )
    assert float(parts.mean()) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.01])
def test_only_samples_with_large_advantages_are_learned_from(share: float) -> None:
    storage, advantages, valid = filled()
    samples = samples_of(storage, advantages, valid, False, share=share)
    numbers = torch.arange(HORIZON * ROWS).view(HORIZON, ROWS)[valid != 0]
    sizes = advantages[valid != 0].abs()
    count = max(1, int(share * len(sizes)))
    wanted = numbers[sizes.argsort(descending=True)[:count]]
    for _ in range(2):  # The same ones in each epoch.
        minibatches = samples.shuffle(torch.Generator().manual_seed(1), 3)
        assert sorted(torch.cat(minibatches).tolist()) == sorted(wanted.tolist())
        assert sum(samples.counts) == count
    assert samples.count == len(sizes)
    torch.testing.assert_close(samples.returns - samples.values, advantages[valid != 0])


def test_only_sequences_with_large_advantages_are_learned_from() -> None:
    storage, advantages, valid = filled()
    samples = samples_of(storage, advantages, valid, True, share=0.5)
    wanted = advantages.abs().sum(0).argsort(descending=True)[: ROWS // 2]
    minibatches = samples.shuffle(torch.Generator().manual_seed(1), 2)
    assert sorted(torch.cat(minibatches).tolist()) == sorted(wanted.tolist())
    assert samples.counts == [int(valid[:, columns].sum()) for columns in minibatches]
    assert samples.count == int(valid.sum())


@pytest.mark.parametrize("memory", [False, True])
def test_a_rollout_without_samples_has_none_to_learn_from(memory: bool) -> None:
    storage, advantages, valid = filled()
    samples = samples_of(storage, 0 * advantages, torch.zeros_like(valid), memory, share=0.5)
    samples.shuffle(torch.Generator(), 2)
    assert sum(samples.counts) == 0


@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
@pytest.mark.parametrize("buffers", [1, 2])
def test_an_update_sees_the_numbers_of_the_roll_out(
    small: Small, memory: str, buffers: int
) -> None:
    """Before the first gradient step every probability ratio is 1: states, resets and masks were
    the same, in each rollout.
    """
    config = small(
        "probe", policy={"memory": memory}, vec={"num_buffers": buffers}, env={"episode_length": 3}
    )
    with Trainer(config) as trainer:
        for _ in range(3):
            trainer.collect()
            updater = trainer.learner.updaters["default"]
            storage = updater.storage
            valid = storage.valid().to(torch.uint8)
            samples = samples_of(
                storage, torch.zeros_like(storage.rewards[1:]), valid, memory != "none"
            )
            for minibatch in samples.shuffle(torch.Generator(), 2):
                for make in samples.cut(minibatch, 64):
                    with torch.no_grad():
                        _, sums = ppo_loss(
                            updater.policy, storage.spec, make(), PPOSection(), bf16=False
                        )
                    assert float(sums[3]) == pytest.approx(0, abs=1e-5)
                    assert float(sums[4]) == 0


@pytest.mark.parametrize(("columns", "parts"), [(15, 8), (16, 8), (3, 8)])
def test_an_epoch_draws_as_many_columns_as_there_are(columns: int, parts: int) -> None:
    storage = Storage(group(("x", (1,))), HORIZON, columns, torch.device("cpu"), None)
    valid = torch.ones(HORIZON, columns, dtype=torch.uint8)
    made = samples_of(storage, torch.rand(HORIZON, columns), valid, True)
    sizes = [len(part) for part in made.shuffle(torch.Generator(), parts)]
    assert sum(sizes) == columns and max(sizes) - min(sizes) <= 1 and len(sizes) == parts


def test_an_epoch_of_sequences_is_dealt_out_without_a_look_at_the_device() -> None:
    storage, advantages, valid = filled()
    samples = samples_of(storage, advantages, valid, True)
    moved: list[int] = []
    with mock.patch.object(
        samples_module, "_to_device", lambda indices, device: moved.append(len(indices)) or indices
    ):
        minibatches = samples.shuffle(torch.Generator().manual_seed(1), 3)
    assert (
        moved == [3]
        and len(samples.counts) == 3
        and all(index.device.type == "cpu" for index in minibatches)
    )


def test_observations_of_unsigned_numbers_are_gathered_as_they_stand() -> None:
    storage, advantages, valid = filled()
    numbers = (
        torch.arange((HORIZON + 1) * ROWS, dtype=torch.int32).view(HORIZON + 1, ROWS, 1) + 65_000
    )
    storage.obs = {ROW: numbers.to(torch.uint16)}
    index = torch.tensor([3, 1])
    obs = FlatSamples(storage, advantages, valid).cut(index, 10)[0]().obs
    assert (
        isinstance(obs, torch.Tensor)
        and obs.dtype == torch.uint16
        and obs.flatten().tolist() == [65_003, 65_001]
    )

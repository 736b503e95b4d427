# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Gradient steps in fixed buffers (puffervec/train/learn/device_step.py): as on a CPU, nothing read
back, nothing replaced.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from puffervec.train.collect.storage import Storage
from puffervec.train.config.sections import PolicySection
from puffervec.train.device.device import ThreadPool
from puffervec.train.device.syncs import Syncs
from puffervec.train.learn.device_step import DeviceStep
from puffervec.train.learn.ppo import PPOSection
from puffervec.train.learn.samples import Batch
from puffervec.train.learn.updater import Updater, _Part
from puffervec.train.policies.leaves import ROW
from puffervec.train.policies.registry import build_policy
from puffervec.wings.profile.fake import Graph, fake_cuda
from tests.train.fakes import group

CPU = torch.device("cpu")
SPEC = group(("x", (3,)), mask=5)
ROWS, HORIZON, PARTS = 6, 5, 4
CASES = ["none", "mingru", "lstm"]


def filled(policy: Any) -> Storage:
    r = torch.Generator().manual_seed(0)
    storage = Storage(SPEC, HORIZON, ROWS, CPU, None)
    for tensor in (storage.obs[ROW], storage.rewards, storage.values):
        tensor.copy_(torch.randn(tensor.shape, generator=r))
    storage.log_probs.fill_(-1.6)
    storage.actions.copy_(torch.randint(0, 5, storage.actions.shape, generator=r))
    storage.masks.copy_(torch.rand(storage.masks.shape, generator=r) > 0.3)
    assert storage.action_masks is not None
    storage.action_masks.fill_(1)
    storage.first_states = {0: policy.initial_state(ROWS)}
    return storage


def updater(memory: str, in_buffers: bool) -> Updater:
    torch.manual_seed(1)
    policy = build_policy(SPEC, PolicySection(hidden=(8,), memory=memory))  # type: ignore[arg-type]
    section = PPOSection()
    made = Updater(
        policy,
        filled(policy),
        section,
        PARTS,
        False,
        torch.Generator().manual_seed(2),
        ThreadPool(1),
    )
    if in_buffers:
        width = -(-ROWS // PARTS) * (1 if memory != "none" else HORIZON)
        made.device_step = DeviceStep(made._step, width, CPU, capture=False)
    return made


def buffers(step: DeviceStep) -> list[int]:
    batch = step.batch
    assert batch is not None and step.sums is not None and batch.weights is not None
    held = [
        batch.obs,
        batch.actions,
        batch.advantages,
        batch.weights,
        *batch.state,
        step.count,
        step.sums,
    ]
    return [tensor.data_ptr() for tensor in held]  # type: ignore[union-attr]


@pytest.mark.parametrize("memory", CASES)
def test_steps_in_buffers_equal_those_without(memory: str) -> None:
    one, other = updater(memory, False), updater(memory, True)
    places = []
    for _ in range(3):
        losses, same = one.update(1e-2).losses, other.update(1e-2).losses
        assert losses == pytest.approx(same, rel=1e-4, abs=1e-5)
        assert other.device_step is not None
        places.append(buffers(other.device_step))
    for a, b in zip(one.parameters, other.parameters, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert places[0] == places[1] == places[2]


@pytest.mark.parametrize("memory", CASES)
def test_a_step_reads_nothing_back(memory: str) -> None:
    made = updater(memory, True)
    made.update(1e-2)
    assert made.device_step is not None
    with Syncs() as syncs:
        made.device_step.compute()
    assert syncs.found == []


@pytest.mark.parametrize("memory", CASES)
def test_a_gradient_step_on_fake_cuda_waits_for_nothing(memory: str) -> None:
    """From the rollout's samples to the optimizer: eager steps, a capture, replays. Only
    backward() needs a torch with CUDA: gradients are made up.
    """
    on_cpu = updater(memory, False)
    samples = on_cpu._samples(behind=False)
    with fake_cuda() as device:
        made = on_fake_cuda(on_cpu, device)
        step, replays = made.device_step, Graph.replays
        assert step is not None and made.optimizer.capturable
        moved = on_device(samples, made.storage)
        columns = torch.arange(2 if memory != "none" else 7)
        with Syncs() as syncs:
            for lr in (1e-4, 2e-4, 3e-4, 4e-4, 5e-4):
                made.optimizer.set_lr(lr)
                sums = made._gradient_step(moved, _Part(columns, 7))
        assert (
            sums.device.type == "cuda" and step.graph is not None and Graph.replays - replays == 2
        )
        assert step.batch is not None and step.batch.advantages.shape[-1] == step.width
        assert all(p.grad is not None and p.grad.device.type == "cuda" for p in made.parameters)
    assert syncs.found == []


def on_fake_cuda(on_cpu: Updater, device: torch.device) -> Updater:
    policy: Any = on_cpu.policy.to_empty(device=device)
    storage = Storage(SPEC, HORIZON, ROWS, device, torch.bfloat16)
    storage.first_states = {0: policy.initial_state(ROWS)}
    made = Updater(policy, storage, on_cpu.section, PARTS, False, torch.Generator(), ThreadPool(1))

    def gradients(batch: Batch, count: Tensor) -> tuple[list[Tensor], Tensor]:
        with torch.no_grad():
            loss, sums = made.loss(policy, storage.spec, batch, made.section, bf16=False)
            return [
                torch.zeros_like(parameter) * (loss / count) for parameter in made.parameters
            ], sums

    made._gradients = gradients  # type: ignore[assignment, method-assign]
    return made


def on_device(samples: Any, storage: Storage) -> Any:
    """Samples of a CPU whose tensors are fake: they are made once per update, which does read."""
    moved = copy.copy(samples)
    for name, value in vars(samples).items():
        if isinstance(value, Tensor):
            setattr(moved, name, torch.empty(value.shape, dtype=value.dtype))
    moved._storage, moved._states = storage, storage.first_state()
    return moved


def test_what_a_smaller_minibatch_leaves_weighs_nothing() -> None:
    made = updater("none", True)
    made.update(1e-2)
    step = made.device_step
    assert step is not None and step.batch is not None and step.batch.weights is not None
    assert int(step.batch.weights.sum()) == int(step.count) < step.width

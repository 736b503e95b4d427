# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Optimizers (puffervec/train/learn/optimizers.py): who steps which weights, and that a saved state
goes on as if never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from puffervec.train.config.sections import PolicySection, TrainSection
from puffervec.train.device.syncs import Syncs
from puffervec.train.learn.optimizers import (
    CLOSER_TO_ONE,
    Adam,
    Muon,
    Nesterov,
    Optimizers,
    as_long_as_adam,
    as_tall,
    clip_gradients,
    make_optimizer,
)
from puffervec.train.policies.registry import build_policy
from puffervec.wings.profile.fake import fake_cuda
from tests.train.fakes import group

CPU = torch.device("cpu")
NAMES = ("adam", "muon", "muon_sgd")


def policy() -> nn.Module:
    torch.manual_seed(0)
    return build_policy(group(("x", (3,))), PolicySection(hidden=(8, 8)))


def take(of: nn.Module, optimizer: Optimizers, which: range) -> None:
    for step in which:
        of.zero_grad()
        loss = torch.stack(
            [(parameter * (step + 1)).sin().sum() for parameter in of.parameters()]
        ).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def test_muon_takes_hidden_matrices_and_adam_the_rest() -> None:
    of = policy()
    adam, muon = make_optimizer(of, TrainSection(optimizer="muon"), CPU).parts
    names = {id(parameter): name for name, parameter in of.named_parameters()}
    mine = [{names[id(parameter)] for parameter in part.parameters} for part in (adam, muon)]
    assert mine[1] == {"trunk.0.weight", "trunk.2.weight"}
    assert mine[0] == set(names.values()) - mine[1]


def test_muon_sgd_takes_all_matrices_and_sgd_the_vectors() -> None:
    of = policy()
    sgd, muon = make_optimizer(of, TrainSection(optimizer="muon_sgd"), CPU).parts
    assert type(sgd) is Nesterov and type(muon) is Muon
    assert {parameter.dim() for parameter in sgd.parameters} == {1}
    assert {parameter.dim() for parameter in muon.parameters} == {2}
    assert len(sgd.parameters) + len(muon.parameters) == len(list(of.parameters()))


@pytest.mark.parametrize("name", NAMES)
def test_a_state_goes_on_as_if_never_stopped(name: str) -> None:
    section = TrainSection(optimizer=name, lr=0.01)  # type: ignore[arg-type]
    whole, first, second = policy(), policy(), policy()
    take(whole, make_optimizer(whole, section, CPU), range(4))
    optimizer = make_optimizer(first, section, CPU)
    take(first, optimizer, range(2))
    second.load_state_dict(first.state_dict())
    fresh = make_optimizer(second, section, CPU)
    fresh.load_state(optimizer.state())
    take(second, fresh, range(2, 4))
    for got, wanted in zip(second.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)


def test_the_step_size_is_set_for_all() -> None:
    for name in NAMES:
        of = policy()
        before = [parameter.clone() for parameter in of.parameters()]
        optimizer = make_optimizer(of, TrainSection(optimizer=name, lr=0.5), CPU)  # type: ignore[arg-type]
        optimizer.set_lr(0.0)
        take(of, optimizer, range(2))
        assert all(torch.equal(a, b) for a, b in zip(before, of.parameters(), strict=True))


def test_adam_is_that_of_torch() -> None:
    """Also where a parameter has no gradient in some steps."""
    one, other = policy(), policy()
    ours = make_optimizer(one, TrainSection(lr=0.01, adam_eps=1e-6), CPU)
    torchs = torch.optim.Adam(other.parameters(), lr=0.01, eps=1e-6, fused=True)
    for step in range(4):
        for of, optimizer in ((one, ours), (other, torchs)):
            parameters = list(of.parameters())
            torch.stack([(p * (step + 1)).sin().sum() for p in parameters]).sum().backward()  # type: ignore[no-untyped-call]
            if step == 1:
                parameters[2].grad = None
            optimizer.step()
            of.zero_grad()
    for got, wanted in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(got, wanted)
    for place, entries in torchs.state_dict()["state"].items():
        for name, value in entries.items():
            assert torch.equal(ours.state()[place][name], value)


@pytest.mark.parametrize("name", NAMES)
def test_the_layout_of_a_gradient_changes_nothing(name: str) -> None:
    """Autograd gives gradients in whatever layout an operation made them, which the fused kernel
    would not notice.
    """
    section, found = TrainSection(optimizer=name, lr=0.1), []  # type: ignore[arg-type]
    for turned in (False, True):
        of = policy()
        draw = torch.Generator().manual_seed(1)
        for parameter in of.parameters():
            grad = torch.randn(parameter.shape, generator=draw)
            parameter.grad = grad.t().contiguous().t() if turned and grad.dim() == 2 else grad
        make_optimizer(of, section, CPU).step()
        found.append(torch.cat([parameter.detach().flatten() for parameter in of.parameters()]))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("limit", [0.1, 1e6])
def test_gradients_are_clipped_as_by_torch(limit: float) -> None:
    one, other = policy(), policy()
    for of in (one, other):
        torch.stack([p.sin().sum() for p in of.parameters()]).sum().backward()  # type: ignore[no-untyped-call]
    norm = clip_gradients(list(one.parameters()), limit)
    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(other.parameters(), limit))
    for got, wanted in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(got.grad, wanted.grad)


def matrices() -> nn.ParameterList:
    """Some of one shape, one turned, one alone, and one that has no gradient in the first step."""
    torch.manual_seed(2)
    return nn.ParameterList(
        [torch.randn(shape) for shape in ((8, 5), (5, 8), (8, 5), (16, 16), (3, 7))]
    )


def descend(parameters: list[nn.Parameter], optimizer: Any, step: int) -> None:
    for parameter in parameters:
        parameter.grad = None
    torch.stack([(p * (step + 1)).sin().sum() for p in parameters]).sum().backward()  # type: ignore[no-untyped-call]
    if step == 0:
        parameters[4].grad = None
    optimizer.step()


@pytest.mark.parametrize(
    ("scale", "name"), [(as_long_as_adam, "match_rms_adamw"), (as_tall, "original")]
)
def test_muon_is_that_of_torch(scale: Callable[[int, int], float], name: str) -> None:
    """Up to the rounding of bf16, in which torch's works: a step is 0.1 or more in the mean."""
    one, other = list(matrices()), list(matrices())
    ours = Muon(one, 0.02, CPU, scale=scale)
    torchs = torch.optim.Muon(other, lr=0.5, weight_decay=0.0, adjust_lr_fn=name)
    ours.set_lr(0.5)
    for step in range(3):
        descend(one, ours, step)
        descend(other, torchs, step)
        for got, wanted in zip(one, other, strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=0.02)
        assert set(ours.state()) == set(torchs.state_dict()["state"])
        if step == 0:
            assert torch.equal(one[4], matrices()[4]) and 4 not in ours.state()
        for got, wanted in zip(one, other, strict=True):  # Rounding is not added up.
            wanted.data.copy_(got.data)
        for place, entries in torchs.state_dict()["state"].items():
            torch.testing.assert_close(ours.state()[place], entries)


def test_muon_sgd_is_a_twin_in_float64() -> None:
    """Compare with a twin that acts on singular values."""
    draw, shapes = np.random.default_rng(3), [(8, 5), (5, 8), (6, 2, 2), (1, 7), (4,), ()]
    of = nn.ParameterList([torch.as_tensor(draw.normal(size=shape)).float() for shape in shapes])
    optimizer = make_optimizer(of, TrainSection(optimizer="muon_sgd", lr=0.1), CPU)
    wanted = [parameter.detach().double().numpy() for parameter in of]
    momenta = [np.zeros_like(x) for x in wanted]
    for _ in range(3):
        for i, parameter in enumerate(of):
            parameter.grad = torch.as_tensor(draw.normal(size=shapes[i])).float()
            gradient = parameter.grad.double().numpy()
            momenta[i] = 0.95 * momenta[i] + gradient
            update = gradient + 0.95 * momenta[i]
            if update.ndim >= 2:
                matrix = update.reshape(len(update), -1)
                left, values, right = np.linalg.svd(matrix, full_matrices=False)
                values = final(values / np.linalg.norm(values))
                scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
                update = (scale * (left * values) @ right).reshape(update.shape)
            wanted[i] = wanted[i] - 0.1 * update
        optimizer.step()
        for got, twin in zip(of, wanted, strict=True):
            np.testing.assert_allclose(got.detach().numpy(), twin, rtol=0, atol=1e-4)


def final(values: np.ndarray) -> np.ndarray:
    """The singular values after the rounds."""
    for linear, cubic, quintic in CLOSER_TO_ONE:
        values = linear * values + cubic * values**3 + quintic * values**5
    return values


def test_the_rounds_of_muon_sgd_bring_singular_values_close_to_one() -> None:
    found = final(np.linspace(1 / 300, 1, 10_000))
    assert found.min() > 0.97 and found.max() < 1.15


def test_muon_goes_on_from_a_state_of_torchs() -> None:
    one, other = list(matrices()), list(matrices())
    torchs, ours = (
        torch.optim.Muon(one, lr=0.1, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        Muon(other, 0.1, CPU),
    )
    for step in range(2):
        descend(one, torchs, step)
    for got, wanted in zip(other, one, strict=True):
        got.data.copy_(wanted.data)
    ours.load_state(torchs.state_dict()["state"])
    descend(one, torchs, 2)
    descend(other, ours, 2)
    for got, wanted in zip(other, one, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0.002)


def test_a_graph_can_hold_the_steps_on_a_gpu() -> None:
    """On fake CUDA tensors: nothing is read back, and the step size is where a graph finds it
    again.
    """
    with fake_cuda() as device:
        parameters = [nn.Parameter(torch.zeros(shape)) for shape in ((8, 5), (5, 8), (4, 4))]
        for optimizer in (
            Muon(parameters, 0.1, device),
            Nesterov(parameters, 0.1, device),
            Adam(parameters, 0.1, 1e-5, device),
        ):
            assert optimizer.capturable and isinstance(optimizer.lr, torch.Tensor)
            kept = optimizer.lr
            optimizer.set_lr(0.2)
            assert optimizer.lr is kept and kept.device.type == "cuda"
        for parameter in parameters:
            parameter.grad = torch.zeros(parameter.shape)
        muon = Muon(parameters, 0.1, device)
        muon.step()
        assert all(
            entries["momentum_buffer"].device.type == "cuda" for entries in muon.state().values()
        )


@pytest.mark.parametrize("part", [Muon, Nesterov])
def test_a_step_reads_nothing_back(part: type[Nesterov]) -> None:
    parameters = list(matrices())
    optimizer = part(parameters, 0.1, CPU)
    optimizer.lr = torch.tensor(0.1)
    before = [parameter.clone() for parameter in parameters]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    with Syncs() as syncs:
        optimizer.step()
    assert syncs.found == [] and not any(
        torch.equal(a, b) for a, b in zip(before, parameters, strict=True)
    )

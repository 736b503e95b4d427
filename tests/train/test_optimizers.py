# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Optimizers (puffervec/train/optimizers.py): who steps which weights, and that a saved state goes on as if never stopped."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from puffervec.errors import ConfigError
from puffervec.train.config import PolicySection, TrainSection
from puffervec.train.optimizers import Optimizers, clip_gradients, make_optimizer
from puffervec.train.policy import build_policy
from tests.train.fakes import group

CPU = torch.device("cpu")


def policy() -> nn.Module:
    torch.manual_seed(0)
    return build_policy(group(("x", (3,))), PolicySection(hidden=(8, 8)))


def take(of: nn.Module, optimizer: Optimizers, which: range) -> None:
    for step in which:
        of.zero_grad()
        loss = torch.stack([(parameter * (step + 1)).sin().sum() for parameter in of.parameters()]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def test_muon_takes_hidden_matrices_and_adam_the_rest() -> None:
    of = policy()
    adam, muon = make_optimizer(of, TrainSection(optimizer="muon"), CPU).parts
    names = {id(parameter): name for name, parameter in of.named_parameters()}
    mine = [{names[id(parameter)] for parameter in part.parameters} for part in (adam, muon)]
    assert mine[1] == {"trunk.0.weight", "trunk.2.weight"}
    assert mine[0] == set(names.values()) - mine[1]


@pytest.mark.parametrize("name", ["adam", "muon"])
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
    for name in ("adam", "muon"):
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


@pytest.mark.parametrize("limit", [0.1, 1e6])
def test_gradients_are_clipped_as_by_torch(limit: float) -> None:
    one, other = policy(), policy()
    for of in (one, other):
        torch.stack([p.sin().sum() for p in of.parameters()]).sum().backward()  # type: ignore[no-untyped-call]
    norm = clip_gradients(list(one.parameters()), limit)
    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(other.parameters(), limit))
    for got, wanted in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(got.grad, wanted.grad)


def test_a_torch_without_muon_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ConfigError, match="train.optimizer is 'muon', which torch .* lacks"):
        make_optimizer(policy(), TrainSection(optimizer="muon"), CPU)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Optimizers (puffervec/train/optimizers.py): who steps which weights, and that a saved state goes on as if never stopped."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from puffervec.errors import ConfigError
from puffervec.train.config import PolicySection, TrainSection
from puffervec.train.optimizers import Optimizers, make_optimizer
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
    mine = [{names[id(p)] for g in part.param_groups for p in g["params"]} for part in (adam, muon)]
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
        optimizer = make_optimizer(policy(), TrainSection(optimizer=name), CPU)  # type: ignore[arg-type]
        optimizer.set_lr(0.5)
        assert {g["lr"] for part in optimizer.parts for g in part.param_groups} == {0.5}


def test_a_torch_without_muon_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ConfigError, match="train.optimizer is 'muon', which torch .* lacks"):
        make_optimizer(policy(), TrainSection(optimizer="muon"), CPU)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A user's policy is tried before anything is started; what does not fit is one error."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.distributions import ActionSpec
from puffervec.train.policies.leaves import Observation
from puffervec.train.policies.mapping import PolicyRows
from puffervec.train.policies.mlp import ActorCritic
from puffervec.train.policies.registry import build_policy
from puffervec.train.run.trial import try_policies
from tests.train.fakes import group


class Given(nn.Module):
    """Gives what it is told to."""

    def __init__(self, *given: Any, remembers: int = 0) -> None:
        super().__init__()
        self.given, self.remembers = given, remembers

    def initial_state(self, rows: int) -> tuple[Tensor, ...]:
        return (torch.zeros(rows, self.remembers),) if self.remembers else ()

    def forward(self, obs: Tensor, state: Any, reset: Tensor, action_mask: Tensor | None) -> Any:
        if self.given == ("fails",):
            return obs @ torch.zeros(1, 1)
        return self.given


def heads_of(sizes: tuple[int, ...], rows: int = 2) -> tuple[Tensor, ...]:
    return tuple(torch.zeros(rows, size) for size in sizes)


CONTINUOUS = {"action_kind": "continuous", "action_low": (-1.0, 0.0), "action_high": (1.0, 2.0)}


def the_group(actions: str = "multi_discrete") -> Any:
    made = group(("x", (3,)), sizes=(3,) if actions == "discrete" else (2, 5))
    return dataclasses.replace(made, **CONTINUOUS) if actions == "continuous" else made


def acting(rows: Any) -> PolicyRows:
    return PolicyRows(rows, TrainConfig("", {}).of_policy(""))


@pytest.mark.parametrize("actions", ["discrete", "multi_discrete", "continuous"])
def test_what_fits_is_taken(actions: str) -> None:
    rows = the_group(actions)
    sizes = ActionSpec.of(rows).head_sizes
    try_policies({"default": acting(rows)}, {"default": Given(heads_of(sizes), torch.zeros(2), ())})
    memory = (torch.zeros(2, 3),)
    try_policies(
        {"default": acting(rows)},
        {"default": Given(heads_of(sizes), torch.zeros(2), memory, remembers=3)},
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("fails",), "fails on 2 rows of zeros: RuntimeError"),
        ((None,), "fails on 2 rows of zeros: .*unpack"),
        (
            (heads_of((4,)), torch.zeros(2), ()),
            r"returned heads of \(2, 4\) for 2 rows: must be .*for a multi-discrete action",
        ),
        ((torch.zeros(2, 4), torch.zeros(2), ()), "returned heads of .*must be"),
        ((None, torch.zeros(2), ()), "returned heads of NoneType"),
        (
            ("right", torch.zeros(2, 1), ()),
            r"returned value of \(2, 1\) for 2 rows: must be \(2,\), one number per row",
        ),
        (
            ("right", torch.zeros(2), (torch.zeros(2, 3),)),
            r"returned state of \(2, 3\) for 2 rows: must be nothing, as from initial",
        ),
        (("right", torch.zeros(2), None), "returned state of NoneType for 2 rows: must be nothing"),
    ],
)
def test_what_does_not_fit_is_named(given: tuple[Any, ...], words: str) -> None:
    rows = the_group()
    if given[0] == "right":
        given = (heads_of(ActionSpec.of(rows).head_sizes), *given[1:])
    with pytest.raises(ConfigError, match=f"the policy Given {words}.*"):
        try_policies({"default": acting(rows)}, {"default": Given(*given)})


class NotJoint(nn.Module):
    """Overlooks `section.joint`."""

    def __init__(self, rows: Any, section: PolicySection) -> None:
        super().__init__()
        self.output = ActorCritic(
            sum(math.prod(field.shape) for field in rows.fields), ActionSpec.of(rows)
        )

    def initial_state(self, rows: int) -> tuple[Tensor, ...]:
        return ()

    def forward(
        self, obs: Observation, state: Any, reset: Tensor, action_mask: Tensor | None
    ) -> Any:
        parts = obs.values() if isinstance(obs, dict) else [obs]
        return *self.output(torch.cat([rows.flatten(1).float() for rows in parts], dim=1)), ()


def test_a_policy_that_overlooks_joint_is_refused_before_anything_starts(tmp_path: Path) -> None:
    policy, log = (
        {"kind": f"{__name__}:NotJoint", "joint": True},
        {"folder": str(tmp_path / "runs"), "dashboard": "off"},
    )
    config = TrainConfig.of("probe", env={"mode": 1}, policy=policy, log=log)
    with pytest.raises(
        ConfigError,
        match=r"the policy NotJoint returned heads of .*for a joint action of \d+ x \d+",
    ):
        Trainer(config)
    assert not (tmp_path / "runs").exists()


def test_trying_leaves_policy_and_random_numbers_alone() -> None:
    rows = the_group()
    policy = nn.Sequential(build_policy(rows, PolicySection()), nn.Identity())[0]
    before, drawn = (
        {name: weight.clone() for name, weight in policy.state_dict().items()},
        torch.get_rng_state(),
    )
    try_policies({"default": acting(rows)}, {"default": policy})
    assert policy.training and torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(weight, before[name]) for name, weight in policy.state_dict().items())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"defualt": Given()}, "no rows for a policy 'defualt': did you mean default"),
        ({"scouts": Given()}, "no rows for a policy 'scouts': known are default"),
        (
            {"default": nn.Linear(3, 3)},
            r"'default' is a Linear: use an nn.Module with initial_state\(rows\)",
        ),
        ({"default": "a name"}, "'default' is a str: use an nn.Module"),
    ],
)
def test_given_policies_that_cannot_be_meant_are_refused(
    given: Any, words: str, tmp_path: Path
) -> None:
    log = {"folder": str(tmp_path / "runs"), "dashboard": "off"}
    with pytest.raises(ConfigError, match=words):
        Trainer(TrainConfig.of("probe", log=log), policies=given)
    assert not (tmp_path / "runs").exists()

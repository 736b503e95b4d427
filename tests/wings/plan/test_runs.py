# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`train.plan`: rollouts and evaluations in planned memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import puffervec
from puffervec.doors import policy_wrapper
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.act import evaluate
from puffervec.train.collect.rollout import Rollout
from puffervec.train.device.device import ThreadPool
from puffervec.train.policies.leaves import by_key
from puffervec.train.policies.mlp import MLPPolicy
from puffervec.train.policies.protocol import forward
from puffervec.wings.plan.cache import PlanCache
from tests.train.test_device_turn import CASES, make_rollout
from tests.train.test_rollout import collected
from tests.wings.plan.policies import KINDS, make

Small = Callable[..., TrainConfig]
ENV = {"num_agents": 3, "episode_length": 5, "end_kind": 2, "leave": 1}


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_roll_outs_have_the_bytes_of_eager(small: Small, threads: int) -> None:
    """Also where a half is cut into pieces for several threads, and across the seam of two
    rollouts.
    """
    tables: dict[str, Any] = {
        "env": ENV,
        "policy": {"memory": "mingru"},
        "vec": {"num_envs": 4 if threads == 1 else 400},
    }
    eager, arena = (
        collected(small(**tables, train={"plan": mode, "threads": threads}), 2)
        for mode in ("eager", "arena")
    )
    for a, b in zip(eager, arena, strict=True):
        for key in a["default"]:
            np.testing.assert_array_equal(a["default"][key], b["default"][key], err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("device_turns", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_rows_and_both_kinds_of_turns(case: str, device_turns: bool) -> None:
    env, kwargs = CASES[case]
    found = []
    for mode in ("eager", "arena"):
        with puffervec.make(
            env, env_kwargs=kwargs, backend="serial", num_envs=4, num_buffers=2
        ) as vec:
            rollout = make_rollout(
                case, "none" if case in ("drive", "pictures") else "mingru", device_turns, vec
            )
            slots = {
                name: dataclasses.replace(slot, wrap=policy_wrapper(mode))
                for name, slot in rollout.slots.items()
            }
            generator = torch.Generator().manual_seed(3)
            rollout = Rollout(
                vec, slots, torch.device("cpu"), False, generator, ThreadPool(1), device_turns
            )
            rollout.begin(5)
            assert rollout.collect() and rollout.collect()
            found.append(
                {
                    n: {k: v.clone() for k, v in slot.storage.tensors().items()}
                    for n, slot in slots.items()
                }
            )
    for name, tensors in found[0].items():
        for key, tensor in tensors.items():
            torch.testing.assert_close(
                found[1][name][key], tensor, rtol=1e-4, atol=1e-5, msg=f"{name}: {key}"
            )


@pytest.mark.slow
def test_bfloat16_is_rounded_as_by_eager() -> None:
    for kind in KINDS:
        policy, (obs, state, reset, mask) = make(kind, 8)
        cache = PlanCache(policy, "arena")
        with torch.no_grad():
            wanted, found = (
                forward(p, by_key(obs), state, reset, mask, bf16=True) for p in (policy, cache)
            )
        for a, b in zip(
            (*wanted[0], wanted[1], *wanted[2]), (*found[0], found[1], *found[2]), strict=True
        ):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4, msg=kind)


@pytest.mark.slow
def test_a_run_learns_through_plans_that_its_halves_share(small: Small) -> None:
    with Trainer(small(env=ENV, train={"plan": "arena"})) as trainer:
        trainer.train()
        held, *others = [turn.policies["default"] for turn in trainer.collector.rollout.turns]
        assert others == [held] and len(held.plans) == 1 and held.nbytes > 0


@pytest.mark.slow
def test_evaluations_act_through_plans(small: Small) -> None:
    found = []
    for mode in ("eager", "arena"):
        config = small("cartpole", train={"plan": mode})
        torch.manual_seed(0)
        with Trainer(config) as trainer:
            acting = evaluate.with_plans(config, trainer.policies)
            assert isinstance(acting["default"], PlanCache) == (mode == "arena")
            actor = evaluate.PolicyActor(acting, torch.device("cpu"), True)
            found.append(evaluate.evaluate_any(config, actor, 20, 3).rows)
    assert found[0] == found[1]


class Sorts(MLPPolicy):
    """Has an operation without a rule."""

    def forward(self, obs: Any, state: Any = (), reset: Any = None, action_mask: Any = None) -> Any:
        heads, value, state = super().forward(obs, state, reset, action_mask)
        return heads, value + self._sorted(value) * 0, state

    def _sorted(self, x: Tensor) -> Tensor:
        return x.sort().values


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "policy", "words"),
    [
        ("cudagraph", {}, "train.plan is cudagraph: it needs a GPU, train.device is cpu"),
        (
            "arena",
            {"kind": f"{__name__}:Sorts"},
            r"(?s)plan is arena: these operations have no rule .*aten.sort.default at sort .*"
            r"test_runs.py",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused_before_the_start(
    small: Small, plan: str, policy: Any, words: str
) -> None:
    config = small(train={"plan": plan}, policy=policy)
    with pytest.raises(ConfigError, match=words):
        Trainer(config)
    assert not config.log.folder.exists()


@pytest.mark.slow
def test_a_policy_may_have_its_own_mode(small: Small) -> None:
    config = small(env=ENV, policy={"map": ("a=0,2", "b=1")}, policies={"b": {"plan": "arena"}})
    with Trainer(config) as trainer:
        (turn, *_) = trainer.collector.rollout.turns
        assert isinstance(turn.policies["a"], nn.Module) and isinstance(
            turn.policies["b"], PlanCache
        )

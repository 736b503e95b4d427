# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A plan per batch size (puffervec/wings/plan/cache.py)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from puffervec.train.policies.pool import Pool
from puffervec.wings.plan.build import PlanError
from puffervec.wings.plan.cache import PlanCache, acting, without_graphs
from puffervec.wings.plan.policy import MODES
from tests.wings.plan.policies import make


def first(args: Any, rows: int) -> Any:
    return tree_map(lambda part: None if part is None else part[:rows], args)


def test_batches_go_through_few_plans_and_come_out_as_from_the_policy() -> None:
    policy, args = make("mingru", 16)
    cache, counts = PlanCache(policy, "eager"), []
    for rows in (16, 13, 8, 7, 5, 16, 3):
        given = first(args, rows)
        kept = tree_map(torch.clone, given[:3])
        with torch.no_grad():
            wanted = policy(*given)
        heads, value, state = cache(*given)
        for a, b in zip((*wanted[0], wanted[1], *wanted[2]), (*heads, value, *state), strict=True):
            torch.testing.assert_close(a, b)
        assert all(torch.equal(a, b) for a, b in zip(kept[1], given[1], strict=True)), (
            "the caller's state stays"
        )
        counts.append(len(cache.plans))
    assert counts == [1, 1, 1, 2, 2, 2, 3]
    sizes = {len(plan.inputs[0]): plan.nbytes for plan in cache.plans}
    assert sorted(sizes) == [4, 8, 16] and cache.nbytes == sum(sizes.values())
    lines = cache.describe().splitlines()
    assert sorted(lines[:-1]) == sorted(
        f"{rows:>8} rows  1 x {size:,} bytes" for rows, size in sizes.items()
    )
    assert lines[-1] == f"{cache.nbytes:,} bytes in total"


def test_plans_that_are_not_used_go() -> None:
    policy, args = make("mlp", 64)
    cache = PlanCache(policy, "eager")
    for rows in range(1, 10):
        cache(*first(args, rows))
    assert [len(plan.inputs[0]) for plan in cache.plans] == list(range(2, 10))
    for rows in (32, 64):
        cache(*first(args, rows))
    assert [len(plan.inputs[0]) for plan in cache.plans] == [*range(4, 10), 32, 64]


def test_a_plan_in_use_gets_a_twin() -> None:
    policy, args = make("mlp", 8)
    cache = PlanCache(policy, "eager")
    (key, plan), (other_key, twin) = (cache._acquire(args, 8) for _ in range(2))
    assert plan is not twin and cache.plans == [plan, twin] and key == other_key


@pytest.mark.slow
def test_threads_at_the_same_time_have_memory_of_their_own() -> None:
    policy, args = make("mlp", 8)
    cache, results, barrier = PlanCache(policy, "arena"), dict[int, Any](), threading.Barrier(4)
    cache(*args)

    def work(number: int) -> None:
        barrier.wait(10)
        for _ in range(50):
            results[number] = cache(args[0] + number, *args[1:])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    for number, (heads, value, _) in results.items():
        with torch.no_grad():
            wanted = policy(args[0] + number, *args[1:])
        assert torch.equal(heads[0], wanted[0][0]) and torch.equal(value, wanted[1])
    assert len(results) == 4 and 1 <= len(cache.plans) <= 4


class Fields(nn.Module):
    """A policy that tells its observations apart by name."""

    def initial_state(self, rows: int) -> tuple[Tensor, ...]:
        return ()

    def forward(self, obs: dict[str, Tensor], state: Any, reset: Any, action_mask: Any) -> Any:
        return (obs["a"] + 2 * obs["b"],), obs["a"][:, 0] - obs["b"][:, 0], ()


def test_observations_are_matched_by_field() -> None:
    a, b = torch.ones(4, 3), torch.full((4, 3), 2.0)
    cache = PlanCache(Fields(), "eager")
    results = [cache({"a": a, "b": b}), cache({"b": b, "a": a})]
    for (heads,), value, _ in results:
        assert torch.equal(heads, a + 2 * b) and torch.equal(value, (a - b)[:, 0])
    assert len(cache.plans) == 1
    wide = torch.ones(4, 5)
    assert torch.equal(cache({"a": wide, "b": wide})[0][0], 3 * wide) and len(cache.plans) == 2


def test_all_arguments_have_the_same_number_of_rows() -> None:
    policy, (obs, state, *rest) = make("mingru", 4)
    with pytest.raises(PlanError, match=r"state\[0\] has 1 rows, the observations have 4"):
        PlanCache(policy, "eager")(obs, (state[0][:1],), *rest)


@pytest.mark.parametrize(
    ("module", "mode", "words"),
    [
        (
            nn.Linear(2, 2),
            "arena",
            "PlanCache takes policies, and Linear has no initial_state .* use compile_policy",
        ),
        (None, "arenas", "mode is 'arenas': use one of eager, arena"),
    ],
    ids=["no policy", "no mode"],
)
def test_what_it_cannot_hold_is_refused_at_once(
    module: nn.Module | None, mode: str, words: str
) -> None:
    with pytest.raises(PlanError, match=words):
        PlanCache(module or make("mlp", 2)[0], mode)


def test_what_needs_no_plan_acts_itself() -> None:
    policy, _ = make("mlp", 2)
    pool = Pool([policy], 1, 0)
    assert acting(policy, "eager") is policy and acting(pool, "arena") is pool
    modes = {mode: without_graphs(mode) for mode in MODES}
    assert {mode: without for mode, without in modes.items() if mode != without} == {
        "cudagraph": "eager",
        "compile+cudagraph": "compile",
    }

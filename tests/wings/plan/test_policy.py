# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies whose memory is planned (puffervec/wings/plan/policy.py)."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from puffervec.errors import ConfigError
from puffervec.train import TrainConfig
from puffervec.train.config.target import env_spec
from puffervec.train.policies.mapping import policy_rows
from puffervec.wings import plan
from puffervec.wings.plan import policy as policy_module
from puffervec.wings.plan.check import example_arguments
from puffervec.wings.plan.door import check_plans, planned_calls
from puffervec.wings.plan.policy import ModuleRunner, difference
from tests.wings.plan.memory import allocations
from tests.wings.plan.policies import KINDS, make

ROWS = 6
QUICK = ("mingru",)


def same(wanted: Any, found: Any, tolerance: float) -> None:
    for a, b in zip(tree_leaves(wanted), tree_leaves(found), strict=True):
        if tolerance:
            torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance)
        else:
            assert torch.equal(a, b)


@pytest.mark.parametrize(
    "kind",
    [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS],
)
def test_an_arena_gives_the_numbers_of_eager_and_allocates_nothing(kind: str) -> None:
    """To the bit, but for convolutions, which are our own."""
    policy, args = make(kind, ROWS)
    made = plan.compile_policy(policy, args)
    assert made.exact or "cnn" in kind and made.difference <= made.tolerance == 1e-5
    for seed in (1, 2):
        _, (obs, _, reset, mask) = make(kind, ROWS, seed)
        args = (obs, tree_map(torch.clone, made.inputs[1]), reset, mask)
        with torch.no_grad():
            wanted = policy(*args)
        same(wanted, made(obs, made.inputs[1], reset, mask), 0.0 if made.exact else 1e-5)
        same(wanted[2], made.inputs[1], 0.0 if made.exact else 1e-5)
    assert made.arena.bytes <= 1.15 * made.arena.bound
    assert allocations(made.run, 1000 if kind == "set encoder" else 3) == []


@pytest.mark.parametrize("mode", ["cudagraph", "compile+cudagraph"])
def test_graphs_of_cuda_need_a_gpu(mode: str) -> None:
    config = TrainConfig.of("cartpole", train={"plan": mode})
    rows = policy_rows(env_spec(config), config)
    with pytest.raises(ConfigError, match="it needs a GPU, train.device is cpu"):
        check_plans(rows, {}, torch.device("cpu"))


@pytest.mark.slow
def test_policies_of_envs_that_forbid_actions_can_be_planned() -> None:
    config = TrainConfig.of("probe", env={"mode": 1}, train={"plan": "arena"})
    rows = policy_rows(env_spec(config), config)
    check_plans(rows, {}, torch.device("cpu"))
    masks = {
        own.group.action_mask_size: example_arguments(own, own.build(), 3)[3]
        for own in rows.values()
    }
    assert masks.pop(0) is None
    ((size, mask),) = masks.items()
    assert mask.tolist() == [[1] * size] * 3


@pytest.mark.parametrize("missing", ["", "no compiler"])
def test_mode_compile_needs_a_compiler(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr("puffervec.wings.plan.check.missing_compiler", lambda device: missing)
    config = TrainConfig.of("cartpole", train={"plan": "compile"})
    rows = policy_rows(env_spec(config), config)
    with pytest.raises(ConfigError, match="no compiler") if missing else nullcontext():
        check_plans(rows, {}, torch.device("cpu"))


@pytest.mark.parametrize(("mode", "watch"), [("cudagraph", True), ("compile+cudagraph", False)])
def test_all_but_compiled_modules_are_watched_as_they_are_recorded(
    monkeypatch: pytest.MonkeyPatch, mode: str, watch: bool
) -> None:
    watched: list[bool] = []

    def record(runner: Any, device: torch.device, watch: bool) -> Any:
        watched.append(watch)
        return runner

    module, args = nn.Identity(), (torch.zeros(2),)
    runner = ModuleRunner(module, args, None)
    monkeypatch.setattr(policy_module, "CapturedRunner", record)
    monkeypatch.setattr(policy_module, "_device", lambda args: torch.device("cuda"))
    monkeypatch.setattr(plan.PolicyPlan, "_compile", lambda plan, args: runner)
    plan.compile_policy(module, args, mode)
    assert watched == [watch]


def test_an_error_of_torchs_compiler_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **settings: Any) -> None:
        raise RuntimeError("one\ntwo")

    monkeypatch.setattr(torch, "compile", fail)
    with pytest.raises(plan.PlanError, match="torch.compile failed: RuntimeError: one$"):
        plan.compile_policy(nn.Identity(), torch.zeros(2), "compile")


class Sides(nn.Module):
    """Returns its input in some dtypes, and what is no tensor."""

    def __init__(self, *dtypes: torch.dtype) -> None:
        super().__init__()
        self.dtypes = dtypes

    def forward(self, x: Tensor) -> tuple[Any, ...]:
        return *(x.to(dtype) for dtype in self.dtypes), None


@pytest.mark.parametrize(
    ("dtypes", "tolerance"),
    [
        ((torch.float64,), 1e-10),
        ((torch.bool, torch.float32, torch.float64), 1e-5),
        ((torch.float16,), 1e-2),
        ((torch.bfloat16,), 3e-2),
        ((torch.int64,), 0.0),
        ((), 0.0),
    ],
    ids=str,
)
def test_the_tolerance_is_that_of_the_coarsest_output(
    dtypes: tuple[torch.dtype, ...], tolerance: float
) -> None:
    made = plan.compile_policy(Sides(*dtypes), torch.ones(2), "eager")
    assert made.tolerance == tolerance and made.exact
    again = plan.compile_policy(Sides(*dtypes), torch.ones(2), "eager", tolerance=0.0)
    assert again.difference == 0.0


def test_differences_are_relative_to_numbers_above_1() -> None:
    nan = float("nan")
    for a, b, wanted in (
        ([], [], 0.0),
        ([4.0], [2.0], 0.5),
        ([1.0, 0.25, 8.0], [1.0, 0.5, 8.0], 0.25),
        ([nan, 1.0], [nan, 3.0], 2.0),
        ([nan], [nan], 0.0),
    ):
        assert difference(torch.tensor(a), torch.tensor(b)) == wanted
    assert isnan(difference(torch.tensor([nan]), torch.tensor([1.0])))


def test_an_ablation_gets_a_call_of_each_planned_mode() -> None:
    policy, args = make("mingru", ROWS)
    with torch.no_grad():
        wanted = policy(*args)
    found = planned_calls(policy, args)
    assert set(found) == {f"plan, {mode}" for mode in plan.MODES} - {"plan, eager"}
    same(wanted, found["plan, arena"]()(), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_allocated_in_a_thousand_runs(kind: str) -> None:
    policy, args = make(kind, 64)
    assert allocations(plan.compile_policy(policy, args).run, 1000) == []


@pytest.mark.slow
def test_a_policy_takes_observations_alone_and_goes_on_from_its_own_state() -> None:
    policy, (obs, _, _, _) = make("mingru", ROWS)
    made = plan.compile_policy(policy, obs)
    state, reset = policy.initial_state(ROWS), torch.ones(ROWS, dtype=torch.bool)  # type: ignore[operator]
    for _ in range(3):
        made.inputs[0].copy_(obs)
        made.inputs[2].copy_(reset)
        made.run()
        with torch.no_grad():
            heads, value, state = policy(obs, state, reset, None)
        same((heads, value, state), made.outputs, 0.0)
        reset = torch.zeros(ROWS, dtype=torch.bool)


@pytest.mark.slow
def test_any_module_with_its_arguments() -> None:
    net = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 2))
    made = plan.compile_policy(net, torch.randn(4, 3))
    x = torch.randn(4, 3)
    same(net(x).detach(), made(x), 1e-5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(x).sum().backward()
    optimizer.step()
    same(net(x).detach(), made(x), 1e-5)


class Sums(nn.Module):
    """Adds up what it is given."""

    def forward(self, x: Tensor, total: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        new = {key: part + x for key, part in total.items()}
        return new["a"] * 2, new


@pytest.mark.parametrize("mode", ["eager", "arena"])
def test_a_module_may_carry_a_state_too(mode: str) -> None:
    made = plan.compile_policy(Sums(), (torch.ones(2), {"a": torch.zeros(2)}), mode, carry=(1, 1))
    for count in (1.0, 2.0, 3.0):
        made.inputs[0].fill_(1.0)
        made.run()
        assert (
            made.outputs[0].tolist() == [2 * count] * 2
            and made.inputs[1]["a"].tolist() == [count] * 2
        )


@pytest.mark.slow
def test_a_plan_that_gives_other_numbers_is_refused() -> None:
    class Wrong(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1 if torch.compiler.is_compiling() else x + 2

    with pytest.raises(
        plan.PlanError,
        match="mode arena of Wrong: output 0 differs by 5.0e-01 from the module's own",
    ):
        plan.compile_policy(Wrong(), torch.zeros(3))


def test_what_differs_in_train_mode_says_what_to_do() -> None:
    with pytest.raises(
        plan.PlanError, match=r"differs by .*; it is in train mode: call \.eval\(\) first"
    ):
        plan.compile_policy(nn.Dropout(0.5), torch.ones(1000), "eager")


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("fast", "mode is 'fast': use one of eager, arena, compile"),
        ("cudagraph", "mode cudagraph needs a GPU"),
    ],
)
def test_modes_that_there_are_not(mode: str, words: str) -> None:
    with pytest.raises(plan.PlanError, match=words):
        plan.compile_policy(nn.Linear(2, 2), torch.zeros(1, 2), mode)


@pytest.mark.slow
def test_a_twin_has_memory_of_its_own() -> None:
    made = plan.compile_policy(nn.Linear(2, 2), torch.zeros(1, 2))
    other = made.twin()
    first = made(torch.ones(1, 2)).clone()
    other(torch.full((1, 2), 5.0))
    assert (
        torch.equal(made.outputs, first)
        and other.graph is made.graph
        and not torch.equal(other.outputs, first)
    )


@pytest.mark.slow
def test_it_describes_itself(tmp_path: Path) -> None:
    made = plan.compile_policy(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.zeros(8, 3))
    text = made.describe()
    assert (
        "aten.addmm.default" in text
        and "one buffer per tensor" in text
        and "1.000 x the bound" in text
    )
    found = json.loads(made.describe("json"))
    assert (
        found["mode"] == "arena"
        and found["arena"]["bytes"] == made.nbytes
        and len(found["nodes"]) == 3
    )
    with pytest.raises(plan.PlanError, match=r"describe\('yaml'\): use table or json"):
        made.describe("yaml")
    made.draw(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")


@pytest.mark.slow
def test_eager_has_a_graph_for_those_who_ask() -> None:
    made = plan.compile_policy(nn.Linear(3, 4), torch.zeros(8, 3), "eager")
    assert made.nbytes == 8 * 3 * 4 + 8 * 4 * 4 and made.arena.bytes == 256 and made.exact


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
def test_compiled() -> None:
    policy, args = make("mlp", ROWS)
    made = plan.compile_policy(policy, args, "compile")
    with torch.no_grad():
        same(policy(*args), made(*args), 1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["mlp", "mingru", "lstm", "cnn", "set encoder"])
@pytest.mark.parametrize("mode", ["arena", "compile", "cudagraph", "compile+cudagraph"])
def test_modes_on_a_gpu(kind: str, mode: str) -> None:
    policy, args = make(kind, 64)
    policy, args = (
        policy.cuda(),
        tree_map(lambda part: part.cuda() if isinstance(part, Tensor) else part, args),
    )
    made = plan.compile_policy(policy, args, mode, tolerance=1e-3)
    with torch.no_grad():
        same(policy(*args), made(*args), 1e-3)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(100):
        made.run()
    torch.cuda.synchronize()
    if mode != "compile" and "cnn" not in kind:  # cuDNN's scratch memory comes from torch's cache
        assert torch.cuda.memory_stats()["allocation.all.allocated"] == before

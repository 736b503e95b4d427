# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, library, nn

from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.collect.storage import Storage
from puffervec.train.config import target
from puffervec.train.device.device import ThreadPool
from puffervec.train.learn import compiled
from puffervec.train.learn.compiled import CompiledLoss
from puffervec.train.learn.ppo_loss import ppo_loss
from puffervec.train.learn.samples import Batch, samples_of
from puffervec.train.learn.updater import Updater
from puffervec.train.policies.object_set import HIDDEN, WIDE, encode_set
from puffervec.train.policies.registry import build_policy

pytestmark = [  # What torch's own modules warn of.
    pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

Small = Callable[..., TrainConfig]
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Counting:
    """A compiler that changes nothing and counts what it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


def test_sizes_are_symbols_on_a_cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA all batches fill the same buffers."""
    given: list[Any] = []
    monkeypatch.setattr(
        torch, "compile", lambda loss, **options: given.append(options["dynamic"]) or loss
    )
    for device in (CPU, CUDA):
        CompiledLoss(ppo_loss, device, must=True, backend="eager")
    assert given == [True, False]


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    torch._dynamo.reset()


def parts(config: TrainConfig) -> tuple[nn.Module, Storage, Callable[[int], Batch]]:
    """A policy, a storage of random rows, and what makes a batch of the first n of them."""
    group = target.env_spec(config).groups[0]
    torch.manual_seed(1)
    policy, storage = build_policy(group, config.policy), Storage(group, 1, 600, CPU, None)
    for tensor in storage.obs.values():
        tensor.uniform_(-1, 1)
    valid = torch.ones(1, 600, dtype=torch.uint8)
    samples = samples_of(storage, torch.randn(1, 600), valid, False)
    return policy, storage, lambda n: samples.cut(torch.arange(n), n)[0]()


@pytest.mark.slow
def test_sizes_and_threads_share_one_compilation(small: Small) -> None:
    config, backend = small(), Counting()
    policy, storage, batch = parts(config)
    weights = list(policy.parameters())
    compiled_loss = CompiledLoss(ppo_loss, CPU, must=True, backend=backend)

    def gradients(loss: Any, n: int) -> list[Tensor]:
        total, sums = loss(policy, storage.spec, batch(n), config.train, False)
        return [sums, *torch.autograd.grad(total, weights)]

    sizes = [300, 600, 2, 257, 128, 37]
    pool = ThreadPool(3)
    found = pool.map(lambda n: gradients(compiled_loss, n), sizes)
    pool.close()
    assert backend.graphs == 1
    for n, tensors in zip(sizes, found, strict=True):
        for got, want in zip(tensors, gradients(ppo_loss, n), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_set_encoders_kernel_is_one_operation() -> None:
    r = torch.Generator().manual_seed(1)
    first, second = (
        torch.randn(shape, generator=r).requires_grad_() for shape in ((HIDDEN, 8), (WIDE, HIDDEN))
    )
    encode = torch.compile(encode_set, backend="aot_eager", dynamic=True, fullgraph=True)
    for rows in (5, 9):
        objects = torch.randn(rows, 6, 7, generator=r)
        assert torch.equal(encode(objects, first, second), encode_set(objects, first, second))
        got, want = (
            torch.autograd.grad(f(objects, first, second).square().sum(), (first, second))
            for f in (encode, encode_set)
        )
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b)
    ops = torch.ops.puffervec
    winners = ops.encode_set(objects, first, second)[1]
    grad = torch.ones(9, WIDE)
    tests = ("test_schema", "test_faketensor")
    library.opcheck(ops.encode_set.default, (objects, first, second), test_utils=tests)
    library.opcheck(
        ops.encode_set_grad.default,
        (grad, objects, first.detach(), second.detach(), winners),
        test_utils=tests,
    )


def broken(graph: Any, inputs: Any) -> Any:
    raise RuntimeError("no compiler today")


@pytest.mark.slow
def test_auto_goes_on_where_the_compiler_fails(small: Small) -> None:
    config = small()
    policy, storage, batch = parts(config)
    loss = CompiledLoss(ppo_loss, CPU, must=False, backend=broken)
    with pytest.warns(RuntimeWarning, match="not compiled.*broken") as told:
        results = [loss(policy, storage.spec, batch(9), config.train, False)[1] for _ in range(2)]
    assert len(told) == 1
    torch.testing.assert_close(
        results[0], ppo_loss(policy, storage.spec, batch(9), config.train, False)[1]
    )
    must = CompiledLoss(ppo_loss, CPU, must=True, backend=broken)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no compiler today"):
        must(policy, storage.spec, batch(9), config.train, False)


@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
def test_where_it_pays(memory: str, small: Small) -> None:
    config = small(policy={"memory": memory})
    mine = build_policy(target.env_spec(config).groups[0], config.policy)
    assert not compiled.pays(CPU, mine) and compiled.pays(CUDA, mine) == (memory == "none")


@pytest.mark.slow
def test_on_needs_a_compiler(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    def fitting(wanted: str) -> Any:
        return compiled.choose_loss(ppo_loss, wanted, CPU, policy)

    policy = parts(small())[0]
    monkeypatch.setattr(compiled.shutil, "which", lambda name: None)
    monkeypatch.setenv("CXX", "my-own-g++")
    with pytest.raises(
        ConfigError,
        match="train.compile is on, but there is no C.. compiler .my-own-g...*auto or off",
    ):
        Trainer(small(train={"compile": "on"}))
    monkeypatch.setattr(compiled, "pays", lambda *_: True)
    assert fitting("auto") is ppo_loss
    monkeypatch.setattr(compiled.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert isinstance(fitting("auto"), CompiledLoss) and isinstance(fitting("on"), CompiledLoss)
    assert fitting("off") is ppo_loss


def weights_after(config: TrainConfig) -> tuple[dict[str, Tensor], Updater, dict[str, Any]]:
    with Trainer(config) as trainer:
        for _ in range(3):
            trainer.collect()
            trainer.update()
        manifest = compiled_manifest(trainer)
        (updater,) = trainer.learner.updaters.values()
        return (
            {name: value.clone() for name, value in updater.policy.state_dict().items()},
            updater,
            manifest,
        )


def compiled_manifest(trainer: Trainer) -> dict[str, Any]:
    from puffervec.train.run import checkpoint as ckpt

    found: dict[str, Any] = ckpt.read_manifest(trainer.save())["numerics"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
def test_a_run_learns_the_same(small: Small, monkeypatch: pytest.MonkeyPatch, memory: str) -> None:
    backend = Counting()
    monkeypatch.setattr(compiled, "BACKEND", backend)
    monkeypatch.setattr(compiled, "missing_compiler", lambda device: "")
    tables: dict[str, Any] = {
        "env": {"num_agents": 3, "episode_length": 5, "leave": 1},
        "policy": {"memory": memory},
    }
    train = {"threads": 2, "microbatch_size": 16, "minibatch_size": 48}
    off, plain, before = weights_after(small(train=train, **tables))
    on, updater, numerics = weights_after(small(train={**train, "compile": "on"}, **tables))
    assert plain.loss is ppo_loss and isinstance(updater.loss, CompiledLoss) and backend.graphs >= 1
    assert (before["compiled"], numerics["compiled"]) == (False, True)
    for name, value in on.items():
        torch.testing.assert_close(value, off[name], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("env", ["probe", "drive"])
def test_the_real_compiler(small: Small, env: str) -> None:
    """Half a minute each."""
    if compiled.missing_compiler(CPU):
        pytest.skip("no C++ compiler")
    config = small(env)
    policy, storage, batch = parts(config)
    weights, fast = list(policy.parameters()), CompiledLoss(ppo_loss, CPU, must=True)

    def gradients(loss: Any, n: int) -> list[Tensor]:
        total, sums = loss(policy, storage.spec, batch(n), config.train, False)
        return [sums, *torch.autograd.grad(total, weights)]

    sizes = [300, 600, 129]
    pool = ThreadPool(2)
    found = pool.map(lambda n: gradients(fast, n), sizes)
    pool.close()
    for n, tensors in zip(sizes, found, strict=True):
        for got, want in zip(tensors, gradients(ppo_loss, n), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)

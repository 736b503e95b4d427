# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from puffervec.train.collect.storage import Storage
from puffervec.train.config.sections import PolicySection
from puffervec.train.learn.optimizers import clip_gradients, make_optimizer
from puffervec.train.learn.ppo import PPOSection
from puffervec.train.learn.ppo_loss import ppo_loss
from puffervec.train.learn.samples import Batch
from puffervec.train.policies.distributions import ActionSpec
from puffervec.train.policies.registry import build_policy
from puffervec.wings import plan
from tests.helpers import thinned
from tests.train import fakes
from tests.wings.plan.memory import allocations

ROWS, STEPS, LIMIT = 6, 4, 0.5
CPU = torch.device("cpu")
X, Y = torch.linspace(-1, 1, 32).view(8, 4), torch.linspace(0, 1, 8).view(8, 1)

CASES = {
    "mlp": (fakes.group(("x", (4,))), PolicySection(hidden=(8, 8))),
    "mingru": (fakes.group(("x", (4,))), PolicySection(hidden=(8,), memory="mingru")),
    "lstm": (fakes.group(("x", (4,))), PolicySection(hidden=(8,), memory="lstm")),
    "set encoder": (
        fakes.group(("ego", (3,)), ("cars", (4, 2))),
        PolicySection(kind="object_set", hidden=(8,)),
    ),
    "attention": (
        fakes.group(("ego", (3,)), ("cars", (4, 2))),
        PolicySection(kind="object_set", hidden=(8,), object_attention=("cars",)),
    ),
    "several heads": (fakes.group(("x", (4,)), sizes=(3, 4)), PolicySection(hidden=(8,))),
    "pictures": (
        fakes.group(("screen", (2, 36, 36))),
        PolicySection(hidden=(8,), channels=(4, 4, 4)),
    ),
}


def squares(policy: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return (policy(batch[0]) - batch[1]).square().mean()


def net(*more: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 16), nn.LayerNorm(16), nn.ReLU(inplace=True), *more, nn.Linear(16, 1)
    )


def training(name: str) -> tuple[nn.Module, Callable[..., Any], dict[str, Any]]:
    """A policy of the trainer, PPO's loss, and a batch that fits."""
    group, section = CASES[name]
    draw = torch.Generator().manual_seed(3)
    torch.manual_seed(0)
    policy, spec = build_policy(group, section), ActionSpec.of(group)
    memory = section.memory != "none"
    storage = Storage(group, STEPS, ROWS, CPU, None)
    lead = (STEPS, ROWS) if memory else (ROWS,)
    numbers = {
        key: torch.rand(lead, generator=draw)
        for key in ("log_probs", "advantages", "returns", "values")
    }
    batch: dict[str, Any] = {
        "observations": {
            key: torch.randn(*lead, *x.shape[2:], generator=draw) for key, x in storage.obs.items()
        },
        "actions": torch.stack(
            [torch.randint(n, lead, generator=draw) for n in spec.sizes], dim=-1
        ).to(spec.dtype),
        **numbers,
        "action_mask": None,
        "state": tuple(
            torch.rand(part.shape, generator=draw) for part in policy.initial_state(ROWS)
        )
        if memory
        else (),
        "resets": torch.rand(lead, generator=draw) < 0.3 if memory else None,
    }

    def loss(policy: nn.Module, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
        total, sums = ppo_loss(policy, spec, Batch(**batch), PPOSection(), bf16=False)
        return total / ROWS, sums

    return policy, loss, batch


def eager_step(policy: nn.Module, loss: Callable[..., Any], optimizer: Any, batch: Any) -> Any:
    found = loss(policy, batch)
    parameters = [p for p in policy.parameters() if p.requires_grad]
    for parameter, grad in zip(parameters, torch.autograd.grad(found[0], parameters), strict=True):
        parameter.grad = grad
    clip_gradients(parameters, LIMIT)
    optimizer.step()
    return found


def weights(policy: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_policies_learn_as_they_do_in_eager(name: str) -> None:
    policy, loss, batch = training(name)
    other = copy.deepcopy(policy)
    optimizers = [make_optimizer(each, PPOSection(), CPU) for each in (policy, other)]
    made = plan.compile_step(policy, loss, optimizers[0], batch, max_grad_norm=LIMIT)
    assert torch.equal(weights(policy), weights(other)), "making a plan teaches nothing"
    assert made.arena.bytes <= 1.15 * made.arena.bound
    for _ in range(3):
        found = made(batch)
        wanted = eager_step(other, loss, optimizers[1], batch)
        torch.testing.assert_close(found, tuple(x.detach() for x in wanted), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(weights(policy), weights(other), rtol=1e-4, atol=1e-5)
    assert allocations(made.run) == []
    made.write(batch)
    made.runner.run()
    wanted = {key: grad.clone() for key, grad in made.gradients.items()}
    made.write(batch)
    made.runner.run_poisoned()  # no byte is read that nobody needs any more
    torch.testing.assert_close(made.gradients, wanted, rtol=0, atol=0)


@pytest.mark.slow
def test_any_module_and_optimizer() -> None:
    policy = net()
    made = plan.compile_step(policy, squares, torch.optim.SGD(policy.parameters(), 0.1), (X, Y))
    assert allocations(made.run) == []
    first = float(made((X, Y)))
    for _ in range(50):
        last = float(made((X, Y)))
    assert last < 0.5 * first and made.grad_norm is None


@pytest.mark.slow
def test_saved_activations_and_gradients_have_lifetimes() -> None:
    policy = net()
    made = plan.compile_step(policy, squares, torch.optim.SGD(policy.parameters(), 0.1), (X, Y))
    tensors = made.graph.tensors
    saved = [tensor for tensor in tensors.values() if tensor.kind == "saved"]
    assert saved and all(
        tensors[tensor.base].first < tensors[tensor.base].last < made.graph.end for tensor in saved
    )
    assert made.nbytes == made.arena.bytes < made.arena.aliased < made.arena.separate
    assert set(made.gradients) == {name for name, _ in policy.named_parameters()}
    assert all(
        grad.shape == p.shape
        for grad, p in zip(made.gradients.values(), policy.parameters(), strict=True)
    )


def test_gradients_are_clipped_to_a_norm_over_all() -> None:
    policy = nn.Linear(4, 1, bias=False)
    made = plan.compile_step(
        policy, squares, torch.optim.SGD(policy.parameters(), 0.0), (X, Y), max_grad_norm=1e-3
    )
    made((X, Y))
    assert made.grad_norm is not None and float(made.grad_norm) > 1e-3
    clipped = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
    assert float(clipped.norm()) == pytest.approx(1e-3, rel=1e-2)


def _labels(x: Tensor) -> Tensor:
    return (x > 0.5).to(torch.int64).view(-1)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": F.mse_loss,
    "binary cross entropy": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y),
    "mse, sum": lambda x, y: F.mse_loss(x, y, reduction="sum"),
    "mse, none": lambda x, y: F.mse_loss(x, y, reduction="none").mean(),
    "mse, two axes turned": lambda x, y: F.mse_loss(x.t(), y.t()),
    "huber": lambda x, y: F.huber_loss(x, y, delta=0.1),
    "smooth l1": lambda x, y: F.smooth_l1_loss(x, y, beta=0.1),
    "l1": F.l1_loss,
    "binary cross entropy, weighted sum": lambda x, y: F.binary_cross_entropy(
        x.sigmoid(), y, weight=y, reduction="sum"
    ),
    "binary cross entropy of logits": F.binary_cross_entropy_with_logits,
    "cross entropy": lambda x, y: F.cross_entropy(torch.cat([x, 1 - x], 1), _labels(y)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(3, LOSSES))
def test_losses_of_torch_stay_in_their_memory(name: str) -> None:
    policy = nn.Linear(4, 1)
    batch = torch.randn(64, 4), torch.rand(64, 1)
    optimizer = torch.optim.SGD(policy.parameters(), 0.1)
    made = plan.compile_step(
        policy, lambda policy, batch: LOSSES[name](policy(batch[0]), batch[1]), optimizer, batch
    )
    before = {key: raw.untyped_storage().nbytes() for key, raw in made.runner.buffers.items()}
    assert allocations(lambda: made(batch)) == []
    assert made.difference <= 1e-6 and made.outputs.shape == ()
    assert {
        key: raw.untyped_storage().nbytes() for key, raw in made.runner.buffers.items()
    } == before


class Words(nn.Module):
    """A row of indices, embedded."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(5, 4, **settings), nn.Linear(4, 1)

    def forward(self, indices: Tensor) -> Tensor:
        found: Tensor = self.last(self.table(indices))
        return found


class Attention(nn.Module):
    """Each part of a row attends to all."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x, x, x, need_weights=False)[0]
        return found


LAYERS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "embedding": (Words, torch.tensor([[0, 1, 1, 3], [4, 0, 1, 1]])),
    "embedding with padding": (
        lambda: Words(padding_idx=1),
        torch.tensor([[0, 1, 1, 3], [4, 0, 1, 1]]),
    ),
    "attention": (Attention, torch.randn(3, 5, 4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(2, LAYERS))
def test_embeddings_and_attention_learn_as_in_eager(name: str) -> None:
    make, batch = LAYERS[name]
    policy = make()
    optimizer = torch.optim.SGD(policy.parameters(), 0.0)
    made = plan.compile_step(policy, lambda policy, x: policy(x).square().mean(), optimizer, batch)
    assert made.difference <= 1e-6
    assert allocations(lambda: made(batch)) == []


def test_dropout_draws_anew_in_each_run_from_the_generator() -> None:
    policy = net(nn.Dropout(0.5))
    optimizer = torch.optim.SGD(policy.parameters(), 0.0)
    draws = [torch.Generator().manual_seed(7) for _ in range(2)]
    made = [
        plan.compile_step(policy, squares, optimizer, (X, Y), generator=generator)
        for generator in draws
    ]
    losses = [[float(each((X, Y))) for _ in range(4)] for each in made]
    assert losses[0] == losses[1] and len(set(losses[0])) == 4
    assert len(made[0].joint.noise) == 1 and made[0].difference < 1e-6
    policy.eval()
    assert float(plan.compile_step(policy, squares, optimizer, (X, Y))((X, Y))) not in losses[0]


@pytest.mark.slow
def test_a_batch_may_hold_what_the_loss_does_not_use() -> None:
    policy = net(nn.Dropout(0.5))
    batch = {"x": X, "unused": torch.zeros(3), "y": Y, "number": 1.5}

    def loss(policy: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        return squares(policy, (batch["x"], batch["y"]))

    made, wanted = (
        plan.compile_step(
            policy,
            function,
            torch.optim.SGD(policy.parameters(), 0.0),
            given,
            generator=torch.Generator().manual_seed(7),
        )
        for function, given in ((loss, batch), (squares, (X, Y)))
    )
    assert float(made({**batch, "number": float("1.5")})) == float(wanted((X, Y)))


@pytest.mark.slow
def test_samples_of_the_loss_are_drawn_anew() -> None:
    policy = net()

    def noisy(policy: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        noise = torch.randn_like(batch[1])
        return (policy(batch[0]) + noise - batch[1]).square().mean(), noise

    made = plan.compile_step(policy, noisy, torch.optim.SGD(policy.parameters(), 0.0), (X, Y))
    first = made((X, Y))[1].clone()
    assert not torch.equal(made((X, Y))[1], first) and first.std() > 0.3


@pytest.mark.slow
def test_dropout_and_coins_are_of_the_shares_that_are_asked_for() -> None:
    """What dropout keeps is scaled up, so that means stay; coins are 0 or 1, with one chance for
    all or a chance of each.
    """
    policy, chances = net(), torch.linspace(0, 1, 4).repeat(1000, 1)

    def drawn(policy: nn.Module, batch: Tensor) -> tuple[Tensor, ...]:
        kept = F.dropout(torch.ones_like(batch), 0.2)
        none, all_of_it = (
            F.dropout(torch.ones_like(batch), 1.0),
            F.dropout(torch.ones_like(batch), 0.0),
        )
        return (
            policy(batch).mean(),
            kept,
            none,
            all_of_it,
            torch.bernoulli(batch),
            torch.bernoulli(batch, 0.3),
        )

    made = plan.compile_step(policy, drawn, torch.optim.SGD(policy.parameters(), 0.0), chances)
    _, kept, none, all_of_it, coins, same = (part.clone() for part in made(chances))
    assert kept.unique().tolist() == [0.0, pytest.approx(1.25)] and float(
        kept.mean()
    ) == pytest.approx(1.0, abs=0.05)
    assert not none.any() and all_of_it.eq(1.0).all()
    assert same.unique().tolist() == [0.0, 1.0] and float(same.mean()) == pytest.approx(
        0.3, abs=0.05
    )
    torch.testing.assert_close(coins.mean(0), chances[0], atol=0.06, rtol=0)
    assert coins[:, 0].sum() == 0 and coins[:, 3].all()


@pytest.mark.slow
def test_parameters_that_the_loss_does_not_reach_have_no_gradient() -> None:
    policy = nn.ModuleList([net(), nn.Linear(2, 2)])
    policy[1].bias.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in policy.parameters() if p.requires_grad], 0.1)
    made = plan.compile_step(
        policy, lambda policy, batch: squares(policy[0], batch), optimizer, (X, Y)
    )
    before = weights(policy[1])
    made((X, Y))
    assert policy[1].weight.grad is None and torch.equal(weights(policy[1]), before)


BAD: dict[str, tuple[Callable[[], nn.Module], Callable[..., Any], str]] = {
    "no number": (
        net,
        lambda policy, batch: policy(batch[0]),
        "must return a tensor with one number",
    ),
    "reads back": (
        net,
        lambda policy, batch: squares(policy, batch) * float(batch[0].sum()),
        "cannot trace the training step",
    ),
    "other draws": (
        net,
        lambda policy, batch: squares(policy, (batch[0][torch.randperm(8)], batch[1])),
        r"randperm.*test_step.py.*cannot be an input of the plan",
    ),
    "frequencies": (
        lambda: Words(scale_grad_by_freq=True),
        lambda policy, batch: squares(policy, (_labels(batch[1]), batch[1])),
        r"scale_grad_by_freq=True\) has no rule: use False",
    ),
    "running means": (lambda: net(nn.BatchNorm1d(16)), squares, "writes to its buffers"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", thinned(2, BAD))
def test_what_cannot_be_planned_is_named(case: str) -> None:
    make, loss, words = BAD[case]
    policy = make()
    with pytest.raises(plan.PlanError, match=words):
        plan.compile_step(policy, loss, torch.optim.SGD(policy.parameters(), 0.1), (X, Y))


@pytest.mark.slow
def test_numbers_that_differ_from_eager_are_an_error() -> None:
    policy = net()
    with pytest.raises(plan.PlanError, match="differs by .* from eager"):
        plan.compile_step(
            policy, squares, torch.optim.SGD(policy.parameters(), 0.1), (X, Y), tolerance=-1.0
        )
    optimizer = torch.optim.SGD(policy.parameters(), 0.1)
    away = plan.compile_step(policy, squares, optimizer, (X, Y)).difference
    again = plan.compile_step(policy, squares, optimizer, (X, Y), tolerance=away)
    assert again.difference == away > 0

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The KL term towards a reference (puffervec/wings/reference/divergence.py, behind
puffervec/wings/reference/door.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from puffervec.errors import CheckpointError, ConfigError, PuffervecError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config.schedules import value_at
from puffervec.train.config.sections import PolicySection
from puffervec.train.learn.ppo import PPOSection
from puffervec.train.learn.ppo_loss import ppo_loss
from puffervec.train.learn.samples import Batch
from puffervec.train.policies.distributions import ActionSpec
from puffervec.train.policies.registry import build_policy
from puffervec.wings.reference import door
from puffervec.wings.reference.divergence import DivergenceTerm, divergence
from tests.helpers import slow_but
from tests.train.fakes import group
from tests.train.test_updater import SPEC, filled_storage

Small = Callable[..., TrainConfig]


@pytest.fixture
def reference(small: Small) -> Path:
    """A run of another network, with weights of its own."""
    config = small(policy={"hidden": (5,)}, train={"seed": 9, "lr": 0.1}, log={"name": "reference"})
    with Trainer(config) as trainer:
        trainer.train()
        return trainer.folder


def test_it_is_that_of_torchs_distributions() -> None:
    torch.manual_seed(0)
    one, other = ((torch.randn(7, 4), torch.randn(7, 3)) for _ in range(2))
    spec = ActionSpec.of(group(("x", (3,)), sizes=(4, 3)))
    wanted = sum(
        kl_divergence(Categorical(logits=p), Categorical(logits=q))
        for p, q in zip(one, other, strict=True)
    )
    torch.testing.assert_close(divergence(spec, one, other), wanted)
    assert not divergence(spec, one, one).any()
    normal = ActionSpec("continuous", (), (-1.0,) * 3, (1.0,) * 3)
    p, q = torch.randn(5, 2, 6), torch.randn(5, 2, 6)

    def distribution(head: torch.Tensor) -> Independent:
        mean, log_std = head.chunk(2, dim=-1)
        return Independent(Normal(mean, log_std.exp()), 1)

    torch.testing.assert_close(
        divergence(normal, (p,), (q,)), kl_divergence(distribution(p), distribution(q))
    )


def test_the_door_imports_no_torch_before_it_is_called() -> None:
    assert "DivergenceTerm" not in vars(door)


def test_forbidden_choices_do_not_count() -> None:
    spec = ActionSpec.of(group(("x", (3,)), sizes=(3,)))
    one, other = torch.tensor([[1.0, 0.0, -1e9]]), torch.tensor([[0.0, 1.0, -1e9]])
    expected = divergence(
        ActionSpec.of(group(("x", (3,)), sizes=(2,))), (one[:, :2],), (other[:, :2],)
    )
    torch.testing.assert_close(divergence(spec, (one,), (other,)), expected)


def test_the_term_is_added_with_its_weight(small: Small) -> None:
    """To the loss in C too, whose gradient stays; samples of weight 0 do not count."""
    torch.manual_seed(3)
    policy, reference = (build_policy(SPEC, PolicySection(hidden=(8,))) for _ in range(2))

    storage = filled_storage()
    rows = {key: part[0] for key, part in storage.obs.items()}
    zeros = torch.zeros(storage.rows)
    weights = torch.ones(storage.rows)
    weights[0] = 0.0
    batch = Batch(rows, storage.actions[0], zeros - 1.6, zeros + 0.5, zeros, zeros, None, weights)
    section, spec = PPOSection(kl_weight=0.3), storage.spec
    term = DivergenceTerm(reference)
    base, sums = ppo_loss(policy, spec, batch, section, False)
    loss, figures = term.added_to(ppo_loss)(policy, spec, batch, section, False)
    heads, theirs = (net(batch.obs, (), None, None)[0] for net in (policy, reference))
    apart = (divergence(spec, heads, theirs) * weights).sum()
    assert loss.item() == pytest.approx((base + 0.3 * apart).item(), rel=1e-5)
    assert figures[:-1].tolist() == sums.tolist()
    assert figures[-1].item() == pytest.approx(apart.item(), rel=1e-5) and term.figures == (
        "kl_to_reference",
    )
    parameters = list(policy.parameters())
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    wanted = torch.autograd.grad(base + 0.3 * apart, parameters, allow_unused=True)
    for one, other in zip(found, wanted, strict=True):
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert all(part.grad is None for part in reference.parameters())


def kl_after(config: TrainConfig) -> tuple[list[float], list[torch.Tensor]]:
    """Return the KL of each of some updates, and the weights after them."""
    with Trainer(config) as trainer:
        found = []
        for _ in range(6):
            trainer.collect()
            found.append(trainer.update()["losses/kl_to_reference"])
        return found, [part.clone() for part in trainer.policies["default"].parameters()]


@pytest.mark.slow
@pytest.mark.parametrize("memory", slow_but(["none"], ["none", "mingru"]))
def test_a_weight_keeps_a_policy_near(small: Small, reference: Path, memory: str) -> None:
    """A policy may have memory; its reference has none."""
    config = small(
        train={"kl_to": str(reference), "lr": 0.02, "total_timesteps": 10**6},
        policy={"memory": memory},
    )
    far, _ = kl_after(config.merged({"train": {"kl_weight": 0.0}}))
    near, _ = kl_after(config.merged({"train": {"kl_weight": 50.0}}))
    assert near[-1] < 0.3 * near[0] and near[-1] < 0.5 * far[-1]


@pytest.mark.slow
def test_without_weight_nothing_changes(small: Small, reference: Path) -> None:
    plain = small(train={"total_timesteps": 10**6})
    with Trainer(plain) as trainer:
        for _ in range(6):
            trainer.collect()
            trainer.update()
        wanted = [part.clone() for part in trainer.policies["default"].parameters()]
    kl_to = {"kl_to": str(reference), "kl_weight": 0.0}
    _, found = kl_after(plain.merged({"train": kl_to}))
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


@pytest.mark.slow
def test_a_run_stands_for_its_last_checkpoint(small: Small) -> None:
    with Trainer(small(train={"seed": 9, "lr": 0.1, "total_timesteps": 10**6})) as trainer:
        first = trainer.save()
        trainer.collect()
        trainer.update()
        last, folder = trainer.save(), trainer.folder

    def kl_to(place: Path) -> float:
        return kl_after(small(train={"kl_to": str(place), "total_timesteps": 10**6}))[0][0]

    assert kl_to(folder) == kl_to(last) != kl_to(first)


@pytest.mark.slow
def test_the_weight_follows_its_schedule(small: Small, reference: Path) -> None:
    """In a resumed run too, which reads the reference again."""
    points = [[0, 2.0], [300, 0.0]]
    config = small(train={"kl_to": str(reference), "kl_weight": points, "total_timesteps": 200})
    wanted = config.train.kl_weight
    with Trainer(config) as trainer:
        metrics = trainer.train()
        assert trainer.learner.updaters["default"].scheduled.keys() == {"kl_weight"}
        path = trainer.save()
    assert metrics["charts/kl_weight"] == pytest.approx(value_at(wanted, int(metrics["step"])))
    assert metrics["losses/kl_to_reference"] > 0
    longer = config.merged({"train": {"total_timesteps": 300}})
    with Trainer(longer, checkpoint=path) as trainer:
        metrics = trainer.train()
    assert metrics["charts/kl_weight"] == pytest.approx(value_at(wanted, int(metrics["step"])))
    shutil.rmtree(reference)
    with pytest.raises(ConfigError, match=f"train.kl_to: {reference} does not exist"):
        Trainer(longer, checkpoint=path)


def test_one_of_several_policies_has_a_reference(small: Small) -> None:
    chase = small(
        "tag_grid",
        env={"num_taggers": 3, "episode_length": 5},
        policy={"map": ["taggers=tagger", "runner=runner"]},
    )
    with Trainer(chase) as trainer:
        trainer.save()
        folder = str(trainer.folder)
    with Trainer(chase.merged({"policies": {"runner": {"kl_to": folder}}})) as trainer:
        trainer.collect()
        losses = trainer.update()
    assert "losses/runner/kl_to_reference" in losses
    assert "losses/taggers/kl_to_reference" not in losses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"train": {"kl_to": "latest"}}, "train.kl_to is latest: name a run"),
        ({"train": {"kl_to": "none"}}, "train.kl_to: none does not exist: name a run folder"),
        ({"train": {"kl_weight": -1}}, "train.kl_weight is -1.0: must be at least 0"),
        ({"env": {"obs_size": 9}}, "train.kl_to: .*observations or actions differ"),
    ],
)
def test_what_cannot_be_a_reference_is_named(
    small: Small, reference: Path, tables: dict[str, Any], words: str
) -> None:
    config = small(train={"kl_to": str(reference)})
    with pytest.raises((ConfigError, CheckpointError), match=words) as caught:
        Trainer(config.merged(tables))
    assert "\n" not in str(caught.value)


def test_a_reference_has_no_memory(small: Small) -> None:
    with Trainer(small(policy={"memory": "mingru"})) as trainer:
        trainer.save()
        folder = trainer.folder
    with pytest.raises(PuffervecError, match="has memory.*policy.memory none"):
        Trainer(small(train={"kl_to": str(folder)}))

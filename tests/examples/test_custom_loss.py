# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""examples/custom_loss.py: short, trains, and its loss is what its docstring says."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from puffervec.train import TrainConfig, Trainer
from puffervec.train.config.sections import TrainSection
from puffervec.train.learn.samples import Batch
from puffervec.train.learn.updater import LOSS_NAMES, ppo_loss
from puffervec.train.policies.distributions import ActionSpec
from puffervec.train.policies.leaves import ROW
from tests.train.conftest import SMALL

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "custom_loss.py"
LOSS = runpy.run_path(str(SCRIPT))["spo_loss"]
SPEC = ActionSpec("discrete", (3,), (), ())


class Table(nn.Module):
    """The same logits and value for every row."""

    def __init__(self) -> None:
        super().__init__()
        self.logits, self.guess = nn.Parameter(torch.tensor([0.3, -0.2, 0.1])), nn.Parameter(torch.tensor(0.5))

    def forward(self, obs: Any, *rest: Any) -> Any:
        rows = len(obs)
        return (self.logits.expand(rows, 3),), self.guess.expand(rows), ()


def batch(away: float = 0.0, rows: int = 6) -> Batch:
    """Rows whose log-probabilities were `away` lower when they were taken."""
    actions = torch.arange(rows).remainder(3).view(rows, 1)
    log_probs = Table().logits.log_softmax(0).detach()[actions[:, 0]] - away
    advantages, returns = torch.linspace(-1, 1, rows), torch.linspace(0, 2, rows)
    return Batch({ROW: torch.zeros(rows, 1)}, actions, log_probs, advantages, returns, torch.zeros(rows), None)


def found(loss: Any, given: Batch) -> tuple[list[torch.Tensor], torch.Tensor]:
    table = Table()
    total, sums = loss(table, SPEC, given, TrainSection(), False)
    return list(torch.autograd.grad(total, list(table.parameters()))), sums


def test_it_begins_like_ppo() -> None:
    """Where nothing has changed since the roll-out, gradient and figures are PPO's."""
    ours, theirs = found(LOSS, batch()), found(ppo_loss, batch())
    for a, b in zip([*ours[0], ours[1]], [*theirs[0], theirs[1]], strict=True):
        torch.testing.assert_close(a, b)
    assert ours[1].shape == (len(LOSS_NAMES),)


def test_the_penalty_pulls_back() -> None:
    """Beyond the clip range PPO's gradient is gone where the advantage is positive; here it points back."""
    ratio = torch.tensor(1.5)
    table = Table()
    given = batch(float(ratio.log()), rows=1)
    positive = Batch(**{**vars(given), "advantages": torch.ones(1)})
    section = TrainSection(entropy_coef=0.0, value_coef=0.0)
    for loss, sign in ((LOSS, 1.0), (ppo_loss, 0.0)):
        total, _ = loss(table, SPEC, positive, section, False)
        (grad,) = torch.autograd.grad(total, [table.logits])
        assert torch.sign(grad[0]) == sign  # descending lowers the logit of the action taken


def test_it_trains(tmp_path: Path) -> None:
    config = TrainConfig.of("probe", **SMALL).merged({"log": {"folder": str(tmp_path)}})
    with Trainer(config, loss=LOSS) as trainer:
        metrics = trainer.train()
    assert all(f"losses/{name}" in metrics for name in LOSS_NAMES)


def test_it_is_short() -> None:
    body = SCRIPT.read_text(encoding="utf-8").partition('"""\n\n')[2]
    assert len(body.splitlines()) < 40


@pytest.mark.slow
def test_as_a_script(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    score = re.search(r"return (\d+), ratios", done.stdout)
    assert score is not None and int(score[1]) > 60  # untrained: about 22

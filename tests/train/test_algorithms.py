# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The door for algorithms (config/algorithms.py): settings of their own, figures of their own, and
what the updater does for them. tests/examples/test_out_of_tree.py has one that is installed.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from puffervec.commands import cli
from puffervec.commands.cli import VERBS
from puffervec.commands.completion import candidates
from puffervec.commands.settings_help import full_help
from puffervec.errors import ConfigError
from puffervec.train import Algorithm, Batch, TrainConfig, Trainer, TrainSection
from puffervec.train.config import flags, ranges
from puffervec.train.device.device import ThreadPool
from puffervec.train.device.ranks import Ranks
from puffervec.train.learn.updater import Updater
from puffervec.train.policies.registry import build_policy
from tests.train.gangs import all_well
from tests.train.test_updater import SPEC, PolicySection, filled_storage

Small = Callable[..., TrainConfig]


@dataclasses.dataclass(frozen=True)
class StillSection(TrainSection):
    """Learns nothing."""

    clip: float = 0.3  # PPO has one too, with another default.
    times: int = 2  # What the second figure is times the first.

    def check(self) -> None:
        super().check()
        if self.times < 0:
            raise ConfigError(f"train.times is {self.times}: must be at least 0")


seen: list[Batch] = []


def still_loss(
    policy: Any, spec: Any, batch: Batch, section: StillSection, bf16: bool
) -> tuple[Tensor, Tensor]:
    """No gradient; the figures are the number of samples, once and several times."""
    seen.append(batch)
    heads, value, _ = policy(batch.obs, batch.state, batch.resets, batch.action_mask)
    count = (
        torch.tensor(1.0 * batch.advantages.numel())
        if batch.weights is None
        else batch.weights.sum()
    )
    return 0.0 * (heads[0].sum() + value.sum()), torch.stack([count, section.times * count])


def enough(section: StillSection, sums: Any, samples: int) -> bool:
    return float(sums["many"]) == section.times * samples


STILL = Algorithm(StillSection, lambda: still_loss, ("one", "many"), search={"train.times": "1/2"})
ONCE = dataclasses.replace(STILL, stop=enough)
CROWDED = dataclasses.replace(STILL, figures=("one", "many", "none"))
NO_ALGORITHM = 3
OWN = f"{__name__}:STILL"


def updated(
    algorithm: str, ranks: Ranks | None = None, memory: Any = "none", **settings: Any
) -> tuple[Updater, dict[str, float]]:
    """An updater after three epochs, and its figures."""
    seen.clear()
    storage, policy = (
        filled_storage(),
        build_policy(SPEC, PolicySection(hidden=(8,), memory=memory)),
    )
    storage.first_states[0] = policy.initial_state(storage.rows)  # type: ignore[operator]
    section = StillSection(algorithm=f"{__name__}:{algorithm}", update_epochs=3, **settings)
    made = Updater(
        policy, storage, section, 2, False, torch.Generator().manual_seed(2), ThreadPool(1), ranks
    )
    return made, made.update(1e-2).losses


def test_figures_are_means_by_name(small: Small) -> None:
    """And a loss without a gradient leaves the weights as they are."""
    with Trainer(small(train={"algorithm": OWN, "times": 3})) as trainer:
        before = {
            name: weight.detach().clone()
            for name, weight in trainer.policies["default"].named_parameters()
        }
        metrics = trainer.train()
        assert all(
            torch.equal(weight, before[name])
            for name, weight in trainer.policies["default"].named_parameters()
        )
    losses = {key: value for key, value in metrics.items() if key.startswith("losses/")}
    assert list(losses) == [
        f"losses/{name}" for name in ("one", "many", "grad_norm", "explained_variance")
    ]
    assert (losses["losses/one"], losses["losses/many"], losses["losses/grad_norm"]) == (1, 3, 0)


@pytest.mark.parametrize("memory", ["none", "mingru"])
@pytest.mark.parametrize("size", [1, 2])
def test_advantages_as_the_roll_out_gives_them(memory: str, size: int) -> None:
    def raw(ranks: Ranks) -> list[float]:
        made, _ = updated("STILL", ranks, memory, normalize_advantage=False)
        samples = made._samples(behind=False)
        return sorted((samples.returns - samples.values).tolist())

    wanted = raw(Ranks()) if size == 1 else sorted(sum(all_well(size, raw), []))
    kept = [
        batch.advantages if batch.weights is None else batch.advantages[batch.weights != 0]
        for batch in seen
    ]
    assert sorted(torch.cat(kept).tolist()) == pytest.approx(sorted(3 * wanted), abs=1e-6)


def test_it_may_stop_after_an_epoch() -> None:
    optimizer_steps = [
        made.optimizer.state()[0]["step"] for made, _ in map(updated, ("STILL", "ONCE"))
    ]
    assert list(map(int, optimizer_steps)) == [6, 2]


def test_figures_that_are_not_those_named_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r":CROWDED: figures of shape \[2\], not \('one', 'many', 'none'\)"
    ):
        updated("CROWDED")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ppoo", "no algorithm is called 'ppoo'.*did you mean 'ppo'.*the algorithms are ppo"),
        (f"{__name__}:NONE", "NONE': module .* has no 'NONE'"),
        (f"{__name__}:NO_ALGORITHM", "is 3: must be the name of a puffervec.train.Algorithm"),
        (3, "train.algorithm is 3: must be text"),
    ],
)
def test_what_is_no_algorithm_is_refused(name: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TrainConfig.of("probe", train={"algorithm": name})


def test_it_brings_settings_of_its_own(tmp_path: Path) -> None:
    """What both have keeps what was set, by the preset too; defaults are its own."""
    config = TrainConfig.of("probe", train={"algorithm": OWN, "times": 5})
    assert (
        isinstance(config.train, StillSection)
        and config.train.times == 5
        and config.train.clip == 0.3
    )
    assert (
        config.train.entropy_coef
        == TrainConfig.of("probe").train.entropy_coef
        != TrainSection.entropy_coef
    )
    assert TrainConfig.of("probe", train={"clip": 0.1}).merged(
        {"train": {"algorithm": OWN}}
    ).train == dataclasses.replace(config.train, clip=0.1, times=2)
    assert TrainConfig.bare("probe").merged(config.tables()) == config
    with pytest.raises(ConfigError, match="unknown key train.target_kl"):
        config.merged({"train": {"target_kl": 0.1}})
    with pytest.raises(ConfigError, match="train.times is -1: must be at least 0"):
        config.merged({"train": {"times": -1}}).check()
    with pytest.raises(
        ConfigError, match="train is a StillSection: algorithm ppo needs a PPOSection"
    ):
        dataclasses.replace(config, train=StillSection()).check()
    text = full_help(config)
    assert (
        "--train.times" in text
        and "What the second figure is" in text
        and "--train.horizon" in text
    )


def test_on_the_command_line_and_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[train]\ntimes = 7\n")
    for argv in (
        ["--train.algorithm", OWN, "--config", str(file)],
        [f"--train.algorithm={OWN}", "--train.times", "7"],
    ):
        assert getattr(flags.build_config(TrainConfig.of("probe"), argv).train, "times") == 7  # noqa: B009
    file.write_text(f"[train]\nalgorithm = '{OWN}'\ntimes = 7\n")
    argv = ["--config", str(file), "--train.clip", "0.5"]
    found = flags.build_config(TrainConfig.of("probe"), argv).train
    assert isinstance(found, StillSection) and (found.times, found.clip) == (7, 0.5)
    with pytest.raises(ConfigError, match="unknown flag --train.times"):
        flags.build_config(TrainConfig.of("probe"), ["--train.times", "7"])


def test_sweeps_search_what_it_says() -> None:
    spaces = [
        ranges.build_space(TrainConfig.of("probe", train={"algorithm": name}), {})
        for name in ("ppo", OWN)
    ]
    assert ["train.clip" in space for space in spaces] == [True, False]
    assert ["train.times" in space for space in spaces] == [False, True]
    assert all("train.lr" in space for space in spaces)


def test_completion_knows_its_flags() -> None:
    assert "ppo" in candidates(["probe", "--train.algorithm", ""], VERBS)
    assert candidates(["probe", "--train.algorithm", "ppo", "--train.cl"], VERBS) == [
        "--train.clip"
    ]


@pytest.mark.slow
def test_its_policies_act_where_it_is_not_installed(
    small: Small,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Evaluation needs no algorithm; going on does."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "my_losses.py").write_text(f"from {__name__} import STILL\n")
    with monkeypatch.context() as patch:
        patch.syspath_prepend(folder)
        with Trainer(small(train={"algorithm": "my_losses:STILL", "times": 5})) as trainer:
            trainer.train()
        run = str(trainer.folder)
        more = ["--resume", run, "--total-timesteps", "200", "--log.dashboard", "off"]
        assert cli.main([*more, "--train.algorithm", "my_losses:STILL"]) == 0
        sys.modules.pop("my_losses")
    assert cli.main(["eval", run, "--episodes", "1"]) == 0
    capsys.readouterr()
    assert cli.main(["--resume", run]) == 2
    assert "'my_losses:STILL', code that would be imported" in capsys.readouterr().err

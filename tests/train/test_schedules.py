# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Settings that change over a run: what may be said, what they are when, and that the updates and
the log follow them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config import flags, ranges
from puffervec.train.config.schedules import value_at
from puffervec.train.metrics.log import read_metrics
from puffervec.train.run import checkpoint as ckpt
from tests.train.test_updater import filled_storage, updater

Small = Callable[..., TrainConfig]
POINTS = ((100.0, 1.0), (200.0, 0.5), (200.0, 0.25), (300.0, 0.0))


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        (0, 1.0),
        (100, 1.0),
        (150, 0.75),
        (199, 0.505),
        (200, 0.25),
        (250, 0.125),
        (300, 0.0),
        (10**9, 0.0),
    ],
)
def test_straight_lines_between_points_and_a_jump(steps: int, value: float) -> None:
    assert value_at(POINTS, steps) == pytest.approx(value) and value_at(0.3, steps) == 0.3


def test_flags_files_and_tables_say_the_same(tmp_path: Path) -> None:
    probe, file = TrainConfig.of("probe"), tmp_path / "run.toml"
    file.write_text("[train]\nlr = [[0, 1e-3], [1_000_000, 1e-4]]\nentropy_coef = [[0, 0.5]]\n")
    wanted = ((0.0, 1e-3), (1e6, 1e-4)), ((0.0, 0.5),)
    argv = ["--lr", "[[0, 1e-3], [1e6, 0.0001]]", "--train.entropy-coef=[[0,0.5]]"]
    for config in (flags.apply_config_file(probe, file), flags.apply_flags(probe, argv)):
        assert (config.train.lr, config.train.entropy_coef) == wanted
        config.check()
        kept = json.loads(json.dumps(config.tables()))
        assert TrainConfig.bare("probe").merged(kept) == config == flags.apply_flags(config, [])
    assert (
        flags.apply_flags(config, ["--lr", ".5", "--train.entropy-coef", "0"]).train.lr == 0.5
    )  # flags win


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("fast", "train.lr is 'fast': must be a number, or points"),
        (True, "train.lr is True: must be a number"),
        ([], r"train.lr is \[\]: must be a number, or points"),
        ([[0, 1], [5]], r"train.lr, point 2 is \[5\]: must be \[step, value\]"),
        ([[0, 1], [5, "x"]], r"train.lr, point 2 is \[5, 'x'\]"),
        ([0, 1], "train.lr, point 1 is 0: must be"),
        ([[0, 10**400]], "train.lr, point 1 is"),
        ([[-1, 1]], "train.lr, point 1: its step is -1: steps begin at 0 and ascend"),
        ([[0, 1], [9, 1], [8, 1]], "train.lr, point 3: its step is 8: .*from 9"),
        ([[0, 1], [9, -1]], "train.lr, point 2: its value is -1.0: must be at least 0"),
        ([[0, float("nan")]], "train.lr, point 1: its value is nan"),
        ([[float("nan"), 1]], "train.lr, point 1: its step is nan"),
        ([[0, 0], [5, 0]], "train.lr is 0 in all its points"),
        (0, "train.lr is 0.0: must be above 0"),
    ],
)
def test_what_is_wrong_is_named(value: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        TrainConfig.of("probe", train={"lr": value}).check()


def test_a_flag_that_is_no_schedule_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"train.entropy_coef, point 2 is \[1\]") as caught:
        flags.apply_flags(TrainConfig.of("probe"), ["--train.entropy-coef", "[[0, 1], [1]]"])
    assert "\n" not in str(caught.value)


def test_a_weight_of_entropy_may_be_0_all_the_time() -> None:
    config = TrainConfig.of("probe", train={"entropy_coef": [[0, 0]]})
    config.check()
    assert [value_at(config.train.entropy_coef, step) for step in (0, 1, 10**9)] == [0, 0, 0]


def test_a_sweep_searches_numbers_and_schedules() -> None:
    config = TrainConfig.of("probe", train={"lr": [[0, 1], [10, 0.1]]})
    assert ranges.with_values(config, {"train.lr": 0.5}).train.lr == 0.5
    space = ranges.build_space(config, {"train.lr": "[[0,1],[9,0.5]]/0.1"})
    assert ranges.with_values(config, {"train.lr": space["train.lr"].options[0]}).train.lr == (
        (0, 1),
        (9, 0.5),
    )  # type: ignore[union-attr]


@pytest.mark.slow
def test_updates_and_the_log_follow_it_and_so_does_a_resumed_run(small: Small) -> None:
    """The log has what the next update takes; points of lr are not annealed."""
    lr, entropy = [[0, 0.01], [400, 0.002]], [[0, 0.5], [200, 0.0], [200, 0.1]]
    limit = [[0, 0.1], [400, 2.0]]
    scheduled = {"lr": lr, "entropy_coef": entropy, "reward_limit": limit}
    config = small(train={**scheduled, "update_epochs": 1})
    runs = []
    for stops in ((), (150,)):
        checkpoint = None
        for steps in (*stops, 400):
            with Trainer(
                config.merged({"train": {"total_timesteps": steps}}), checkpoint=checkpoint
            ) as trainer:
                trainer.train()
                checkpoint = ckpt.newest(trainer.folder / "checkpoints")
                lines = list(read_metrics(trainer.folder / "metrics.jsonl"))
        for line in lines:
            assert line["charts/learning_rate"] == pytest.approx(
                value_at(config.train.lr, int(line["step"]))
            )
            assert line["charts/entropy_coef"] == pytest.approx(
                value_at(config.train.entropy_coef, int(line["step"]))
            )
            assert line["charts/reward_limit"] == pytest.approx(
                value_at(config.train.reward_limit, int(line["step"]))
            )
        runs.append([weight.clone() for weight in trainer.policies["default"].parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*runs, strict=True))


@pytest.mark.parametrize("kind", ["c", "torch", "device"])
def test_losses_find_the_number_of_the_update(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes as a constant; on a device in one tensor, which a graph can hold."""
    if kind == "torch":
        monkeypatch.setattr("puffervec.train.learn.ppo_loss.fits", lambda *_: False)

    def updated(*constants: float, **section: Any) -> list[torch.Tensor]:
        made = updater(filled_storage(), **section)
        if kind == "device":
            made.use_buffers(made.storage.rows * made.storage.horizon, capture=False)
        for number, now in enumerate((0.5, 0.25)):
            if constants:
                made.section = dataclasses.replace(made.section, entropy_coef=constants[number])
            found = made.section.entropy_coef
            made.update(1e-2, entropy_coef=now)
            assert made.section.entropy_coef is found
        return list(made.parameters)

    points, constants, same = (
        updated(entropy_coef=((0, 9.0), (9, 8.0))),
        updated(0.5, 0.25),
        updated(0.5, 0.5),
    )
    assert all(torch.equal(one, other) for one, other in zip(points, constants, strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(points, same, strict=True))

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies of the trainer whose pictures are shared by columns: beside the same ranks without."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config.sections import PolicySection
from puffervec.train.device.ranks import GroupRanks, Ranks
from puffervec.train.run import checkpoint as ckpt
from puffervec.wings.sharded.sharing import share_columns
from tests.train.gangs import all_well, together

Small = Callable[..., TrainConfig]


class Sees(gymnasium.Env[Any, Any]):
    """Pictures of noise, alone or beside numbers; the reward is whether the action names the
    brighter half.
    """

    action_space = spaces.Discrete(2)

    def __init__(self, beside: bool = False) -> None:
        picture = spaces.Box(0, 255, (16, 22, 3), np.uint8)
        self.beside = beside
        self.observation_space = (
            spaces.Dict({"picture": picture, "x": spaces.Box(-1, 1, (3,))}) if beside else picture
        )

    def _row(self) -> Any:
        self.picture = self.np_random.integers(0, 255, (16, 22, 3), dtype=np.uint8)
        return (
            {"picture": self.picture, "x": self.np_random.random(3, np.float32)}
            if self.beside
            else self.picture
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._row(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        right = int(self.picture[:, 11:].mean() > self.picture[:, :11].mean())
        self.steps += 1
        return self._row(), float(action == right), self.steps >= 5, False, {}


def updated(
    config: TrainConfig, ranks: Ranks, begin: Mapping[str, nn.Module] | None = None
) -> tuple[dict[str, float], Any]:
    """Two updates: losses and weights. The first rank has few samples, and so fewer pieces, or none
    of a minibatch.
    """
    with Trainer(config, ranks=ranks, policies=begin and copy.deepcopy(begin)) as trainer:
        for _ in range(2):
            trainer.collect()
            if ranks.first:
                trainer.slots["default"].storage.masks[2:, 1:] = 0
            losses = trainer.update()
        return losses, {k: v.clone() for k, v in trainer.policies["default"].state_dict().items()}


CASES: list[dict[str, Any]] = [
    {"policy": {"kind": "cnn", "channels": (4, 4)}},
    {"policy": {"kind": "convnext", "channels": (4, 8)}, "env": {"beside": True}},
    {"policy": {"kind": "convnext", "channels": (4,), "memory": "mingru"}},
]


def config_of(small: Small, tables: Mapping[str, Any], **train: Any) -> TrainConfig:
    # With the usual epsilon, the sign of a gradient of 1e-9 would decide; Muon rounds to bf16.
    settings = {
        "horizon": 6,
        "minibatch_size": 8,
        "microbatch_size": 3,
        "update_epochs": 2,
        "adam_eps": 1e-3,
        "optimizer": "adam",
        **train,
    }
    return small(Sees, **{**tables, "train": settings})


@pytest.mark.parametrize(
    "tables",
    CASES,
    ids=["cnn", "convnext", "memory"],
)
@pytest.mark.slow
def test_shared_columns_change_no_result(tables: Mapping[str, Any], small: Small) -> None:
    config = config_of(small, tables)
    with Trainer(config) as one:
        begin = dict(one.policies)  # Ranks are threads here, which would draw from one generator.
    found = {}
    for parallel in (1, 2):
        own = config.merged(
            {"train": {"tensor_parallel": parallel}, "log": {"name": f"p{parallel}"}}
        )
        found[parallel] = all_well(2, lambda ranks, own=own: updated(own, ranks, begin))
    for (losses, weights), (other_losses, other_weights) in zip(found[1], found[2], strict=True):
        print(
            {k: (v, other_losses[k]) for k, v in losses.items()},
            {k: float((w - other_weights[k]).abs().max()) for k, w in weights.items()},
        )
        assert other_losses == pytest.approx(losses, rel=1e-3, abs=1e-5)
        for name, weight in weights.items():
            torch.testing.assert_close(other_weights[name], weight, rtol=1e-3, atol=1e-5)
    assert all(
        torch.equal(a, b)
        for a, b in zip(found[2][0][1].values(), found[2][1][1].values(), strict=True)
    )


@pytest.mark.slow
def test_a_checkpoint_goes_from_shared_columns_to_one_process_and_back(small: Small) -> None:
    config = config_of(small, CASES[0])
    with Trainer(config) as one:
        one.collect()
        one.update()
        path, begin = one.save(), dict(one.policies)

    def work(ranks: GroupRanks) -> Any:
        own = config.merged({"train": {"tensor_parallel": 2}})
        with Trainer(own, ranks=ranks, checkpoint=path) as trainer:
            before = [p.clone() for p in trainer.policies["default"].parameters()]
            trainer.collect()
            trainer.update()
            return before, trainer.save(), trainer.policies["default"].state_dict()

    (before, again, after), _ = all_well(2, work)
    assert all(
        torch.equal(a, b) for a, b in zip(before, begin["default"].parameters(), strict=True)
    )
    with Trainer(config, checkpoint=again) as one:
        assert one.counters.updates == 2
        assert all(
            torch.equal(a, after[name]) for name, a in one.policies["default"].state_dict().items()
        )


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"train": {"tensor_parallel": 3}}, "train.tensor_parallel is 3, but there are 2 ranks"),
    ({"train": {"tensor_parallel": 0}}, "tensor_parallel"),
    ({"train": {"compile": "on"}}, "train.compile is on"),
    ({"policy": {"kind": "mlp"}}, r"the policy default \(MLPPolicy\) has no pictures"),
]


@pytest.mark.parametrize(
    ("tables", "words"), REFUSED, ids=lambda part: part if isinstance(part, str) else ""
)
def test_what_cannot_be_shared_is_refused_on_all_ranks(
    tables: dict[str, Any], words: str, small: Small
) -> None:
    config = config_of(small, {}).merged({"train": {"tensor_parallel": 2}}).merged(tables)
    for found in together(2, lambda ranks: updated(config, ranks)):
        assert isinstance(found, ConfigError)
        with pytest.raises(ConfigError, match=words):
            raise found
    assert not list(config.log.folder.glob("*/checkpoints"))


@pytest.mark.slow
def test_a_width_that_cannot_be_shared_is_refused_on_all_ranks(small: Small) -> None:
    config = config_of(
        small, {"policy": {"kind": "convnext", "channels": (4, 4, 4, 4, 4)}}, tensor_parallel=2
    )
    words = [
        "width 1 cannot be split over 2 ranks" in str(found)
        for found in together(2, lambda ranks: updated(config, ranks))
    ]
    assert words == [True, True]


@pytest.mark.parametrize("part", ["networks", "convolve"])
def test_a_policy_needs_its_networks_and_a_way_to_replace_their_call(part: str) -> None:
    policy: Any = SimpleNamespace(**{part: list})
    with pytest.raises(ConfigError, match="has no pictures"):
        share_columns("default", policy, Ranks())


def test_one_process_has_nobody_to_share_with(small: Small) -> None:
    with pytest.raises(ConfigError, match="there is 1 rank: start a multiple of it with torchrun"):
        Trainer(config_of(small, CASES[0], tensor_parallel=2))


def test_stages_and_depths() -> None:
    for wrong in ({"depths": (1,)}, {"depths": (1, 0, 1)}, {"drop_path": 1.0}):
        with pytest.raises(ConfigError, match=f"policy.{next(iter(wrong))} is"):
            PolicySection(kind="convnext", **wrong).check()  # type: ignore[arg-type]
    PolicySection(kind="convnext", depths=(1, 2, 1), drop_path=0.1).check()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "alone", "pixels"), [("cnn", 1, 32), ("convnext", 0, 33)])
def test_drives_raster_trains_shared_and_not(
    kind: str, alone: int, pixels: int, small: Small
) -> None:
    """The picture alone, and beside the other blocks with an odd width."""
    tables = {
        "env": {"raster": pixels, "raster_alone": alone},
        "vec": {"num_envs": 1, "num_buffers": 1},
        "policy": {"kind": kind, "channels": (4, 8)},
        "train": {
            "horizon": 2,
            "minibatch_size": 0,
            "adam_eps": 1e-3,
            "optimizer": "adam",
            "time_limit_s": 0.0,
        },
    }
    config = small("drive", **tables)
    with Trainer(config) as one:
        begin = dict(one.policies)
    found = []
    for parallel in (1, 2):
        own = config.merged(
            {"train": {"tensor_parallel": parallel}, "log": {"name": f"p{parallel}"}}
        )
        found.append(all_well(2, lambda ranks, own=own: updated(own, ranks, begin))[0][1])
    for name, weight in found[0].items():
        torch.testing.assert_close(found[1][name], weight, rtol=1e-3, atol=1e-5)
    assert any(
        not torch.equal(found[0][name], value)
        for name, value in begin["default"].state_dict().items()
    )


def tensors_of(run: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    path = ckpt.newest(run / "checkpoints")
    assert path is not None
    return path, ckpt.read(path, ("default", "optimizer")).tensors["default"]


@pytest.mark.slow
def test_teams_of_processes_beside_as_many_ranks_alone(tmp_path: Path) -> None:
    """Four processes of torchrun: two teams of two, and four that share no columns. Then one goes
    on from the teams' run.
    """
    script = tmp_path / "train.py"
    script.write_text("import sys\nfrom puffervec.commands.cli import main\nsys.exit(main())\n")
    settings = (
        "tests.wings.sharded.test_sharing:Sees --backend serial --num-envs 4 --train.horizon 6 "
        "--device cpu --train.minibatch-size 8 --train.microbatch-size 3 --train.update-epochs 2 "
        "--train.adam-eps 1e-3 --train.optimizer adam --train.deterministic --train.precision "
        "fp32 --policy.kind convnext --policy.channels 4 8 --policy.hidden 8 --log.dashboard off "
        "--total-timesteps 400"
    )
    torchrun = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr",
        "127.0.0.1",
        "--nproc-per-node",
        "4",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
        "OMP_NUM_THREADS": "1",
    }

    def train(*command: str) -> None:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    found = {}
    for parallel in ("1", "2"):
        train(
            *torchrun,
            str(script),
            *settings.split(),
            "--train.tensor-parallel",
            parallel,
            "--log.name",
            f"p{parallel}",
        )
        found[parallel] = tensors_of(tmp_path / "runs" / f"p{parallel}")
    for name, weight in found["1"][1].items():
        torch.testing.assert_close(found["2"][1][name], weight, rtol=1e-3, atol=1e-5)
    train(
        str(script),
        settings.split()[0],
        "--resume",
        "runs/p2",
        "--train.tensor-parallel",
        "1",
        "--total-timesteps",
        "500",
    )
    assert tensors_of(tmp_path / "runs" / "p2")[0] > found["2"][0]

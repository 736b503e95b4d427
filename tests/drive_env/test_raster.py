# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The bird's-eye view in use: settings, pictures of it (drive_env/render/raster.py), policies that
train on it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import puffervec
from drive_env.config import DriveConfig
from drive_env.env import PRESET
from drive_env.evaluate.baselines import BASELINES, baseline
from drive_env.evaluate.describe import describe_scenes
from drive_env.evaluate.evaluate import evaluate
from drive_env.evaluate.observation import columns
from drive_env.render import raster
from drive_env.render.frames import FrameRecorder
from puffervec.commands.eval import EvalRequest, run_evaluation
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig, Trainer, read_metrics
from puffervec.train.policies.convolution import ConvolutionPolicy, MixedPolicy
from puffervec.train.run import checkpoint as ckpt
from puffervec.wings.export import exporting
from tests.helpers import slow_but

MakeTree = Callable[..., dict[str, Any]]


@pytest.fixture
def scene(tiny_tree: MakeTree, tmp_path: Path, cache: Path) -> str:
    """A file with the tiny scene: two cars."""
    path = tmp_path / "one.json"
    path.write_text(json.dumps(tiny_tree()))
    return str(path)


def small(folder: Path, scene: str, **env: Any) -> TrainConfig:
    """A run of a few seconds on 16 pixels."""
    tables: dict[str, dict[str, Any]] = {
        "env": {"scenes": scene, "num_agents": 2, "raster": 16, "raster_pixel_m": 1.0, **env},
        "vec": {"backend": "serial", "num_envs": 2},
        "train": {
            "horizon": 4,
            "minibatch_size": 8,
            "device": "cpu",
            "precision": "fp32",
            "threads": 1,
            "total_timesteps": 48,
        },
        "policy": {"hidden": (8,), "channels": (4, 4)},
        "log": {
            "dashboard": "off",
            "folder": str(folder / "runs"),
            "checkpoint_interval_s": 1000.0,
        },
    }
    return TrainConfig.bare("drive").merged(tables)


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"raster": 15}, "raster is 15; it must be 0 .*or at least 16"),
        ({"raster": -64}, "raster is -64; it must be from 0 to 1024"),
        ({"raster": 1025}, "raster is 1025; it must be from 0 to 1024"),
        ({"raster": 64.5}, "raster is 64.5; it must be a whole number"),
        ({"raster": 64, "raster_pixel_m": 0.0}, "raster_pixel_m is 0.0; it must be from 0.1 to 10"),
        ({"raster": 64, "raster_ahead": 1.5}, "raster_ahead is 1.5; it must be from 0 to 1"),
        (
            {"raster": 64, "raster_channels": "all"},
            "raster_channels is 'all'; it must be one of basic, traffic",
        ),
        ({"raster_alone": 1}, "raster_alone is 1, but raster is 0, so nothing would be observed"),
        (
            {"raster_channels": "traffic"},
            "raster_channels is traffic, but raster is 0, so there is no view; set raster",
        ),
    ],
    ids=str,
)
def test_bad_sizes_get_one_clear_error(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=f"^drive: {text}"):
        DriveConfig(**settings)


def test_spaces(scene: str) -> None:
    """Off, alone, and beside the numbers, whose blocks stay what they are."""
    shapes = {}
    for name, settings in (
        ("off", {}),
        ("alone", {"raster": 17, "raster_alone": 1}),
        ("beside", {"raster": 17}),
    ):
        with puffervec.make(
            "drive", env_kwargs={"scenes": scene, "num_agents": 2, **settings}, backend="serial"
        ) as vec:
            obs, _ = vec.reset(seed=0)
            assert vec.single_observation_space.contains(
                {key: part[0] for key, part in obs.items()} if isinstance(obs, dict) else obs[0]
            )
            shapes[name] = (
                {key: part.copy() for key, part in obs.items()}
                if isinstance(obs, dict)
                else obs.copy()
            )
    assert shapes["off"].shape == (2, 389) and shapes["alone"].shape == (2, 9, 17, 17)
    beside = shapes["beside"]
    assert list(beside) == ["ego", "partners", "lanes", "lines", "edges", "raster"]
    np.testing.assert_array_equal(beside["raster"], shapes["alone"])
    numbers = np.concatenate(
        [part.reshape(2, -1) for name, part in beside.items() if name != "raster"], axis=1
    )
    np.testing.assert_array_equal(numbers, shapes["off"])


@pytest.mark.parametrize("alone", [0, 1])
def test_baselines_and_the_summary_work_beside_it(scene: str, alone: int) -> None:
    config = DriveConfig(scenes=scene, raster=16, raster_alone=alone)
    plain = {name: evaluate(baseline(name), DriveConfig(scenes=scene)).total for name in BASELINES}
    assert {name: evaluate(baseline(name), config).total for name in BASELINES} == plain
    text = describe_scenes(config).text()
    assert (
        f"observation: {'' if alone else '389 floats: ego '}" in text
        and "raster 9 x 16 x 16 bytes" in text
    )


# ---- pictures ------------------------------------------------------------------------------------


def test_every_channel_has_a_colour_of_its_own() -> None:
    names = [column.name for column in columns()["raster"]]
    assert set(raster.COLOURS) == set(names) and len(set(raster.COLOURS.values())) == len(names)
    dark = {name: np.zeros((4, 4), np.uint8) for name in names}
    for name in names:
        one = {**dark, name: np.eye(4, dtype=np.uint8) * 255}
        picture = raster.as_colours(one)
        assert (
            tuple(picture[1, 1]) == raster.COLOURS[name] and tuple(picture[0, 1]) == raster.GROUND
        )


@pytest.mark.slow
def test_the_command_draws_a_sheet(scene: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    raster.main(
        [
            str(tmp_path / "out.png"),
            "--scenes",
            scene,
            "--row",
            "1",
            "--steps",
            "2",
            "--pixels",
            "32",
            "--seed",
            "0",
        ]
    )
    drawn = imread(io.BytesIO((tmp_path / "out.png").read_bytes()))
    page = imread(Path(__file__).parents[2] / "docs" / "images" / "raster.png")
    assert drawn.shape[:2] == page.shape[:2]
    assert len(np.unique(drawn.reshape(-1, drawn.shape[2]), axis=0)) > 20


def test_frames_show_what_the_first_agent_sees(scene: str) -> None:
    pytest.importorskip("PIL")
    frames = {}
    for pixels in (0, 24):
        config = DriveConfig(scenes=scene, num_agents=2, raster=pixels)
        with puffervec.make("drive", env_kwargs=config, backend="serial", num_envs=1) as vec:
            recorder = FrameRecorder(vec)
            vec.reset(seed=0)
            recorder.begin()
            frames[pixels] = recorder.picture()
    plain, shown = frames[0], frames[24]
    assert plain.shape == shown.shape
    side = min(plain.shape[:2]) // 3
    changed = (plain != shown).any(axis=2)
    assert (
        changed[:side, -side:].mean() > 0.9
        and changed[side + 2].any()
        and not changed[side + 3 :].any()
        and not changed[:, : -side - 3].any()
    )


# ---- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", slow_but([0], [0, 1]))
def test_a_policy_trains_resumes_and_is_evaluated(
    scene: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], alone: int
) -> None:
    config = small(tmp_path, scene, raster_alone=alone)
    with Trainer(config) as trainer:
        policy = trainer.policies["default"]
        assert isinstance(policy, ConvolutionPolicy if alone else MixedPolicy)
        before = {name: weight.clone() for name, weight in policy.state_dict().items()}
        trainer.train()
        assert any(
            not torch.equal(weight, before[name])
            for name, weight in policy.state_dict().items()
            if "0.weight" in name
        )
        folder = trainer.folder
    longer = config.merged({"train": {"total_timesteps": 96}})
    with Trainer(longer, checkpoint=ckpt.newest(folder / "checkpoints")) as trainer:
        assert 0 < trainer.progress() < 1
        trainer.train()
    run_evaluation(EvalRequest(str(folder)))
    assert "one.json" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("alone", [0, 1])
def test_a_policy_is_exported(scene: str, tmp_path: Path, alone: int) -> None:
    with Trainer(small(tmp_path, scene, raster_alone=alone)) as trainer:
        trainer.train()
    assert [item.path.suffix for item in exporting.export_run(str(trainer.folder), "pt2")] == [
        ".pt2"
    ]


@pytest.mark.slow
def test_a_policy_that_sees_the_picture_alone_does_better_than_chance(
    tmp_path: Path, shared_cache: Path, monkeypatch: Any
) -> None:
    """After 200,000 agent-steps on eight scenes, which take two minutes on one core."""
    monkeypatch.setenv("PUFFERVEC_CACHE", str(shared_cache))
    view = {"scenes": "generated:8", "raster": 32, "raster_pixel_m": 1.0, "raster_alone": 1}
    tables: dict[str, dict[str, Any]] = {
        "env": {**view, "num_agents": 64},
        "vec": {"backend": "serial", "num_envs": 2, "num_buffers": 1},
        "train": {
            "minibatch_size": 512,
            "update_epochs": 4,
            "total_timesteps": 200_000,
            "time_limit_s": 0.0,
            "threads": 1,
            "device": "cpu",
            "precision": "fp32",
        },
        "policy": {"hidden": (64,), "channels": (8, 16)},
        "log": {
            "dashboard": "off",
            "folder": str(tmp_path / "runs"),
            "checkpoint_interval_s": 1000.0,
        },
    }
    with Trainer(TrainConfig.of("drive").merged(tables)) as trainer:
        trainer.train()
    returns = [
        line["episode/return"]
        for line in read_metrics(trainer.folder / "metrics.jsonl")
        if "episode/return" in line
    ]
    assert returns[-1] > return_at_random(view) + 1.5  # 0.1 against -2.0


def return_at_random(settings: dict[str, Any]) -> float:
    """The mean return of an episode with random actions, with the rewards of the preset."""
    env = {**PRESET["env"], **settings, "num_agents": 64}
    rng = np.random.default_rng(0)
    with puffervec.make("drive", env_kwargs=env, backend="serial", num_envs=2) as vec:
        vec.reset(seed=1)
        found = [vec.step(rng.integers(0, 91, vec.num_agents))[4] for _ in range(200)]
    return float(np.concatenate([infos.episodes["return"] for infos in found if infos]).mean())

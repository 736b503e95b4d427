# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The committed checkpoints must load in every later version: one with all its files (torch alone,
safetensors alone, and the trainer), and those of each released version, whose policies must act as
they did (scripts/golden_checkpoints.py).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from puffervec.train import TrainConfig
from puffervec.train.act.evaluate import load_policies
from puffervec.train.run import checkpoint as ckpt
from scripts import golden_checkpoints

GOLDEN = Path(__file__).parent / "golden" / "checkpoint_v1"
VERSIONS = sorted(folder.parent for folder in GOLDEN.parent.glob("*/*/replay.npz"))
# What the policy put out when the checkpoint was written, for the rows 0, 1/8, ... 7/8 and 1, 9/8,
# ... 15/8.
LOGITS = [
    [
        -0.059188783168792725,
        0.044351495802402496,
        -0.011073431000113487,
        -0.021888721734285355,
        -0.008981033228337765,
    ],
    [
        -0.12154889106750488,
        0.10264159739017487,
        -0.03620143234729767,
        -0.054073408246040344,
        -0.008187373168766499,
    ],
]
VALUES = [-0.927025318145752, -1.546749234199524]


def test_manifest() -> None:
    manifest = ckpt.read(GOLDEN).manifest
    assert manifest["format_version"] == 1 and manifest["env"] == "probe"
    assert manifest["counters"]["agent_steps"] == 48 and manifest["counters"]["updates"] == 2
    assert manifest["policies"] == {"default": {"class": "MLPPolicy", "group": "agents"}}


def test_policy_puts_out_the_same() -> None:
    run, policies = load_policies(GOLDEN, torch.device("cpu"))
    config = run.config
    assert isinstance(config, TrainConfig) and config.env.obs_size == 8
    heads, value, _ = policies["default"](torch.arange(16.0).view(2, 8) / 8, (), None, None)
    torch.testing.assert_close(heads[0], torch.tensor(LOGITS))
    torch.testing.assert_close(value, torch.tensor(VALUES))


def test_files_and_names() -> None:
    assert {p.name for p in GOLDEN.iterdir()} == {
        "manifest.json",
        "default.safetensors",
        "optimizer.safetensors",
        "random.safetensors",
        "envs.safetensors",
    }
    weights = load_file(GOLDEN / "default.safetensors")
    assert {name: tuple(w.shape) for name, w in weights.items()} == {
        "trunk.0.weight": (8, 8),
        "trunk.0.bias": (8,),
        "output.heads.0.weight": (5, 8),
        "output.heads.0.bias": (5,),
        "output.value.weight": (1, 8),
        "output.value.bias": (1,),
    }
    optimizer = load_file(GOLDEN / "optimizer.safetensors")
    assert set(optimizer) == {
        f"default/{i}/{key}" for i in range(6) for key in ("step", "exp_avg", "exp_avg_sq")
    }
    assert set(load_file(GOLDEN / "random.safetensors")) == {"actions", "shuffle"}


@pytest.mark.parametrize(
    "folder", VERSIONS, ids=lambda folder: f"{folder.parent.name} {folder.name}"
)
def test_policies_of_each_version_take_the_same_actions(folder: Path) -> None:
    torch.set_num_threads(1)
    kept = dict(np.load(folder / "replay.npz"))
    found = golden_checkpoints.replay_acts(golden_checkpoints.load(folder), kept)
    actions = {name: array for name, array in kept.items() if "/actions/" in name}
    assert set(found) == set(actions) and len(actions) >= golden_checkpoints.STEPS
    for name, array in actions.items():
        assert found[name].dtype == array.dtype
        if array.dtype.kind == "f":
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert any(array.any() for array in actions.values())


def test_there_are_checkpoints_of_every_kind() -> None:
    first = {folder.name for folder in VERSIONS if folder.parent.name == "0.1.0"}
    assert first == set(golden_checkpoints.KINDS)
    assert (
        sum(path.stat().st_size for path in GOLDEN.parent.glob("0.1.0/**/*") if path.is_file())
        < 300_000
    )


def test_released_checkpoints_are_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    assert golden_checkpoints.main([]) == 2
    assert "is there already: released checkpoints stay as they are" in capsys.readouterr().err

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The committed checkpoint of format 1 must load in every later version (torch alone, safetensors alone, and the trainer)."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from puffervec.train import TrainConfig
from puffervec.train.act.evaluate import load_policies
from puffervec.train.run import checkpoint as ckpt

GOLDEN = Path(__file__).parent / "golden" / "checkpoint_v1"
# What the policy put out when the checkpoint was written, for the rows 0, 1/8, ... 7/8 and 1, 9/8, ... 15/8.
LOGITS = [
    [-0.059188783168792725, 0.044351495802402496, -0.011073431000113487, -0.021888721734285355, -0.008981033228337765],
    [-0.12154889106750488, 0.10264159739017487, -0.03620143234729767, -0.054073408246040344, -0.008187373168766499],
]
VALUES = [-0.927025318145752, -1.546749234199524]


def test_manifest() -> None:
    manifest = ckpt.read_manifest(GOLDEN, verify=True)
    assert manifest["format_version"] == 1 and manifest["env"] == "probe"
    assert manifest["counters"]["agent_steps"] == 48 and manifest["counters"]["updates"] == 2
    assert manifest["policies"] == {"default": {"class": "MLPPolicy", "group": "agents"}}


def test_policy_puts_out_the_same() -> None:
    config, policies = load_policies(GOLDEN, torch.device("cpu"))
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
    assert set(optimizer) == {f"default/{i}/{key}" for i in range(6) for key in ("step", "exp_avg", "exp_avg_sq")}
    assert set(load_file(GOLDEN / "random.safetensors")) == {"actions", "shuffle"}

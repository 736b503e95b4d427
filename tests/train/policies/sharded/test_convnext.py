# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Parameter names and counts as published for timm's ConvNeXt; what it computes on ranks is tested in test_cnn.py."""

from __future__ import annotations

import re

import pytest
import torch

from puffervec.errors import ConfigError
from puffervec.train.policies.sharded import ConvNeXt, DropPath

WEIGHTS = "weight bias".split()
STEM = [f"stem.{place}.{name}" for place in (0, 1) for name in WEIGHTS]
DOWN = [f"downsample.{place}.{name}" for place in (0, 1) for name in WEIGHTS]
BLOCK = ["gamma", *(f"{layer}.{name}" for layer in ("conv_dw", "norm", "mlp.fc1", "mlp.fc2") for name in WEIGHTS)]
HEAD = [f"head.{layer}.{name}" for layer in ("norm", "fc") for name in WEIGHTS]


def test_names_are_timms() -> None:
    depths = (2, 1, 3, 1)
    wanted = list(STEM)
    for stage, depth in enumerate(depths):
        wanted += [f"stages.{stage}.{name}" for name in DOWN] if stage else []
        wanted += [f"stages.{stage}.blocks.{block}.{name}" for block in range(depth) for name in BLOCK]
    assert list(ConvNeXt(3, 10, depths, (8, 12, 16, 20)).state_dict()) == wanted + HEAD


@pytest.mark.parametrize(
    ("depths", "dims", "parameters"),
    [
        ((3, 3, 9, 3), (96, 192, 384, 768), 28_589_128),  # -T, -S, -B and -XL of the paper's table 12, counted exactly
        ((3, 3, 27, 3), (96, 192, 384, 768), 50_223_688),
        ((3, 3, 27, 3), (128, 256, 512, 1024), 88_591_464),
        ((3, 3, 27, 3), (256, 512, 1024, 2048), 350_196_968),
    ],
)
def test_sizes_are_the_published_ones(depths: tuple[int, ...], dims: tuple[int, ...], parameters: int) -> None:
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in ConvNeXt(3, 1000, depths, dims).parameters()) == parameters


def test_timms_weights_give_timms_numbers() -> None:
    """Where timm is at hand. Its version 1.0.31 gave the same bits."""
    convnext = pytest.importorskip("timm.models.convnext", reason="timm is not installed")
    sizes = {"depths": (1, 2, 1, 1), "dims": (8, 12, 16, 24)}
    theirs, ours = convnext.ConvNeXt(num_classes=5, **sizes), ConvNeXt(3, 5, **sizes)
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(1, 3, 64, 96)
    torch.testing.assert_close(ours(x), theirs(x))


def test_drop_path_keeps_the_mean() -> None:
    torch.manual_seed(0)
    layer, x = DropPath(0.25), torch.ones(4000, 2, 1)
    y = layer(x)
    assert sorted(set(y.flatten().tolist())) == [0.0, pytest.approx(4 / 3)] and torch.equal(y[:, 0], y[:, 1])
    assert float(y.mean()) == pytest.approx(1.0, abs=0.05)
    assert layer.eval()(x) is x
    rates = [m.rate for m in ConvNeXt(depths=(2, 3), dims=(8, 8), drop_path=0.4).modules() if isinstance(m, DropPath)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_sizes_that_cannot_work_are_refused() -> None:
    for wrong in ({"depths": (1, 2), "dims": (8,)}, {"kernel": 4}, {"dims": (), "depths": ()}, {"patch": 0}):
        with pytest.raises(ConfigError, match=re.escape("give as many depths as dims")):
            ConvNeXt(**{"depths": (1,), "dims": (8,), **wrong})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="rate is 1.5"):
        DropPath(1.5)
    assert ConvNeXt(2, 0, (1,), (8,))(torch.zeros(1, 2, 8, 8)).shape == (1, 8)

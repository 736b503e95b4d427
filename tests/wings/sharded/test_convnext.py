# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""ConvNeXt has timm's parameter names and the published sizes and outputs; test_cnn.py looks at it
on ranks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from puffervec.errors import ConfigError
from puffervec.wings.sharded import ConvNeXt, DropPath

WEIGHTS = "weight bias".split()
STEM = [f"stem.{place}.{name}" for place in (0, 1) for name in WEIGHTS]
DOWN = [f"downsample.{place}.{name}" for place in (0, 1) for name in WEIGHTS]
BLOCK = [
    "gamma",
    *(f"{layer}.{name}" for layer in ("conv_dw", "norm", "mlp.fc1", "mlp.fc2") for name in WEIGHTS),
]
HEAD = [f"head.{layer}.{name}" for layer in ("norm", "fc") for name in WEIGHTS]


def test_names_are_timms() -> None:
    depths = (2, 1, 3, 1)
    wanted = list(STEM)
    for stage, depth in enumerate(depths):
        wanted += [f"stages.{stage}.{name}" for name in DOWN] if stage else []
        wanted += [
            f"stages.{stage}.blocks.{block}.{name}" for block in range(depth) for name in BLOCK
        ]
    assert list(ConvNeXt(3, 10, depths, (8, 12, 16, 20)).state_dict()) == wanted + HEAD


@pytest.mark.parametrize(
    ("depths", "dims", "parameters"),
    [
        (
            (3, 3, 9, 3),
            (96, 192, 384, 768),
            28_589_128,
        ),  # -T, -S, -B and -XL of the paper's table 12, counted exactly
        ((3, 3, 27, 3), (96, 192, 384, 768), 50_223_688),
        ((3, 3, 27, 3), (128, 256, 512, 1024), 88_591_464),
        ((3, 3, 27, 3), (256, 512, 1024, 2048), 350_196_968),
    ],
)
def test_sizes_are_the_published_ones(
    depths: tuple[int, ...], dims: tuple[int, ...], parameters: int
) -> None:
    with torch.device("meta"):
        assert (
            sum(parameter.numel() for parameter in ConvNeXt(3, 1000, depths, dims).parameters())
            == parameters
        )


def test_the_defaults_are_those_of_convnext_t() -> None:
    with torch.device("meta"):
        made, wanted = (
            ConvNeXt(),
            ConvNeXt(3, 1000, (3, 3, 9, 3), (96, 192, 384, 768), 4, 7, 0.0, 1e-6),
        )
    assert {name: of.shape for name, of in made.state_dict().items()} == {
        name: of.shape for name, of in wanted.state_dict().items()
    }
    assert str(made) == str(wanted) and made.features == 768
    small = ConvNeXt(depths=(1,), dims=(4,))
    assert all(
        (of == 1e-6).all() for name, of in small.state_dict().items() if name.endswith("gamma")
    )
    assert not any(isinstance(part, DropPath) and part.rate for part in small.modules())


def windows(x: np.ndarray, size: int) -> np.ndarray:
    """Cut (H, W, C) into (H // size, W // size, size, size, C)."""
    rows, columns, channels = x.shape
    cut = x.reshape(rows // size, size, columns // size, size, channels)
    return cut.transpose(0, 2, 1, 3, 4)


def published(weights: dict[str, np.ndarray], depths: Sequence[int], x: np.ndarray) -> np.ndarray:
    """Compute ConvNeXt's outputs of one picture (H, W, C), as section 2 and figure 4 of the paper
    describe it.
    """

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def layer_norm(name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def patches(name: str, x: np.ndarray) -> np.ndarray:
        """A convolution whose stride is its size."""
        kernel = weights[f"{name}.weight"]
        return (
            np.einsum("yxijc,ocij->yxo", windows(x, kernel.shape[-1]), kernel)
            + weights[f"{name}.bias"]
        )

    def depthwise(name: str, x: np.ndarray) -> np.ndarray:
        kernel, out = weights[f"{name}.weight"][:, 0], np.zeros_like(x)
        padded = np.pad(x, ((3, 3), (3, 3), (0, 0)))
        for i, j in np.ndindex(7, 7):
            out += padded[i : i + len(x), j : j + x.shape[1]] * kernel[:, i, j]
        return out + weights[f"{name}.bias"]

    def gelu(x: np.ndarray) -> np.ndarray:
        return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2

    x = layer_norm("stem.1", patches("stem.0", x))
    for stage, depth in enumerate(depths):
        if stage:
            down = f"stages.{stage}.downsample"
            x = patches(f"{down}.1", layer_norm(f"{down}.0", x))
        for block in (f"stages.{stage}.blocks.{place}" for place in range(depth)):
            y = layer_norm(f"{block}.norm", depthwise(f"{block}.conv_dw", x))
            x = (
                x
                + linear(f"{block}.mlp.fc2", gelu(linear(f"{block}.mlp.fc1", y)))
                * weights[f"{block}.gamma"]
            )
    return linear("head.fc", layer_norm("head.norm", x.mean((0, 1))))


def test_it_computes_what_the_paper_says() -> None:
    """All weights are drawn: at the start layer scale would hide what the blocks do."""
    torch.manual_seed(0)
    depths = (1, 2, 1)
    net = ConvNeXt(3, 5, depths, (8, 12, 16)).double()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(2, 3, 32, 48, dtype=torch.float64)
    weights = {name: value.numpy() for name, value in net.state_dict().items()}
    wanted = [published(weights, depths, picture.permute(1, 2, 0).numpy()) for picture in x]
    np.testing.assert_allclose(net(x).detach().numpy(), wanted, rtol=1e-9, atol=1e-9)


def test_drop_path_keeps_the_mean() -> None:
    torch.manual_seed(0)
    layer, x = DropPath(0.25), torch.ones(4000, 2, 1)
    y = layer(x)
    assert sorted(set(y.flatten().tolist())) == [0.0, pytest.approx(4 / 3)] and torch.equal(
        y[:, 0], y[:, 1]
    )
    assert float(y.mean()) == pytest.approx(1.0, abs=0.05)
    assert layer.eval()(x) is x
    rates = [
        m.rate
        for m in ConvNeXt(depths=(2, 3), dims=(8, 8), drop_path=0.4).modules()
        if isinstance(m, DropPath)
    ]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_sizes_that_cannot_work_are_refused() -> None:
    for wrong in (
        {"depths": (1, 2), "dims": (8,)},
        {"kernel": 4},
        {"dims": (), "depths": ()},
        {"patch": 0},
    ):
        with pytest.raises(ConfigError, match=re.escape("give as many depths as dims")):
            ConvNeXt(**{"depths": (1,), "dims": (8,), **wrong})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="rate is 1.5"):
        DropPath(1.5)
    assert ConvNeXt(2, 0, (1,), (8,))(torch.zeros(1, 2, 8, 8)).shape == (1, 8)

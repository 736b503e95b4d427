# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Shared by the tests of the trainer: small configs that run in this process within a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from puffervec.train.config.sections import TrainConfig

SMALL: dict[str, dict[str, Any]] = {
    "vec": {"backend": "serial", "num_envs": 4},
    "train": {"horizon": 8, "device": "cpu", "precision": "fp32", "compile": "off", "threads": 1, "total_timesteps": 100},
    "policy": {"hidden": (8,)},
    "log": {"dashboard": "off", "checkpoint_interval_s": 1000.0},
}


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., TrainConfig]:
    """Make a small config: small("probe", train={"seed": 3}, env={...})."""

    def make(target: str = "probe", **tables: dict[str, Any]) -> TrainConfig:
        config = TrainConfig.of(target, **SMALL).merged({"log": {"folder": str(tmp_path / "runs")}})
        if target == "drive":  # The preset's 2,000 scenes take a minute to make.
            config = config.merged({"env": {"scenes": "generated:2"}})
        return config.merged(tables)

    return make


@pytest.fixture(autouse=True)
def torch_state() -> Any:
    """Leave torch's thread count and global generator as they were."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(state)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Entry point of `puffervec.wings.evaluations`; see puffervec/doors.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from puffervec.train.config.sections import TrainConfig
    from puffervec.wings.evaluations.evaluations import Evaluations


def check(config: TrainConfig) -> None:
    """Raise ConfigError if the env lacks a suite, or cannot be made in another process."""
    from puffervec.wings.evaluations.evaluations import check

    check(config)


def evaluations(config: TrainConfig, folder: Path, note: Callable[[str], None]) -> Evaluations:
    """Return the evaluations of a run while it trains."""
    from puffervec.wings.evaluations.evaluations import Evaluations

    return Evaluations(config, folder, note)

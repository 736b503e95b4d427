# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The trainer: `from puffervec.train import Trainer, TrainConfig`.

The only package that imports torch, and only when something that needs it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puffervec import extras
from puffervec.train.config import TrainConfig

if TYPE_CHECKING:
    from puffervec.train.loop import Trainer

__all__ = ["TrainConfig", "Trainer"]


def __getattr__(name: str) -> Any:
    """Load `Trainer`, and with it torch, at first use. Raises: MissingExtraError: the trainer's packages are not installed."""
    if name == "Trainer":
        extras.require("puffervec.train.Trainer", *extras.TRAINER)
        from puffervec.train.loop import Trainer

        return Trainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The trainer: `from puffervec.train import Trainer, TrainConfig`; and what it has trained: `load_policy("runs/NAME")`.

The only package that imports torch, and only when something that needs it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from puffervec import extras
from puffervec.train.config.sections import TrainConfig

if TYPE_CHECKING:
    from puffervec.train.act.loaded import LoadedPolicy, load_policy
    from puffervec.train.run.trainer import Trainer

__all__ = ["LoadedPolicy", "TrainConfig", "Trainer", "load_policy"]


_HOME = {"Trainer": "loop", "LoadedPolicy": "loaded", "load_policy": "loaded"}


def __getattr__(name: str) -> Any:
    """Load what needs torch, and with it torch, at first use. Raises: MissingExtraError: the trainer's packages are missing."""
    if name in _HOME:
        extras.require(f"puffervec.train.{name}", *extras.TRAINER)
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

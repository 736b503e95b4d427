# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's public names. The one line that a script changes; runs in the learner, and in workers as far as envs use it.

    import puffervec.compat.pufferlib as pufferlib

Everything below is loaded at its first use, so that torch comes in with `pytorch` and `models` only, and a worker that needs
`EpisodeStats` pays for Gymnasium alone. docs/from-pufferlib.md says what differs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from puffervec import extras

if TYPE_CHECKING:
    from puffervec.compat.pufferlib import emulation as emulation
    from puffervec.compat.pufferlib import exceptions as exceptions
    from puffervec.compat.pufferlib import models as models
    from puffervec.compat.pufferlib import postprocess as postprocess
    from puffervec.compat.pufferlib import pytorch as pytorch
    from puffervec.compat.pufferlib import spaces as spaces
    from puffervec.compat.pufferlib import utils as utils
    from puffervec.compat.pufferlib import vector as vector
    from puffervec.compat.pufferlib import wrappers as wrappers
    from puffervec.compat.pufferlib.exceptions import APIUsageError as APIUsageError
    from puffervec.compat.pufferlib.exceptions import EnvironmentSetupError as EnvironmentSetupError
    from puffervec.compat.pufferlib.exceptions import InvalidAgentError as InvalidAgentError
    from puffervec.compat.pufferlib.postprocess import ClipAction as ClipAction
    from puffervec.compat.pufferlib.postprocess import EpisodeStats as EpisodeStats
    from puffervec.compat.pufferlib.postprocess import MeanOverAgents as MeanOverAgents
    from puffervec.compat.pufferlib.postprocess import MultiagentEpisodeStats as MultiagentEpisodeStats
    from puffervec.compat.pufferlib.postprocess import ResizeObservation as ResizeObservation
    from puffervec.compat.pufferlib.utils import Namespace as Namespace
    from puffervec.compat.pufferlib.utils import Suppress as Suppress
    from puffervec.compat.pufferlib.utils import namespace as namespace
    from puffervec.compat.pufferlib.utils import silence_warnings as silence_warnings
    from puffervec.compat.pufferlib.utils import unroll_nested_dict as unroll_nested_dict
    from puffervec.compat.pufferlib.wrappers import GymToGymnasium as GymToGymnasium
    from puffervec.compat.pufferlib.wrappers import PettingZooTruncatedWrapper as PettingZooTruncatedWrapper
    from puffervec.compat.pufferlib.wrappers import PettingZooWrapper as PettingZooWrapper
    from puffervec.python.emulation import set_buffers as set_buffers
    from puffervec.python.puffer_env import PufferEnv as PufferEnv

_MODULES = ("emulation", "exceptions", "models", "postprocess", "pytorch", "spaces", "utils", "vector", "wrappers")
_WITH_TORCH = ("models", "pytorch")
_HOME = {
    "__version__": "puffervec",
    "PufferEnv": "puffervec.python.puffer_env",
    "set_buffers": "puffervec.python.emulation",
    **dict.fromkeys(("APIUsageError", "EnvironmentSetupError", "InvalidAgentError"), f"{__name__}.exceptions"),
    **dict.fromkeys(
        ("ClipAction", "EpisodeStats", "MeanOverAgents", "MultiagentEpisodeStats", "ResizeObservation"),
        f"{__name__}.postprocess",
    ),
    **dict.fromkeys(("GymToGymnasium", "PettingZooTruncatedWrapper", "PettingZooWrapper"), f"{__name__}.wrappers"),
    **dict.fromkeys(("Namespace", "Suppress", "namespace", "silence_warnings", "unroll_nested_dict"), f"{__name__}.utils"),
}

__all__ = [*_MODULES, *(name for name in _HOME if name != "__version__")]  # noqa: PLE0604 (both hold strings)


def __getattr__(name: str) -> Any:
    """Import what `name` stands for at its first use (PEP 562)."""
    if name in _MODULES:
        if name in _WITH_TORCH:
            extras.require(f"pufferlib.{name}", "torch")
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        known = ", ".join(sorted(__all__))
        raise AttributeError(f"puffervec.compat.pufferlib has no {name!r}: it has {known}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's public names.

A script changes one line:

    import puffervec.compat.pufferlib as pufferlib

Every name below is imported at its first use, so torch is imported only with `pytorch` and
`models`, and a worker that needs `EpisodeStats` imports only Gymnasium. docs/from-pufferlib.md
lists the differences from PufferLib. Runs in the learner, and in workers whose envs use it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from puffervec.system import extras

if TYPE_CHECKING:
    from puffervec.compat.pufferlib import (
        emulation,
        exceptions,
        models,
        postprocess,
        pytorch,
        spaces,
        utils,
        vector,
        wrappers,
    )
    from puffervec.compat.pufferlib.exceptions import (
        APIUsageError,
        EnvironmentSetupError,
        InvalidAgentError,
    )
    from puffervec.compat.pufferlib.postprocess import (
        ClipAction,
        EpisodeStats,
        MeanOverAgents,
        MultiagentEpisodeStats,
        ResizeObservation,
    )
    from puffervec.compat.pufferlib.utils import (
        Namespace,
        Suppress,
        namespace,
        silence_warnings,
        unroll_nested_dict,
    )
    from puffervec.compat.pufferlib.wrappers import (
        GymToGymnasium,
        PettingZooTruncatedWrapper,
        PettingZooWrapper,
    )
    from puffervec.workers.python.puffer_env import PufferEnv, set_buffers

_MODULES = (
    "emulation",
    "exceptions",
    "models",
    "postprocess",
    "pytorch",
    "spaces",
    "utils",
    "vector",
    "wrappers",
)
_WITH_TORCH = ("models", "pytorch")
_HOME = {
    "__version__": "puffervec",
    "PufferEnv": "puffervec.workers.python.puffer_env",
    "set_buffers": "puffervec.workers.python.puffer_env",
    **dict.fromkeys(
        ("APIUsageError", "EnvironmentSetupError", "InvalidAgentError"), f"{__name__}.exceptions"
    ),
    **dict.fromkeys(
        (
            "ClipAction",
            "EpisodeStats",
            "MeanOverAgents",
            "MultiagentEpisodeStats",
            "ResizeObservation",
        ),
        f"{__name__}.postprocess",
    ),
    **dict.fromkeys(
        ("GymToGymnasium", "PettingZooTruncatedWrapper", "PettingZooWrapper"),
        f"{__name__}.wrappers",
    ),
    **dict.fromkeys(
        ("Namespace", "Suppress", "namespace", "silence_warnings", "unroll_nested_dict"),
        f"{__name__}.utils",
    ),
}

__all__ = [
    "APIUsageError",
    "ClipAction",
    "EnvironmentSetupError",
    "EpisodeStats",
    "GymToGymnasium",
    "InvalidAgentError",
    "MeanOverAgents",
    "MultiagentEpisodeStats",
    "Namespace",
    "PettingZooTruncatedWrapper",
    "PettingZooWrapper",
    "PufferEnv",
    "ResizeObservation",
    "Suppress",
    "emulation",
    "exceptions",
    "models",
    "namespace",
    "postprocess",
    "pytorch",
    "set_buffers",
    "silence_warnings",
    "spaces",
    "unroll_nested_dict",
    "utils",
    "vector",
    "wrappers",
]


def __getattr__(name: str) -> Any:
    """Import a name at its first use (PEP 562)."""
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

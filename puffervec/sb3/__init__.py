# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec for Stable-Baselines3: `puffervec.sb3.make_vec_env` and `puffervec.sb3.VecEnv`.

Stable-Baselines3, which imports PyTorch, is imported when one of the two is first used: workers
import only worker_env.py. See vec_env.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from puffervec.sb3.vec_env import VecEnv, make_vec_env

__all__ = ["VecEnv", "make_vec_env"]


def __getattr__(name: str) -> Any:
    """Import a name that needs Stable-Baselines3 at the name's first use.

    Raises:
        MissingExtraError: Stable-Baselines3 is not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from puffervec.sb3 import vec_env

    return getattr(vec_env, name)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Driving scenes: read, checked, compiled.

For users: `open_scenes` and `write_scenes` (drive_env/scenes/pvs.py).
"""

from typing import Any

__all__ = ["open_scenes", "write_scenes"]


def __getattr__(name: str) -> Any:
    """Import the public functions on first use.

    Other code imports the modules of this folder one by one.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from drive_env.scenes import pvs

    return getattr(pvs, name)

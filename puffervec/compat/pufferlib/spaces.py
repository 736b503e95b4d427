# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's space names: here they are classes; PufferLib has tuples for `isinstance`."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

from puffervec.errors import ConfigError

__all__ = ["Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete", "Tuple", "joint_space"]


def joint_space(space: Space[Any], n: int) -> Space[Any]:
    """Return the space of a batch of `n` rows.

    Args:
        space: space of one row.
        n: number of rows, at least 1.

    Returns: Discrete -> MultiDiscrete of n; MultiDiscrete of D -> integer Box (n, D); Box -> Box
    (n, *shape). Starts are preserved.

    Raises:
        ConfigError: (a ValueError, as in PufferLib) the space is of another kind.
    """
    from gymnasium.vector.utils import batch_space

    if not isinstance(space, (Box, Discrete, MultiDiscrete)):
        raise ConfigError(
            f"joint_space: {space} has no flat batch: use a Discrete, MultiDiscrete or Box, or "
            "emulate it first"
        )
    return batch_space(space, n)

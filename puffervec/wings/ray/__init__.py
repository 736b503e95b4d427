# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Collect rollouts on other machines with Ray.

Start such a run with `RayTrainer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from puffervec.system import lazy

if TYPE_CHECKING:
    from puffervec.wings.ray.trainer import RayTrainer

_HOMES = {
    "puffervec.wings.ray.trainer": ("RayTrainer",),
}

__all__ = [
    "RayTrainer",
]

__getattr__ = lazy.loader(__name__, _HOMES)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Entry point of `puffervec.wings.ray`; see puffervec/doors.py."""

from __future__ import annotations


def trainer_class() -> type:
    """Return the trainer whose rollouts hosts collect."""
    from puffervec.wings.ray.trainer import RayTrainer

    return RayTrainer

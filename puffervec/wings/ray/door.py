# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The door of `puffervec.wings.ray`; see puffervec/doors.py."""

from __future__ import annotations


def trainer_class() -> type:
    """Return the trainer whose roll-outs are played by hosts."""
    from puffervec.wings.ray.trainer import RayTrainer

    return RayTrainer

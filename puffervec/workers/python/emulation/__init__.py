# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Nested observation and action spaces as flat rows and back."""

from __future__ import annotations

from puffervec.workers.python.emulation.actions import ActionPlan
from puffervec.workers.python.emulation.layout import flatten_space, get_dtype_bounds, struct_dtype
from puffervec.workers.python.emulation.rows import ObservationPlan, check_space

__all__ = [
    "ActionPlan",
    "ObservationPlan",
    "check_space",
    "flatten_space",
    "get_dtype_bounds",
    "struct_dtype",
]

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Group specs made by hand, for tests that need no env."""

from __future__ import annotations

import numpy as np

from puffervec.spec import Field, GroupSpec


def group(*fields: tuple[str, tuple[int, ...]], sizes: tuple[int, ...] = (5,), mask: int = 0, dtype: str = "f4") -> GroupSpec:
    """A group whose fields fill the row: group(("ego", (3,)), ("cars", (4, 2)))."""
    made, offset = [], 0
    for name, shape in fields:
        field = Field(name, np.dtype(dtype), shape, offset, "", -1.0, 1.0, 1.0)
        made.append(field)
        offset += field.size * field.dtype.itemsize
    kind = "discrete" if len(sizes) == 1 else "multi_discrete"
    return GroupSpec("agents", 1, tuple(made), offset, kind, sizes, (0.0,) * len(sizes), (0.0,) * len(sizes), mask)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Shows flat rows of the slab as Gymnasium's batched observations: arrays, or dicts and tuples of arrays, an entry per env.

Runs in the learner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from puffervec.core.infos import Infos
from puffervec.python.emulation import ObservationPlan


class ObservationReader:
    """Reads the observations of one group of rows."""

    def __init__(self, plan: ObservationPlan, copy: bool) -> None:
        """Args: plan: the layout of a row. copy: return copies instead of views on shared memory."""
        self._plan, self._copy = plan, copy
        self._rows: NDArray[Any] | None = None
        self._views: Any = None

    def read(self, rows: NDArray[Any]) -> Any:
        """Return the batched observation that stands in `rows`, (N, *row_shape).

        Aliasing: with copy=False views on `rows`, valid until the next step; else new arrays.
        """
        if rows is not self._rows:  # the same array every time, unless the backend copies
            self._rows, self._views = rows, self._plan.views(rows)
        return copied(self._views) if self._copy else self._views

    def take(self, infos: Infos) -> Infos:
        """Return the infos as they are: observations stand in the rows."""
        return infos

    def final(self, rows: NDArray[Any], index: int) -> Any:
        """Return the single observation that stands in row `index`, of Discrete as int; nothing of it is shared memory."""
        return _with_ints(self._plan.nativize(rows[index].copy()))


def _with_ints(value: Any) -> Any:
    """Return nested dicts and tuples with NumPy's integers as int, which is what envs return for a Discrete."""
    if isinstance(value, dict):
        return {key: _with_ints(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_with_ints(part) for part in value)
    return int(value) if isinstance(value, np.integer) else value


def copied(batch: Any) -> Any:
    """Return a deep copy of nested dicts and tuples of arrays."""
    return row_of(batch, ())


def row_of(batch: Any, row: int | tuple[()]) -> Any:
    """Return a copy of one row of nested dicts and tuples of arrays."""
    if isinstance(batch, dict):
        return {key: row_of(value, row) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(row_of(value, row) for value in batch)
    return np.array(batch[row])

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Return and length of finished episodes, for the infos of C envs, in the form of Gymnasium's RecordEpisodeStatistics.

Runs in the learner. Envs with one agent leave a record per episode, which costs nothing while none ends; the records of envs
with several agents are not per row, so their rows are summed here, with a few NumPy calls per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray


class RowStatistics:
    """Sums rewards and steps of every row, and reports both when the row's episode ends.

    Only transitions of live agents count: rows without an agent, and the steps that autoreset spends on a reset, do not.
    """

    def __init__(self, key: str, rows: int, mode: AutoresetMode) -> None:
        """Args: key: under which infos report episodes. rows: their number."""
        self._key, self._same_step = key, mode is AutoresetMode.SAME_STEP
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._acts = np.zeros(rows, np.bool_)  # the row's next action counts

    def begin(self, reset: NDArray[np.bool_], masks: NDArray[np.bool_]) -> None:
        """Take in a reset of the rows in `reset`, (rows,) bool; `masks`, (rows,) bool: the rows with a live agent."""
        self._returns[reset], self._lengths[reset] = 0.0, 0
        self._acts[reset] = masks[reset]

    def add(self, batch: dict[str, Any], rewards: NDArray[Any], ended: NDArray[np.bool_], masks: NDArray[np.bool_]) -> None:
        """Take in a step, arrays (rows,), and add the episodes that ended to `batch`."""
        self._returns += np.where(self._acts, rewards, 0.0)
        self._lengths += self._acts
        if ended.any():
            batch[self._key] = {
                "r": np.where(ended, self._returns, 0.0),
                "_r": ended.copy(),
                "l": np.where(ended, self._lengths, 0),
                "_l": ended.copy(),
            }
            batch[f"_{self._key}"] = ended.copy()
            self._returns[ended], self._lengths[ended] = 0.0, 0
        self._acts = masks.copy() if self._same_step else masks & ~ended


def add_records(batch: dict[str, Any], key: str, episodes: NDArray[Any], names: Sequence[str], num_envs: int) -> None:
    """Add the records of finished episodes, at most one per env, to `batch` under `key`.

    Args:
        episodes: (n,) records of puffervec.core.slab.RECORD_DTYPE. names: what the env calls the values of its records.
    """
    if not len(episodes):
        return
    mask = np.zeros(num_envs, np.bool_)
    mask[episodes["env"]] = True
    columns: dict[str, tuple[NDArray[Any], type]] = {
        "r": (episodes["return"], np.float64),
        "l": (episodes["length"], np.int64),
        **{name: (episodes["values"][:, i], np.float64) for i, name in enumerate(names)},
    }
    report: dict[str, Any] = {}
    for name, (values, dtype) in columns.items():
        report[name], report[f"_{name}"] = np.zeros(num_envs, dtype), mask.copy()
        report[name][episodes["env"]] = values
    batch[key], batch[f"_{key}"] = report, mask

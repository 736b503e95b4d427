# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Rates from episode records: means for the log, 95 % intervals for the tables. NumPy only; runs in the learner."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from puffervec.errors import ConfigError
from puffervec.train.metrics import keys

LEAST_EPISODES = 100  # A mean of fewer says little.


class EpisodeWindow:
    """Means over the latest finished episodes, as the log shows them.

    They are over the episodes that ended in the latest roll-out; where those are fewer than LEAST_EPISODES, over the latest
    LEAST_EPISODES. There is a line of metrics per roll-out, so a mean follows the policy, however many envs there are.

    Where a record stands for several agents and holds counts of those that did something, `per_agent` says which of its values
    are such counts: they are shown as shares of all agents, and the return is shown per agent.
    """

    def __init__(self, record_names: Sequence[str], per_agent: Mapping[str, str] | None = None) -> None:
        """Args: record_names: from `vec.spec`; per_agent: shown name -> record name."""
        self.names = tuple(record_names)
        self.per_agent = dict(per_agent or {})
        if missing := {*self.per_agent.values(), *(("agents",) if self.per_agent else ())} - set(self.names):
            raise ConfigError(f"training.rates of this env need records that it does not have: {', '.join(sorted(missing))}")
        self._rows = np.zeros((0, self.columns))  # The window, oldest first.
        self.total = 0

    def add(self, batches: Iterable[np.ndarray]) -> None:
        """Add the episodes of a roll-out: structured arrays of records as `recv` gives them.

        Records that say that their episode was cut short (`complete` 0: drive's redraw of a bundle) are left out: their agents
        had no chance to finish.
        """
        self.add_rows(self.rows(batches))

    @property
    def columns(self) -> int:
        """Numbers that are kept of an episode."""
        return 2 + len(self.names)

    def rows(self, batches: Iterable[np.ndarray]) -> np.ndarray:
        """Return what `add` takes of episode records: (n, columns) float64 for `add_rows`, of this process or another."""
        found = [np.zeros((0, self.columns))]
        for batch in batches:
            if "complete" in self.names:
                batch = batch[batch["values"][:, self.names.index("complete")] > 0]
            # A record of several agents holds their mean return; summed here, so that each agent weighs the same in the mean.
            agents = batch["values"][:, self.names.index("agents")] if self.per_agent else 1.0
            columns = [batch["return"] * agents, batch["length"]] + [batch["values"][:, i] for i in range(len(self.names))]
            found.append(np.stack([np.asarray(c, np.float64) for c in columns], axis=1))
        return np.concatenate(found)

    def add_rows(self, rows: np.ndarray) -> None:
        """Add the episodes of a roll-out, of all ranks: what `rows` has returned."""
        self.total += len(rows)
        self._rows = np.concatenate([self._rows, rows])[-max(len(rows), LEAST_EPISODES) :]

    def means(self) -> dict[str, float]:
        """Return `episode/return`, `episode/length` and `env/<name>`; empty before the first episode ends."""
        if not len(self._rows):
            return {}
        means = dict(zip(("return", "length", *self.names), self._rows.mean(axis=0).tolist(), strict=True))
        agents = max(means["agents"], 1e-9) if self.per_agent else 1.0
        shown = {keys.EPISODE_RETURN: means["return"] / agents, keys.EPISODE_LENGTH: means["length"]}
        shown |= {keys.ENV + name: means[counted] / agents for name, counted in self.per_agent.items()}
        hidden = {*self.per_agent.values(), "agents"} if self.per_agent else set()
        return shown | {keys.ENV + name: means[name] for name in self.names if name not in hidden}

    def state(self) -> np.ndarray:
        """Return what the means are over, (episodes, values) float64, for a checkpoint."""
        return self._rows.copy()

    def load_state(self, rows: np.ndarray, total: int) -> None:
        """The inverse of `state`. Raises: ValueError where the rows are of other values."""
        if rows.ndim != 2 or rows.shape[1] != self.columns:
            raise ValueError(f"episodes have the shape {rows.shape}, not (episodes, {self.columns})")
        self._rows, self.total = rows.astype(np.float64), total


def mean_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the mean of samples and half the width of its 95 % interval (normal approximation; 0 for a single sample).

    >>> mean_interval([1.0, 1.0, 1.0])
    (1.0, 0.0)
    """
    array = np.asarray(values, np.float64)
    if array.size == 0:
        return math.nan, math.nan
    if array.size == 1:
        return float(array[0]), 0.0
    return float(array.mean()), float(1.96 * array.std(ddof=1) / math.sqrt(array.size))

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compute returns of episodes from rewards and flags, and means over episodes.

Returns are computed for envs that keep no episode records, on whole arrays of rows, never per env.
Means go to the log, with 95 % intervals to tables. NumPy only. Runs in the learner, after a rollout
(rollout.py) or between the steps of an evaluation (evaluate.py).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from puffervec.core.slab import RECORD_DTYPE
from puffervec.errors import ConfigError
from puffervec.train.metrics import keys
from puffervec.train.metrics.keys import ENV

LEAST_EPISODES = 100  # A mean of fewer says little.
# In rollouts. A place (env and slot) in which no episode has ended for longer is dropped.
OLDEST = 50
MOST_SLOTS = 2**20  # More than the slots of an env: a place has the number env * MOST_SLOTS + slot.


class EpisodeWindow:
    """Means over the latest finished episodes, for the log.

    They cover the episodes that ended in the latest rollout, or the latest LEAST_EPISODES if those
    are fewer. There is a line of metrics per rollout, so a mean follows the policy, however many
    envs there are.

    Tasks of one env may have episodes of different lengths, like the scenes of drive. Envs that
    begin together then end the short ones in one rollout and the long ones in another, and the
    means would jump between these. Hence with `by_place` they cover the latest episodes of each
    place (an env and a slot in it) that ended within the last OLDEST rollouts.

    A record may stand for several agents and hold sums over them. `per_agent` names the values that
    are such sums; they are logged per agent, or as "sum/count" per another value. The return is
    then logged per agent.
    """

    def __init__(
        self,
        record_names: Sequence[str],
        per_agent: Mapping[str, str] | None = None,
        types: Sequence[str] = (),
        by_place: bool = False,
    ) -> None:
        """Start with an empty window.

        Args:
            record_names: From `vec.spec`.
            per_agent: Logged name -> record name, or "sum/count".
            types: Names by the records' agent type, if the return of each is logged too.
            by_place: See above.

        Raises:
            ConfigError: `per_agent` names values that the records lack.
        """
        self.names, self.types, self.by_place = tuple(record_names), tuple(types), by_place
        self.per_agent = {
            name: (of.partition("/")[0], of.partition("/")[2] or "agents")
            for name, of in (per_agent or {}).items()
        }
        needed = {record for pair in self.per_agent.values() for record in pair} | (
            {"agents"} if self.per_agent else set()
        )
        if missing := needed - set(self.names):
            raise ConfigError(
                "training.rates of this env need records that it does not have: "
                f"{', '.join(sorted(missing))}"
            )
        self._rows = np.zeros((0, self.columns))  # The window, oldest first.
        # The number of the rollout in which each row was added.
        self._ended = np.zeros(0, np.int64)
        self._rollouts = 0
        self.total = 0

    @property
    def columns(self) -> int:
        """Return how many numbers an episode has."""
        return 2 + len(self.names) + bool(self.types) + self.by_place

    def rows(self, batches: Iterable[np.ndarray]) -> np.ndarray:
        """Turn episode records of `recv` into (n, columns) float64 for `add_rows`, in any process.

        Records of episodes that were cut short (`complete` 0: drive's redraw of a bundle) are left
        out: their agents had no chance to finish.
        """
        parts = [np.zeros((0, self.columns))]
        for batch in batches:
            if "complete" in self.names:
                batch = batch[batch["values"][:, self.names.index("complete")] > 0]
            # A record of several agents holds their mean return; it is summed here, so that each
            # agent has the same weight in the mean.
            agents = batch["values"][:, self.names.index("agents")] if self.per_agent else 1.0
            columns = [batch["return"] * agents, batch["length"]] + [
                batch["values"][:, i] for i in range(len(self.names))
            ]
            columns += [batch["agent_type"]] if self.types else []
            columns += [batch["env"] * float(MOST_SLOTS) + batch["slot"]] if self.by_place else []
            parts.append(np.stack([np.asarray(c, np.float64) for c in columns], axis=1))
        return np.concatenate(parts)

    def add_rows(self, rows: np.ndarray) -> None:
        """Add the episodes of a rollout, of all ranks: results of `rows`."""
        self.total += len(rows)
        self._rollouts += 1
        both, ended = (
            np.concatenate([self._rows, rows]),
            np.append(self._ended, np.full(len(rows), self._rollouts)),
        )
        recent = np.arange(len(both)) >= len(both) - max(len(rows), LEAST_EPISODES)
        if self.by_place:
            places, which = np.unique(both[:, -1], return_inverse=True)
            latest = np.zeros(len(places), np.int64)
            np.maximum.at(latest, which, ended)
            recent |= (ended == latest[which]) & (ended > self._rollouts - OLDEST)
        self._rows, self._ended = both[recent], ended[recent]

    def means(self) -> dict[str, float]:
        """Return `episode/return`, `episode/length`, `env/<name>` and `episode/return/<type>`.

        Empty before the first episode ends.
        """
        if not len(self._rows):
            return {}
        means = dict(
            zip(("return", "length", *self.names), self._rows.mean(axis=0).tolist(), strict=False)
        )
        agents = max(means["agents"], 1e-9) if self.per_agent else 1.0
        metrics = {
            keys.EPISODE_RETURN: means["return"] / agents,
            keys.EPISODE_LENGTH: means["length"],
        }
        rates = {
            name: (means[total], means[count]) for name, (total, count) in self.per_agent.items()
        }
        metrics |= {
            keys.ENV + name: total / count for name, (total, count) in rates.items() if count > 0
        }
        hidden = {record for pair in self.per_agent.values() for record in pair} | (
            {"agents"} if self.per_agent else set()
        )
        metrics |= {keys.ENV + name: means[name] for name in self.names if name not in hidden}
        for kind, name in enumerate(self.types):
            if len(own := self._rows[self._rows[:, 2 + len(self.names)] == kind]):
                metrics[f"{keys.EPISODE_RETURN}/{name}"] = float(own[:, 0].mean())
        return metrics

    def state(self) -> np.ndarray:
        """Return the window, (episodes, values) float64, for a checkpoint."""
        return self._rows.copy()

    def ages(self) -> np.ndarray:
        """Return how many rollouts ago each row of `state` was added, (episodes,) int64."""
        return self._rollouts - self._ended

    def load_state(self, rows: np.ndarray, total: int, ages: np.ndarray | None = None) -> None:
        """Restore the window from `state` and `ages`.

        Args:
            ages: None for a window without places.

        Raises:
            ValueError: The rows have other values.
        """
        columns, places = self.columns - self.by_place, np.full((len(rows), 1), -1.0)
        if ages is not None and rows.ndim == 2:
            rows, places = rows[:, :-1], rows[:, -1:]
        # An older version of the env recorded fewer values.
        if rows.ndim == 2 and 2 <= rows.shape[1] < columns:
            rows = np.column_stack([rows, np.zeros((len(rows), columns - rows.shape[1]))])
        if rows.ndim != 2 or rows.shape[1] != columns:
            raise ValueError(f"episodes have the shape {rows.shape}, not (episodes, {columns})")
        rows = np.column_stack([rows, places]) if self.by_place else rows
        ages = np.zeros(len(rows), np.int64) if ages is None else ages
        if ages.shape != (len(rows),):
            raise ValueError(f"ages have the shape {ages.shape}, not ({len(rows)},)")
        self._rows, self.total = rows.astype(np.float64), total
        self._rollouts = int(ages.max(initial=0))
        self._ended = self._rollouts - ages


def mean_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the mean of samples and half the width of its 95 % interval (normal approximation).

    The width is NaN for a single sample.

    >>> mean_interval([1.0, 1.0, 1.0]), mean_interval([2.0])
    ((1.0, 0.0), (2.0, nan))
    """
    array = np.asarray(values, np.float64)
    if array.size == 0:
        return math.nan, math.nan
    if array.size == 1:
        return float(array[0]), math.nan
    return float(array.mean()), float(1.96 * array.std(ddof=1) / math.sqrt(array.size))


Ended = tuple[np.ndarray, np.ndarray, np.ndarray]
NumericInfos = Mapping[tuple[str, ...], tuple[np.ndarray, np.ndarray]]


class EpisodeTracker:
    """Return and length of the current episode of each row.

    An episode of a row begins with the first step in which it is alive. It ends with a done flag or
    when its agent disappears; the step without the agent does not count.
    """

    def __init__(self, rows: int) -> None:
        """Start without episodes.

        Args:
            rows: Rows over all envs.
        """
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._live = np.zeros(rows, np.bool_)

    def step(
        self, rewards: np.ndarray, terminals: np.ndarray, truncations: np.ndarray, masks: np.ndarray
    ) -> Ended:
        """Process one step of all rows, (rows,) each; flags of any dtype.

        Returns:
            The rows whose episode ended, (n,) int64, with their returns float64 and lengths int64.
        """
        here = masks.astype(np.bool_)
        np.add(self._returns, rewards, out=self._returns, where=self._live & here)
        self._lengths += self._live & here
        live = here & ~(terminals.astype(np.bool_) | truncations.astype(np.bool_))
        rows = np.flatnonzero(self._live & ~live & (self._lengths > 0))
        ended = rows, self._returns[rows], self._lengths[rows]
        self._returns[rows], self._lengths[rows] = 0.0, 0
        self._live = live
        return ended

    def forget(self) -> None:
        """Drop the current episodes, because steps were missed."""
        self._returns[:], self._lengths[:] = 0.0, 0
        self._live[:] = False


def as_records(ended: Ended, agents: int) -> np.ndarray:
    """Return finished episodes as records like those of C envs, (n,) RECORD_DTYPE.

    Args:
        agents: Rows per env.
    """
    rows, returns, lengths = ended
    records = np.zeros(len(rows), RECORD_DTYPE)
    records["env"], records["slot"] = rows // agents, rows % agents
    records["return"], records["length"] = returns, lengths
    return records


class ReturnScale:
    """The root mean square of all discounted returns so far.

    Rewards divided by it give values of about 1, which suit any step size. It is the root mean
    square because the standard deviation is 0 if all returns are equal.
    """

    # Minimum weight of a new rollout in the mean, so that the scale follows the growing returns of
    # a policy that learns.
    SLOWEST = 0.01

    def __init__(self, rows: int, gamma: float) -> None:
        """Start without returns.

        Args:
            rows: Rows over all envs.
            gamma: Discount per step.
        """
        self.gamma, self.mean_square, self.rollouts = gamma, 0.0, 0
        self.returns = np.zeros(rows)  # Discounted returns of the current episodes.

    def sums(self, rewards: np.ndarray, valid: np.ndarray) -> tuple[float, float]:
        """Process a rollout and return the sum and number of its squared returns, for `add`.

        Args:
            rewards: (T, R), of its transitions.
            valid: (T, R) bool, which of them are valid.
        """
        total, count = 0.0, 0.0
        for reward, live in zip(rewards, valid, strict=True):
            self.returns = np.where(live, self.gamma * self.returns + reward, 0.0)
            total, count = total + float(np.square(self.returns).sum()), count + int(live.sum())
        return total, count

    def add(self, total: float, count: float) -> None:
        """Add a rollout: results of `sums`, added up over all processes."""
        if count and math.isfinite(total):
            self.rollouts += 1
            share = max(1 / self.rollouts, self.SLOWEST)
            self.mean_square += share * (total / count - self.mean_square)

    def forget(self) -> None:
        """Drop the current returns: new episodes begin."""
        self.returns[:] = 0.0

    @property
    def factor(self) -> float:
        """Return the factor for rewards; 1 before there are any returns."""
        return 1 / math.sqrt(self.mean_square) if self.mean_square > 1e-12 else 1.0


class EpisodeNumbers:
    """The numbers in the infos of Python envs, as one mean per episode and name."""

    def __init__(self, envs: int) -> None:
        """Start without numbers.

        Args:
            envs: Number of envs that report infos.
        """
        # (2, envs) each: sum and number of the values of the current episode.
        self._sums: dict[tuple[str, ...], np.ndarray] = {}
        self._means: dict[tuple[str, ...], list[float]] = {}
        self._envs = envs

    def step(self, numeric: NumericInfos, ended: np.ndarray, counted: np.ndarray) -> None:
        """Process one step.

        Args:
            ended: (envs,) bool, envs whose episode ends with this step.
            counted: (envs,) bool, envs whose ended episode counts.
        """
        for path, (values, present) in numeric.items():
            sums = self._sums.setdefault(path, np.zeros((2, self._envs)))
            present = present & np.isfinite(values)
            sums[0] += np.where(present, values, 0.0)
            sums[1] += present
        for path, sums in self._sums.items() if ended.any() else ():
            done = ended & counted & (sums[1] > 0)
            self._means.setdefault(path, []).extend((sums[0, done] / sums[1, done]).tolist())
            sums[:, ended] = 0.0

    def of(self, agents: Sequence[str], agent: int) -> dict[str, tuple[float, float]]:
        """Return (mean, half the width of its 95 % interval) by name, for the env and one agent.

        Args:
            agents: Names under which a parallel env reports.
            agent: Index of the requested agent.
        """
        intervals = {}
        for path, means in self._means.items():
            inner = path[1:] if path[0] in agents and len(path) > 1 else path
            if means and (inner is path or path[0] == agents[agent]):
                intervals["/".join(inner)] = mean_interval(means)
        return intervals


class InfoMeans:
    """Means over the latest numbers in the infos, for the log.

    An env may report at each step or only at the end of an episode. Each mean covers as many of the
    latest rollouts as are needed for `LATEST` values.
    """

    LATEST = 100

    def __init__(self, agents: Iterable[object] = ()) -> None:
        """Start without numbers.

        Args:
            agents: Names that are left out of the path, so that the numbers of all agents of a
                parallel env are averaged.
        """
        self._agents = {agent for agent in agents if isinstance(agent, str)}
        self._parts: dict[str, deque[tuple[float, int]]] = {}

    def sums(self, batches: Iterable[NumericInfos]) -> dict[str, tuple[float, int]]:
        """Return sum and number of the finite values by name, for `add_sums`.

        Args:
            batches: The numeric infos of a rollout, one mapping per turn.
        """
        sums: dict[str, tuple[float, int]] = {}
        for batch in batches:
            for path, (values, present) in batch.items():
                name = "/".join(path[1:] if path[0] in self._agents and len(path) > 1 else path)
                finite = values[present & np.isfinite(values)]
                total, count = sums.get(name, (0.0, 0))
                sums[name] = total + float(finite.sum()), count + len(finite)
        return sums

    def add_sums(self, sums: Mapping[str, tuple[float, int]]) -> None:
        """Add results of `sums`, of this process or of several."""
        for name, part in sums.items():
            parts = self._parts.setdefault(name, deque())
            parts.append(part)
            while sum(count for _, count in parts) - parts[0][1] >= self.LATEST:
                parts.popleft()

    def state(self) -> dict[str, np.ndarray]:
        """Return sums and counts per rollout by name, (rollouts, 2) float64, for a checkpoint."""
        return {
            name: np.array(parts, np.float64).reshape(-1, 2) for name, parts in self._parts.items()
        }

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore the result of `state`.

        Raises:
            ValueError: An array has another shape.
        """
        for name, part in state.items():
            if part.ndim != 2 or part.shape[1] != 2:
                raise ValueError(
                    f"the numbers of {name} have the shape {part.shape}, not (rollouts, 2)"
                )
        self._parts = {
            name: deque((total, int(count)) for total, count in part.tolist())
            for name, part in state.items()
        }

    def means(self) -> dict[str, float]:
        """Return `env/<path>`, sorted by name."""
        counts = {name: sum(count for _, count in parts) for name, parts in self._parts.items()}
        sums = {name: sum(total for total, _ in parts) for name, parts in self._parts.items()}
        return {ENV + name: sums[name] / counts[name] for name in sorted(counts) if counts[name]}

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Returns of envs that keep no episode records, reckoned from rewards and flags: whole arrays of
rows at a time, never per env. And rates from episode records: means for the log, 95 % intervals for
the tables.

NumPy only. Runs in the learner, after a roll-out (rollout.py) or between the steps of an evaluation
(evaluate.py).
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
# Roll-outs; a place in which no episode has ended for longer is one that its env no longer has.
OLDEST = 50
MOST_SLOTS = 2**20  # Of an env, in the numbers of places.


class EpisodeWindow:
    """Means over the latest finished episodes, as the log shows them.

    They are over the episodes that ended in the latest roll-out; where those are fewer than
    LEAST_EPISODES, over the latest LEAST_EPISODES. There is a line of metrics per roll-out, so a
    mean follows the policy, however many envs there are.

    Tasks of one env may have episodes of different lengths, as the scenes of drive do. Envs that
    begin together then end the short ones in one roll-out and the long ones in another, and the
    means would jump between these. So with `by_place` they are over the latest episodes of each
    place (an env and a slot in it), whenever they ended within the last OLDEST roll-outs.

    Where a record stands for several agents and holds sums over them, `per_agent` says which of its
    values are such sums: they are shown per agent, or as "sum/count" per another of its values. The
    return is shown per agent then.
    """

    def __init__(
        self,
        record_names: Sequence[str],
        per_agent: Mapping[str, str] | None = None,
        types: Sequence[str] = (),
        by_place: bool = False,
    ) -> None:
        """Args: record_names: from `vec.spec`; per_agent: shown name -> record name, or
        "sum/count"; types: names by the records' agent type, where the return of each is shown too;
        by_place: see above.
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
        self._ended = np.zeros(
            0, np.int64
        )  # Of each row: the number of the roll-out in which it was added.
        self._rollouts = 0
        self.total = 0

    def add(self, batches: Iterable[np.ndarray]) -> None:
        """Add the episodes of a roll-out: structured arrays of records as `recv` gives them.

        Records that say that their episode was cut short (`complete` 0: drive's redraw of a bundle)
        are left out: their agents had no chance to finish.
        """
        self.add_rows(self.rows(batches))

    @property
    def columns(self) -> int:
        """Numbers that are kept of an episode."""
        return 2 + len(self.names) + bool(self.types) + self.by_place

    def rows(self, batches: Iterable[np.ndarray]) -> np.ndarray:
        """Return what `add` takes of episode records: (n, columns) float64 for `add_rows`, of this
        process or another.
        """
        found = [np.zeros((0, self.columns))]
        for batch in batches:
            if "complete" in self.names:
                batch = batch[batch["values"][:, self.names.index("complete")] > 0]
            # A record of several agents holds their mean return; summed here, so that each agent
            # weighs the same in the mean.
            agents = batch["values"][:, self.names.index("agents")] if self.per_agent else 1.0
            columns = [batch["return"] * agents, batch["length"]] + [
                batch["values"][:, i] for i in range(len(self.names))
            ]
            columns += [batch["agent_type"]] if self.types else []
            columns += [batch["env"] * float(MOST_SLOTS) + batch["slot"]] if self.by_place else []
            found.append(np.stack([np.asarray(c, np.float64) for c in columns], axis=1))
        return np.concatenate(found)

    def add_rows(self, rows: np.ndarray) -> None:
        """Add the episodes of a roll-out, of all ranks: what `rows` has returned."""
        self.total += len(rows)
        self._rollouts += 1
        both, ended = (
            np.concatenate([self._rows, rows]),
            np.append(self._ended, np.full(len(rows), self._rollouts)),
        )
        kept = np.arange(len(both)) >= len(both) - max(len(rows), LEAST_EPISODES)
        if self.by_place:
            places, which = np.unique(both[:, -1], return_inverse=True)
            latest = np.zeros(len(places), np.int64)
            np.maximum.at(latest, which, ended)
            kept |= (ended == latest[which]) & (ended > self._rollouts - OLDEST)
        self._rows, self._ended = both[kept], ended[kept]

    def means(self) -> dict[str, float]:
        """Return `episode/return`, `episode/length`, `env/<name>` and `episode/return/<type>`;
        empty before the first episode ends.
        """
        if not len(self._rows):
            return {}
        means = dict(
            zip(("return", "length", *self.names), self._rows.mean(axis=0).tolist(), strict=False)
        )
        agents = max(means["agents"], 1e-9) if self.per_agent else 1.0
        shown = {
            keys.EPISODE_RETURN: means["return"] / agents,
            keys.EPISODE_LENGTH: means["length"],
        }
        rates = {
            name: (means[total], means[count]) for name, (total, count) in self.per_agent.items()
        }
        shown |= {
            keys.ENV + name: total / count for name, (total, count) in rates.items() if count > 0
        }
        hidden = {record for pair in self.per_agent.values() for record in pair} | (
            {"agents"} if self.per_agent else set()
        )
        shown |= {keys.ENV + name: means[name] for name in self.names if name not in hidden}
        for kind, name in enumerate(self.types):
            if len(own := self._rows[self._rows[:, 2 + len(self.names)] == kind]):
                shown[f"{keys.EPISODE_RETURN}/{name}"] = float(own[:, 0].mean())
        return shown

    def state(self) -> np.ndarray:
        """Return what the means are over, (episodes, values) float64, for a checkpoint."""
        return self._rows.copy()

    def ages(self) -> np.ndarray:
        """Return how many roll-outs ago each row of `state` was added, (episodes,) int64, for a
        checkpoint.
        """
        return self._rollouts - self._ended

    def load_state(self, rows: np.ndarray, total: int, ages: np.ndarray | None = None) -> None:
        """Restore what `state` has returned. Args: ages: None: of an older version, without places.

        Raises: ValueError where the rows are of other values.
        """
        columns, places = self.columns - self.by_place, np.full((len(rows), 1), -1.0)
        if ages is not None and rows.ndim == 2:
            rows, places = rows[:, :-1], rows[:, -1:]
        if (
            self.types and rows.ndim == 2 and rows.shape[1] == columns - 1
        ):  # Of older versions, without types.
            rows = np.column_stack([rows, np.full(len(rows), -1.0)])
        elif (
            rows.ndim == 2 and 2 <= rows.shape[1] < columns
        ):  # Of older versions of an env, which recorded less.
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
    """Return the mean of samples and half the width of its 95 % interval (normal approximation; NaN
    for a single sample).

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
    """Return and length of the episode under way in each row.

    An episode of a row begins with the first step that shows it alive and ends with a done flag, or
    when its agent is gone: the step after which it is no longer there does not count.
    """

    def __init__(self, rows: int) -> None:
        """Args: rows: over all envs."""
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._live = np.zeros(rows, np.bool_)

    def step(
        self, rewards: np.ndarray, terminals: np.ndarray, truncations: np.ndarray, masks: np.ndarray
    ) -> Ended:
        """Take one step of all rows, (rows,) each; flags of any dtype.

        Returns: the rows whose episode ended, (n,) int64, with their returns float64 and lengths
            int64.
        """
        here = masks.astype(np.bool_)
        np.add(self._returns, rewards, out=self._returns, where=self._live & here)
        self._lengths += self._live & here
        goes_on = here & ~(terminals.astype(np.bool_) | truncations.astype(np.bool_))
        rows = np.flatnonzero(self._live & ~goes_on & (self._lengths > 0))
        ended = rows, self._returns[rows], self._lengths[rows]
        self._returns[rows], self._lengths[rows] = 0.0, 0
        self._live = goes_on
        return ended

    def forget(self) -> None:
        """Drop the episodes under way: steps were missed."""
        self._returns[:], self._lengths[:] = 0.0, 0
        self._live[:] = False


def as_records(ended: Ended, agents: int) -> np.ndarray:
    """Return finished episodes as records like those of C envs, (n,) RECORD_DTYPE. agents: rows per
    env.
    """
    rows, returns, lengths = ended
    records = np.zeros(len(rows), RECORD_DTYPE)
    records["env"], records["slot"] = rows // agents, rows % agents
    records["return"], records["length"] = returns, lengths
    return records


class ReturnScale:
    """Root mean square of discounted returns so far. Rewards divided by it give values of about 1,
    which any step size suits.

    The root mean square, not the standard deviation: where all returns are alike the latter is 0.
    """

    # Least share of a new roll-out, so that the scale follows the growing returns of a policy that
    # learns.
    SLOWEST = 0.01

    def __init__(self, rows: int, gamma: float) -> None:
        """Args: rows: over all envs; gamma: discount per step."""
        self.gamma, self.mean_square, self.rollouts = gamma, 0.0, 0
        self.returns = np.zeros(rows)  # Of the episodes under way, discounted.

    def sums(self, rewards: np.ndarray, valid: np.ndarray) -> tuple[float, float]:
        """Follow a roll-out and return the sum and number of its squared returns, for `add`.

        Args: rewards: (T, R), of its transitions; valid: which of them are valid, (T, R) bool.
        """
        total, count = 0.0, 0.0
        for reward, live in zip(rewards, valid, strict=True):
            self.returns = np.where(live, self.gamma * self.returns + reward, 0.0)
            total, count = total + float(np.square(self.returns).sum()), count + int(live.sum())
        return total, count

    def add(self, total: float, count: float) -> None:
        """Take in a roll-out, of this process or others: what `sums` has returned, added up."""
        if count and math.isfinite(total):
            self.rollouts += 1
            share = max(1 / self.rollouts, self.SLOWEST)
            self.mean_square += share * (total / count - self.mean_square)

    def forget(self) -> None:
        """Drop the returns under way: new episodes begin."""
        self.returns[:] = 0.0

    @property
    def factor(self) -> float:
        """What rewards are multiplied by; 1 before there are any."""
        return 1 / math.sqrt(self.mean_square) if self.mean_square > 1e-12 else 1.0


class EpisodeNumbers:
    """The numbers in the infos of Python envs, as one mean per episode and name."""

    def __init__(self, envs: int) -> None:
        """Args: envs: whose infos are given."""
        self._sums: dict[
            tuple[str, ...], np.ndarray
        ] = {}  # (2, envs): sum and number of values of the episode under way
        self._means: dict[tuple[str, ...], list[float]] = {}
        self._envs = envs

    def step(self, numeric: NumericInfos, ended: np.ndarray, counted: np.ndarray) -> None:
        """Take one step. Args: ended: (envs,) bool, the episode ends with it; counted: (envs,)
        bool, of envs that count.
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
        """Return mean and half the width of its 95 % interval by name: of the env's numbers and
        those of one agent.

        Args: agents: names under which a parallel env reports; agent: index of the one asked for.
        """
        found = {}
        for path, means in self._means.items():
            inner = path[1:] if path[0] in agents and len(path) > 1 else path
            if means and (inner is path or path[0] == agents[agent]):
                found["/".join(inner)] = mean_interval(means)
        return found


class InfoMeans:
    """Means over the latest numbers in the infos, as the log shows them.

    An env may report at each step or at the end of an episode only: each mean is over the fewest
    latest roll-outs that gave `LATEST` values together.
    """

    LATEST = 100

    def __init__(self, agents: Iterable[object] = ()) -> None:
        """Args: agents: names that are left out of the path, so that numbers of all agents of a
        parallel env are averaged.
        """
        self._agents = {agent for agent in agents if isinstance(agent, str)}
        self._parts: dict[str, deque[tuple[float, int]]] = {}

    def add(self, batches: Iterable[NumericInfos]) -> None:
        """Add the numeric infos of a roll-out, one mapping per turn. Numbers that are not finite
        are left out.
        """
        self.add_sums(self.sums(batches))

    def sums(self, batches: Iterable[NumericInfos]) -> dict[str, tuple[float, int]]:
        """Return sum and number of the finite values by name, as `add_sums` takes them."""
        sums: dict[str, tuple[float, int]] = {}
        for batch in batches:
            for path, (values, present) in batch.items():
                name = "/".join(path[1:] if path[0] in self._agents and len(path) > 1 else path)
                found = values[present & np.isfinite(values)]
                total, count = sums.get(name, (0.0, 0))
                sums[name] = total + float(found.sum()), count + len(found)
        return sums

    def add_sums(self, sums: Mapping[str, tuple[float, int]]) -> None:
        """Add what `sums` has returned, of this process or of several."""
        for name, part in sums.items():
            parts = self._parts.setdefault(name, deque())
            parts.append(part)
            while sum(count for _, count in parts) - parts[0][1] >= self.LATEST:
                parts.popleft()

    def state(self) -> dict[str, np.ndarray]:
        """Return sums and counts per roll-out by name, (roll-outs, 2) float64, for a checkpoint."""
        return {
            name: np.array(parts, np.float64).reshape(-1, 2) for name, parts in self._parts.items()
        }

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """The inverse of `state`. Raises: ValueError for arrays of another shape."""
        for name, part in state.items():
            if part.ndim != 2 or part.shape[1] != 2:
                raise ValueError(
                    f"the numbers of {name} have the shape {part.shape}, not (roll-outs, 2)"
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

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checks for what `reset` and `step` of Python envs return, and writers into rows.

Used by the loops of cells.py, in workers. Errors name the value and what is expected.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from puffervec.errors import ConfigError, SpaceMismatchError
from puffervec.workers.python.emulation import ObservationPlan

REWARD_ERRORS = (struct.error, OverflowError, TypeError, ValueError)  # of RewardWriter.all


def first_reset_pair(result: Any, plan: ObservationPlan) -> tuple[Any, Any]:
    """Return (observation, info) of an env's first reset.

    Raises:
        ConfigError: the result is not a pair, for example only an observation, as in the old Gym
            interface.
    """
    try:
        plan.check(result)
    except SpaceMismatchError:
        return reset_pair(result)
    raise _old("reset", "an observation alone", "(observation, info)")


def reset_pair(result: Any) -> tuple[Any, Any]:
    """Return (observations, infos) of a reset.

    Raises:
        ConfigError: the result is not a pair.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise _old("reset", _kind(result), "(observation, info)")
    return result[0], result[1]


def checked_step(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `step` with a check that it returns five values.

    The returned function raises ConfigError for anything else.
    """

    def checked(action: Any) -> Any:
        result = step(action)
        if not isinstance(result, (tuple, list)) or len(result) != 5:
            raise _old("step", _kind(result), "(observation, reward, terminated, truncated, info)")
        return result

    return checked


def _kind(result: Any) -> str:
    return f"{len(result)} values" if isinstance(result, tuple) else f"one {type(result).__name__}"


def _old(name: str, found: str, wanted: str) -> ConfigError:
    return ConfigError(
        f"{name} returned {found}, as in the old Gym interface: return {wanted}, or wrap the env "
        "(shimmy.GymV21CompatibilityV0)"
    )


class FlatRows:
    """The rows of observations that are plain arrays.

    It refuses other shapes, which NumPy would broadcast. The loop writes `targets[env][:] =
    observation`, which is faster than NumPy's assignment. If that raises one of `misfits`, the loop
    calls `other` instead. At first a target is a memoryview, which only accepts one-dimensional
    arrays of the row's dtype. For arrays of another dtype the target becomes a buffer of that
    dtype, from which `finish` copies all rows at once; for everything else, a Python object.
    """

    misfits = (TypeError, ValueError, BufferError, NotImplementedError)

    def __init__(self, rows: np.ndarray, plan: ObservationPlan) -> None:
        """Make the targets.

        Args:
            rows: (N, *shape).
            plan: the plan of one row.
        """
        self.targets: list[Any] = [rows[row, ...].data for row in range(len(rows))]
        # Arrays (N, D) of other dtypes, and which of their rows are in use.
        self.copies: list[tuple[np.ndarray, Any]] = []
        self._lies: dict[int, np.ndarray] = {}  # by row: the array of the other dtype
        self._rows, self._plan = rows, plan

    def other(self, row: int, observation: Any) -> None:
        """Write an observation that its target did not accept, and choose another target for it.

        Raises:
            SpaceMismatchError: the observation does not fit the space.
        """
        plain = type(observation) is np.ndarray and observation.ndim == 1
        lies = self._lies.pop(row, None)
        if (
            lies is not None
            and plain
            and observation.shape == lies.shape[1:]
            and np.can_cast(observation.dtype, lies.dtype)
        ):
            self._lies[row] = lies  # resets may have the row's own dtype
            lies[row] = observation
            return
        self._plan.check(observation)
        if plain and observation.dtype != self._rows.dtype:
            same = (lies for lies in self._lies.values() if lies.dtype == observation.dtype)
            self._lies[row] = lies = next(same, np.zeros(self._rows.shape, observation.dtype))
            self.targets[row] = lies[row].data
            lies[row] = observation
        else:
            self.targets[row] = _AnyRow(self._rows[row, ...], self._plan)
            self._rows[row, ...] = observation
        self.copies = []
        for lies in {id(lies): lies for lies in self._lies.values()}.values():
            rows = [row for row, where in self._lies.items() if where is lies]
            self.copies.append((lies, rows if len(rows) < len(self._rows) else slice(None)))

    def finish(self) -> None:
        """Copy the rows that were written with other dtypes into the slab."""
        for lies, rows in self.copies:
            self._rows[rows] = lies[rows]


class _AnyRow:
    """A target for anything that NumPy can convert to an array."""

    __slots__ = ("_plan", "_view")

    def __init__(self, view: np.ndarray, plan: ObservationPlan) -> None:
        self._view, self._plan = view, plan

    def __setitem__(self, whole: slice, observation: Any) -> None:
        if getattr(observation, "shape", None) != self._view.shape:
            self._plan.check(observation)
        self._view[...] = observation


class RewardWriter:
    """A writer of rewards into rows.

    `struct` needs half the time that NumPy needs for a list, and detects overflows.
    """

    def __init__(self, rewards: np.ndarray) -> None:
        """Prepare to write into `rewards`, the rows: (N,) float32."""
        self._memory = rewards.data
        self._pack_all, self._pack_one = (
            struct.Struct(f"={len(rewards)}f").pack_into,
            struct.Struct("=f").pack_into,
        )

    def all(self, rewards: list[Any]) -> None:
        """Write all rewards.

        Raises one of REWARD_ERRORS if a reward is not a number or does not fit; `one` then finds
        out which.
        """
        self._pack_all(self._memory, 0, *rewards)

    def one(self, row: int, reward: Any) -> None:
        """Write one reward: a number, or an array of one.

        Raises:
            ConfigError: the reward is not a number, or a finite one beyond float32.
        """
        try:
            self._pack_one(self._memory, 4 * row, reward)
        except OverflowError:
            raise ConfigError(
                f"the reward is {reward!r}: rewards are float32, at most 3.4e38, so scale it"
            ) from None
        except struct.error:
            array = np.asarray(reward)
            if array.size != 1 or array.dtype.kind not in "biuf":
                raise ConfigError(f"the reward is {reward!r}: give a number") from None
            self.one(row, array.reshape(-1)[0].item())

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The slab area through which numbers in the infos of Python envs reach the learner.

The worker writes columns, the learner reads them:

    head: anything, keys, others, native
    64 names with kinds | present (64, E) uint8 | values (64, E) | rewards (E,)

There is one area per (worker, half). A key gets a column when it first appears and keeps it; a turn
without infos touches nothing. Values that are not numbers, keys that are not strings, and keys for
which the table has no room go through the mailbox, which is slower (mailbox.py). `native` tells the
worker that the actions of the turn are in its mailbox because rows cannot hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

COLUMNS = 64
_NAME_BYTES = 120
_SEPARATOR = "\x1f"
_KINDS = {"i": np.int64, "f": np.float64, "b": np.int64}
# Unsigned integers are checked every time: assigning one that does not fit raises no error.
_SAFE = (float, np.floating, bool, np.bool_, int, np.signedinteger)
_HEAD = np.dtype([("anything", "u4"), ("keys", "u4"), ("others", "u4"), ("native", "u4")])
_NAME = np.dtype([("kind", "S1"), ("path", f"S{_NAME_BYTES}")])

_NAMES_AT = 64
_PRESENT_AT = -(-(_NAMES_AT + COLUMNS * _NAME.itemsize) // 64) * 64


def info_bytes(envs: int) -> int:
    """Return the size in bytes of one area for a worker with at most `envs` envs per half."""
    return _rewards_at(envs) + envs * 8


def _values_at(envs: int) -> int:
    return _PRESENT_AT + -(-COLUMNS * envs // 64) * 64


def _rewards_at(envs: int) -> int:
    return _values_at(envs) + COLUMNS * envs * 8


class InfoArea:
    """NumPy views on one area.

    Attributes:
        envs: number of entries per column.
        rewards: (E,) float64, for envs with one row: the rewards as the envs returned them, where
            rows hold them as float32.
    """

    def __init__(self, memory: Any, offset: int, envs: int) -> None:
        """Create the views.

        Args:
            memory: the slab.
            offset: byte offset of the area in the slab.
            envs: number of envs of this worker and half.
        """
        self.envs = envs
        self.head = np.frombuffer(memory, _HEAD, 1, offset)
        self.names = np.frombuffer(memory, _NAME, COLUMNS, offset + _NAMES_AT)
        self.present = np.frombuffer(
            memory, np.uint8, COLUMNS * envs, offset + _PRESENT_AT
        ).reshape(COLUMNS, envs)
        values = np.frombuffer(memory, np.int64, COLUMNS * envs, offset + _values_at(envs)).reshape(
            COLUMNS, envs
        )
        self.integers, self.floats = values, values.view(np.float64)
        self.rewards = np.frombuffer(memory, np.float64, envs, offset + _rewards_at(envs))


class _Column(NamedTuple):
    """The destination of a number that has a column already. values, present: (E,)."""

    number: int
    values: np.ndarray
    present: np.ndarray


class InfoWriter:
    """The worker's side of one area: call `begin` once per turn and `put` once per env."""

    def __init__(self, area: InfoArea) -> None:
        self.area = area
        self.others: list[tuple[int, Any]] = []
        self._columns: dict[tuple[tuple[str, ...], str], int] = {}
        self._known: dict[tuple[str, ...], dict[tuple[str, type], _Column]] = {}
        self._touched: set[int] = set()
        self._anything = False  # whether anything was put in this turn

    def begin(self) -> None:
        """Clear the infos of the previous turn."""
        if self._touched:
            for column in self._touched:
                self.area.present[column] = 0
            self._touched.clear()
        if self._anything:
            self.area.head["anything"] = self.area.head["others"] = 0
            self._anything = False
        if self.others:
            self.others = []

    def put(self, env: int, info: Any) -> None:
        """Add the info of an env, given by its position in the block.

        Raises:
            TypeError: the info is not a dict.
        """
        # The exact type first: isinstance with an abstract class is slow.
        if type(info) is not dict and not isinstance(info, Mapping):
            raise TypeError(
                f"info is {info!r:.200} ({type(info).__name__}): reset and step of an env must "
                "return a dict"
            )
        self._add(env, self._put(env, info, ()))

    def put_list(self, env: int, infos: Sequence[Any]) -> None:
        """Add the info dicts that a PufferEnv reports; they go through the mailbox.

        Raises:
            TypeError: an entry is not a dict.
        """
        for info in infos:
            if not isinstance(info, Mapping):
                raise TypeError(
                    f"infos contain {info!r:.200} ({type(info).__name__}): a PufferEnv must "
                    "return a list of dicts"
                )
        self._add(env, list(infos))

    def _add(self, env: int, rest: Any) -> None:
        if rest:
            self.others.append((env, rest))
            self.area.head["others"] = len(self.others)
        if not self._anything:
            self.area.head["anything"] = 1
            self._anything = True

    def _put(self, env: int, info: Mapping[Any, Any], path: tuple[str, ...]) -> dict[Any, Any]:
        """Write the numbers of a dict to their columns and return the rest."""
        rest: dict[Any, Any] = {}
        known = self._known.get(path)
        if known is None:
            known = {}
            if len(self._known) < COLUMNS:
                self._known[path] = known
        for key, value in info.items():
            column = known.get((key, type(value)))
            if column is not None:
                try:
                    column.values[env] = value
                except OverflowError:  # an int beyond 64 bits
                    rest[key] = value
                    continue
                column.present[env] = 1
                self._touched.add(column.number)
            elif isinstance(value, Mapping) and value and type(key) is str:
                inner = self._put(env, value, (*path, key))
                if inner:
                    rest[key] = inner
            elif not (type(key) is str and self._number(env, (*path, key), value)):
                rest[key] = value
            elif isinstance(value, _SAFE):
                known[key, type(value)] = self._column((*path, key), value)
        return rest

    def _column(self, path: tuple[str, ...], value: Any) -> _Column:
        kind = _kind(value)
        index, area = self._columns[path, kind], self.area
        return _Column(
            index, (area.floats if kind == "f" else area.integers)[index], area.present[index]
        )

    def _number(self, env: int, path: tuple[str, ...], value: Any) -> bool:
        kind = _kind(value)
        if not kind:
            return False
        column = self._columns.get((path, kind))
        if column is None:
            column = self._claim(path, kind)
        if column < 0:
            return False
        if kind == "f":
            self.area.floats[column, env] = value
        else:
            self.area.integers[column, env] = value
        self.area.present[column, env] = 1
        self._touched.add(column)
        return True

    def _claim(self, path: tuple[str, ...], kind: str) -> int:
        """Assign a column to a new name; return -1 if none is left or the name does not fit."""
        name = _SEPARATOR.join(path).encode(errors="surrogatepass")
        column = int(self.area.head["keys"][0])
        fits = column < COLUMNS and len(name) <= _NAME_BYTES and not name.endswith(b"\0")
        if not fits or any(_SEPARATOR in part for part in path):
            return -1  # not remembered: an env that always reports new keys would fill the memory
        self.area.names[column] = (kind.encode(), name)
        self.area.head["keys"] = column + 1
        self._columns[path, kind] = column
        return column


def _kind(value: Any) -> str:
    """Return the column kind of a number: "i", "f" or "b".

    The result is empty for other values and for numbers that do not fit 64 bits.
    """
    if isinstance(value, (bool, np.bool_)):
        return "b"
    if isinstance(value, (float, np.floating)):
        return "f" if not isinstance(value, np.longdouble) else ""
    if isinstance(value, (int, np.integer)) and -(2**63) <= value < 2**63:
        return "i"
    return ""


class InfoReader:
    """The learner's side of one area."""

    def __init__(self, area: InfoArea) -> None:
        self.area = area
        self._names: list[tuple[tuple[str, ...], str]] = []

    @property
    def others(self) -> bool:
        """Whether infos other than numbers are in the mailbox."""
        return bool(self.area.head["others"][0])

    def forget(self) -> None:
        """Drop what the last turn reported.

        Called before a reset, in which this worker may have no env to reset.
        """
        if self.area.head["anything"][0]:
            self.area.head["anything"] = self.area.head["others"] = 0

    def columns(self) -> Iterator[tuple[tuple[str, ...], str, np.ndarray, np.ndarray]]:
        """Yield (path, kind, values, present) of each column that the last turn wrote.

        The arrays are views on the slab.
        """
        if not self.area.head["anything"][0]:
            return
        while len(self._names) < int(self.area.head["keys"][0]):
            kind, name = self.area.names[len(self._names)].item()
            self._names.append(
                (tuple(name.decode(errors="surrogatepass").split(_SEPARATOR)), kind.decode())
            )
        for column, (path, kind) in enumerate(self._names):
            present = self.area.present[column]
            if present.any():
                yield (
                    path,
                    kind,
                    (self.area.floats if kind == "f" else self.area.integers)[column],
                    present,
                )


def gather(
    readers: list[tuple[int, InfoReader]], envs: int
) -> dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]]:
    """Merge the columns of several areas over a batch of `envs` envs.

    A key that is an int in one area and a float in another becomes float64.

    Args:
        readers: the areas, each with the position of its first env in the batch.
        envs: number of envs in the batch.

    Returns:
        {path: (values, present)}, each (envs,); copies.
    """
    found: dict[tuple[str, ...], tuple[np.ndarray, np.ndarray]] = {}
    for first, reader in readers:
        for path, kind, values, present in reader.columns():
            dtype = np.bool_ if kind == "b" else _KINDS[kind]
            if path not in found:
                found[path] = (np.zeros(envs, dtype), np.zeros(envs, np.bool_))
            merged, mask = found[path]
            if merged.dtype != dtype:
                merged = merged.astype(np.result_type(merged.dtype, dtype))
                found[path] = (merged, mask)
            span, where = slice(first, first + len(values)), present.view(np.bool_)
            np.copyto(merged[span], values, where=where, casting="unsafe")
            mask[span] |= where
    return found

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The infos that `recv` returns, for C episode records and for the info dicts of Python envs.

Runs in the learner. A turn without reports costs nothing: all such turns share one empty object.
Numbers arrive as columns over the envs (info_area.py); dicts are only made when a caller iterates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np

from puffervec.core.slab import RECORD_DTYPE

Path = tuple[str, ...]
Column = tuple[np.ndarray, np.ndarray]

_NO_EPISODES = np.empty(0, RECORD_DTYPE)
_NO_EPISODES.flags.writeable = False


class Infos(Sequence[dict[str, Any]]):
    """The infos of one batch, as a sequence of dicts.

    There is one dict per Python env that reported something, or one per finished C episode.

    Attributes:
        episodes: (n,) structured array (puffervec.core.slab.RECORD_DTYPE) of the C episodes that
            ended, a copy; n may be 0.
        numeric: columns of numbers by path through nested dicts: (values, present), each (E,) over
            the envs of the batch; values are int64, float64 or bool and only valid where present is
            True. Copies.
        others: (position in the batch, dict) for each env with infos other than numbers; a list of
            dicts from a PufferEnv.
    """

    __slots__ = ("_dicts", "_record_names", "episodes", "numeric", "others")

    def __init__(
        self,
        episodes: np.ndarray = _NO_EPISODES,
        record_names: tuple[str, ...] = (),
        numeric: Mapping[Path, Column] | None = None,
        others: Sequence[tuple[int, Any]] = (),
    ) -> None:
        """Store the parts.

        Args:
            episodes: see the attribute.
            record_names: names of the episode records' values.
            numeric: see the attribute.
            others: see the attribute.
        """
        self.episodes = episodes
        self.numeric: Mapping[Path, Column] = numeric or {}
        self.others = others
        self._record_names = record_names
        self._dicts: list[dict[str, Any]] | None = None

    def per_env(self, envs: int) -> list[dict[str, Any]]:
        """Return the info dict of each of the `envs` Python envs of the batch.

        An env that reported nothing gets {}.
        """
        merged: list[dict[str, Any]] = [{} for _ in range(envs)]
        for position, other in self.others:
            for info in other if isinstance(other, list) else [other]:
                merge(merged[position], info)
        for path, (values, present) in self.numeric.items():
            for position in np.flatnonzero(present).tolist():
                at = merged[position]
                for key in path[:-1]:
                    at = at.setdefault(key, {})
                at[path[-1]] = values[position].item()
        return merged

    def _made(self) -> list[dict[str, Any]]:
        if self._dicts is None:
            self._dicts = [*self._of_episodes(), *self._of_envs()]
        return self._dicts

    def _of_episodes(self) -> Iterator[dict[str, Any]]:
        for record in self.episodes:
            info = {
                name: record[name].item()
                for name in ("env", "episode", "task", "slot", "agent_type")
            }
            info["episode_return"], info["episode_length"] = (
                record["return"].item(),
                record["length"].item(),
            )
            values = record["values"]
            yield info | {name: values[i].item() for i, name in enumerate(self._record_names)}

    def _of_envs(self) -> Iterator[dict[str, Any]]:
        if not self.numeric and not self.others:
            return
        envs = max(
            [p.size for _, p in self.numeric.values()]
            + [1 + position for position, _ in self.others]
        )
        lists = {position: other for position, other in self.others if isinstance(other, list)}
        for position, info in enumerate(self.per_env(envs)):
            if position in lists:  # a PufferEnv reports a list of dicts
                yield from lists[position]
            elif info:
                yield info

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._made()[index]

    def __len__(self) -> int:
        return len(self._made())

    def __bool__(self) -> bool:
        """Return whether anything was reported, without making dicts."""
        return bool(len(self.episodes) or self.numeric or self.others)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, Infos)) and self._made() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._made())


NO_INFOS = Infos()


def merge(into: dict[Any, Any], info: Mapping[Any, Any]) -> dict[Any, Any]:
    """Copy the entries of `info` into `into`, merging nested dicts, and return `into`."""
    for key, value in info.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = merge({}, value) if isinstance(value, Mapping) else value
    return into

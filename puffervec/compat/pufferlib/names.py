# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Attributes of PufferLib's vector envs that scripts read, under its names. Learner side."""

from __future__ import annotations

from typing import Any

from puffervec.python.emulation import APIUsageError
from puffervec.vec import delivery
from puffervec.vec.settings import VectorSettings
from puffervec.vec.vector_env import VectorEnv


class PufferVectorEnv(VectorEnv):
    """A vector env with PufferLib's attributes.

    The arrays are those of the batch last received: what `recv` returned, or its views on shared memory where it copied.
    """

    def __init__(self, env: Any, config: Any, settings: Any = None, *args: Any, **kwargs: Any) -> None:
        """Raises: APIUsageError: called with the arguments that PufferLib's constructors take."""
        if args or kwargs or not isinstance(settings, VectorSettings):
            name = type(self).__name__
            raise APIUsageError(f"{name}(...) makes no vector env: use make(..., backend={name}), with the same arguments")
        super().__init__(env, config, settings)

    @property
    def num_environments(self) -> int:
        """Number of envs, as `num_envs`."""
        return self.num_envs

    @property
    def envs_per_worker(self) -> int:
        """Number of envs of a worker (the most, where workers have different numbers)."""
        return -(-self.num_envs // self.num_workers)

    @property
    def workers_per_batch(self) -> int:
        """Number of workers that fill a batch."""
        return len(self.rows.workers[0]) * int(self.settings.batch_halves)

    # (rows, ...) each; dicts by group where there are several groups.
    observations = property(lambda self: self._received("observations"))
    rewards = property(lambda self: self._received("rewards"))
    terminals = property(lambda self: self._received("terminals"))
    truncations = property(lambda self: self._received("truncations"))
    masks = property(lambda self: self._received("masks"))

    def _received(self, name: str) -> Any:
        return delivery.joined([self.rows.by_group(self.halves[half], name) for half in self.turns.batch])

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A side channel for values of spaces without a fixed size (Text, Graph, Sequence, OneOf, custom).

A row of the slab (the shared memory) cannot hold them, so they travel separately: observations as
an entry of the info, actions as `puffervec.core.actions.Native`. With worker processes this costs
pickling; envs with other spaces pay nothing. `SideChannelWrapper` runs in the env's process,
`SideChannelReader` in the learner.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from puffervec.core.infos import Infos
from puffervec.errors import ConfigError
from puffervec.workers.python.emulation import ActionPlan, ObservationPlan

KEY = "puffervec.observation"


@dataclass(frozen=True)
class SideChannelNeeds:
    """Which values of an env need the side channel."""

    observations: bool
    actions: bool

    @classmethod
    def of(cls, env: gymnasium.Env[Any, Any]) -> SideChannelNeeds:
        """Return the needs of an env's spaces."""
        return cls(
            not _fits(ObservationPlan, env.observation_space),
            not _fits(ActionPlan, env.action_space),
        )

    def __bool__(self) -> bool:
        return self.observations or self.actions


def _fits(plan: type[ObservationPlan] | type[ActionPlan], space: gymnasium.Space[Any]) -> bool:
    try:
        plan(space)
    except ConfigError:
        return False
    return True


class SideChannelWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts an env's observations into infos, and has spaces that fit rows instead of the env's."""

    def __init__(self, env: gymnasium.Env[Any, Any], needs: SideChannelNeeds) -> None:
        super().__init__(env)
        self._needs = needs
        if needs.observations:
            self.observation_space = spaces.Box(0, 0, (1,), np.uint8)
        if needs.actions:
            self.action_space = spaces.Discrete(1)

    def get_wrapper_attr(self, name: str) -> Any:
        """Return an attribute of the wrapped env."""
        return self.env.get_wrapper_attr(name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of the wrapped env."""
        return self.env.set_wrapper_attr(name, value, force=force)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self._pack(*self.env.reset(seed=seed, options=options))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation, info = self._pack(observation, info)
        return observation, reward, terminated, truncated, info

    def _pack(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if not self._needs.observations:
            return observation, info
        # In a list, so that it is not treated as a number or dict; a copy, as envs reuse arrays.
        return np.zeros(1, np.uint8), {**info, KEY: [copy.deepcopy(observation)]}


class SideChannelReader:
    """Collects observations from infos; the counterpart of `ObservationReader`."""

    def __init__(self, single: gymnasium.Space[Any], num_envs: int) -> None:
        self._single = single
        self._current: list[Any] = [None] * num_envs
        self._final: dict[int, Any] = {}

    def take(self, infos: Infos) -> Infos:
        """Take the observations out of the infos and return the rest."""
        self._final.clear()
        rest = []
        for position, info in infos.others:
            left, boxed = _split(info)
            if boxed is not None:
                self._current[position] = boxed[0]
            final, last = _split(left.get("final_info", {}))
            if last is not None:
                self._final[position] = last[0]
                left = (
                    {**left, "final_info": final}
                    if final
                    else {k: v for k, v in left.items() if k != "final_info"}
                )
            if left:
                rest.append((position, left))
        return Infos(numeric=infos.numeric, others=rest)

    def read(self, rows: NDArray[Any]) -> Any:
        """Return the batched observation as new arrays; `rows` are not read."""
        empty: Any = create_empty_array(self._single, n=len(self._current), fn=np.zeros)
        return concatenate(self._single, self._current, empty)

    def final(self, rows: NDArray[Any], index: int) -> Any:
        """Return the last observation of env `index`, whose episode ended in this step."""
        return self._final[index]


def _split(info: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
    """Return (info without the observation, [observation]), or (info, None) if it has none."""
    if KEY not in info:
        return info, None
    return {key: value for key, value in info.items() if key != KEY}, info[KEY]


def wrap(env: gymnasium.Env[Any, Any], needs: SideChannelNeeds) -> gymnasium.Env[Any, Any]:
    """Return an env with spaces that fit rows: the env itself if its own spaces do."""
    return SideChannelWrapper(env, needs) if needs else env


def make_wrapped(env_fn: Any, needs: SideChannelNeeds) -> gymnasium.Env[Any, Any]:
    """Make an env with spaces that fit rows. Runs in the process that will step it."""
    return wrap(env_fn(), needs)

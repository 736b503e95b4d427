# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The rows that an env writes in place: its own, or ones that are handed to it as `buf`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from puffervec.python.emulation.exceptions import APIUsageError

NAMES = ("observations", "actions", "rewards", "terminals", "truncations", "masks")


def set_buffers(env: Any, buf: Any = None, action_dtype: Any = None) -> None:
    """Give `env` its arrays `observations`, `actions`, `rewards`, `terminals`, `truncations` and `masks`.

    Args:
        env: has `num_agents` (A), `single_observation_space` and `single_action_space`.
        buf: arrays to adopt, a mapping or an object with these attributes; None to make new ones: zeros, masks all True.
            observations: (A, *observation shape) of the space's dtype. actions: (A, *action shape). rewards: (A,) float32.
            terminals, truncations, masks: (A,) bool. They alias the caller's memory for as long as the env lives.
        action_dtype: of new action rows; None for the Box's own, else int32 (as native envs expect).
    Raises:
        APIUsageError: an array of `buf` is missing or has another shape, or observations have another dtype.
    """
    agents, seen, act = env.num_agents, env.single_observation_space, env.single_action_space
    if buf is None:
        dtype = action_dtype or (act.dtype if isinstance(act, spaces.Box) else np.int32)
        env.observations = np.zeros((agents, *seen.shape), seen.dtype)
        env.actions = np.zeros((agents, *act.shape), dtype)
        env.rewards = np.zeros(agents, np.float32)
        env.terminals, env.truncations = np.zeros(agents, np.bool_), np.zeros(agents, np.bool_)
        env.masks = np.ones(agents, np.bool_)
        return
    for name in NAMES:
        setattr(env, name, _adopted(buf, name, _shape(env, name), seen))


def _shape(env: Any, name: str) -> tuple[int, ...]:
    space = {"observations": env.single_observation_space, "actions": env.single_action_space}.get(name)
    return (env.num_agents, *(space.shape if space is not None else ()))


def _adopted(buf: Any, name: str, shape: tuple[int, ...], seen: gymnasium.Space[Any]) -> np.ndarray:
    array = buf.get(name) if isinstance(buf, Mapping) else getattr(buf, name, None)
    if not isinstance(array, np.ndarray):
        raise APIUsageError(f"buf has no array {name!r}: give it {', '.join(NAMES)}")
    if array.shape != shape:
        raise APIUsageError(f"buf's {name} have shape {array.shape}: this env needs {shape}")
    if name == "observations" and array.dtype != seen.dtype:
        raise APIUsageError(f"buf's observations have dtype {array.dtype}: this env writes {seen.dtype}")
    return array

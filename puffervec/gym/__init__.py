# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Gymnasium's vector API over puffervec's backends: vector envs, and Gymnasium ids of the C envs.

>>> import gymnasium, puffervec.gym
>>> envs = gymnasium.make_vec("puffervec/TagGridWorld-v0", num_envs=2, backend="serial")
>>> envs.num_envs
22
>>> envs.close()
"""

from __future__ import annotations

from puffervec.gym.asynchronous import AsyncVectorEnv
from puffervec.gym.make_vec import make_vec, register_envs
from puffervec.gym.native import NativeVectorEnv
from puffervec.gym.single import NativeEnvView
from puffervec.gym.sync import SyncVectorEnv

__all__ = [
    "AsyncVectorEnv",
    "NativeEnvView",
    "NativeVectorEnv",
    "SyncVectorEnv",
    "make_vec",
    "register_envs",
]

register_envs()

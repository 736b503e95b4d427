# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's emulation names: nested spaces as flat rows, and single envs that speak in such rows."""

from __future__ import annotations

from puffervec.compat.pufferlib.gymnasium_env import GymnasiumPufferEnv
from puffervec.compat.pufferlib.nativize import (
    emulate,
    emulate_action_space,
    emulate_observation_space,
    make_buffer,
    nativize,
)
from puffervec.compat.pufferlib.pettingzoo_env import PettingZooPufferEnv
from puffervec.compat.pufferlib.puffer_rows import make_object, pad_agent_data
from puffervec.python.emulation import check_space, flatten_space, get_dtype_bounds
from puffervec.python.emulation import struct_dtype as dtype_from_space

__all__ = [
    "GymnasiumPufferEnv",
    "PettingZooPufferEnv",
    "check_space",
    "dtype_from_space",
    "emulate",
    "emulate_action_space",
    "emulate_observation_space",
    "flatten_space",
    "get_dtype_bounds",
    "make_buffer",
    "make_object",
    "nativize",
    "pad_agent_data",
]

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Nested observation and action spaces as flat rows and back, and envs that speak in such rows."""

from __future__ import annotations

from puffervec.emulation.actions import ActionPlan
from puffervec.emulation.buffers import set_buffers
from puffervec.emulation.check import check_space
from puffervec.emulation.exceptions import APIUsageError, InvalidAgentError, SpaceMismatchError
from puffervec.emulation.gymnasium_env import GymnasiumPufferEnv
from puffervec.emulation.layout import dtype_from_space, flatten_space, get_dtype_bounds
from puffervec.emulation.nativize import (
    emulate,
    emulate_action_space,
    emulate_observation_space,
    make_buffer,
    nativize,
)
from puffervec.emulation.observations import ObservationPlan
from puffervec.emulation.pettingzoo_env import PettingZooPufferEnv
from puffervec.emulation.puffer_rows import EmulatedRows, make_object, pad_agent_data

__all__ = [
    "APIUsageError",
    "ActionPlan",
    "EmulatedRows",
    "GymnasiumPufferEnv",
    "InvalidAgentError",
    "ObservationPlan",
    "PettingZooPufferEnv",
    "SpaceMismatchError",
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
    "set_buffers",
]

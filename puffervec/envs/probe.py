# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`probe`: an annotated example of an env (csrc/envs/probe.c).

Its numbers can be computed by hand, and it can fail on demand.
"""

from __future__ import annotations

from dataclasses import dataclass

from puffervec.contract.native import EnvData, NativeEnv

# Values of ProbeConfig.fault.
FAULTS = (
    "none",
    "segv",
    "abort",
    "exit",
    "kill",
    "hang",
    "spin",
    "nan",
    "oob",
    "oom",
    "error",
    "slow",
)
# Values of ProbeConfig.fault_step for moments that are not a step.
MOMENTS = {"reset": -1, "save": -2, "load": -3, "peek": -4, "close": -5, "init": -6, "poke": -7}


@dataclass(frozen=True)
class ProbeConfig:
    """Settings of the probe env."""

    num_agents: int = 1
    """Agents per env (mode 1: scouts; one tower is added)."""
    episode_length: int = 3
    """Steps per episode."""
    end_kind: int = 0
    """How episodes end: 0 terminal, 1 truncation, 2 in turn."""
    leave: int = 0
    """1: agent a > 0 leaves at step a."""
    mode: int = 0
    """0: one group of rows; 1: two groups of unequal spaces, one with an action mask."""
    obs_size: int = 8
    """Floats per observation in mode 0."""
    work: int = 0
    """Iterations of a busy loop per env and step, standing for simulation."""
    fault: int = 0
    """Index into FAULTS: how the env fails."""
    fault_env: int = 0
    """Global index of the env that fails."""
    fault_step: int = 0
    """Steps since the reset at which it fails; below 0: at another moment, see MOMENTS."""


ENV = NativeEnv(name="probe", config=ProbeConfig, build=lambda config: EnvData())

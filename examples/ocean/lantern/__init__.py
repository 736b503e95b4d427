# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`lantern`: find the lantern in a corridor (lantern.h, an Ocean header; glue.c makes it an env
type).
"""

from __future__ import annotations

from dataclasses import dataclass

from puffervec import EnvData, NativeEnv


@dataclass(frozen=True)
class LanternConfig:
    """Settings of lantern: what OCEAN_SETTINGS lists in glue.c, in that order."""

    size: int = 9
    """Cells of the corridor."""
    max_ticks: int = 32
    """Steps until an episode ends."""
    step_cost: float = 0.01
    """Taken at every step."""


ENV = NativeEnv(
    name="lantern",
    config=LanternConfig,
    build=lambda config: EnvData(),
    shared_library="lantern._core",
)

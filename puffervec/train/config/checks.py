# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Checks of numbers, for all sections."""

from __future__ import annotations

from typing import Any

from puffervec.errors import ConfigError


def at_least(table: str, settings: Any, least: float, *names: str) -> None:
    """Raise ConfigError if one of these settings is below `least`."""
    for name in names:
        if not (value := getattr(settings, name)) >= least:
            raise ConfigError(f"{table}.{name} is {value}: must be at least {least}")


def positive(table: str, settings: Any, *names: str) -> None:
    """Raise ConfigError if one of these settings is not above 0."""
    for name in names:
        if not (value := getattr(settings, name)) > 0:
            raise ConfigError(f"{table}.{name} is {value}: must be above 0")

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Errors of the emulation layer: values that do not fit their space, and calls that PufferLib's interface forbids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from puffervec.errors import APIUsageError as APIUsageError
from puffervec.errors import ConfigError, PuffervecError


class SpaceMismatchError(ConfigError):
    """An observation or action that does not fit its space; the message names the path, what was found and what is expected."""


class InvalidAgentError(PuffervecError, ValueError):
    """An agent name that the env does not know. Attributes `agent_id` and `agents` (the names it knows)."""

    def __init__(self, agent_id: Any, agents: Iterable[Any]) -> None:
        self.agent_id, self.agents = agent_id, list(agents)
        super().__init__(f"there is no agent {agent_id!r}: use one of {self.agents}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the two arguments, since the message is made from them."""
        return type(self), (self.agent_id, self.agents)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's exception names; `except APIUsageError` also catches puffervec's usage errors."""

from __future__ import annotations

from puffervec.errors import APIUsageError, InvalidAgentError, PuffervecError

__all__ = ["APIUsageError", "EnvironmentSetupError", "InvalidAgentError"]


class EnvironmentSetupError(PuffervecError, RuntimeError):
    """An env's package could not be imported or set up."""

    def __init__(self, e: BaseException, package: str) -> None:
        """Args: e: the original error; package: the package that is missing or broken."""
        super().__init__(
            f"{package} could not be set up ({type(e).__name__}: {e}): install it, or repair its "
            "installation"
        )

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""All errors that puffervec raises on purpose. Each message names the value, what is allowed, and what to do."""

from __future__ import annotations


class PuffervecError(Exception):
    """Base of every error below."""


class APIUsageError(PuffervecError, RuntimeError):
    """A call or an argument that the interface does not allow. `message` is the text."""

    def __init__(self, message: str = "The env was used in a way that its interface does not allow.") -> None:
        self.message = message
        super().__init__(message)


class ConfigError(APIUsageError, ValueError):
    """A setting that cannot be used."""


class SceneError(PuffervecError, ValueError):
    """A scene file or folder that cannot be read; the message names the file and the key."""


class ActionError(APIUsageError, ValueError):
    """A batch of actions of the wrong kind, count or shape, or (strict) with values out of range. Nothing was sent."""


class CallOrderError(APIUsageError, RuntimeError):
    """A call out of order; the message says which call was expected."""


class ClosedError(APIUsageError, RuntimeError):
    """The vector env is closed."""


class WorkerError(PuffervecError, RuntimeError):
    """An env failed in a worker; the message names worker, env and step and carries the env's text."""


class WorkerDied(WorkerError):
    """A worker process ended by itself; the message names the signal or exit status."""


class WorkerTimeout(WorkerError):
    """A worker did not answer within the deadline."""


class CheckpointError(PuffervecError, ValueError):
    """A checkpoint that cannot be loaded."""


class MissingExtraError(PuffervecError, ImportError):
    """An optional package is missing; the message gives the pip command."""

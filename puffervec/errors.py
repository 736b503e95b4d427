# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""All errors that puffervec raises on purpose.

Each message names the value, what is allowed, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self


class PuffervecError(Exception):
    """Base of every error below."""


class APIUsageError(PuffervecError, RuntimeError):
    """A call or an argument that the interface does not allow. `message` is the text."""

    def __init__(
        self, message: str = "The env was used in a way that its interface does not allow."
    ) -> None:
        self.message = message
        super().__init__(message)


class ConfigError(APIUsageError, ValueError):
    """A setting that cannot be used."""


class SpaceError(ConfigError, NotImplementedError):
    """An observation or action space that the library at hand cannot take."""


class SceneError(PuffervecError, ValueError):
    """A scene file or folder that cannot be read; the message names the file and the key."""


class ActionError(APIUsageError, ValueError):
    """Actions of the wrong kind, count or shape, or (strict) with values out of range.

    Nothing was sent.
    """


class CallOrderError(APIUsageError, RuntimeError):
    """A call out of order; the message says which call was expected."""


class ClosedError(APIUsageError, RuntimeError):
    """The vector env is closed."""


class ForkedError(APIUsageError, RuntimeError):
    """A vector env that was made before a fork is used in the child.

    The child shares its memory but not its workers.
    """


class WorkerError(PuffervecError, RuntimeError):
    """An env failed in a worker; the message names worker, env and step and carries the env's text.

    Attributes:
        worker: index of the worker. env: global index of the env at work, None if unknown. step:
            number of the step under way since the last reset of all envs, from 1; None outside of
            steps. doing: "step", "reset", "save", "load", "peek", "call", "start", "close" or
            "idle".
    """

    def __init__(
        self,
        message: str,
        *,
        worker: int | None = None,
        env: int | None = None,
        step: int | None = None,
        doing: str = "idle",
    ) -> None:
        super().__init__(message)
        self.worker, self.env, self.step, self.doing = worker, env, step, doing

    def again(self) -> Self:
        """Return a copy whose message says that the vector env cannot go on."""
        copy = type(self)(f"{self} (the vector env cannot go on: close it and make a new one)")
        copy.__dict__.update(self.__dict__)
        return copy


class WorkerDied(WorkerError):
    """A worker process ended by itself; the message names the signal or exit status.

    Attributes:
        exit_code: its exit status, None after a signal. signal: name of the signal ("SIGSEGV"),
        None after an exit.
        trace: what the interpreter wrote about the crash (faulthandler), "" if nothing; it is also
            a note of the exception.
    """

    exit_code: int | None = None
    signal: str | None = None
    trace: str = ""


class WorkerTimeout(WorkerError):
    """A worker did not answer within the deadline.

    Attributes:
        trace: the Python stacks of the worker at that time, "" if it could not be asked; also a
            note of the exception.
    """

    trace: str = ""


class SceneWarning(UserWarning):
    """Scene files of a folder were left out; the message says which, and why."""


class UnclosedWarning(UserWarning):
    """A vector env was dropped without `close`: its workers were ended but its envs not closed."""


class CheckpointError(PuffervecError, ValueError):
    """A checkpoint that cannot be loaded."""


class MissingExtraError(PuffervecError, ImportError):
    """An optional package is missing; the message gives the pip command."""


class SpaceMismatchError(ConfigError):
    """An observation or action that does not fit its space.

    The message names the path, the value's description and the expected one.
    """


class EnvMismatchError(PuffervecError, AssertionError):
    """An env and its reference differ (`puffervec.check_env_equal`).

    The message shows the first difference.

    Attributes:
        field: what differs, such as "rewards" or "observations.x".
        env: index of the env.
        seed: seed of the first reset.
        step: step of the difference; step 0 is a reset.
        actions: actions of that step, one row per agent; None at a reset.
        before: the state before the step, by name, as `poke` takes it.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str = "",
        env: int = 0,
        seed: int = 0,
        step: int = 0,
        actions: Any = None,
        before: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.field, self.env, self.seed, self.step = field, env, seed, step
        self.actions, self.before = actions, dict(before or {})


class InvalidAgentError(PuffervecError, ValueError):
    """An agent name that the env does not know.

    Attributes:
        agent_id: the unknown name.
        agents: the names that the env knows.
    """

    def __init__(self, agent_id: Any, agents: Iterable[Any]) -> None:
        self.agent_id, self.agents = agent_id, list(agents)
        super().__init__(f"there is no agent {agent_id!r}: use one of {self.agents}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the two arguments, since the message is made from them."""
        return type(self), (self.agent_id, self.agents)

# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Errors that name the system limit that was reached, its value and what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator

from puffervec.errors import ConfigError

# errno: (the resource, the limit, the shell's command to raise it)
_LIMITS = {
    errno.EMFILE: ("open files", "RLIMIT_NOFILE", "ulimit -n"),
    errno.EAGAIN: ("processes and threads of this user", "RLIMIT_NPROC", "ulimit -u"),
    errno.EFBIG: ("bytes in a file", "RLIMIT_FSIZE", "ulimit -f"),
    errno.ENOMEM: ("bytes of address space", "RLIMIT_AS", "ulimit -v"),
}
_ADVICE = "use fewer envs or workers, or raise it"


def value_of(name: str) -> str:
    """Return the soft limit of that name in words."""
    soft, _ = resource.getrlimit(getattr(resource, name))
    return "unlimited" if soft == resource.RLIM_INFINITY else f"{soft:,}"


def in_words(error: BaseException) -> str | None:
    """Return a text about the limit that caused a system error, or None if no limit did."""
    code = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError):
        code = errno.ENOMEM
    if code == errno.ENFILE:
        return (
            "the system has no room for more open files: close other programs, or raise fs.file-max"
        )
    if code not in _LIMITS:
        return None
    what, name, command = _LIMITS[code]
    value = value_of(name)
    if value == "unlimited":  # then another limit was reached: the machine's own, or a cgroup's
        return (
            f"the system has no room for more {what} ({error}): "
            f"{_ADVICE.replace('raise it', 'give it more')}"
        )
    return f"too many {what}: {name} is {value}: {_ADVICE} ({command})"


@contextlib.contextmanager
def named(doing: str) -> Iterator[None]:
    """Turn errors caused by a limit into ConfigError; all others pass.

    Args:
        doing: the current activity, which begins the message.
    """
    try:
        yield
    except (OSError, MemoryError) as error:
        said = in_words(error)
        if said is None:
            raise
        raise ConfigError(f"{doing}: {said}") from error
    except RuntimeError as error:
        if "can't start new thread" not in str(error):  # Python's message for EAGAIN
            raise
        raise ConfigError(
            f"{doing}: {in_words(OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)))}"
        ) from error
    except EOFError as error:
        # multiprocessing's message if its fork server has ended
        if "unexpected EOF" not in str(error):
            raise
        raise ConfigError(
            f"{doing}: the fork server could not start a worker, see above; often it has too few "
            f"open files (RLIMIT_NOFILE is {value_of('RLIMIT_NOFILE')}, ulimit -n) or processes "
            f"(RLIMIT_NPROC is {value_of('RLIMIT_NPROC')}, ulimit -u): {_ADVICE}"
        ) from error

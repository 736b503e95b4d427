# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""End a command of this package with an exit code and, if it failed, one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable

from puffervec.errors import (
    CheckpointError,
    ConfigError,
    MissingExtraError,
    PuffervecError,
    SceneError,
)
from puffervec.system.output import printable, steady_output

EXIT_FAILED, EXIT_BAD_INPUT, EXIT_STOPPED = 1, 2, 130
LONGEST = 4000  # Limit in characters for a message, which may quote names from untrusted files.


def run_command(name: str, work: Callable[[], int], writes_files: bool = False) -> int:
    """Run a command and return its exit code.

    0: done; 1: failed; 2: bad input, which is described in one line on standard error; 130: stopped
    by Ctrl-C; or what `work` returns.

    Args:
        name: name of the command, which begins each message.
        work: function that does the command's work.
        writes_files: whether the command succeeds even if its printed output is lost.
    """
    with steady_output() as output:
        code = _exit_code(name, work)
        output.flush()
        lost = output.lost
        # A closed pipe is no failure: its reader chose to stop reading.
        if code == 0 and lost is not None and not isinstance(lost, BrokenPipeError):
            reason = getattr(lost, "strerror", None) or lost
            print_message(name, f"some of the output was lost: {reason}")
        return EXIT_FAILED if code == 0 and lost is not None and not writes_files else code


def _exit_code(name: str, work: Callable[[], int]) -> int:
    try:
        return work()
    except (ConfigError, SceneError, CheckpointError, MissingExtraError) as error:
        print_message(name, " ".join(str(error).split()))
        return EXIT_BAD_INPUT
    except PuffervecError as error:
        print_message(name, str(error))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_STOPPED


def print_message(name: str, text: str) -> None:
    """Print `NAME: TEXT` on standard error, shortened and without control characters."""
    end = "..." if len(text) > LONGEST else ""
    print(f"{name}: {printable(text[:LONGEST])}{end}", file=sys.stderr, flush=True)

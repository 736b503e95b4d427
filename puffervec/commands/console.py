# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The command `puffer-train`.

It imports next to nothing before it can answer Ctrl-C without a traceback.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)  # Nothing has been started yet that must be stopped.


def main() -> int:
    """Import the command line, run it and return the exit code."""
    # A background job ignores Ctrl-C and must continue to. The command line replaces this handler.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from puffervec.commands import cli

    return cli.main()

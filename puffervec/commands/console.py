# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The command `puffer-train`. It imports next to nothing before it can answer Ctrl-C without a
traceback.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)  # nothing was started yet that would have to be stopped


def main() -> int:
    """Import the command line and run it. Returns the exit code."""
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # not where it is ignored, as in a background job
        signal.signal(signal.SIGINT, _leave)  # until the command line has its own handling
    from puffervec.commands import cli

    return cli.main()

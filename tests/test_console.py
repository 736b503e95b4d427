# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The command `puffer-train` (puffervec/commands/console.py): a Ctrl-C while it is being imported
ends it without a traceback.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = (
    "import os, sys; from puffervec.commands.console import main; os.write(1, b'here\\n'); "
    "sys.exit(main())"
)


@pytest.mark.parametrize("after_s", [0.01, 0.03, 0.06, 0.1, 0.15])
def test_ctrl_c_during_imports(after_s: float) -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "tag_grid", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None and command.stdout.readline() == "here\n"
    time.sleep(after_s)
    command.send_signal(signal.SIGINT)
    _, messages = command.communicate(timeout=60)
    assert messages == ""
    assert command.returncode in (130, 0)  # 0: it had ended


@pytest.mark.slow
def test_ctrl_c_that_is_ignored_stays_so() -> None:
    """As of a command in the background."""
    program = (
        "import signal; from puffervec.commands.console import main\n"
        "signal.signal(2, signal.SIG_IGN); main(); print(repr(signal.getsignal(2)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=True
    )
    assert "usage: puffer-train" in done.stdout and "SIG_IGN" in done.stdout.splitlines()[-1]

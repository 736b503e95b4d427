# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""csrc/core/stop.c: the second Ctrl-C or SIGTERM ends a command whose C code never returns to
Python; nothing of it is kept.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from puffervec.commands.verb import StopSignals
from tests.libraries import environment

SPINS = """
import threading
import puffervec
from puffervec.commands.verb import StopSignals

class Trainer:
    def request_stop(self): pass

fault = {"fault": 6, "fault_step": 3}
with (
    StopSignals() as signals,
    signals.training(Trainer()),
    puffervec.make("probe", backend="serial", env_kwargs=fault) as vec,
):
    vec.reset(seed=0)
    threading.Timer(0.3, print, ["spinning"], {"flush": True}).start()
    for _ in range(5):
        vec.step([0])
"""


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["INT INT", "INT TERM", "TERM INT", "TERM TERM"])
def test_the_second_signal_ends_an_endless_loop_in_c(pair: str) -> None:
    first, second = (signal.Signals[f"SIG{name}"] for name in pair.split())
    process = subprocess.Popen(
        [sys.executable, "-c", SPINS], env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "spinning\n"
        process.send_signal(first)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(second)
        assert process.wait(60) == 128 + second
    finally:
        process.kill()
        process.communicate()


def test_afterwards_signals_are_handled_as_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopSignals():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

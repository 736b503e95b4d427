# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Traces of crashed and hung workers (puffervec/system/traces.py)."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import Any

import pytest

from puffervec.system.traces import TraceFile

pytestmark = pytest.mark.usefixtures("no_leaks")


def crash(traces: TraceFile, ready: Any) -> None:
    traces.enable()
    ready.set()
    os.abort()


def wait_here(traces: TraceFile, ready: Any) -> None:
    traces.enable()
    ready.set()
    while True:
        signal.pause()


def started(target: Any, traces: TraceFile) -> Any:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=target, args=(traces, ready), daemon=True)
    process.start()
    assert ready.wait(60)
    return process


def test_a_crash_leaves_a_trace_that_outlives_the_process() -> None:
    traces = TraceFile()
    process = started(crash, traces)
    process.join()
    process.close()
    text = traces.read()
    assert "Fatal Python error: Aborted" in text
    assert "in crash" in text


@pytest.mark.slow
def test_a_process_tells_where_it_is_each_time_it_is_asked() -> None:
    traces = TraceFile()
    process = started(wait_here, traces)
    for _ in range(2):
        text = traces.ask(process.pid)
        assert text.count("in wait_here") == 1  # what stood there before is left out
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert (
        traces.ask(process.pid)
        == "the process is stopped (by SIGSTOP or a debugger): send it SIGCONT to go on"
    )
    process.kill()
    process.join()
    process.close()

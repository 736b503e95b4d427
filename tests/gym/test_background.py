# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The function that runs beside its caller (puffervec/gym/background.py)."""

from __future__ import annotations

import threading

import pytest

from puffervec.errors import WorkerTimeout
from puffervec.gym.background import Background


def test_the_result_is_waited_for() -> None:
    gate = threading.Event()
    running = Background(lambda: gate.wait(60))
    with pytest.raises(WorkerTimeout, match=r"0\.01 s"):
        running.result(0.01)
    gate.set()
    assert running.result(None) is True
    running.finish()
    assert running.result(0.0) is True


def test_what_it_raises_is_raised_at_the_caller() -> None:
    running = Background(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        running.result(60.0)

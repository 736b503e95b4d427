# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""All fault tests leave nothing behind, and end even where Python does not get to run any more."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest

LONGEST_S = 600  # of any fault test, the slow ones included; a hard end of the whole run


@pytest.fixture(autouse=True)
def nothing_left(no_leaks: None) -> None:
    """Every test of this folder is checked for processes, threads, files and shared memory that it
    leaves behind.
    """


@pytest.fixture(autouse=True)
def hard_end() -> Iterator[None]:
    """End this process, and with it all workers, where a test hangs so that no signal handler of
    Python runs.
    """
    faulthandler.dump_traceback_later(LONGEST_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()

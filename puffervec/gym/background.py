# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Runs a function while its caller does something else, for `call_async`. Runs in the learner.

The core's `call` blocks until all envs have answered; a thread lets the caller wait with a time limit. Not on the hot path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from puffervec.errors import WorkerTimeout


class Background:
    """One function that runs in a thread of its own."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="puffervec-call", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error

    def result(self, timeout_s: float | None) -> Any:
        """Return what the function returned, or raise what it raised. Raises WorkerTimeout if it still runs after timeout_s."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise WorkerTimeout(f"no answer in {timeout_s} s")
        if self._error is not None:
            raise self._error
        return self._value

    def finish(self) -> None:
        """Wait for the end, whatever it is."""
        self._thread.join()

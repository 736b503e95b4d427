# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A stopwatch for waits that excludes the time in which the process was stopped.

SIGSTOP or a batch system may stop a process. Runs in the learner.
"""

from __future__ import annotations

import time

MOST_S = 0.1  # several of the channel's slices, so that time on a busy machine still counts in full


class Patience:
    """A stopwatch that counts at most `MOST_S` of the time since its last reading.

    It has to be read often. When a stopped job is continued, its processes resume one by one, and
    the one that waits must not give up before the others have run.
    """

    def __init__(self) -> None:
        self._waited_s, self._looked_s = 0.0, time.monotonic()

    def waited_s(self) -> float:
        """Return the seconds waited since the stopwatch was made."""
        now = time.monotonic()
        self._waited_s += min(now - self._looked_s, MOST_S)
        self._looked_s = now
        return self._waited_s

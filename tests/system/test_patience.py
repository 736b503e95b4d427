# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""How long was waited (puffervec/system/patience.py): time in which the process was stopped does
not count.
"""

from __future__ import annotations

import pytest

from puffervec.system import patience
from puffervec.system.patience import MOST_S, Patience


def test_a_look_counts_what_has_passed_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    watch = Patience()
    for passed, waited in (
        (0.02, 0.02),
        (0.03, 0.05),
        (3600.0, 0.05 + MOST_S),
        (0.0, 0.05 + MOST_S),
        (0.02, 0.07 + MOST_S),
    ):
        now[0] += passed
        assert watch.waited_s() == pytest.approx(waited)

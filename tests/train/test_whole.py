# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import threading

from puffervec.train.policies.whole import is_kept_whole, is_traced, keep_whole


def test_it_holds_in_the_block_and_in_its_thread_alone() -> None:
    found: list[bool] = []
    with keep_whole():
        assert is_kept_whole() and is_traced()
        other = threading.Thread(target=lambda: found.append(is_traced()))
        other.start()
        other.join()
    assert found == [False] and not is_kept_whole() and not is_traced()

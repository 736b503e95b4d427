# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Warnings point to the code outside of the packages that are named."""

from __future__ import annotations

from puffervec.system.callers import caller


def test_the_innermost_code_outside_is_named() -> None:
    file, line = caller("puffervec")
    assert (
        file == __file__
        and line == test_the_innermost_code_outside_is_named.__code__.co_firstlineno + 1
    )
    assert caller("puffervec", "tests")[0] != __file__
